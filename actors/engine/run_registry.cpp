// RunRegistry: news finds its run, or waits, or is dropped.
#include "actors/engine/run_registry.hpp"

#include "graph/base/mutant.hpp"

#include <memory>
#include <utility>

namespace troupe {
namespace {

std::unique_ptr<Arrival> arrival_of(Deliver message) {
  auto arrival = std::make_unique<Arrival>();
  arrival->kind = Arrival::deliver;
  arrival->edge = message.key.edge;
  arrival->iteration = message.key.iteration;
  arrival->dead = message.dead;
  arrival->code = message.error;
  arrival->text = std::move(message.text);
  arrival->outputs.push_back(std::move(message.value));
  return arrival;
}

}  // namespace

void RunRegistry::begin(const StepPtr& step) {
  const int64_t run = step->info().run;
  EarlyValues::Entry early;
  {
    std::lock_guard lock(mutex_);
    runs_[run] = step;
    if (run < oldest_) step->stop(Errc::cancelled, "the run is over");  // its end came first
    early = early_.take(run);
    if (early.ended.code != Errc::ok) step->stop(early.ended.code, std::move(early.ended.text));
  }
  for (Deliver& message : early.values) step->post(arrival_of(std::move(message)));
}

void RunRegistry::end(int64_t run) {
  std::lock_guard lock(mutex_);
  runs_.erase(run);
  ended_[static_cast<uint64_t>(run) % kEndedMemory] = run;
}

void RunRegistry::deliver(Deliver message, const std::string& receiver) {
  const int64_t run = message.key.run;
  std::lock_guard lock(mutex_);
  const auto found = runs_.find(run);
  if (found != runs_.end()) return found->second->post(arrival_of(std::move(message)));
  if (mutant(Mutant::late_value_for_next_run) && !runs_.empty())
    return runs_.begin()->second->post(arrival_of(std::move(message)));
  if (!has_ended(run)) forgot(early_.add(std::move(message), receiver));
}

void RunRegistry::cancel(int64_t run, bool may_come, Errc code, const std::string& text) {
  std::lock_guard lock(mutex_);
  const auto found = runs_.find(run);
  if (found != runs_.end()) return found->second->interrupt(code, text);
  if (may_come && !has_ended(run)) forgot(early_.end(run, {code, text}));
}

void RunRegistry::forget_before(int64_t run) {
  std::lock_guard lock(mutex_);
  if (run <= oldest_) return;
  oldest_ = run;
  early_.forget_before(run);
}

// A run did not begin here for so long that more runs came than a session has. The news that came
// for it is gone, which is said now and then.
void RunRegistry::forgot(int64_t run) {
  if (run < 0 || forgotten_++ % kForgottenSaid != 0 || !warn_) return;
  warn_(detail::concat("values came for runs that never began here: device=", device_, " run=", run,
                       " forgotten=", forgotten_));
}

std::vector<int64_t> RunRegistry::runs() const {
  std::vector<int64_t> out;
  std::lock_guard lock(mutex_);
  for (const auto& [run, step] : runs_) out.push_back(run);
  return out;
}

StepPtr RunRegistry::find(int64_t run) const {
  std::lock_guard lock(mutex_);
  const auto found = runs_.find(run);
  return found == runs_.end() ? nullptr : found->second;
}

}  // namespace troupe
