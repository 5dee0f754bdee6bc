// Slice, StridedSlice and their gradients. Expected values are NumPy's.
#include <limits>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Table slice_table("Slice cuts out a box, and its gradient puts one back among zeros", [] {
  return table_of(
      "Slice",
      {
          Case("rows", {matrix({{1, 2}, {3, 4}, {5, 6}})}, {matrix({{3, 4}, {5, 6}})},
               {{"begin", Ints{1, 0}}, {"size", Ints{2, -1}}}),
          Case("columns", {matrix({{1, 2, 3}, {4, 5, 6}})}, {matrix({{2, 3}, {5, 6}})},
               {{"begin", Ints{0, 1}}, {"size", Ints{-1, 2}}}),
          Case("a box", {iota({3, 3, 3})}, {values({2, 2, 1}, {10, 13, 19, 22})},
               {{"begin", Ints{1, 0, 1}}, {"size", Ints{2, 2, 1}}}),
          Case("everything", {vector({1, 0})}, {vector({1, 0})},
               {{"begin", Ints{0}}, {"size", Ints{-1}}}),
          Case("nothing", {vector({1, 0})}, {zeros({0})}, {{"begin", Ints{2}}, {"size", Ints{-1}}}),
          Case("size one", {vector({0, 1, 2})}, {vector({1})},
               {{"begin", Ints{1}}, {"size", Ints{1}}}),
          Case("a scalar", {scalar(1)}, {scalar(1)}, {{"begin", Ints{}}, {"size", Ints{}}}),
          Case("of an empty one", {zeros({0, 2})}, {zeros({0, 1})},
               {{"begin", Ints{0, 1}}, {"size", Ints{0, 1}}}),
          Case("SliceGradient", "rows", {matrix({{3, 4}}), zeros({3, 2})},
               {matrix({{0, 0}, {3, 4}, {0, 0}})}, {{"begin", Ints{1, 0}}, {"size", Ints{1, 2}}}),
          Case("SliceGradient", "columns", {matrix({{2}, {5}}), zeros({2, 3})},
               {matrix({{0, 0, 2}, {0, 0, 5}})}, {{"begin", Ints{0, 2}}, {"size", Ints{-1, 1}}}),
          Case("SliceGradient", "nothing", {zeros({0}), zeros({2})}, {zeros({2})},
               {{"begin", Ints{2}}, {"size", Ints{-1}}}),
          Case("SliceGradient", "into an empty one", {zeros({0}), zeros({0})}, {zeros({0})},
               {{"begin", Ints{0}}, {"size", Ints{-1}}}),
      },
      {
          Refused({zeros({2, 2})}, "begin 1 and size 2 are not within axis 1 of [2, 2]",
                  {{"begin", Ints{0, 1}}, {"size", Ints{-1, 2}}}),
          Refused({zeros({2, 3})}, "wants a begin and a size for each of 2 dimensions, got 1 and 1",
                  {{"begin", Ints{0}}, {"size", Ints{1}}}),
          Refused({zeros({2, 3})}, "begin 2 and size 2 are not within axis 1 of [2, 3]",
                  {{"begin", Ints{0, 2}}, {"size", Ints{1, 2}}}),
          Refused({zeros({2})}, "begin -1 and size 1 are not within axis 0",
                  {{"begin", Ints{-1}}, {"size", Ints{1}}}),
          Refused({zeros({2})}, "begin 3 and size -1 are not within axis 0 of [2]",
                  {{"begin", Ints{3}}, {"size", Ints{-1}}}),
          Refused("SliceGradient", {zeros({2}), zeros({2, 2})}, "wants as many dimensions",
                  {{"begin", Ints{0, 0}}, {"size", Ints{1, 1}}}),
          Refused("SliceGradient", {zeros({2}), zeros({3})},
                  "dy of shape [2] is not the slice of [3] from 2 with size -1 along axis 0",
                  {{"begin", Ints{2}}, {"size", Ints{-1}}}),
      });
});

