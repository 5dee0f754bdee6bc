// WorkQueue: a thread that does one item after the other, for devices whose work ends later, and
// for files. The destructor finishes the items in the queue.
// Owner: a device, or the DiskThread. Thread: any may put(); the owner finishes.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace troupe {

class WorkQueue {
 public:
  // put() waits if the queue is full: an accelerator's queue is bounded, too. Enough for the
  // kernels of several steps.
  static constexpr size_t kItemsMax = 1024;

  explicit WorkQueue(size_t items_max = kItemsMax)
      : items_max_(items_max), thread_([this] { serve(); }) {}
  ~WorkQueue() { finish(); }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Any thread. Waits while the queue is full, except for work put by work, which would wait for
  // itself. Requires: `work` does not throw.
  void put(std::function<void()> work) {
    std::unique_lock lock(mutex_);
    if (std::this_thread::get_id() != thread_.get_id())
      changed_.wait(lock, [this] { return items_.size() < items_max_; });
    items_.push_back(std::move(work));
    lock.unlock();
    changed_.notify_all();
  }

  // Does the queued work, and the work that this puts, and ends the thread. No other thread may put
  // work any more.
  void finish() {
    if (!thread_.joinable()) return;
    {
      std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !items_.empty(); });
      if (items_.empty()) return;
      {
        const std::function<void()> work = std::move(items_.front());
        items_.pop_front();
        lock.unlock();
        changed_.notify_all();
        work();
      }  // the work's captures are destroyed without the lock
      lock.lock();
    }
  }

  const size_t items_max_;
  std::mutex mutex_;  // guards the next two
  std::deque<std::function<void()>> items_;
  bool stopping_ = false;
  std::condition_variable changed_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace troupe
