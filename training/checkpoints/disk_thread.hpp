// DiskThread: runs the blocking file work of a process's actors, one job after the other. Reading
// has a thread of its own, so that a restore waits for no file that a slow disk does not take. In a
// simulation there is no thread, and jobs run at once.
// Owner: a CheckpointTaker, or the shard service with its shards. Thread: any; jobs on its own.
#pragma once

#include <functional>
#include <limits>
#include <mutex>
#include <optional>

#include "devices/threads/work_queue.hpp"
#include "data/files/disk.hpp"

namespace troupe {

class DiskThread {
 public:
  // `disk`: null for the real one.
  DiskThread(Disk* disk, bool simulated) : disk_(disk ? *disk : real_disk()) {
    if (!simulated) jobs_.emplace(std::numeric_limits<size_t>::max());
  }
  DiskThread(const DiskThread&) = delete;

  Disk& disk() { return disk_; }  // for jobs: the real disk, or the simulation's
  // Requires: `job` does not throw.
  void post(std::function<void()> job) {
    if (jobs_)
      jobs_->put(std::move(job));
    else
      job();
  }
  // The same for a job that writes nothing: it does not wait for those of post().
  void post_reading(std::function<void()> job) {
    if (!jobs_) return job();
    std::call_once(begun_, [this] { reading_.emplace(std::numeric_limits<size_t>::max()); });
    reading_->put(std::move(job));
  }

 private:
  Disk& disk_;
  std::optional<WorkQueue> jobs_;  // unbounded: a few jobs per shard at most
  std::once_flag begun_;
  std::optional<WorkQueue> reading_;  // from the first restore on; unbounded, as jobs_
};

}  // namespace troupe
