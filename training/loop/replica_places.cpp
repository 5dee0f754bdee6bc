// Decides which replicas move where, and which steps wait for it.
#include "training/loop/replica_places.hpp"

#include <algorithm>
#include <tuple>

#include "troupe/error.hpp"

namespace troupe {
namespace {

// "/job:worker/task:2" comes before "/job:worker/task:10".
bool is_before(const std::string& a, const std::string& b) {
  return std::tuple(a.size(), a) < std::tuple(b.size(), b);
}

// In tenths.
double seconds(ReplicaPlaces::Millis time) {
  return static_cast<double>((time.count() + 50) / 100) / 10;
}

std::string job_of(const std::string& task) { return task.substr(0, task.find("/task:")); }

}  // namespace

std::string to_string(const ReplicaActions::Move& move) {
  std::string numbers;
  for (const int64_t replica : move.replicas)
    numbers += detail::concat(numbers.empty() ? "" : ", ", replica);
  return detail::concat(move.replicas.size() == 1 ? "replica " : "replicas ", numbers,
                        move.replicas.size() == 1 ? " moves" : " move", " from ", move.from, " to ",
                        move.to, ": ", move.why);
}

ReplicaPlaces::ReplicaPlaces(const Named& named, Millis move_after) : move_after_(move_after) {
  if (move_after <= Millis(0)) return;
  for (const auto& [task, replicas] : named) entries_[task] = {replicas, task};
}

std::map<std::string, std::string> ReplicaPlaces::places() const {
  std::map<std::string, std::string> out;
  for (const auto& [task, entry] : entries_)
    if (entry.place != task) out[task] = entry.place;
  return out;
}

ReplicaActions ReplicaPlaces::see(std::set<std::string> present, std::set<std::string> leaving,
                                  Millis now, std::set<std::string> unfit) {
  present_ = std::move(present);
  unfit_ = std::move(unfit);
  for (const std::string& task : leaving_)
    if (!present_.count(task)) left_.insert(task);
  leaving_ = std::move(leaving);
  met_.insert(present_.begin(), present_.end());
  for (const std::string& task : met_)
    if (!present_.count(task)) away_since_.try_emplace(task, now);
  for (const std::string& task : present_) {
    away_since_.erase(task);
    left_.erase(task);
  }
  stirred_ = true;
  return decide(now);
}

ReplicaActions ReplicaPlaces::begin(int64_t replica, int64_t step, Millis now) {
  held_[replica] = step;
  return decide(now);
}

ReplicaActions ReplicaPlaces::ended(int64_t replica, Millis now) {
  running_.erase(replica);
  return decide(now);
}

ReplicaActions ReplicaPlaces::tick(Millis now) { return decide(now); }

std::vector<std::pair<int64_t, int64_t>> ReplicaPlaces::take_back() {
  const std::map<int64_t, int64_t> held = std::exchange(held_, {});
  return {held.begin(), held.end()};
}

bool ReplicaPlaces::is_wanted(const std::string& task) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry.second.place == task && target(entry.first, task);
  });
}

ReplicaActions ReplicaPlaces::decide(Millis now) {
  ReplicaActions out;
  if (moves() && (stirred_ || !wanted_.empty() || now >= next_at_)) {
    stirred_ = false;
    next_at_ = Millis::max();
    wanted_.clear();
    move_from_lost(now, out);
    move_from_leaving(out);
    spread(out);
  }
  release(out);
  return out;
}

void ReplicaPlaces::move_from_lost(Millis now, ReplicaActions& out) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const std::string place = entry->second.place;
    if (present_.count(place)) continue;
    const auto since = away_since_.find(place);
    const bool left = left_.count(place) > 0;
    if (!left && since != away_since_.end() && now - since->second < move_after_) {
      next_at_ = std::min(next_at_, since->second + move_after_);
      continue;
    }
    const auto to = target(entry->first, place);
    if (!to) continue;  // until another task comes
    move(entry, *to,
         left ? place + " has left"
         : since == away_since_.end()
             ? place + " is not there"
             : detail::concat(place, " has been away for ", seconds(now - since->second), " s"),
         out);
  }
}