// begin, end and strides, then masks by name.
Attrs entries(Ints begin, Ints end, Ints strides = {},
              std::initializer_list<std::pair<const char*, int64_t>> masks = {}) {
  Attrs attrs = {{"begin", std::move(begin)}, {"end", std::move(end)}};
  if (!strides.empty()) attrs.emplace("strides", std::move(strides));
  for (const auto& [name, bits] : masks) attrs.emplace(name, bits);
  return attrs;
}

OpCase cut(std::string name, Tensor x, Attrs attrs, Tensor expected) {
  return Case("StridedSlice", std::move(name), {x}, {expected}, std::move(attrs));
}

OpCase put(std::string name, Tensor dy, Tensor x_like, Attrs attrs, Tensor expected) {
  return Case("StridedSliceGradient", std::move(name), {dy, x_like}, {expected}, std::move(attrs));
}

std::vector<OpCase> lines() {
  const Tensor x = iota({5});
  return {cut("every second", x, entries({0}, {5}, {2}), vector({0, 2, 4})),
          cut("backwards", x, entries({0}, {0}, {-2}, {{"begin_mask", 1}, {"end_mask", 1}}),
              vector({4, 2, 0})),
          cut("backwards to before an end", x, entries({3}, {0}, {-1}), vector({3, 2, 1})),
          cut("from the end", x, entries({-2}, {0}, {1}, {{"end_mask", 1}}), vector({3, 4})),
          cut("past both ends", x, entries({-100}, {100}), x),
          cut("backwards from past the end", x, entries({100}, {0}, {-3}, {{"end_mask", 1}}),
              vector({4, 1})),
          cut("nothing", x, entries({4}, {1}), zeros({0})),
          cut("a stride past the end", x, entries({1}, {5}, {int64_t{1} << 62}), vector({1})),
          cut("the greatest stride backwards", x,
              entries({3}, {0}, {std::numeric_limits<int64_t>::min()}), vector({3})),
          cut("of nothing", zeros({0}), entries({0}, {9}), zeros({0})),
          cut("of nothing, backwards", zeros({0}), entries({9}, {0}, {-1}), zeros({0})),
          cut("size one", vector({1}), entries({0}, {1}), vector({1})),
          cut("a scalar", scalar(1), entries({}, {}), scalar(1)),
          cut("a scalar with new dimensions", scalar(1),
              entries({0, 0}, {0, 0}, {}, {{"new_axis_mask", 3}}), matrix({{1}}))};
}

std::vector<OpCase> boxes() {
  const Tensor x = iota({3, 4}), t = iota({2, 3, 2});
  return {
      cut("rows and every second column", x,
          entries({1, 0}, {3, 0}, {1, 2}, {{"begin_mask", 2}, {"end_mask", 2}}),
          matrix({{4, 6}, {8, 10}})),
      cut("both backwards", x,
          entries({0, 0}, {0, 0}, {-1, -1}, {{"begin_mask", 3}, {"end_mask", 3}}),
          iota({3, 4}, 11, -1)),
      cut("rows in a row", x, entries({1}, {3}), iota({2, 4}, 4)),
      cut("an index", x, entries({1}, {0}, {}, {{"shrink_axis_mask", 1}}), vector({4, 5, 6, 7})),
      cut("an index from the end, of columns", x,
          entries({0, -1}, {0, 0}, {}, {{"end_mask", 1}, {"shrink_axis_mask", 2}}),
          vector({3, 7, 11})),
      cut("an index and a range", x, entries({-1, 1}, {0, 3}, {}, {{"shrink_axis_mask", 1}}),
          vector({9, 10})),
      cut("an ellipsis in front", t,
          entries({0, 1}, {0, 0}, {}, {{"ellipsis_mask", 1}, {"shrink_axis_mask", 2}}),
          iota({2, 3}, 1, 2)),
      cut("an ellipsis at the end", t,
          entries({0, 0}, {0, 0}, {}, {{"ellipsis_mask", 2}, {"shrink_axis_mask", 1}}),
          iota({3, 2})),
      cut("an ellipsis that takes nothing", x,
          entries({1, 0, 1}, {2, 0, 2}, {}, {{"ellipsis_mask", 2}}), matrix({{5}})),
      cut("a new dimension, a range, an ellipsis, an index", t,
          entries({0, 1, 0, 0}, {0, 0, 0, 0}, {},
                  {{"end_mask", 2},
                   {"ellipsis_mask", 4},
                   {"new_axis_mask", 1},
                   {"shrink_axis_mask", 8}}),
          values({1, 1, 3}, {6, 8, 10})),
      cut("backwards, an index, a new dimension", t,
          entries(
              {0, 1, 0}, {0, 0, 0}, {-1, 1, 1},
              {{"begin_mask", 1}, {"end_mask", 1}, {"new_axis_mask", 4}, {"shrink_axis_mask", 2}}),
          values({2, 1, 2}, {8, 9, 2, 3}))};
}

