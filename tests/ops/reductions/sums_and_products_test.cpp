// ReduceSum, ReduceMean and ReduceProd.
#include <algorithm>
#include <bit>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

std::vector<OpError> refusals() {
  return {Refused({zeros({2, 3})}, "axis 2 is not there: with 2 dimensions, axes go from -2 to 1",
                  over({2})),
          Refused({zeros({2, 3})}, "names axis -1 twice", over({1, -1})),
          Refused({booleans(zeros({2}))}, "has no kernel for bool", over({}))};
}

const Table sum_table("ReduceSum adds in a fixed order", [] {
  return table_of(
      "ReduceSum",
      {
          Case("everything", {matrix({{1, 2, 3}, {4, 5, 6}})}, {scalar(21)}),
          Case("rows", {matrix({{1, 2, 3}, {4, 5, 6}})}, {vector({6, 15})}, over({1})),
          Case("columns", {matrix({{1, 2, 3}, {4, 5, 6}})}, {vector({5, 7, 9})}, over({0})),
          Case("keeping dimensions", {matrix({{1, 2, 3}, {4, 5, 6}})}, {matrix({{6}, {15}})},
               over({-1}, true)),
          Case("in the middle", {values({2, 3, 2}, {1, 5, 2, 6, 3, 4, 9, 0, 7, 8, 11, 10})},
               {matrix({{6, 15}, {27, 18}})}, over({1})),
          Case("first and last", {values({2, 3, 2}, {1, 5, 2, 6, 3, 4, 9, 0, 7, 8, 11, 10})},
               {vector({15, 23, 28})}, over({0, 2})),
          Case("first and last, keeping dimensions",
               {values({2, 3, 2}, {1, 5, 2, 6, 3, 4, 9, 0, 7, 8, 11, 10})},
               {values({1, 3, 1}, {15, 23, 28})}, over({0, -1}, true)),
          Case("size one", {vector({1.5})}, {scalar(1.5)}, over({0})),
          Case("a scalar", {scalar(2)}, {scalar(2)}),
          Case("a long row", {full({5000}, 1)}, {scalar(5000)}).rough(),
          Case("a long column", {full({100, 3}, 1)}, {full({3}, 100)}, over({0})).once(),
          Case("nothing", {zeros({0})}, {scalar(0)}),
          Case("rows of nothing", {zeros({2, 0})}, {zeros({2})}, over({1})),
          Case("no rows", {zeros({0, 2})}, {zeros({0})}, over({1})),
          Case("infinities", {vector({INFINITY, -INFINITY})}, {scalar(NAN)}).rough(),
          Case("i32 wraps around", {i32(vector({2147483647, 1}))}, {i32(scalar(-2147483648.0))})
              .as_typed(),
      },
      refusals());
});

const Table mean_table("ReduceMean divides the sum by the number of elements", [] {
  return table_of(
      "ReduceMean",
      {
          Case("everything", {matrix({{1, 2, 3}, {4, 5, 6}})}, {scalar(3.5)}),
          Case("rows", {matrix({{1, 2, 3}, {4, 5, 6}})}, {vector({2, 5})}, over({1})),
          Case("columns", {matrix({{1, 2, 3}, {4, 5, 6}})}, {vector({2.5, 3.5, 4.5})}, over({0})),
          Case("keeping dimensions", {matrix({{1, 2, 3}, {4, 5, 6}})}, {matrix({{2}, {5}})},
               over({-1}, true)),
          Case("first and last", {values({2, 3, 2}, {1, 5, 2, 6, 3, 4, 9, 0, 7, 8, 11, 10})},
               {vector({3.75, 5.75, 7})}, over({0, 2})),
          Case("size one", {vector({1.5})}, {scalar(1.5)}, over({0})),
          Case("nothing", {zeros({0})}, {scalar(NAN)}),
          Case("no rows", {zeros({0, 2})}, {zeros({0})}, over({1})),
      },
      refusals());
});

