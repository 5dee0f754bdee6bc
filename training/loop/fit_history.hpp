// FitHistory: the epochs that fit() has done, and what follows from them: which is the best, and
// whether to stop. Plain state; kept in a small file of text, so that a resumed training decides as
// if it had never ended.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "training/checkpoints/disk.hpp"
#include "troupe/training/fit.hpp"

namespace troupe {

class FitHistory {
 public:
  struct Policy {
    std::string watch;  // empty: no metric decides
    bool greater_is_better = true;
    double min_improvement = 0;
    int64_t stop_after = 0;
  };
  struct Best {
    int64_t epoch = 0, step = 0;
    double score = 0;
    friend bool operator==(const Best&, const Best&) = default;
  };
  explicit FitHistory(Policy policy) : policy_(std::move(policy)) {}

  // Whether no epoch has had as good a score, those included that have been done again since; NaN
  // is none. What has, is kept.
  bool improves(double score) const;
  double watched(const FitEpoch& epoch) const;  // its score; NaN if no metric decides
  // Takes the place of what was known of its step and of later ones, which are done again. Says in
  // `epoch` whether it is the best of those that are left. Requires: epochs ascend.
  void add(FitEpoch& epoch);
  bool wants_stop() const;

  const std::vector<FitEpoch>& epochs() const { return epochs_; }
  // The best one ever. Asynchronous epochs that are done again have other scores, so it may have
  // gone from epochs().
  const std::optional<Best>& best() const { return best_; }

  // Throws: Error(io); load(): Error(bad_data), too. Nothing to load is no error.
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
