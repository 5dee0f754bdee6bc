// Functions whose ops are tested by name make the nodes that their names say, with their arguments
// in order. (Functions that other tests call need no row here.)
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "graph/attr_text.hpp"
#include "ops/gradients.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {

TEST_CASE("functions that no other test calls make the nodes that their names say") {
  Graph graph;
  const auto input = [&](DType dtype, Shape shape) { return placeholder(graph, dtype, shape); };
  const Output x = input(DType::f32, {4, 3}), y = input(DType::f32, {4, 3}),
               row = input(DType::f32, {3}), ids = input(DType::i64, {4}),
               i = input(DType::i64, {2, 1}), rows = input(DType::f32, {2, 3}),
               a = input(DType::i64, {5}), b = input(DType::i64, {5}),
               images = input(DType::f32, {2, 8, 8, 1}), corners = input(DType::i64, {2, 2}),
               pairs = input(DType::i64, {7, 2}), values = input(DType::f32, {7}),
               sampled = input(DType::f32, {2, 8, 8, 1});
  const struct {
    std::string op;
    Output made;
    std::vector<Output> inputs;
    Attrs attrs = {};  // a subset
  } all[] = {
      {"IsFinite", is_finite(x), {x}},
      {"SquaredDifference", squared_difference(x, y), {x, y}},
      {"BitwiseAnd", bitwise_and(a, b), {a, b}},
      {"BitwiseOr", bitwise_or(a, b), {a, b}},
      {"BitwiseXor", bitwise_xor(a, b), {a, b}},
      {"TensorScatterSub", tensor_scatter_sub(x, i, rows), {x, i, rows}},
      {"TensorScatterMin", tensor_scatter_min(x, i, rows), {x, i, rows}},
      {"SegmentMin",
       segment_min(x, ids, 5),
       {x, ids},
       {{"segments", int64_t{5}}, {"sorted", true}}},
      {"SegmentProd",
       segment_prod(x, ids, 5),
       {x, ids},
       {{"segments", int64_t{5}}, {"sorted", true}}},
      {"SegmentProd",
       unsorted_segment_prod(x, ids, 5),
       {x, ids},
       {{"segments", int64_t{5}}, {"sorted", false}}},
      {"InTopK", in_top_k(x, ids, 2), {x, ids}, {{"k", int64_t{2}}}},
      {"SearchSorted", search_sorted(row, values, true), {row, values}, {{"right", true}}},
      {"WindowSum", window_sum(x, 2), {x}, {{"radius", int64_t{2}}}},
      {"SparseDenseMatMul",
       sparse_dense_matmul(pairs, values, x, {4, 6}, true),
       {pairs, values, x},
       {{"shape", Shape{4, 6}}, {"transpose", true}}},
      {"Crop",
       crop(images, corners, 3, 5),
       {images, corners},
       {{"size", std::vector<int64_t>{3, 5}}}},
      {"SumToLike", sum_to_like(x, row), {x, row}},
      {"MaxPoolSelect",
       max_pool2d_select(sampled, images, {.window = 4}),
       {sampled, images},
       {{"window", std::vector<int64_t>{4}}}},
  };
  for (const auto& each : all) {
    CAPTURE(each.op);
    const Node& node = graph.node(each.made.node);
    CHECK(node.op->name == each.op);
    CHECK(same_outputs(node.inputs, each.inputs));
    for (const auto& attr : each.attrs) {
      CAPTURE(attr.first);
      CHECK(exact_text(node.attrs.at(attr.first)) == exact_text(attr.second));
    }
  }
}

}  // namespace troupe
