// Counts the training steps of replicas, and tells shards which are over.
#include "actors/master/training_steps.hpp"

#include <algorithm>
#include <set>

#include "devices/failure.hpp"
#include "graph/op_properties.hpp"

namespace troupe {

RunResult TrainingSteps::refusal(const PreparedCall& call, int64_t wanted) const {
  if (wanted > 0 && call.reads && call.replicas.empty() && !shared_) {
    int64_t done = 0;  // or under way
    {
      std::lock_guard lock(mutex_);
      for (const auto& [replica, steps] : steps_) done = std::max(done, steps.next);
    }
    if (wanted > done)
      return {Errc::invalid_argument,
              detail::concat("the run reads the parameters of step ", wanted,
                             ", which has not been trained (", done,
                             " done); leave RunOptions::step out, or give RunOptions::seed for "
                             "other random numbers"),
              {}};
  }
  if (wanted >= 0 || !call.trains || !trained_) return {};
  return {Errc::invalid_argument,
          "this session is being trained, and the run pushes gradients: it would take the place of "
          "a step of the training; run it before or after, or add its data to the training's",
          {}};
}

void TrainingSteps::begin(const PreparedCall& call, int64_t wanted, RunContext& context) {
  const std::vector<int64_t>& replicas = call.replicas;
  context.step = wanted;
  if (replicas.empty()) return;
  std::lock_guard lock(mutex_);
  if (wanted < 0)
    for (int64_t replica : replicas) context.step = std::max(context.step, steps_[replica].next);
  context.step = std::max<int64_t>(context.step, 0);
  int64_t first = context.step;
  for (int64_t replica : replicas) {
    Steps& steps = steps_[replica];
    if (steps.open.empty()) steps.by_hand = steps.gaps = false;
    steps.by_hand |= wanted >= 0;
    steps.gaps |= !steps.open.empty() && steps.open.begin()->second != call.id;
    if (wanted < 0 || context.step <= steps.next) steps.next = context.step + 1;
    steps.open.emplace(context.step, call.id);
    first = std::min(first, steps.open.begin()->first);
  }
  if (wanted < 0) context.first_step = first;
}

void TrainingSteps::end(const PreparedCall& call, int64_t step, bool whole) {
  if (call.replicas.empty()) return;
  std::vector<Behind> out;
  {
    std::lock_guard lock(mutex_);
    for (int64_t replica : call.replicas) {
      Steps& steps = steps_[replica];
      if (whole) steps.next = std::max(steps.next, step + 1);
      const auto [from, to] = steps.open.equal_range(step);
      const auto it =
          std::find_if(from, to, [&](const auto& run) { return run.second == call.id; });
      if (it == to) continue;
      const bool oldest = it == steps.open.begin();
      steps.open.erase(it);
      steps.gaps |= !whole;
      if (!oldest || !steps.gaps || steps.by_hand || steps.open.empty()) continue;
      Behind behind{replica, steps.open.begin()->first, {}};
      for (const auto& [open, of] : steps.open) behind.calls.push_back(of);
      out.push_back(std::move(behind));
    }
  }
  tell(out);
}

void TrainingSteps::set_next(int64_t replica, int64_t step) {
  std::lock_guard lock(mutex_);
  steps_[replica].next = step;
}

std::optional<int64_t> TrainingSteps::next(int64_t replica) {
  std::lock_guard lock(mutex_);
  const auto it = steps_.find(replica);
  if (it == steps_.end()) return 0;
  return it->second.open.empty() ? std::optional(it->second.next) : std::nullopt;
}

// Tells shards again which steps are over: a waiting run has told them when fewer were, and there
// may be no later run to do it. A pull like that run's own carries the number.
void TrainingSteps::tell(const std::vector<Behind>& behind) {
  ParameterPort* const port = behind.empty() ? nullptr : process_.services().port(session_);
  if (!port) return;
  for (const Behind& those : behind) {
    std::set<std::string> names;
    for (const int64_t id : those.calls) {
      const std::shared_ptr<const PreparedCall> call = calls_.standing(id).prepared;
      for (const int32_t n : call->nodes) {
        const Node& node = call->graph->node(n);
        const auto name = properties_of(node).parameter.parameter;
        if (name && own_replica(node) == those.replica) names.insert(name(node));
      }
    }
    for (const std::string& name : names) {
      const Failure failed = failure_of([&] {
        port->pull(name, {those.replica, those.first, those.first},
                   [](Errc, std::string, Tensor) {});
      });
      if (failed.code != Errc::ok)
        process_.log()->warn(
            "shards are not told that steps are over, those behind may have to wait for their "
            "deadline: parameter={} replica={} error={}",
            name, those.replica, failed.text);
    }
  }
}

}  // namespace troupe
