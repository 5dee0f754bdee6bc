// DynamicPartition, DynamicStitch and their gradients.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCase partitioned(std::string name, Tensor x, Tensor partitions, std::vector<Tensor> expected) {
  const auto parts = static_cast<int64_t>(expected.size());
  return Case("DynamicPartition", std::move(name), {x, partitions}, std::move(expected),
              {{"parts", parts}});
}

OpCase of(std::string name, std::string op, std::vector<Tensor> inputs,
          std::vector<Tensor> expected) {
  return Case(std::move(op), std::move(name), std::move(inputs), std::move(expected));
}

std::vector<OpCase> partitions() {
  const Tensor none = zeros({0});
  return {
      partitioned("rows", iota({4, 2}), i32(vector({1, 0, 1, 2})),
                  {matrix({{2, 3}}), matrix({{0, 1}, {4, 5}}), matrix({{6, 7}})}),
      partitioned("elements of a matrix", matrix({{1, 2}, {3, 4}}), i64(matrix({{0, 1}, {1, 0}})),
                  {vector({1, 4}), vector({2, 3})}),
      partitioned("a part without slices", vector({1, 2}), i32(vector({2, 2})),
                  {none, none, vector({1, 2})}),
      partitioned("one partition for all", vector({1, 2}), i32(scalar(1)),
                  {zeros({0, 2}), matrix({{1, 2}})}),
      partitioned("f32", f32(vector({1, 2})), i32(vector({1, 0})),
                  {f32(vector({2})), f32(vector({1}))}),
      partitioned("bool", booleans(vector({1, 0})), i32(vector({0, 0})),
                  {booleans(vector({1, 0}))}),
      partitioned("size one", vector({5}), i32(vector({0})), {vector({5})}),
      partitioned("empty", zeros({0, 2}), zeros({0}, DType::i32), {zeros({0, 2}), zeros({0, 2})}),
      partitioned("empty rows", zeros({2, 0}), i32(vector({1, 0})), {zeros({1, 0}), zeros({1, 0})}),
      of("elements", "DynamicPartitionGradient",
         {i32(vector({1, 0, 1})), zeros({3}), vector({5}), vector({6, 7})}, {vector({6, 5, 7})}),
      of("rows", "DynamicPartitionGradient",
         {i64(vector({1, 0})), zeros({2, 2}), matrix({{1, 2}}), matrix({{3, 4}})},
         {matrix({{3, 4}, {1, 2}})}),
      of("empty", "DynamicPartitionGradient", {zeros({0}, DType::i32), zeros({0}), none}, {none})};
}

std::vector<OpCase> stitches() {
  const Tensor first = i32(vector({0, 2})), second = i32(vector({1}));
  return {
      of("rows", "DynamicStitch", {first, second, matrix({{1, 2}, {5, 6}}), matrix({{3, 4}})},
         {matrix({{1, 2}, {3, 4}, {5, 6}})}),
      of("the last of equal indices", "DynamicStitch",
         {i32(vector({0, 1, 0})), i32(vector({1})), vector({1, 2, 3}), vector({4})},
         {vector({3, 4})}),
      of("zeros where nothing is", "DynamicStitch", {i32(vector({3, 1})), vector({1, 2})},
         {vector({0, 2, 0, 1})}),
      of("a matrix and a scalar of indices", "DynamicStitch",
         {i64(matrix({{0, 2}, {3, 1}})), i32(scalar(4)), matrix({{1, 2}, {3, 4}}), scalar(5)},
         {vector({1, 4, 2, 3, 5})}),
      of("f32", "DynamicStitch", {i32(vector({1, 0})), f32(vector({1, 2}))}, {f32(vector({2, 1}))}),
      of("size one", "DynamicStitch", {i32(scalar(0)), scalar(7)}, {vector({7})}),
      of("empty", "DynamicStitch", {zeros({0}, DType::i32), zeros({0, 2})}, {zeros({0, 2})}),
      of("empty rows", "DynamicStitch", {i32(vector({1})), zeros({1, 0})}, {zeros({2, 0})}),
      of("rows", "DynamicStitchGradient",
         {iota({3, 2}), first, second, zeros({2, 2}), zeros({1, 2})},
         {matrix({{0, 1}, {4, 5}}), matrix({{2, 3}})}),
      of("zeros for what was written over", "DynamicStitchGradient",
         {vector({8, 9}), i32(vector({0, 1, 0})), i32(vector({1})), zeros({3}), zeros({1})},
         {vector({0, 0, 8}), vector({9})}),
      of("empty", "DynamicStitchGradient", {zeros({0, 2}), zeros({0}, DType::i32), zeros({0, 2})},
         {zeros({0, 2})})};
}