const Table product_table("ReduceProd multiplies, and its gradient minds zeros", [] {
  const Tensor box = values({2, 3, 2}, {1, 5, 2, 6, 3, 4, 9, 0, 7, 8, 11, 10});
  return table_of(
      "ReduceProd",
      {
          Case("everything", {matrix({{1, 2, 3}, {4, 5, -6}})}, {scalar(-720)}),
          Case("rows", {matrix({{1, 3, 2}, {6, 5, 0.5}})}, {vector({6, 15})}, over({1})),
          Case("columns", {matrix({{1, 5, 3}, {4, 2, 6}})}, {vector({4, 10, 18})}, over({0})),
          Case("keeping dimensions", {matrix({{1, 3, 2}, {6, 5, 4}})}, {matrix({{6}, {120}})},
               over({-1}, true)),
          Case("first and last, with a zero", {box}, {vector({0, 672, 1320})}, over({0, 2})),
          Case("last and first, kept", {box}, {values({1, 3, 1}, {0, 672, 1320})},
               over({-1, 0}, true)),
          Case("the one between", {box}, {matrix({{6, 120}, {693, 0}})}, over({1})),
          Case("one zero, two and three", {matrix({{2, 0, 3}, {0, 0, 5}, {0, 0, 0}})},
               {vector({0, 0, 0})}, over({1})),
          Case("zeros everywhere", {matrix({{2, 0}, {0, 3}})}, {scalar(0)}),
          Case("size one", {vector({1.5})}, {scalar(1.5)}, over({0})),
          Case("a scalar", {scalar(1.5)}, {scalar(1.5)}),
          Case("nothing to multiply", {zeros({2, 0})}, {vector({1, 1})}, over({1})),
          Case("no rows", {zeros({0, 2})}, {zeros({0})}, over({1})),
          Case("too large", {matrix({{1e200, 1e200}, {INFINITY, -2}, {INFINITY, 0}, {NAN, 0}})},
               {vector({INFINITY, -INFINITY, NAN, NAN})}, over({1}))
              .rough(),
          Case("i32 wraps around", {i32(vector({65536, 32768, 3}))}, {i32(scalar(-2147483648.0))})
              .as_typed(),
      },
      refusals());
});

// The sum of 16 to 256 numbers in the order that ops/reductions/reduce.hpp specifies: first 16
// partial sums of every 16th number, then a tree over them.
float tree_sum(const float* x, int64_t n) {
  float parts[16];
  std::copy_n(x, 16, parts);
  for (int64_t i = 16; i < n; ++i) parts[i % 16] += x[i];
  for (int width = 8; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) parts[j] += parts[j + width];
  return parts[0];
}

}  // namespace

TEST_CASE("a short row's sum has the bits of its tree, however many rows there are") {
  for (const int64_t n : {16, 17, 23, 24, 25, 31, 32, 40, 47, 255, 256})
    for (const int64_t rows : {1, 3, 4, 5, 8, 11}) {
      std::vector<float> numbers(static_cast<size_t>(rows * n));
      for (size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = std::sin(static_cast<float>(i * i)) * std::exp2(static_cast<float>(i % 13));
      std::fill_n(numbers.end() - n, n, -0.0F);  // their sum is -0
      Graph graph;
      const Output x = placeholder(graph, DType::f32, Shape{rows, n});
      const Tensor sums =
          evaluate(reduce_sum(x, {.axes = {1}}), {{x, Tensor::of<float>(numbers, {rows, n})}});
      for (int64_t r = 0; r < rows; ++r) {
        CAPTURE(n);
        CAPTURE(r);
        CHECK(std::bit_cast<uint32_t>(sums.data<float>()[r]) ==
              std::bit_cast<uint32_t>(tree_sum(numbers.data() + r * n, n)));
      }
    }
}

TEST_CASE("an f32 sum of a million numbers keeps its digits") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{1000, 1000});
  const Tensor tenth = f32(full({1000, 1000}, 0.1));
  CHECK(evaluate(reduce_sum(x), {{x, tenth}}).item<float>() ==
        doctest::Approx(100000).epsilon(1e-6));
  const Tensor columns = evaluate(reduce_sum(x, {.axes = {0}}), {{x, tenth}});
  CHECK(columns.data<float>()[999] == doctest::Approx(100).epsilon(1e-6));
}

TEST_CASE("a zero leaves the product of the others as its gradient") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{2, 2});
  const Output dx = gradients({reduce_prod(x)}, {x})[0];
  CHECK(!difference(evaluate(dx, {{x, matrix({{2, 0}, {3, 5}})}}), matrix({{0, 30}, {0, 0}})));
  CHECK(!difference(evaluate(dx, {{x, matrix({{2, 0}, {0, 5}})}}), zeros({2, 2})));
}

}  // namespace troupe
