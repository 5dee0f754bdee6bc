// SimInjuries: the faults of a SimCluster that are still to come, and those that last: links that
// are cut, folders that nobody can read, messages that are to be lost.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chaos/fault.hpp"
#include "chaos/sim_disk.hpp"
#include "chaos/sim_faults.hpp"
#include "graph/base/fail_point.hpp"

namespace troupe::sim {

class SimInjuries {
 public:
  struct Cut {
    TimePoint until;
    int from = 0, to = 0;
    bool one_way = false;
  };

  explicit SimInjuries(Faults faults) : faults_(std::move(faults)) {}

  // The next fault that is due at this event of the history, once.
  const Fault* due(int64_t event) {
    return next_ < faults_.size() && faults_[next_].at <= event ? &faults_[next_++] : nullptr;
  }
  // From now on none happens any more.
  void end() {
    next_ = faults_.size();
    orders_.clear();
  }
  // Nothing is wrong any more after this time, if no fault is still to come.
  TimePoint well_at() const { return well_at_; }
  void lasts_until(TimePoint time) { well_at_ = std::max(well_at_, time); }
  // True if all faults so far were kills.
  bool only_kills() const { return only_kills_; }
  bool disk_failed() const { return disk_failed_; }
  // The longest time in which nothing was wrong and the training did not get on.
  void stood_still(ns time) { still_ = std::max(still_, time); }
  int64_t still_ms() const { return still_.count() / 1'000'000; }
  void note(const Fault& fault) {
    only_kills_ = only_kills_ && fault.kind == FaultKind::kill;
    disk_failed_ = disk_failed_ || fault.is_of_disk() || fault.kind == FaultKind::point;
  }

  void count(FaultKind kind) { ++happened_[kFaultNames[static_cast<size_t>(kind)]]; }
  const std::map<std::string, int64_t>& happened() const { return happened_; }  // by kind

  // The fate of a message from one process to another.
  void order(const Fault& fault) { orders_.push_back(fault); }
  Verdict of_message(int from, int to) {
    const std::optional<Fault> fault =
        take(from, to, [](const Fault& f) { return !f.is_of_frame(); });
    if (!fault) return Verdict::pass;
    return fault->kind == FaultKind::drop    ? Verdict::drop
           : fault->kind == FaultKind::twice ? Verdict::duplicate
                                             : Verdict::hold_one;
  }
  // The bit of a frame that is to be another. `large`: it has elements of a tensor.
  std::optional<int64_t> of_frame(int from, int to, bool large) {
    const std::optional<Fault> fault = take(from, to, [large](const Fault& f) {
      return f.kind == FaultKind::corrupt || (large && f.kind == FaultKind::corrupt_large);
    });
    return fault ? std::optional(fault->lasts) : std::nullopt;
  }

  void cut(const Cut& cut) { cuts_.push_back(cut); }
  TimePoint next_heal() const {
    TimePoint out = TimePoint::max();
    for (const Cut& cut : cuts_) out = std::min(out, cut.until);
    return out;
  }
  // The cuts that end now.
  std::vector<Cut> healed(TimePoint now) {
    const auto it = std::stable_partition(cuts_.begin(), cuts_.end(),
                                          [now](const Cut& cut) { return cut.until > now; });
    std::vector<Cut> out(it, cuts_.end());
    cuts_.erase(it, cuts_.end());
    return out;
  }

  // Calls `reached` at each fail point; null: does not.
  void watch(FailHook::Reached reached) {
    hook_.reset();
    if (reached) hook_.emplace(std::move(reached));
  }

  // Each process has a disk of its own, as far as faults go.
  void fill_disk(const Fault& fault, TimePoint until) { full_.push_back({fault, until}); }
  bool is_full(int writer, TimePoint now) const {
    return std::any_of(full_.begin(), full_.end(), [writer, now](const auto& full) {
      return now < full.second && is_of(full.first, writer);
    });
  }
  void fail_disk(const Fault& fault) { failing_.push_back(fault); }
  // The process calls its disk. True if that call fails.
  bool disk_fails(int caller) {
    const auto size = failing_.size();
    for (Fault& fault : failing_) fault.lasts -= is_of(fault, caller);
    std::erase_if(failing_, [](const Fault& fault) { return fault.lasts < 0; });
    return failing_.size() < size;
  }
  // The folder of checkpoints is lost from the next restore on.
  void lose_folder(const Fault& fault) { lost_.push_back({fault, TimePoint::max()}); }
  void restores(TimePoint now) {
    for (auto& [fault, until] : lost_) {
      if (until != TimePoint::max()) continue;
      until = now + std::chrono::milliseconds(fault.lasts);
      lasts_until(until);
    }
  }
  // The folder of checkpoints, as this process sees it.
  SimDisk::Folders folder(int reader, TimePoint now) const {
    for (const auto& [fault, until] : lost_)
      if (until != TimePoint::max() && now < until && is_of(fault, reader))
        return fault.kind == FaultKind::blind ? SimDisk::Folders::empty : SimDisk::Folders::refused;
    return SimDisk::Folders::here;
  }

 private:
  static bool is_of(const Fault& fault, int process) {
    return fault.who == Fault::kAny || fault.who == process;
  }
  template <class Is>
  std::optional<Fault> take(int from, int to, const Is& is) {
    const auto it = std::find_if(orders_.begin(), orders_.end(), [&](const Fault& f) {
      return is(f) && is_of(f, from) && (f.other == Fault::kAny || f.other == to);
    });
    if (it == orders_.end()) return std::nullopt;
    const Fault out = *it;
    orders_.erase(it);
    count(out.kind);
    return out;
  }

  Faults faults_;  // by the event at which they are due
  size_t next_ = 0;
  TimePoint well_at_{};
  bool only_kills_ = true, disk_failed_ = false;
  ns still_{0};
  std::optional<FailHook> hook_;  // if there are faults of fail points
  std::map<std::string, int64_t> happened_;
  std::vector<Fault> orders_;
  std::vector<Cut> cuts_;
  std::vector<std::pair<Fault, TimePoint>> lost_, full_;  // and until when
  std::vector<Fault> failing_;                            // after so many calls of the process
};

}  // namespace troupe::sim
