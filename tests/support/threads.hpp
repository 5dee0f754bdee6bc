// Several threads that do the same.
#pragma once

#include <thread>
#include <vector>

namespace troupe {

// Calls f(thread) on `count` threads, counted from 0, and waits for them.
template <class F>
void on_threads(int count, const F& f) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&f, t] { f(t); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace troupe
