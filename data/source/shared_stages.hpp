// SharedStages: the stages of one source in one process, built when they are first used. All
// replicas that read the source there share them, and with them rows in memory and a cache.
// Owner: the readers that share it. Thread: any.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "data/files_under.hpp"
#include "data/source/spec.hpp"

namespace troupe {

class SharedStages {
 public:
  SharedStages(SourcePlan plan, FindFunction find,
               std::shared_ptr<const Files> files = files_under({}))
      : plan_(std::move(plan)), find_(std::move(find)), files_(std::move(files)) {}
  const SourcePlan& plan() const { return plan_; }
  // Builds them, the first time and after a failure. Throws: as build_stages().
  Stage get() {
    std::lock_guard lock(mutex_);
    if (!stage_) stage_ = build_stages(*plan_.stages, find_, *files_);
    return stage_;
  }

 private:
  const SourcePlan plan_;
  const FindFunction find_;
  const std::shared_ptr<const Files> files_;
  std::mutex mutex_;  // guards stage_
  Stage stage_;
};

}  // namespace troupe