std::vector<OpCase> gradients_of_boxes() {
  return {put("every second", vector({1, 2, 3}), zeros({5}), entries({0}, {5}, {2}),
              vector({1, 0, 2, 0, 3})),
          put("backwards", vector({1, 2}), zeros({5}), entries({3}, {1}, {-1}),
              vector({0, 0, 2, 1, 0})),
          put("an index", vector({1, 2}), zeros({2, 2}),
              entries({-1}, {0}, {}, {{"shrink_axis_mask", 1}}), matrix({{0, 0}, {1, 2}})),
          put("columns", matrix({{1}, {2}}), zeros({2, 3}), entries({0, 1}, {2, 2}),
              matrix({{0, 1, 0}, {0, 2, 0}})),
          put("nothing", zeros({0}), zeros({2}), entries({2}, {2}), zeros({2})),
          put("into nothing", zeros({0}), zeros({0}), entries({0}, {2}), zeros({0}))};
}

const Table strided_slice_table("StridedSlice cuts as NumPy does, and its gradient puts back", [] {
  OpCases all = {.values = lines()};
  for (auto* table : {boxes, gradients_of_boxes})
    for (OpCase& c : table()) all.values.push_back(std::move(c));
  all.errors = {Refused("StridedSlice", {scalar(0)},
                        "takes 1 dimensions, but [] has 0; leave some begins and ends out",
                        entries({1}, {3})),
                Refused("StridedSlice", {zeros({2})},
                        "wants strides other than 0, got 0 along axis 0", entries({0}, {1}, {0})),
                Refused("StridedSlice", {zeros({2})}, "got 1 begins, 2 ends and 0 strides",
                        entries({0}, {1, 2})),
                Refused("StridedSlice", {zeros({2})}, "got 1 begins, 1 ends and 2 strides",
                        entries({0}, {1}, {1, 1})),
                Refused("StridedSlice", {zeros({2})}, "wants at most one ellipsis, got 2",
                        entries({0, 0}, {0, 0}, {}, {{"ellipsis_mask", 3}})),
                Refused("StridedSlice", {zeros({2})},
                        "index 2 is not within axis 0 of [2]; indices go from 0, or from -size",
                        entries({2}, {0}, {}, {{"shrink_axis_mask", 1}})),
                Refused("StridedSlice", {zeros({2})}, "index -3 is not within axis 0 of [2]",
                        entries({-3}, {0}, {}, {{"shrink_axis_mask", 1}})),
                Refused("StridedSlice", {zeros({1, 1, 1, 1, 1, 1, 1, 1})},
                        "would have 9 dimensions; there are at most 8",
                        entries({0}, {0}, {}, {{"new_axis_mask", 1}})),
                Refused("StridedSliceGradient", {zeros({2}), zeros({5})},
                        "wants dy of shape [3], which the slice of [5] has, got [2]",
                        entries({0}, {5}, {2}))};
  return all;
});

}  // namespace

TEST_CASE("whole rows of a strided slice share the memory of x") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{-1, 2});
  const Tensor value = f32(iota({3, 2}));
  const Tensor row = evaluate(strided_slice(x, {1}, {0}, {.shrink_axis_mask = 1}), {{x, value}});
  CHECK(row.data<float>() == value.data<float>() + 2);
}

}  // namespace troupe
