// The list of addresses to dial: when to retry, when to forget, when to give up.
#include "net/mesh/targets.hpp"

#include <algorithm>
#include <utility>

#include "net/link/greetings.hpp"

namespace troupe {

void Targets::add_seed(const std::string& address, TimePoint now) {
  Target& target = targets_[address];
  target.seed = true;
  target.next = target.told = now;
}

void Targets::add(const std::string& address, const std::string& name, TimePoint now,
                  std::chrono::milliseconds delay) {
  auto it = targets_.find(address);
  if (it == targets_.end()) {
    if (targets_.size() >= kTargetsMax) return;
    it = targets_.emplace(address, Target{}).first;
    it->second.since = now;
  }
  if (std::exchange(it->second.name, name) != name) it->second.backoff = kBackoffFirst;
  it->second.next = now + delay;
}

std::vector<std::string> Targets::due(TimePoint now,
                                      const std::function<bool(const std::string&)>& is_linked) {
  std::vector<std::string> out;
  std::vector<std::pair<TimePoint, std::map<std::string, Target>::iterator>> waiting;
  size_t dials = 0;
  for (auto it = targets_.begin(); it != targets_.end();) {
    Target& target = it->second;
    if (is_linked(target.name)) {
      target.since = now;
      target.backoff = kBackoffFirst;
    } else if (!target.seed && now - target.since > kForgetAfter) {
      it = targets_.erase(it);
      continue;
    } else if (target.dialling) {
      dials += !target.seed && target.link.expired() ? 1 : 0;
    } else if (now >= target.next && target.seed) {
      target.dialling = true;
      out.push_back(it->first);
    } else if (now >= target.next) {
      waiting.emplace_back(target.next, it);
    }
    ++it;
  }
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [since, it] : waiting) {
    if (dials++ >= kDialsMax) break;
    it->second.dialling = true;
    out.push_back(it->first);
  }
  return out;
}

void Targets::connected(const std::string& address, const std::shared_ptr<Link>& link) {
  if (const auto it = targets_.find(address); it != targets_.end()) it->second.link = link;
}

bool Targets::failed(const std::string& address, TimePoint now) {
  const auto it = targets_.find(address);
  if (it == targets_.end()) return false;
  Target& target = it->second;
  target.dialling = false;
  retry(target, now);
  return reminds(target, now);
}

bool Targets::reminds(Target& target, TimePoint now) {
  if (!target.seed || now - target.told < kSeedReminder) return false;
  target.told = now;
  return true;
}

std::map<std::string, Targets::Target>::iterator Targets::find(const Link& link) {
  return std::find_if(targets_.begin(), targets_.end(),
                      [&](const auto& entry) { return entry.second.link.lock().get() == &link; });
}

std::optional<std::string> Targets::mute(const Link& link, TimePoint now) {
  const auto it = find(link);
  if (it == targets_.end() || !reminds(it->second, now)) return std::nullopt;
  return it->first;
}

std::optional<std::string> Targets::ended(const Link& link, Refusal why, bool alone,
                                          TimePoint now) {
  const auto it = find(link);
  if (it == targets_.end()) return std::nullopt;
  Target& target = it->second;
  target.link.reset();
  target.dialling = false;
  if (why == Refusal::itself) {
    targets_.erase(it);
    return std::nullopt;
  }
  if ((why == Refusal::linked || why == Refusal::none) && !link.peer().job.empty())
    target.name = link.peer().name();
  retry(target, now);
  if (why != Refusal::task_taken)
    target.taken_since.reset();
  else if (!target.taken_since)
    target.taken_since = now;
  const bool taken_for_good = target.taken_since && now - *target.taken_since > kTakenPatience;
  // One seed's word: its own certificate may be the one that is wrong.
  target.untrusted = why == Refusal::untrusted && link.turned_away();
  const bool final = why == Refusal::untrusted ? no_seed_trusts() : is_final(why) || taken_for_good;
  if (target.seed && alone && link.turned_away() && final) return it->first;
  if (!target.seed && is_final(why) && why != Refusal::untrusted) targets_.erase(it);
  return std::nullopt;
}

bool Targets::no_seed_trusts() const {
  return std::all_of(targets_.begin(), targets_.end(), [](const auto& entry) {
    return !entry.second.seed || entry.second.untrusted;
  });
}

void Targets::met(const Link& link) {
  for (auto& [address, target] : targets_)
    if (target.link.lock().get() == &link || address == link.peer().address)
      target.name = link.peer().name();
}

void Targets::lost(const std::string& name, bool left, TimePoint now) {
  for (auto it = targets_.begin(); it != targets_.end();) {
    Target& target = it->second;
    if (target.name == name && left && !target.seed) {
      it = targets_.erase(it);
      continue;
    }
    if (target.name == name) {
      target.since = now;
      target.next = now + kBackoffFirst;
    }
    ++it;
  }
}

void Targets::retry(Target& target, TimePoint now) {
  // Between 0.75 and 1.25 times the backoff, so that processes that lost each other at the same
  // time do not dial at the same time.
  target.next = now + target.backoff * (768 + static_cast<int64_t>(rng_.next() % 512)) / 1024;
  target.backoff = std::min<std::chrono::milliseconds>(2 * target.backoff,
                                                       target.seed ? kBackoffSeedMax : kBackoffMax);
}

}  // namespace troupe
