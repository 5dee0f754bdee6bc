// Burst: work that a thread defers until it has finished its present batch, so that small pieces
// leave together: one gathered write per peer, one wake-up per step. The net thread opens a burst
// for the data of each read, a step for kernels that begin one after the other, a lane for the
// actors that wait for it.
//
// Nothing is deferred past a burst's end, nor more than kPutOffMax different items.
// Owner: the thread, on its stack. Thread: that one.
#pragma once

#include <cstddef>
#include <functional>

namespace troupe {

// The most items deferred by one thread; the next one makes it do them all.
inline constexpr size_t kPutOffMax = 64;

class Burst {
 public:
  Burst();   // opens one on this thread; bursts may nest
  ~Burst();  // does all work deferred so far, that of an enclosing burst included
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;

  using Work = std::function<void()>;
  // Runs `work` once when this thread's burst ends, however often it is deferred under the same
  // `key` until then; immediately if no burst is open. It must not throw.
  static void put_off(const void* key, Work work);
  // Does all work deferred so far.
  static void finish();
};

}  // namespace troupe
