// The large blocks of a pool: which free memory a request gets, which free pieces join, which go
// back to the system, and that no two blocks overlap for any order of requests and any number of
// threads.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <thread>

#include "devices/memory/pool.hpp"

namespace troupe {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

Tensor bytes_of(PoolMemory& pool, int64_t bytes) { return pool.make(DType::u8, Shape{bytes}); }

// Every 997th element, and the last one.
bool all_are(const Tensor& block, uint8_t mark) {
  const auto* data = block.data<uint8_t>();
  for (int64_t at = 0; at < block.size(); at += 997)
    if (data[at] != mark) return false;
  return data[block.size() - 1] == mark;
}

void fill(Tensor& block, uint8_t mark) {
  std::memset(block.mutable_raw(), mark, static_cast<size_t>(block.byte_size()));
}

// The work of one of several threads on a pool: takes blocks of 64 KiB to 2 MiB, fills them, checks
// that they keep their contents, and drops them. It holds at most kShare bytes.
struct Worker {
  static constexpr size_t kBlocks = 12;
  static constexpr int64_t kShare = 4 * kMiB;
  std::mt19937 random;
  std::vector<std::pair<Tensor, uint8_t>> held;
  int64_t held_bytes = 0;
  int refused = 0, spoiled = 0;

  void step(PoolMemory& pool) {
    const int64_t least = (64 << 10) + 1, most = 2 * kMiB >> random() % 5;
    const int64_t bytes = least + static_cast<int64_t>(random()) % (most - least + 1);
    if (held.size() == kBlocks || held_bytes + bytes > kShare) return drop();
    const auto mark = static_cast<uint8_t>(random());
    try {
      Tensor block = bytes_of(pool, bytes);
      fill(block, mark);
      held.emplace_back(std::move(block), mark);
      held_bytes += bytes;
    } catch (const Error& error) {
      ++refused;
      if (error.code() != Errc::out_of_memory) throw;
      if (!held.empty()) drop();
    }
  }
  void drop() {
    std::swap(held[random() % held.size()], held.back());
    if (!all_are(held.back().first, held.back().second)) ++spoiled;
    held_bytes -= held.back().first.size();
    held.pop_back();
  }
};

// Addresses that the process has mapped.
int64_t mapped_bytes() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

}  // namespace

TEST_CASE("what large blocks leave serves a request of another size, and what is left of it too") {
  PoolMemory pool("cpu", 64 * kMiB);
  Tensor a = bytes_of(pool, kMiB), b = bytes_of(pool, kMiB), c = bytes_of(pool, kMiB);
  const void* first = a.raw();
  const MemoryStats before = pool.stats();
  CHECK(before.used_bytes == 3 * (kMiB + 64));
  CHECK(before.reserved_bytes == before.used_bytes);
  for (int order = 0; order < 2; ++order) {
    (order ? a : b).reset();
    (order ? b : a).reset();
    {
      const Tensor both = bytes_of(pool, 2 * kMiB + 64);
      CHECK(both.raw() == first);
    }
    {
      const Tensor some = bytes_of(pool, kMiB), more = bytes_of(pool, 15 * kMiB / 16);
      CHECK(some.raw() == first);
      CHECK(more.raw() == static_cast<const char*>(first) + kMiB + 64);
    }
    a = bytes_of(pool, kMiB);
    b = bytes_of(pool, kMiB);
  }
  CHECK(pool.stats().reserved_bytes == before.reserved_bytes);
  CHECK(pool.stats().system_allocations == before.system_allocations);
}

TEST_CASE(
    "a large request gets the free piece that fits best, and the end grows by what it lacks") {
  PoolMemory pool("cpu", 64 * kMiB);
  Tensor wide = bytes_of(pool, 3 * kMiB), wall = bytes_of(pool, kMiB);
  Tensor narrow = bytes_of(pool, 3 * kMiB / 2), other_wall = bytes_of(pool, kMiB);
  const void *in_wide = wide.raw(), *in_narrow = narrow.raw();
  wide.reset();
  narrow.reset();
  const Tensor one = bytes_of(pool, kMiB), two = bytes_of(pool, 2 * kMiB);
  CHECK(one.raw() == in_narrow);
  CHECK(two.raw() == in_wide);
  const int64_t reserved = pool.stats().reserved_bytes;
  other_wall.reset();  // joins the rest of the free piece that lies below it
  const Tensor longer = bytes_of(pool, 4 * kMiB);
  CHECK(longer.raw() == static_cast<const char*>(in_narrow) + kMiB + 64);
  CHECK(pool.stats().reserved_bytes == reserved + 5 * kMiB / 2);
}

