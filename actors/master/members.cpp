// Follows members that come and go, asks for their devices, and lets callers wait for them.
#include "actors/master/members.hpp"

#include <algorithm>

#include "actors/async/deadline.hpp"
#include "actors/async/joined.hpp"

namespace troupe {

Members::Members(Process& process, const Asker& asker, First first)
    : process_(process), asker_(asker), first_(std::move(first)) {}

void Members::up(const Member& member, const caf::actor& actor) {
  process_.peer_up(member, actor);
  const auto agent = caf::actor_cast<Agent>(actor);
  uint64_t link = 0;
  {
    std::lock_guard lock(mutex_);
    link = coming_[member.name()] = ++links_;
  }
  // Asks for its devices first, so that calls are placed on devices that exist.
  ask<Description>(
      asker_, agent, kAgentTimeout, Describe{},
      [this, link, member, agent](Errc code, const std::string& text, const Description& d) {
        if (code == Errc::ok)
          described(link, member, agent, d.devices);
        else if (code != Errc::peer_lost)  // on peer_lost, down() follows
          process_.log()->warn("member does not describe itself; restart it: peer={} error={}",
                               member.name(), text);
      });
}

void Members::described(uint64_t link, const Member& member, const Agent& agent,
                        std::vector<std::string> devices) {
  std::lock_guard telling(telling_);
  if (stopped_) return;
  {
    std::lock_guard lock(mutex_);
    auto coming = coming_.find(member.name());
    if (coming == coming_.end() || coming->second != link) return;  // gone again
    coming_.erase(coming);
    if (devices.empty()) return;  // a visitor: nobody computes there, and its end is no loss
    devices_[member.name()] = devices;
    present_[member.name()] = {member, agent, std::move(devices)};
  }
  first_.up(member);
  for (MeshListener* l : listeners_) l->up(member, caf::actor_cast<caf::actor>(agent));
  changed_.notify_all();
}

void Members::down(const Member& member, const std::string& reason) {
  process_.peer_down(member, reason);
  std::lock_guard telling(telling_);
  if (stopped_) return;
  {
    std::lock_guard lock(mutex_);
    coming_.erase(member.name());
    if (!present_.erase(member.name())) return;  // its up() was never passed on
    // Other members return under their name, and calls placed on them wait for them; clients do not
    // return.
    if (process_.task().starts_with("/job:" + member.job + "/")) devices_.erase(member.name());
  }
  first_.down(member, reason);
  for (MeshListener* l : listeners_) l->down(member, reason);
  changed_.notify_all();
}

void Members::refused(Errc code, const std::string& reason) {
  std::lock_guard lock(mutex_);
  refusal_ = {code, reason};
  changed_.notify_all();
}

void Members::add_listener(MeshListener* listener) {
  std::lock_guard telling(telling_);
  listeners_.push_back(listener);
  for (const auto& [task, p] : present())
    listener->up(p.member, caf::actor_cast<caf::actor>(p.agent));
}

void Members::remove_listener(MeshListener* listener) {
  std::lock_guard telling(telling_);
  std::erase(listeners_, listener);
}

std::map<std::string, Members::Present> Members::present() const {
  std::lock_guard lock(mutex_);
  return present_;
}

std::map<std::string, Agent> Members::agents() const {
  std::lock_guard lock(mutex_);
  std::map<std::string, Agent> out;
  for (const auto& [task, member] : present_) out[task] = member.agent;
  return out;
}

Members::Present Members::find(const std::string& task) const {
  std::lock_guard lock(mutex_);
  auto it = present_.find(task);
  return it == present_.end() ? Present{} : it->second;
}

std::map<std::string, std::vector<std::string>> Members::devices() const {
  std::lock_guard lock(mutex_);
  return devices_;
}

StepResult Members::refusal() const {
  std::lock_guard lock(mutex_);
  return refusal_;
}

// Waits until `there()` is true; `missing()` names the missing members. `lock` holds mutex_.
template <class There, class Missing>
void Members::wait(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout,
                   const There& there, const Missing& missing) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now(), end = deadline_after(begin, timeout);
  const auto over = [&] { return there() || refusal_.code != Errc::ok; };
  for (auto word = begin + kWaitingWord;; word = Clock::now() + kWaitingWord) {
    if (changed_.wait_until(lock, std::min(word, end), over) || Clock::now() >= end) return;
    const std::string names = missing();
    lock.unlock();  // the program's log may take long
    say_waiting(*process_.log(), names, Clock::now() - begin);
    lock.lock();
  }
}

size_t Members::wait_for_count(size_t count, const std::string& but,
                               std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto there = [&] {
    return static_cast<size_t>(
        std::count_if(present_.begin(), present_.end(),
                      [&](const auto& entry) { return entry.second.member.job != but; }));
  };
  wait(
      lock, timeout, [&] { return there() >= count; },
      [&] { return detail::concat(count - there(), " of ", count, " nodes"); });
  return there();
}

std::vector<std::string> Members::heard_of() const {
  return process_.mesh() ? process_.mesh()->heard_of() : std::vector<std::string>{};
}

std::vector<std::string> Members::wait_for(const std::vector<std::string>& tasks,
                                           std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto missing = [&] {
    std::vector<std::string> out;
    for (const std::string& task : tasks)
      if (!present_.count(task)) out.push_back(task);
    return out;
  };
  wait(
      lock, timeout, [&] { return missing().empty(); }, [&] { return joined(missing(), ","); });
  return missing();
}

void Members::stop() {
  std::lock_guard telling(telling_);
  stopped_ = true;
  std::lock_guard lock(mutex_);
  present_.clear();
}

}  // namespace troupe
