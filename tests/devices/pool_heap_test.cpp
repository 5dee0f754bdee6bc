// The large blocks of a pool: which free memory a request gets, what joins, what goes back to the
// system, and that no two blocks meet whatever is asked for in which order.
#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "devices/pool.hpp"

namespace troupe {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

Tensor bytes_of(PoolMemory& pool, int64_t bytes) { return pool.make(DType::u8, Shape{bytes}); }

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
  other_wall.reset();  // joins what `one` has left below it
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
  // The budget has room for what is free elsewhere, once that has gone back.
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
        for (int64_t at = 0; at < block.size(); at += 997)
          REQUIRE(block.data<uint8_t>()[at] == mark);
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

}  // namespace troupe