const Table table("DynamicPartition takes apart, and DynamicStitch puts together", [] {
  OpCases all = {.values = partitions()};
  for (OpCase& c : stitches()) all.values.push_back(std::move(c));
  const auto parts = [](int64_t count) { return Attrs{{"parts", count}}; };
  const Tensor at = zeros({2}, DType::i32);
  all.errors = {
      Refused("DynamicPartition", {zeros({3}), at},
              "wants a partition for each slice along the first dimensions of [3], got [2]",
              parts(2)),
      Refused("DynamicPartition", {scalar(0), at},
              "wants a partition for each slice along the first dimensions of []", parts(3)),
      Refused("DynamicPartition", {zeros({2}), at}, "makes 1 to 65536 parts, not 0", parts(0)),
      Refused("DynamicPartition", {zeros({2}), zeros({2})}, "wants indices of i32 or i64, got f64",
              parts(2)),
      Refused("DynamicPartition", {zeros({2}), i32(vector({0, 2}))},
              "index 2 (number 1 of 2) is not in [0, 2)", parts(2))
          .in_step(),
      Refused("DynamicPartitionGradient", {at, zeros({3}), zeros({2}), zeros({0})},
              "the parts are not what partitions [2] make of [3]"),
      Refused("DynamicPartitionGradient", {at, zeros({2}), f32(zeros({2}))},
              "x_like and dys must have one dtype, got f64 and f32"),
      Refused("DynamicPartitionGradient", {at, zeros({2}), zeros({1}), zeros({1})},
              "part 0 has 1 slices, but 2 of partition 0 were taken")
          .in_step(),
      Refused("DynamicPartitionGradient", {i32(vector({0, -1})), zeros({2}), zeros({1})},
              "index -1 (number 1 of 2) is not in [0, 1)")
          .in_step(),
      Refused("DynamicStitch", {at, zeros({3})},
              "part 0 is [3], but its indices are [2]; it has their sizes first"),
      Refused("DynamicStitch", {at, at, zeros({2, 3}), zeros({2, 4})},
              "behind the sizes of the indices, all parts have the same sizes"),
      Refused("DynamicStitch", {at, at, zeros({2})},
              "wants as many parts as tensors of indices, got 3 of both together"),
      Refused("DynamicStitch", {at, at, zeros({2}), f32(zeros({2}))},
              "parts must have one dtype, got f64 and f32; cast one of them"),
      Refused("DynamicStitch", {zeros({2}), zeros({2})}, "wants indices of i32 or i64, got f64"),
      Refused("DynamicStitch", {i32(vector({0, -1})), zeros({2})},
              "index -1 (number 1 of part 0) is not in [0, 2^40)")
          .in_step(),
      Refused("DynamicStitchGradient", {zeros({3, 3}), at, at, zeros({2, 2}), zeros({2, 2})},
              "wants dy of shape [-1, 2], the parts stitched together, got [3, 3]"),
      Refused("DynamicStitchGradient", {zeros({3}), i32(vector({0, 1})), zeros({2})},
              "dy has 3 rows, but the greatest index is 1")
          .in_step(),
      Refused("DynamicStitchGradient", {f32(zeros({1})), at, zeros({2})},
              "dy and parts must have one dtype, got f32 and f64")};
  return all;
});

}  // namespace

TEST_CASE("what was partitioned is stitched together again") {
  Graph graph;
  const Output x = constant(graph, iota({4, 2}));
  const Output by = constant(graph, i32(vector({1, 0, 1, 0})));
  const auto numbers = dynamic_partition(range(graph, 0, 4), by, 2);
  CHECK(same_bits(evaluate(dynamic_stitch(numbers, dynamic_partition(x, by, 2))), iota({4, 2})));
}

}  // namespace troupe
