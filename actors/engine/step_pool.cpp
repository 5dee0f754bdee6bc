// StepPool: spares by thread, then a list for all threads.
#include "actors/engine/step_pool.hpp"

#include <set>

namespace troupe {
namespace {

// The pools that have had steps, for free_idle(). The list is the process's: a step that finds no
// memory knows its device, but not the other executors, of any session, that have memory of it.
struct AllPools {
  std::mutex mutex;  // guards the next; taken before a pool's
  std::set<StepPool*> pools;
};
AllPools& all_pools() {
  static auto* const all = new AllPools;  // pools may end after static objects have
  return *all;
}

}  // namespace

void StepPool::free_idle(const Device* device) {
  AllPools& all = all_pools();
  std::lock_guard among(all.mutex);
  for (StepPool* pool : all.pools) {
    if (pool->device_ != device) continue;
    std::lock_guard lock(pool->mutex_);
    for (Spare& spare : pool->spares_)
      if (StepPtr step = spare.take()) pool->idle_.push_back(std::move(step));
    for (const StepPtr& step : pool->idle_)
      if (step->state().context.cache) step->state().context.cache->flush();
  }
}

// A thread that handed something in last may hold a step for a moment more, but not the device's
// memory.
StepPool::~StepPool() {
  {
    AllPools& all = all_pools();
    std::lock_guard among(all.mutex);
    all.pools.erase(this);
  }
  for (auto& step : idle_) step->state().context.cache.reset();
  for (Spare& spare : spares_)
    if (const StepPtr step = spare.take()) step->state().context.cache.reset();
}

StepPtr StepPool::take() {
  if (StepPtr mine = spares_[static_cast<size_t>(thread_index())].take()) return mine;
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      StepPtr step = std::move(idle_.back());
      idle_.pop_back();
      return step;
    }
  }
  for (Spare& other : spares_)  // of threads that only end steps, perhaps
    if (other.step.load(std::memory_order_relaxed))
      if (StepPtr step = other.take()) return step;
  AllPools& all = all_pools();
  std::lock_guard among(all.mutex);
  all.pools.insert(this);
  return nullptr;
}

void StepPool::give(StepPtr step) {
  // The last one stays with this thread; the one that was there goes to all.
  std::atomic<Step*>& mine = spares_[static_cast<size_t>(thread_index())].step;
  step = {mine.exchange(step.detach(), std::memory_order_acq_rel), /*add_ref=*/false};
  if (!step) return;
  std::unique_lock lock(mutex_);
  if (idle_.size() < kIdleMax) {
    idle_.push_back(std::move(step));
    return;
  }
  lock.unlock();
  step->state().context.cache.reset();  // see ~StepPool()
}

}  // namespace troupe