TEST_CASE("free pieces between held ones go back to the system, and are there again when needed") {
  PoolMemory pool("cpu", 8 * kMiB);
  std::vector<Tensor> blocks;
  for (int i = 0; i < 7; ++i) blocks.push_back(bytes_of(pool, kMiB));
  for (int i : {1, 3, 4}) blocks[static_cast<size_t>(i)].reset();
  CHECK(pool.stats().reserved_bytes == 7 * (kMiB + 64));
  pool.trim();
  CHECK(pool.stats().reserved_bytes == 4 * (kMiB + 64));
  CHECK(pool.stats().used_bytes == 4 * (kMiB + 64));
  const Tensor again = bytes_of(pool, 2 * kMiB);
  std::memset(const_cast<void*>(again.raw()), 1, 2 * kMiB);
  CHECK(pool.stats().reserved_bytes == 6 * (kMiB + 64) - 64);
  // The budget has room for the request once free memory elsewhere has gone back.
  blocks[0].reset();
  blocks[2].reset();
  const Tensor large = bytes_of(pool, 4 * kMiB - 4096);
  std::memset(const_cast<void*>(large.raw()), 1, static_cast<size_t>(large.byte_size()));
  CHECK(pool.stats().reserved_bytes <= 8 * kMiB);
  CHECK_THROWS_AS(bytes_of(pool, kMiB), Error);
}

TEST_CASE("blocks of any size, asked for and given back in any order, never meet") {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    PoolMemory pool("cpu", 64 * kMiB);
    std::mt19937 random(seed);
    std::vector<std::pair<Tensor, int>> held;
    int refused = 0;
    for (int i = 0; i < 4'000; ++i) {
      if (random() % 5 < 3) {
        const int64_t bytes = 65'537 + static_cast<int64_t>(random() % 16 ? random() % 300'000
                                                                          : random() % 8'000'000);
        try {
          Tensor block = bytes_of(pool, bytes);
          std::memset(block.mutable_raw(), i & 0xff, static_cast<size_t>(bytes));
          held.emplace_back(std::move(block), i & 0xff);
        } catch (const Error&) {
          ++refused;
        }
      } else if (!held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        const auto& [block, mark] = held.back();
        REQUIRE(all_are(block, static_cast<uint8_t>(mark)));
        held.pop_back();
      }
      if (random() % 500 == 0) pool.trim();
      const MemoryStats now = pool.stats();
      REQUIRE(now.used_bytes <= now.reserved_bytes);
      REQUIRE(now.reserved_bytes <= 64 * kMiB);
      REQUIRE(pool.held(1).count == static_cast<int64_t>(held.size()));
    }
    CHECK(refused > 0);
    held.clear();
    CHECK(pool.stats().used_bytes == 0);
    pool.trim();
    CHECK(pool.stats().reserved_bytes == 0);
  }
}

TEST_CASE("a large block may outlive its pool") {
  Tensor kept;
  {
    PoolMemory pool("cpu", 64 * kMiB);
    const Tensor other = bytes_of(pool, kMiB);
    kept = bytes_of(pool, kMiB);
  }
  std::memset(kept.mutable_raw(), 1, kMiB);
  CHECK(kept.data<uint8_t>()[kMiB - 1] == 1);
}