void ReplicaPlaces::move_from_leaving(ReplicaActions& out) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const std::string place = entry->second.place;
    if (!present_.count(place) || !leaving_.count(place)) continue;
    if (const auto to = target(entry->first, place))
      move_between_steps(entry, *to, place + " leaves", out);
  }
}

void ReplicaPlaces::spread(ReplicaActions& out) {
  for (bool moved = true; moved;) {
    moved = false;
    // The busiest task gives: first replicas that are placed on the other task, then the last ones.
    std::optional<std::pair<EntryAt, std::string>> best;
    const auto key = [this](const std::pair<EntryAt, std::string>& one) {
      const auto& [entry, to] = one;
      const auto gap = static_cast<int64_t>(load(entry->second.place)) -
                       static_cast<int64_t>(load(to) + entry->second.replicas.size());
      return std::tuple(gap, entry->first == to, !runs(entry->second), entry->first.size(),
                        entry->first);
    };
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (!can_take(entry->second.place)) continue;
      const auto to = target(entry->first, entry->second.place);
      if (!to || load(*to) + entry->second.replicas.size() >= load(entry->second.place)) continue;
      const std::pair one(entry, *to);
      if (!best || key(one) > key(*best)) best = one;
    }
    if (best)
      moved = move_between_steps(best->first, best->second, best->second + " has room", out);
  }
}

bool ReplicaPlaces::move_between_steps(EntryAt entry, const std::string& to, const std::string& why,
                                       ReplicaActions& out) {
  if (runs(entry->second)) {
    wanted_.insert(entry->first);
    return false;
  }
  move(entry, to, why, out);
  return true;
}

void ReplicaPlaces::move(EntryAt entry, const std::string& to, const std::string& why,
                         ReplicaActions& out) {
  out.moves.push_back({entry->first, entry->second.place, to, entry->second.replicas, why});
  entry->second.place = to;
}

void ReplicaPlaces::release(ReplicaActions& out) {
  for (auto it = held_.begin(); it != held_.end();) {
    if (holds(it->first, it->second)) {
      ++it;
      continue;
    }
    running_.insert_or_assign(it->first, it->second);
    out.starts.push_back(*it);
    it = held_.erase(it);
  }
}

bool ReplicaPlaces::runs(const Entry& entry) const {
  return std::any_of(entry.replicas.begin(), entry.replicas.end(),
                     [&](int64_t replica) { return running_.count(replica) > 0; });
}

// A replica that runs a step may wait for one that is not ahead of it.
bool ReplicaPlaces::holds(int64_t replica, int64_t step) const {
  for (const std::string& wanted : wanted_) {
    const std::set<int64_t>& together = entries_.at(wanted).replicas;
    if (together.count(replica) &&
        std::all_of(together.begin(), together.end(), [&](int64_t other) {
          const auto its = running_.find(other);
          return its == running_.end() || its->second < step;
        }))
      return true;
  }
  return false;
}

size_t ReplicaPlaces::load(const std::string& task) const {
  size_t out = 0;
  for (const auto& [name, entry] : entries_)
    if (entry.place == task) out += entry.replicas.size();
  return out;
}

bool ReplicaPlaces::can_take(const std::string& task) const {
  return present_.count(task) > 0 && leaving_.count(task) == 0;
}

std::optional<std::string> ReplicaPlaces::target(const std::string& named,
                                                 const std::string& from) const {
  std::optional<std::string> out;
  const auto is_better = [&](const std::string& task) {
    if (!out) return true;
    if (const auto mine = load(task), its = load(*out); mine != its) return mine < its;
    return task == named || (*out != named && is_before(task, *out));
  };
  for (const std::string& task : present_)
    if (task != from && can_take(task) && job_of(task) == job_of(named) &&
        (task == named || !unfit_.count(task)) && is_better(task))
      out = task;
  return out;
}

}  // namespace troupe
