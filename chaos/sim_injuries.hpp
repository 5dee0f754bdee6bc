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
    const std::optional<Fault> fault = take(from, to, false);
    if (!fault) return Verdict::pass;
    return fault->kind == FaultKind::drop    ? Verdict::drop
           : fault->kind == FaultKind::twice ? Verdict::duplicate
                                             : Verdict::hold_one;
  }
  // The bit of a frame that is to be another.
  std::optional<int64_t> of_frame(int from, int to) {
    const std::optional<Fault> fault = take(from, to, true);
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

  void fill_disk(TimePoint until) { full_until_ = std::max(full_until_, until); }
  bool is_full(TimePoint now) const { return now < full_until_; }
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
      if (until != TimePoint::max() && now < until &&
          (fault.who == Fault::kAny || fault.who == reader))
        return fault.kind == FaultKind::blind ? SimDisk::Folders::empty : SimDisk::Folders::refused;
    return SimDisk::Folders::here;
  }

 private:
  std::optional<Fault> take(int from, int to, bool corrupt) {
    const auto it = std::find_if(orders_.begin(), orders_.end(), [=](const Fault& f) {
      return (f.kind == FaultKind::corrupt) == corrupt && (f.who == Fault::kAny || f.who == from) &&
             (f.other == Fault::kAny || f.other == to);
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
  TimePoint full_until_{};
  ns still_{0};
  std::optional<FailHook> hook_;  // if there are faults of fail points
  std::map<std::string, int64_t> happened_;
  std::vector<Fault> orders_;
  std::vector<Cut> cuts_;
  std::vector<std::pair<Fault, TimePoint>> lost_;  // and until when
};

}  // namespace troupe::sim
