// split_parameters: cover, balance, cuts.
#include "training/parameters/layout.hpp"

#include <algorithm>

#include <doctest/doctest.h>

namespace troupe {
namespace {

std::vector<int64_t> loads(const std::vector<Slice>& slices, int32_t shards) {
  std::vector<int64_t> out(static_cast<size_t>(shards));
  for (const Slice& s : slices) out.at(static_cast<size_t>(s.shard)) += s.bytes();
  return out;
}

const std::vector<ParameterSpec> mlp = {
    {"fc1/w", DType::f32, {784, 1024}},  {"fc1/b", DType::f32, {1024}},
    {"fc2/w", DType::f32, {1024, 1024}}, {"fc2/b", DType::f32, {1024}},
    {"fc3/w", DType::f32, {1024, 10}},   {"fc3/b", DType::f32, {10}}};

TEST_CASE("slices cover every parameter once, in order, with ids that count up") {
  for (int32_t shards = 1; shards <= 7; ++shards) {
    CAPTURE(shards);
    const std::vector<Slice> slices = split_parameters(mlp, shards, 5);
    size_t i = 0;
    for (const ParameterSpec& p : mlp) {
      int64_t at = 0;
      while (at < p.shape.size()) {
        const Slice& s = slices.at(i);
        CHECK(s.id == 5 + i);
        CHECK(s.parameter == p.name);
        CHECK(s.offset == at);
        CHECK(s.shard < shards);
        REQUIRE(s.size > 0);
        at += s.size;
        ++i;
      }
      CHECK(at == p.shape.size());
    }
    CHECK(i == slices.size());
  }
}

TEST_CASE("bytes per shard differ by no more than a small piece") {
  for (int32_t shards : {2, 3, 4, 8}) {
    CAPTURE(shards);
    const std::vector<int64_t> load = loads(split_parameters(mlp, shards), shards);
    const auto [least, most] = std::minmax_element(load.begin(), load.end());
    CHECK(*most - *least <= kPieceBytesMin);
  }
}

TEST_CASE("a big matrix is cut at rows, a vector at cache lines, a small one not at all") {
  const std::vector<Slice> slices = split_parameters({{"matrix", DType::f32, {1000, 100}},
                                                      {"vector", DType::f32, {100'001}},
                                                      {"small", DType::f32, {10, 10}}},
                                                     2);
  REQUIRE(slices.size() == 5);
  CHECK(slices[1].offset == 50'000);
  CHECK(slices[3].offset % 16 == 0);
  CHECK(slices[4].whole());
  CHECK(describe(slices[0]) == "matrix[0:50000]");
  CHECK(describe(slices[4]) == "small");
}

TEST_CASE("scalars and empty parameters are slices too") {
  const std::vector<Slice> slices =
      split_parameters({{"scalar", DType::f64, {}}, {"empty", DType::f32, {0, 3}}}, 3);
  REQUIRE(slices.size() == 2);
  CHECK(slices[0].size == 1);
  CHECK(slices[1].size == 0);
}

TEST_CASE("parameters that cannot be placed are refused") {
  CHECK_THROWS_WITH(split_parameters(mlp, 0), "wants at least one shard for the parameters, got 0");
  CHECK_THROWS_WITH(split_parameters({{"w", DType::f32, {-1, 2}}}, 1),
                    "parameter w has the shape [-1, 2]; a shard needs to know every size");
  CHECK_THROWS_WITH(split_parameters({{"w", DType::f32, {1}}, {"w", DType::f32, {2}}}, 1),
                    "there are two parameters named w");
}

}  // namespace
}  // namespace troupe
