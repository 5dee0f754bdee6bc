// Requests that copies answer, and the rounds that they begin.
#include "training/parameters/replica_copies.hpp"

#include "devices/failure.hpp"
#include "graph/base/mutant.hpp"
#include "graph/optimizer.hpp"
#include "training/rules/row_slices.hpp"

namespace troupe {
namespace {

using Kind = ParameterRequest::Kind;

Outcome outcome_of(const Failure& failure) { return {failure.code, failure.text}; }

std::string name_of(const ParameterRequest& r) {
  return detail::concat(r.parameter, " of replica ", r.at.replica);
}

}  // namespace

ReplicaCopies::By ReplicaCopies::take(ParameterRequest& request, const ParameterRoute& route,
                                      Gradient& gradient, Outcome& out) {
  const int64_t step = request.at.step;
  if (step < 0 || request.kind == Kind::write) return By::shards;
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(mutex_);
    const auto found = copies_.find({request.at.replica, request.parameter});
    if (found == copies_.end()) return By::shards;
    entry = found->second;
  }
  std::lock_guard lock(entry->mutex);
  ReplicaCopy& copy = entry->copy;
  const ReplicaCopy::Round& round = copy.round();
  if (step < round.first || step >= round.end) return By::shards;
  if (request.kind != Kind::push && step == round.first) {  // the round begins, perhaps again
    if (copy.next_step() > round.first + 1) {
      std::lock_guard all(mutex_);
      copies_.erase({request.at.replica, request.parameter});
    }
    return By::shards;
  }
  if (request.kind != Kind::push) {
    out = read(request, route, *entry);
    return By::copy;
  }
  out = change(request, route, gradient, copy);
  if (!out || step + 1 < round.end) return By::copy;
  out = outcome_of(failure_of([&] { gradient = copy.change().reshaped(route.shape); }));
  request.number = round.end - round.first;
  return out ? By::shards : By::copy;
}

// A replica that was elsewhere meanwhile does the round again. If its gradients still go elsewhere
// then, they always do.
Outcome ReplicaCopies::read(ParameterRequest& r, const ParameterRoute& route, Entry& entry) {
  ReplicaCopy& copy = entry.copy;
  if (r.at.step > copy.next_step())
    return {std::exchange(entry.ahead, true) && copy.next_step() == copy.round().first
                ? Errc::invalid_argument
                : Errc::stale,
            detail::concat("step ", copy.next_step(), " has pushed no gradient of ", name_of(r),
                           " in the process that reads it in step ", r.at.step,
                           "; under a rule of local steps read a parameter and push its gradient "
                           "in one process, in every step")};
  return outcome_of(failure_of([&] {
    Tensor values = copy.values(r.at.step);
    if (!values.defined())
      throw Error(Errc::stale, "step ", r.at.step, " of ", name_of(r), " is over; step ",
                  copy.next_step(), " is next");
    values = values.reshaped(route.shape);
    if (r.kind == Kind::rows) {
      const auto rows = r.indices.values<int64_t>();
      if (!are_rows(rows, route.shape[0]))
        throw Error(Errc::invalid_argument, index_outside(rows, route.shape[0], r.parameter));
      values = take_rows(values, r.indices, [](DType dtype, const Shape& shape) {
        return Tensor::empty(dtype, shape);
      });
    }
    r.values = std::move(values);
  }));
}

Outcome ReplicaCopies::change(const ParameterRequest& r, const ParameterRoute& route,
                              Gradient gradient, ReplicaCopy& copy) {
  const int64_t step = r.at.step, next = copy.next_step();
  const bool again = mutant(Mutant::local_step_counts_again) && step + 1 == next;
  if (step + 1 == next && !again) return {};  // it is done again, with the same gradient
  if (step != next && !again)
    return {Errc::stale, detail::concat("a gradient of ", name_of(r), " is of step ", step,
                                        ", and step ", next, " is next")};
  const int64_t size = route.shape.size();
  if (gradient.by_rows()) {
    if (!are_like_rows(gradient, route.dtype, size) ||
        !are_rows(gradient.rows(), size / gradient.row_size()))
      return {Errc::invalid_argument,
              detail::concat("the gradient of ", r.parameter, " is rows that it does not have")};
  } else {
    gradient.values = gradient.values.reshaped(Shape{size});
  }
  return outcome_of(failure_of([&] {
    if (const auto found = find_not_finite(gradient))
      throw Error(Errc::bad_data, "the gradient of ", r.parameter, " by replica ", r.at.replica,
                  " in step ", step, " is not finite: ", *found, " of ", r.parameter,
                  "; look at the data of that step, lower the learning rate, or add "
                  "check_finite() to find the op");
    copy.update(gradient);
  }));
}

Outcome ReplicaCopies::begin(const ParameterRequest& r, const ParameterRoute& route) {
  const Key key{r.at.replica, r.parameter};
  if (r.round.steps <= 0) {
    if (!used_) return {};
    std::lock_guard lock(mutex_);
    const auto found = copies_.find(key);
    if (found != copies_.end() && r.at.step >= found->second->copy.round().end)
      copies_.erase(found);  // another rule holds
    return {};
  }
  if (!route.optimizer)
    return {Errc::internal, detail::concat("the route of ", r.parameter, " has no optimizer")};
  const ReplicaCopy::Round round{r.at.step, r.at.step + r.round.steps, r.round.version};
  return outcome_of(failure_of([&] {
    auto begun = std::make_shared<Entry>(
        ReplicaCopy(round, r.values, at_rate_scale(*route.optimizer, r.round.rate_scale)));
    std::lock_guard lock(mutex_);
    used_ = true;
    std::shared_ptr<Entry>& entry = copies_[key];
    // A late answer to a pull that was made again must not end the round that has begun.
    if (entry && entry->copy.round().first > round.first) return;
    if (entry && entry->copy.round() == round) return;
    entry = std::move(begun);
  }));
}

void ReplicaCopies::clear() {
  std::lock_guard lock(mutex_);
  copies_.clear();
  used_ = false;
}

}  // namespace troupe
