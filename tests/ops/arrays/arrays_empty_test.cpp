// Ops that move, count and join elements, on empty tensors whose other sizes are as large as
// possible: nothing overflows, and no loop runs over elements that do not exist.

#include "ops/gradients.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

constexpr int64_t kLarge = 2147483647;
const Shape kWide{kLarge, kLarge, kLarge, 0};

struct EmptyCase {
  const char* name;
  Output (*build)(Output);
  Shape expected;
};

const std::vector<EmptyCase> empty_cases = {
    {"squeeze", [](Output x) { return squeeze(expand_dims(x, 1), {1}); }, kWide},
    {"stack",
     [](Output x) {
       return stack({x, x}, -1);
     },
     {kLarge, kLarge, kLarge, 0, 2}},
    {"tile",
     [](Output x) {
       return tile(x, {1, 1, 2, 3});
     },
     {kLarge, kLarge, 2 * kLarge, 0}},
    {"tile_gradient",
     [](Output x) {
       return tile_gradient(tile(x, {1, 1, 2, 3}), x, {1, 1, 2, 3});
     },
     kWide},
    {"repeat", [](Output x) { return repeat(x, 2, 0); }, {2 * kLarge, kLarge, kLarge, 0}},
    {"repeat_gradient", [](Output x) { return repeat_gradient(repeat(x, 2, 0), x, 2, 0); }, kWide},
    {"strided_slice",
     [](Output x) {
       return strided_slice(x, {kLarge, 0}, {0, 1}, {.strides = {-1, 1}});
     },
     {kLarge - 1, 1, kLarge, 0}},
    {"strided_slice_gradient",
     [](Output x) {
       const Output dy = strided_slice(x, {kLarge, 0}, {0, 1}, {.strides = {-1, 1}});
       return strided_slice_gradient(dy, x, {kLarge, 0}, {0, 1}, {.strides = {-1, 1}});
     },
     kWide},
    {"pad",
     [](Output x) {
       return pad(x, {1, 0, 0, 0}, {0, 2, 0, 0});
     },
     {kLarge + 1, kLarge + 2, kLarge, 0}},
    {"pad_gradient",
     [](Output x) {
       return pad_gradient(x, {1, 0, 0, 0}, {0, 2, 0, 0}, PadMode::reflect);
     },
     {kLarge - 1, kLarge - 2, kLarge, 0}},
    {"reverse", [](Output x) { return reverse(x); }, kWide},
    {"roll",
     [](Output x) {
       return roll(x, {3, 4}, {0, 3});
     },
     kWide},
    {"space_to_depth", [](Output x) { return space_to_depth(x, 1); }, kWide},
    {"depth_to_space",
     [](Output x) { return depth_to_space(x, 2); },
     {kLarge, 2 * kLarge, 2 * kLarge, 0}},
    {"gather_nd",
     [](Output x) {
       return gather_nd(x, constant(*x.graph, i64(matrix({{0, kLarge - 1, 5}}))));
     },
     {1, 0}},
    {"scatter_nd",
     [](Output x) {
       const Output indices = constant(*x.graph, i64(matrix({{0, kLarge - 1, 5}})));
       return scatter_nd(indices, gather_nd(x, indices), kWide);
     },
     kWide},
    {"tensor_scatter_add",
     [](Output x) {
       const Output indices = constant(*x.graph, i64(matrix({{0, kLarge - 1, 5}})));
       return tensor_scatter_add(x, indices, gather_nd(x, indices));
     },
     kWide},
    {"tensor_scatter_update_gradient",
     [](Output x) {
       const Output indices = constant(*x.graph, i64(matrix({{0, kLarge - 1, 5}})));
       return tensor_scatter_update_gradient(x, indices, gather_nd(x, indices));
     },
     {1, 0}},
    {"diag", [](Output x) { return diag(x); }, {kLarge, kLarge, kLarge, 0, 0}},
    {"diag_part", [](Output x) { return diag_part(x); }, {kLarge, kLarge, 0}},
    {"diag_part_gradient", [](Output x) { return diag_part_gradient(diag_part(x), x); }, kWide},
    {"tril", [](Output x) { return tril(x); }, kWide},
    {"nonzero", [](Output x) { return nonzero(x); }, {0, 4}},
    {"boolean_mask",
     [](Output x) {
       const Output first = strided_slice(x, {0}, {1});
       return boolean_mask(first, constant(*x.graph, booleans(vector({1}))));
     },
     {1, kLarge, kLarge, 0}},
    {"unique", [](Output x) { return unique(x).values; }, {0}},
    {"bincount", [](Output x) { return bincount(cast(x, DType::i64)); }, {0}},
    {"segment_sum",
     [](Output x) {
       const Output two = strided_slice(x, {0}, {2});
       return segment_sum(two, constant(*x.graph, i32(vector({0, 2}))));
     },
     {3, kLarge, kLarge, 0}},
    {"unsorted_segment_max",
     [](Output x) {
       const Output two = strided_slice(x, {0}, {2});
       return unsorted_segment_max(two, constant(*x.graph, i32(vector({1, 0}))), 2);
     },
     {2, kLarge, kLarge, 0}},
    {"dynamic_partition",
     [](Output x) {
       const Output two = strided_slice(x, {0}, {2});
       return dynamic_partition(two, constant(*x.graph, i32(vector({1, 1}))), 2)[1];
     },
     {2, kLarge, kLarge, 0}},
    {"dynamic_stitch",
     [](Output x) {
       return dynamic_stitch({constant(*x.graph, i32(vector({1})))}, {strided_slice(x, {0}, {1})});
     },
     {2, kLarge, kLarge, 0}},
};

}  // namespace

TEST_CASE("elements that are not there are not moved") {
  for (const EmptyCase& c : empty_cases)
    for (DType dtype : {DType::f32, DType::f64}) {
      CAPTURE(c.name);
      CAPTURE(to_string(dtype));
      Graph graph;
      const Output x = placeholder(graph, dtype, kWide);
      CHECK(evaluate(c.build(x), {{x, Tensor::zeros(dtype, kWide)}}).shape() == c.expected);
    }
}

}  // namespace troupe
