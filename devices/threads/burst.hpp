// Burst: what a thread puts off until it is through with what it has at hand, so that things done
// together leave together: one gathered write per peer, one wake-up per step. The net thread opens
// one for what each read brought, a step for kernels that begin one after the other, a lane for the
// actors that wait for it.
//
// Owner: the thread. Nothing is put off past a burst's end, nor past kPutOffMax different things.
#pragma once

#include <cstddef>
#include <functional>

namespace troupe {

// Things put off by one thread; the next one makes it do them all.
inline constexpr size_t kPutOffMax = 64;

class Burst {
 public:
  Burst();   // opens one on this thread; inside another one it ends first, and both do
  ~Burst();  // does what was put off
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;

  using Work = std::function<void()>;
  // Runs `work` once when this thread's burst ends, however often it is put off under the same
  // `key` until then; at once if no burst is open. It must not throw.
  static void put_off(const void* key, Work work);
  // Does now what was put off so far.
  static void finish();
};

}  // namespace troupe