TEST_CASE("threads get every large block that the budget has room for, and none meets another") {
  // Room for the most that four workers hold plus the remainders too small to give back, or half of
  // it.
  const int64_t all = 4 * (Worker::kShare + static_cast<int64_t>(Worker::kBlocks) * 16'384);
  for (const bool tight : {false, true}) {
    CAPTURE(tight);
    PoolMemory pool("cpu", tight ? all / 2 : all);
    std::vector<Worker> workers(4);
    std::atomic<int> at_work{4};
    std::vector<std::thread> threads;
    for (size_t t = 0; t < workers.size(); ++t)
      threads.emplace_back([&, t] {
        workers[t].random.seed(static_cast<uint32_t>(t + 1));
        for (int i = 0; i < 600; ++i) workers[t].step(pool);
        --at_work;
      });
    int64_t trims = 0;
    bool in_bounds = true;
    for (; at_work > 0; std::this_thread::yield()) {
      if (++trims % 2 == 0) pool.trim();
      const Memory::Held held = pool.held(4);
      // Each heap is read at one moment, but the two heaps at different moments.
      in_bounds &= held.count <= 2 * static_cast<int64_t>(4 * Worker::kBlocks) &&
                   held.bytes <= 2 * pool.stats().budget_bytes && held.largest.size() <= 4 &&
                   pool.stats().reserved_bytes <= pool.stats().budget_bytes;
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(in_bounds);
    int refused = 0;
    for (Worker& worker : workers) {
      refused += worker.refused;
      while (!worker.held.empty()) worker.drop();
      CHECK(worker.spoiled == 0);
    }
    CHECK((refused > 0) == tight);
    CHECK(pool.stats().used_bytes == 0);
    pool.trim();
    CHECK(pool.stats().reserved_bytes == 0);
  }
}

TEST_CASE("a pool may die while threads still release its large blocks") {
  for (uint32_t round = 0; round < 50; ++round) {
    std::optional<PoolMemory> pool(std::in_place, "cpu", 64 * kMiB);
    std::vector<Worker> workers(4);
    for (size_t t = 0; t < workers.size(); ++t) {
      workers[t].random.seed(round * 4 + static_cast<uint32_t>(t));
      for (int i = 0; i < 20 || workers[t].held.empty(); ++i) workers[t].step(*pool);
    }
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (Worker& worker : workers)
      threads.emplace_back([&] {
        ++ready;
        while (ready < 4) std::this_thread::yield();
        while (!worker.held.empty()) worker.drop();
      });
    while (ready < 4) std::this_thread::yield();
    pool.reset();
    for (std::thread& thread : threads) thread.join();
    for (const Worker& worker : workers) CHECK(worker.spoiled == 0);
  }
}

TEST_CASE("of a free piece no more goes back to the system than a request lacks") {
  PoolMemory pool("cpu", 16 * kMiB);
  Tensor large = bytes_of(pool, 12 * kMiB);
  const Tensor wall = bytes_of(pool, kMiB);
  large.reset();
  // These blocks cannot use the free piece, since they are not among the huge ones.
  std::vector<Tensor> small;
  for (int i = 0; i < 12; ++i) {
    small.push_back(bytes_of(pool, 900'000));
    fill(small.back(), 1);
    const int64_t reserved = pool.stats().reserved_bytes;
    CHECK(reserved <= 16 * kMiB);
    CHECK(reserved >= std::min(13 * kMiB + (i + 1) * 900'000, 16 * kMiB - 3 * 4096));
  }
  const int64_t left = pool.stats().reserved_bytes - pool.stats().used_bytes;
  CHECK(left > kMiB);
  const int64_t allocations = pool.stats().system_allocations;
  const Tensor again = bytes_of(pool, left - 8192);  // from the rest, which did not go back
  CHECK(again.raw() < wall.raw());
  CHECK(pool.stats().system_allocations == allocations);
}

TEST_CASE("a request larger than the budget is refused before any address is mapped for it") {
  PoolMemory pool("cpu", 64 * kMiB);
  const int64_t before = mapped_bytes();
  CHECK(pool.try_allocate(int64_t{1} << 36) == nullptr);
  CHECK(pool.try_allocate(64 * kMiB) == nullptr);  // the budget does not hold its header line too
  CHECK(mapped_bytes() - before < 64 * kMiB);
  CHECK(pool.stats().reserved_bytes == 0);
}

TEST_CASE("memory that the system does not take back stays reserved") {
  PoolMemory pool("cpu", 64 * kMiB);
  Tensor block = bytes_of(pool, kMiB);
  fill(block, 1);
  const auto page = (reinterpret_cast<int64_t>(block.raw()) + kMiB / 2) / 4096 * 4096;
  // Called by number, since sanitizers turn mlock() into a no-op.
  REQUIRE(syscall(SYS_mlock, page, 4096L) == 0);
  block.reset();
  pool.trim();
  CHECK(pool.stats().reserved_bytes == kMiB + 64);
  block = bytes_of(pool, kMiB);
  CHECK(pool.stats().reserved_bytes == kMiB + 64);
  block.reset();
  REQUIRE(syscall(SYS_munlock, page, 4096L) == 0);
  pool.trim();
  CHECK(pool.stats().reserved_bytes == 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("where addresses are limited a pool leaves most, and takes what a request needs") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int64_t room = 1024 * kMiB;
    const auto limit = static_cast<rlim_t>(mapped_bytes() + room);
    const rlimit limits{limit, limit};
    if (setrlimit(RLIMIT_AS, &limits) != 0) _exit(1);
    const int64_t before = mapped_bytes();
    PoolMemory pool("cpu", int64_t{8} << 30);
    if (!pool.try_allocate(2 * kMiB) || !pool.try_allocate(128 << 10)) _exit(2);
    if (mapped_bytes() - before > room / 2) _exit(3);
    if (!pool.try_allocate(540 * kMiB)) _exit(4);  // nearly all that is left
    if (pool.try_allocate(room)) _exit(5);
    try {
      pool.allocate(room);
      _exit(6);
    } catch (const Error& e) {
      const std::string text = e.what();
      if (e.code() != Errc::out_of_memory) _exit(7);
      if (text.find("but the address space of this process is used up") == text.npos) _exit(8);
      if (text.find("or raise the budget") != text.npos) _exit(9);
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

}  // namespace troupe
