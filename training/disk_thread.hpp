// DiskThread: where blocking file work of a process's actors is done, one job after the other. In a
// simulation there is no thread, and jobs run at once.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "actors/process.hpp"
#include "training/disk.hpp"

namespace troupe {

class DiskThread {
 public:
  explicit DiskThread(const Process& process)
      : disk_(process.disk() ? *process.disk() : real_disk()) {
    if (!process.simulated()) thread_ = std::thread([this] { run(); });
  }
  ~DiskThread() {  // finishes what was posted
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    awake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  DiskThread(const DiskThread&) = delete;

  Disk& disk() { return disk_; }  // for jobs: the real one, or what a simulation has instead
  void post(std::function<void()> job) {
    if (!thread_.joinable()) {
      job();
      return;
    }
    {
      std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    awake_.notify_all();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      awake_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  Disk& disk_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable awake_;
  std::deque<std::function<void()>> jobs_;  // one per shard and checkpoint at most
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace troupe
