// Counts the time that the programs of sessions are away.
#include "actors/cluster/session_leases.hpp"

#include <algorithm>
#include <utility>

#include "troupe/error.hpp"

namespace troupe {
namespace {

std::string to_text(std::chrono::milliseconds time) {
  if (time.count() % 60'000 == 0) return detail::concat(time.count() / 60'000, " min");
  if (time.count() % 1'000 == 0) return detail::concat(time.count() / 1'000, " s");
  return detail::concat(time.count(), " ms");
}

constexpr const char* kReplaced = "its program has been started again";

Error has_ended(uint64_t session, const std::string& why) {
  return Error(Errc::invalid_argument, "session ", session, " has ended here: ", why,
               "; start the program again, with --resume to go on from its newest checkpoint");
}

}  // namespace

void SessionLeases::check_locked(uint64_t session, const caf::node_id& by) const {
  if (const auto ended = ended_.find(session); ended != ended_.end())
    throw has_ended(session, ended->second);
  if (is_of_another_locked(session, by))
    throw Error(Errc::invalid_argument, "session ", session, " is of another process");
}

bool SessionLeases::is_of_another_locked(uint64_t session, const caf::node_id& process) const {
  const auto holder = holders_.find(session);
  return holder != holders_.end() && holder->second.node != process;
}

bool SessionLeases::is_of_another(uint64_t session, const caf::node_id& process) const {
  std::lock_guard lock(mutex_);
  return is_of_another_locked(session, process);
}

void SessionLeases::check(uint64_t session, const caf::node_id& by) const {
  std::lock_guard lock(mutex_);
  check_locked(session, by);
}

void SessionLeases::hold(uint64_t session, const caf::node_id& by, TimePoint now, bool values) {
  std::lock_guard lock(mutex_);
  check_locked(session, by);
  const auto [program, fresh] = programs_.try_emplace(by);
  if (program->second.replaced) throw has_ended(session, kReplaced);
  Holder& holder = holders_[session];
  holder.node = by;
  holder.values |= values;
  // A message may be looked at when the link that brought it is gone.
  if (fresh && by != here_) program->second.away = now;
  program->second.sessions.insert(session);
}

void SessionLeases::release(uint64_t session) {
  std::lock_guard lock(mutex_);
  const auto holder = holders_.find(session);
  if (holder == holders_.end()) return;
  const auto program = programs_.find(holder->second.node);
  holders_.erase(holder);
  program->second.sessions.erase(session);
}

void SessionLeases::met(const std::string& task, uint64_t incarnation, const caf::node_id& node) {
  std::lock_guard lock(mutex_);
  for (auto& [other, program] : programs_)
    if (program.task == task && program.incarnation < incarnation) program.replaced = true;
  Program& program = programs_[node];
  program.task = task;
  program.incarnation = incarnation;
  program.away.reset();
}

std::string SessionLeases::task_of(const caf::node_id& node) const {
  std::lock_guard lock(mutex_);
  const auto program = programs_.find(node);
  return program == programs_.end() ? "" : program->second.task;
}

// A program without sessions is remembered, too: a message of it may still be waiting.
void SessionLeases::lost(const std::string& task, TimePoint now) {
  std::lock_guard lock(mutex_);
  for (auto& [node, program] : programs_)
    if (program.task == task && !program.away) program.away = now;
  std::erase_if(programs_, [&](const auto& entry) {
    const Program& program = entry.second;
    return program.sessions.empty() && program.away && now - *program.away >= lease_;
  });
}

void SessionLeases::was_frozen(std::chrono::steady_clock::duration time, TimePoint now) {
  std::lock_guard lock(mutex_);
  for (auto& [node, program] : programs_)
    if (program.away) program.away = std::min(now, *program.away + time);
}

std::vector<SessionLeases::Over> SessionLeases::take_over(TimePoint now) {
  std::lock_guard lock(mutex_);
  std::vector<Over> out;
  for (auto& [node, program] : programs_) {
    const bool late =
        program.away && lease_ > std::chrono::milliseconds(0) && now - *program.away >= lease_;
    if (!program.replaced && !late) continue;
    const std::string why =
        program.replaced ? kReplaced : detail::concat("its program was away for ", to_text(lease_));
    for (const uint64_t session : std::exchange(program.sessions, {})) {
      out.push_back({session, program.task, why});
      const bool refused = program.replaced || holders_.at(session).values;
      holders_.erase(session);
      if (!refused) continue;
      ended_[session] = why;
      ended_in_order_.push_back(session);
    }
  }
  while (ended_in_order_.size() > kEndedMax) {
    ended_.erase(ended_in_order_.front());
    ended_in_order_.pop_front();
  }
  return out;
}

bool SessionLeases::any_away() const {
  std::lock_guard lock(mutex_);
  return std::any_of(programs_.begin(), programs_.end(), [this](const auto& entry) {
    const Program& program = entry.second;
    const bool may_end =
        program.replaced || (program.away && lease_ > std::chrono::milliseconds(0));
    return may_end && !program.sessions.empty();
  });
}

}  // namespace troupe
