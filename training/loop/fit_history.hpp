// FitHistory: the data epochs that fit() has done, and the decisions that follow: which is the
// best, and whether to stop. Plain state; kept in a small text file, so that a resumed training
// decides as if it had never ended.
// Owner: fit(), for one training. Thread: the caller's of fit().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/files/disk.hpp"
#include "troupe/training.hpp"

namespace troupe {

class FitHistory {
 public:
  struct Policy {
    std::string watch;  // empty: no metric decides
    bool greater_is_better = true;
    double min_improvement = 0;
    int64_t stop_after = 0;
    Plateau plateau = {};
  };
  struct Best {
    int64_t epoch = 0, step = 0;
    double score = 0;
    friend bool operator==(const Best&, const Best&) = default;
  };
  explicit FitHistory(Policy policy) : policy_(std::move(policy)) {}

  // True if no epoch so far had as good a score, including epochs that were repeated since; a NaN
  // score never improves. The values of an improving epoch are kept.
  bool improves(double score) const;
  double watched(const FitEpoch& epoch) const;  // NaN if no metric decides
  // Adds an epoch in place of the recorded ones of its step and later, which are repeated. Sets
  // `epoch.is_best` if it is the best of those left. Requires: epochs ascend.
  void add(FitEpoch& epoch);
  bool wants_stop() const;
  // The rate scale that the plateau's policy sets at the end of the newest epoch; none: as it is.
  std::optional<double> lower_scale() const;

  const std::vector<FitEpoch>& epochs() const { return epochs_; }
  // The best epoch ever. It may no longer be in epochs(): asynchronous epochs that are repeated
  // have other scores.
  const std::optional<Best>& best() const { return best_; }

  // Throws: Error(io); load() also Error(bad_data). A missing file is no error.
  void save(Disk& disk, const std::string& dir) const;
  void load(Disk& disk, const std::string& dir);

 private:
  bool better(double score, double than) const;
  std::string to_text() const;
  void from_text(const std::string& text, const std::string& file);

  Policy policy_;
  std::vector<FitEpoch> epochs_;
  std::optional<Best> best_;
};

}  // namespace troupe
