// Implements actors/members.hpp.
#include "actors/members.hpp"

#include <algorithm>

#include "actors/deadline.hpp"
#include "actors/ask.hpp"

namespace troupe {

Members::Members(Process& process, const caf::actor& asker, First first)
    : process_(process), asker_(asker), first_(std::move(first)) {}

void Members::up(const Member& member, const caf::actor& agent) {
  {
    std::lock_guard lock(mutex_);
    coming_[member.name()] = member.incarnation;
  }
  // Its devices are asked for first: a call is placed on devices that exist.
  ask<Description>(asker_, agent, kAgentTimeout, Describe{},
                   [this, member, agent](Errc code, const std::string& text, const Description& d) {
                     if (code == Errc::ok)
                       described(member, agent, d.devices);
                     else if (code != Errc::peer_lost)  // then it goes, and down() follows
                       process_.log()->warn(
                           "member does not describe itself; restart it: peer={} error={}",
                           member.name(), text);
                   });
}

void Members::described(const Member& member, const caf::actor& agent,
                        std::vector<std::string> devices) {
  std::lock_guard telling(telling_);
  if (stopped_) return;
  {
    std::lock_guard lock(mutex_);
    auto coming = coming_.find(member.name());
    if (coming == coming_.end() || coming->second != member.incarnation) return;  // gone again
    coming_.erase(coming);
    devices_[member.name()] = devices;
    present_[member.name()] = {member, agent, std::move(devices)};
  }
  first_.up(member);
  for (MeshListener* l : listeners_) l->up(member, agent);
  changed_.notify_all();
}

void Members::down(const Member& member, const std::string& reason) {
  process_.peer_down(member, reason);
  std::lock_guard telling(telling_);
  if (stopped_) return;
  {
    std::lock_guard lock(mutex_);
    coming_.erase(member.name());
    if (!present_.erase(member.name())) return;  // nobody has heard of it
    // Others come back under their name, and what was placed on them waits for them; programs do
    // not.
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
  for (const auto& [task, p] : present()) listener->up(p.member, p.agent);
}

void Members::remove_listener(MeshListener* listener) {
  std::lock_guard telling(telling_);
  std::erase(listeners_, listener);
}

std::map<std::string, Members::Present> Members::present() const {
  std::lock_guard lock(mutex_);
  return present_;
}

std::map<std::string, caf::actor> Members::agents() const {
  std::lock_guard lock(mutex_);
  std::map<std::string, caf::actor> out;
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

size_t Members::wait_for_count(size_t count, const std::string& but,
                               std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  size_t there = 0;
  changed_.wait_until(lock, deadline_after(timeout), [&] {
    there = 0;
    for (const auto& [task, member] : present_) there += member.member.job != but;
    return there >= count || refusal_.code != Errc::ok;
  });
  return there;
}

std::vector<std::string> Members::wait_for(const std::vector<std::string>& tasks,
                                           std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  std::vector<std::string> missing;
  changed_.wait_until(lock, deadline_after(timeout), [&] {
    missing.clear();
    for (const std::string& task : tasks)
      if (!present_.count(task)) missing.push_back(task);
    return missing.empty();
  });
  return missing;
}

void Members::stop() {
  std::lock_guard telling(telling_);
  stopped_ = true;
  std::lock_guard lock(mutex_);
  present_.clear();
}

}  // namespace troupe
