// Philox against the published known answers, and the streams that nodes draw from it.
#include <set>

#include "ops/random/random.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

using Words = std::array<uint32_t, 4>;

}  // namespace

TEST_CASE("philox gives the known answers of Random123") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("fnv1a64 gives the published answers") {
  CHECK(fnv1a64("") == 0xcbf29ce484222325u);
  CHECK(fnv1a64("a") == 0xaf63dc4c8601ec8cu);
  CHECK(fnv1a64("foobar") == 0x85944171f73967e8u);
}

TEST_CASE("a stream depends on seed, name, step and replica, and on nothing else") {
  const Words block = RandomStream(7, "w", 3, 2).block(5);
  CHECK(RandomStream(7, "w", 3, 2).block(5) == block);
  CHECK(RandomStream(8, "w", 3, 2).block(5) != block);
  CHECK(RandomStream(7, "v", 3, 2).block(5) != block);
  CHECK(RandomStream(7, "w", 4, 2).block(5) != block);
  CHECK(RandomStream(7, "w", 3, 1).block(5) != block);
  CHECK(RandomStream(7, "w", 3, 2).block(6) != block);
  CHECK(RandomStream(7, "w", 3, 2).block(5 + (uint64_t{1} << 32)) != block);
  CHECK(RandomStream(7, "w", -1, 2).block(5) == RandomStream(7, "w", 0, 2).block(5));
}

TEST_CASE("many blocks at a time are the blocks one by one, also where the low word wraps around") {
  const RandomStream stream(7, "w", (int64_t{1} << 40) + 3, 2);
  constexpr auto kBlocks = static_cast<uint64_t>(RandomStream::kBlocks);
  for (const uint64_t first : {uint64_t{0}, uint64_t{64}, (uint64_t{1} << 32) - 10}) {
    uint32_t words[4 * kBlocks];
    in_isa<BlocksLoop>(&stream, first, &words);
    for (uint64_t b = 0; b < kBlocks; ++b) {
      const Words one = stream.block(first + b);
      CHECK(std::equal(one.begin(), one.end(), words + 4 * b));
    }
  }
}

TEST_CASE("a number of a stream does not depend on how many are drawn, nor on their order") {
  const RandomStream stream(7, "w", 3, 2);
  RandomNumbers few(stream, 1), many(stream, 1000), back(stream, 1000);
  for (uint64_t i = 0; i < 300; ++i) {
    const Words block = stream.block(i / 2);
    const uint64_t expected = uint64_t{block[i % 2 * 2 + 1]} << 32 | block[i % 2 * 2];
    CHECK(few.bits(i) == expected);
    CHECK(many.bits(i) == expected);
  }
  for (uint64_t i = 300; i-- > 0;) CHECK(back.bits(i) == many.bits(i));
}

TEST_CASE("a run outside training has a key of its own, which no step or iteration has") {
  const auto block = [](uint64_t draws) {
    RandomStream stream(7, "w", 0, 2);
    stream.enter_run(draws);
    return stream.block(5);
  };
  RandomStream iteration(7, "w", 0, 2);
  iteration.enter(1);
  const std::set<Words> all = {block(1),
                               block(2),
                               block(uint64_t{1} << 32),
                               iteration.block(5),
                               RandomStream(7, "w", 0, 2).block(5),
                               RandomStream(7, "w", 1, 2).block(5)};
  CHECK(all.size() == 6);
  CHECK(block(1) == block(1));
}

// Computed independently, from the recipe in graph/base/philox.hpp.
TEST_CASE("an iteration has a key of its own, and so have iterations inside it") {
  CHECK(RandomStream::key_within(0, 0) == 0xcd0f6fa04d5189c1u);
  CHECK(RandomStream::key_within(fnv1a64("w"), -1) == 0x6213f4b2d1417cf3u);
  const auto block = [](std::initializer_list<int64_t> path) {
    RandomStream stream(7, "w", 3, 2);
    for (int64_t i : path) stream.enter(i);
    return stream.block(5);
  };
  const std::set<Words> all = {block({}),     block({0}),    block({1}),    block({0, 0}),
                               block({0, 1}), block({1, 0}), block({1, 1}), block({0, 0, 0})};
  CHECK(all.size() == 8);
  CHECK(block({}) == RandomStream(7, "w", 3, 2).block(5));
}

TEST_CASE("units are in [0, 1)") {
  CHECK(unit_double(0, 0) == 0);
  CHECK(unit_double(~0u, ~0u) == 1 - 0x1p-53);
  CHECK(unit_float(0) == 0);
  CHECK(unit_float(~0u) == 1 - 0x1p-24f);
}

}  // namespace troupe
