// PoolMemory and PoolCache: sizes, reuse, budget, statistics, several threads.
#include "devices/memory/pool.hpp"
#include "graph/base/buffer.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/threads.hpp"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

namespace troupe {
namespace {

constexpr int64_t kMiB = 1 << 20;

Tensor f32(Memory& memory, int64_t n) { return memory.make(DType::f32, Shape{n}); }

TEST_CASE("a size class holds what it is asked for and wastes at most a quarter") {
  for (int64_t bytes = 0; bytes < 70'000; ++bytes) {
    const int c = size_class::of(bytes);
    const int64_t room =
        c == 0 ? size_class::kSmallMax : size_class::block_bytes(c) - size_class::kLine;
    REQUIRE(room >= bytes);
    if (bytes > 256) REQUIRE(room * 4 <= (bytes + 64) * 5);
    if (c > 0) REQUIRE(size_class::of(room) == c);
    if (c > 0) REQUIRE(size_class::of(room + 1) == c + 1);
  }
  CHECK(size_class::block_bytes(size_class::of(size_class::kBytesMax)) ==
        size_class::kBytesMax + 64);
}

TEST_CASE("elements are aligned to 64 bytes, those of scalars share a line with their header") {
  PoolMemory pool("cpu", kMiB);
  for (int64_t n : {0, 1, 12, 13, 16, 17, 100, 1000, 10'000}) {
    CAPTURE(n);
    const Tensor a = f32(pool, n), b = f32(pool, n);
    for (const Tensor* t : {&a, &b}) {
      const auto address = reinterpret_cast<uintptr_t>(t->raw());
      if (n <= 12)
        CHECK(address % 64 == sizeof(Buffer));
      else
        CHECK(address % 64 == 0);
      std::memset(const_cast<void*>(t->raw()), 0xab, static_cast<size_t>(t->byte_size()));
    }
  }
}

TEST_CASE("a released block is used again, without the system") {
  PoolMemory pool("cpu", kMiB);
  const void* first = f32(pool, 1000).raw();
  const int64_t allocations = pool.stats().system_allocations;
  for (int i = 0; i < 10; ++i) CHECK(f32(pool, 1000 - i).raw() == first);
  CHECK(pool.stats().system_allocations == allocations);
}

TEST_CASE("statistics count whole blocks, and the peak stays") {
  PoolMemory pool("cpu", kMiB);
  CHECK(pool.stats().used_bytes == 0);
  CHECK(pool.stats().budget_bytes == kMiB);
  {
    const Tensor a = f32(pool, 16), b = f32(pool, 1024), scalar = f32(pool, 1);
    CHECK(pool.stats().used_bytes == (64 + 64) + (64 + 4096) + 64);
    CHECK(pool.stats().reserved_bytes == (64 + 64) + (64 + 4096) + 4096);
    CHECK(pool.stats().system_allocations == 3);
  }
  CHECK(pool.stats().used_bytes == 0);
  CHECK(pool.stats().peak_bytes == (64 + 64) + (64 + 4096) + 64);
  CHECK(pool.stats().reserved_bytes == (64 + 64) + (64 + 4096) + 4096);
  pool.trim();
  CHECK(pool.stats().reserved_bytes == 0);
}

TEST_CASE("a request past the budget is refused with device, request, use, budget and remedy") {
  PoolMemory pool("/job:worker/task:1/device:cpu:0", 10'000);
  const Tensor held = f32(pool, 1024);
  CHECK(error_text(Errc::out_of_memory, [&] { f32(pool, 2048); }) ==
        "device /job:worker/task:1/device:cpu:0 has no room for a tensor of 8192 bytes: of its "
        "memory budget of 10000 bytes 4160 are in use and 4160 reserved; use smaller batches, "
        "compute values again instead of keeping them (troupe/graph.hpp), place some nodes on "
        "another device, or raise the budget (ProcessOptions::memory_budget_bytes)");
  CHECK_THROWS_AS(pool.allocate(-1), Error);
  CHECK_THROWS_AS(pool.allocate(int64_t{1} << 62), Error);
  CHECK(pool.stats().used_bytes == 4160);
}

TEST_CASE("no number of elements or bytes wraps around to a small block") {
  PoolMemory pool("cpu", kMiB);
  PoolCache cache(pool);
  Tensor small = f32(cache, 1);
  cache.drop(small);  // a block that a negative size must not get
  for (Memory* memory : {static_cast<Memory*>(&pool), static_cast<Memory*>(&cache)}) {
    CHECK_THROWS_AS(memory->allocate(-1), Error);
    CHECK_THROWS_AS(memory->allocate(std::numeric_limits<int64_t>::min()), Error);
    for (int exponent : {59, 60, 61, 62})
      CHECK_THROWS_AS(memory->make(DType::f64, Shape{int64_t{1} << exponent}), Error);
  }
}

TEST_CASE("a budget may be the largest number there is") {
  PoolMemory pool("cpu", std::numeric_limits<int64_t>::max());
  f32(pool, 1000).reset();
  f32(pool, 1).reset();
  CHECK(pool.stats().reserved_bytes > 0);
  pool.trim();
  CHECK(pool.stats().reserved_bytes == 0);
}

TEST_CASE("free blocks of other sizes go back to the system before a request is refused") {
  PoolMemory pool("cpu", 10'000);
  { const Tensor a = f32(pool, 1024), scalar = f32(pool, 1); }
  CHECK(pool.stats().reserved_bytes == 4160 + 4096);
  const Tensor large = f32(pool, 2048);
  CHECK(pool.stats().reserved_bytes <= 10'000);
  CHECK(pool.stats().used_bytes == 64 + 8192);
}

TEST_CASE("a slab of scalars stays while one of them is held") {
  PoolMemory pool("cpu", kMiB);
  std::vector<Tensor> scalars;
  for (int i = 0; i < 100; ++i) scalars.push_back(f32(pool, 1));
  CHECK(pool.stats().reserved_bytes == 2 * 4096);
  const Tensor kept = scalars[70];
  scalars.clear();
  pool.trim();
  CHECK(pool.stats().reserved_bytes == 4096);
  for (int i = 0; i < 63; ++i) scalars.push_back(f32(pool, 1));
  CHECK(pool.stats().reserved_bytes == 4096);
}

TEST_CASE("a tensor may outlive its pool") {
  Tensor scalar, large, cached;
  {
    PoolMemory pool("cpu", kMiB);
    PoolCache cache(pool);
    scalar = f32(pool, 1);
    large = f32(pool, 1000);
    cached = f32(cache, 50);
    f32(pool, 2000);
  }
  *scalar.mutable_data<float>() = 3;
  std::memset(large.mutable_raw(), 0, 4000);
  large.reset();
  cached.reset();
  CHECK(scalar.item<float>() == 3);
}

TEST_CASE("threads that pass tensors on get distinct blocks, and the sums are exact afterwards") {
  PoolMemory pool("cpu", 64 * kMiB);
  constexpr int kThreads = 4, kRounds = 2000;
  std::vector<std::vector<Tensor>> passed(kThreads);
  std::mutex mutex;
  std::atomic<int> wrong{0};
  on_threads(kThreads, [&](int t) {
    PoolCache cache(pool);
    for (int i = 0; i < kRounds; ++i) {
      Tensor mine = f32(i % 2 ? static_cast<Memory&>(cache) : pool, 1 + (i * 37 + t) % 600);
      float* elements = mine.mutable_data<float>();
      std::fill_n(elements, mine.size(), static_cast<float>(t));
      for (float v : mine.values<float>()) wrong += v != static_cast<float>(t);
      Tensor other;
      {
        std::lock_guard guard(mutex);
        auto& to = passed[static_cast<size_t>(i % kThreads)];
        to.push_back(mine);
        if (to.size() > 8) {
          other = to.front();
          to.erase(to.begin());
        }
      }
      if (i % 3) cache.drop(other);
      cache.drop(mine);
    }
  });
  passed.clear();
  CHECK(wrong == 0);
  CHECK(pool.stats().used_bytes == 0);
  pool.trim();
  CHECK(pool.stats().reserved_bytes == 0);
}

TEST_CASE("threads never reserve more than the budget") {
  PoolMemory pool("cpu", 100'000);
  std::atomic<int> refused{0};
  std::atomic<bool> past_budget{false};
  on_threads(4, [&](int t) {
    std::vector<Tensor> held;
    for (int i = 0; i < 1000; ++i) {
      try {
        held.push_back(f32(pool, 1 + (i * 131 + t * 17) % 4000));
      } catch (const Error&) {
        ++refused;
        held.clear();
      }
      if (pool.stats().reserved_bytes > 100'000) past_budget = true;
    }
  });
  CHECK(refused > 0);
  CHECK(!past_budget);
  CHECK(pool.stats().used_bytes == 0);
}

TEST_CASE("a cache hands out what it was given, as the pool's") {
  PoolMemory pool("cpu", kMiB);
  PoolCache cache(pool);
  Tensor a = f32(cache, 100);
  const void* address = a.raw();
  CHECK(buffer_of(a)->owner == pool.owner());
  cache.drop(a);
  CHECK(!a.defined());
  CHECK(cache.cached_bytes() == 64 + 448);
  CHECK(pool.stats().used_bytes == 0);
  Tensor b = f32(cache, 110);
  CHECK(b.raw() == address);
  CHECK(cache.cached_bytes() == 0);
  CHECK(pool.stats().used_bytes == 64 + 448);
}

TEST_CASE("a cache keeps its hands off what others hold or own") {
  PoolMemory pool("cpu", kMiB), other_pool("other", kMiB);
  PoolCache cache(pool);
  Tensor shared = f32(cache, 100), handle = shared;
  cache.drop(shared);
  CHECK(cache.cached_bytes() == 0);
  CHECK(handle.unique());
  Tensor foreign = f32(other_pool, 100), heap = Tensor::zeros(DType::f32, Shape{3}), nothing;
  Tensor wide = cache.make(DType::f32, Shape{1, 1, 2, 1, 3});
  cache.drop(foreign);
  cache.drop(heap);
  cache.drop(nothing);
  CHECK(cache.cached_bytes() == 0);
  CHECK(other_pool.stats().used_bytes == 0);
  cache.drop(wide);
  CHECK(cache.cached_bytes() == 64);
}

TEST_CASE("a cache is bounded, leaves large buffers to the pool, and flushes") {
  PoolMemory pool("cpu", 64 * kMiB);
  PoolCache cache(pool);
  std::vector<Tensor> many;
  for (int i = 0; i < 40; ++i) many.push_back(f32(cache, 16 << 10));
  many.push_back(f32(cache, (16 << 10) + 1));
  for (Tensor& tensor : many) cache.drop(tensor);
  CHECK(cache.cached_bytes() >= PoolCache::kCachedBytesMax);
  CHECK(cache.cached_bytes() < PoolCache::kCachedBytesMax + PoolCache::kBytesMax + 64);
  CHECK(pool.stats().used_bytes == 0);
  cache.flush();
  CHECK(cache.cached_bytes() == 0);
  CHECK(pool.stats().used_bytes == 0);
  pool.trim();
  CHECK(pool.stats().reserved_bytes == 0);
}

TEST_CASE("a cache gives back what it holds before a request is refused") {
  PoolMemory pool("cpu", 10'000);
  PoolCache cache(pool);
  Tensor a = f32(cache, 1024);
  cache.drop(a);
  CHECK(f32(cache, 2048).defined());
  CHECK_THROWS_AS(f32(cache, 4096), Error);
}

// Like the calls of a function that calls itself: the last one ends first.
TEST_CASE("what a cache costs does not grow with how many there are") {
  const auto cpu_ms = [](size_t caches) {
    double best = 1e9;
    for (int round = 0; round < 3; ++round) {
      PoolMemory pool("cpu:0", kMiB);
      timespec begin{}, end{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
      std::vector<std::unique_ptr<PoolCache>> all(caches);
      for (auto& cache : all) cache = std::make_unique<PoolCache>(pool);
      while (!all.empty()) all.pop_back();
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
      best = std::min(best, static_cast<double>(end.tv_sec - begin.tv_sec) * 1e3 +
                                static_cast<double>(end.tv_nsec - begin.tv_nsec) * 1e-6);
    }
    return best;
  };
  const double few = cpu_ms(10'000), many = cpu_ms(100'000);
  CHECK(many < 40 * few);  // a search through all caches takes over 60 times as long
}

TEST_CASE("a pool knows which large buffers are held, for what, and not those that are free") {
  PoolMemory pool("cpu", 64 * kMiB);
  CHECK(pool.held(10).count == 0);
  Tensor small = f32(pool, 100), a = f32(pool, 50'000), b = f32(pool, 100'000);
  pool.mark(buffer_of(small), {400, 7, 1});  // too small to be recorded
  pool.mark(buffer_of(b), {b.byte_size(), 8, 2});
  const Tensor elsewhere = Tensor::zeros(DType::f32, {100'000});
  pool.mark(buffer_of(elsewhere), {1, 1, 1});  // of another memory
  Memory::Held held = pool.held(10);
  CHECK(held.count == 2);
  CHECK(held.bytes == 600'000);
  REQUIRE(held.largest.size() == 2);
  CHECK(held.largest[0].bytes == 400'000);
  CHECK(held.largest[0].label == 8);
  CHECK(held.largest[0].run == 2);
  CHECK(held.largest[1].label == 0);
  b.reset();
  const Tensor again = f32(pool, 100'000);  // the same block, not yet marked
  CHECK(pool.held(1).largest[0].label == 0);
  CHECK(pool.held(1).largest.size() == 1);
  CHECK(pool.held(1).count == 2);
  a.reset();
  pool.trim();
  CHECK(pool.held(10).count == 1);
}

TEST_CASE("threads allocate, mark and release while another asks what is held") {
  PoolMemory pool("cpu", 64 * kMiB);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint64_t t = 1; t <= 2; ++t)
    threads.emplace_back([&pool, &stop, t] {
      for (int64_t i = 0; !stop.load(); ++i) {
        const Tensor x = f32(pool, 20'000 + i % 7 * 10'000);
        pool.mark(buffer_of(x), {x.byte_size(), t, i});
        if (i % 16 == 0) pool.trim();
      }
    });
  for (int i = 0; i < 2'000; ++i)
    for (const HeldBuffer& one : pool.held(10).largest) {
      CHECK(one.label <= 2);
      CHECK(one.bytes >= 80'000);
      CHECK(one.bytes <= 320'000);
    }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(pool.held(10).count == 0);
}

TEST_CASE("high-water marks are taken since the last time, and reset on their own") {
  PoolMemory pool("cpu", 64 * kMiB);
  const auto use = [&](int64_t n) { (void)f32(pool, n); };
  use(100'000);
  const int64_t first = pool.stats().peak_bytes;
  CHECK(first >= 400'000);
  CHECK(pool.take_peak() == first);
  CHECK(pool.take_peak() == 0);
  use(50'000);
  CHECK(pool.take_peak() >= 200'000);
  CHECK(pool.stats().peak_bytes == first);
  pool.reset_peak();
  CHECK(pool.stats().peak_bytes == 0);
  use(10'000);
  CHECK(pool.stats().peak_bytes < 60'000);
}

}  // namespace
}  // namespace troupe
