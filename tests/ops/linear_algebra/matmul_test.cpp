// MatMul: values, transposes, leading dimensions, and oneDNN against the loop.
#include <array>
#include <atomic>

#include "graph/op.hpp"
#include "ops/linear_algebra/tiny_products.hpp"
#include "tests/support/op_cases.hpp"
#include "tests/support/threads.hpp"

namespace troupe {
namespace {

Attrs transposed(bool a, bool b) { return {{"transpose_a", a}, {"transpose_b", b}}; }

const Table table("MatMul multiplies matrices", [] {
  const Tensor a = matrix({{1, 2, 3}, {4, 5, 6}}), b = matrix({{1, 0}, {2, -1}, {0, 3}});
  const Tensor at = matrix({{1, 4}, {2, 5}, {3, 6}}), bt = matrix({{1, 2, 0}, {0, -1, 3}});
  const Tensor c = matrix({{5, 7}, {14, 13}});
  const Tensor two_a = values({2, 1, 2}, {1, 2, 3, 4}), two_b = values({2, 2, 1}, {5, 6, 7, 8});
  return table_of(
      "MatMul",
      {Case("2x3 by 3x1", {a, matrix({{1}, {0}, {-1}})}, {matrix({{-2}, {-2}})}),
       Case("2x3 by 3x2", {a, b}, {c}),
       Case("a transposed", {at, b}, {c}, transposed(true, false)),
       Case("b transposed", {a, bt}, {c}, transposed(false, true)),
       Case("both transposed", {at, bt}, {c}, transposed(true, true)),
       Case("size one", {matrix({{3}}), matrix({{-2}})}, {matrix({{-6}})}),
       Case("one batch on both sides", {two_a, two_b}, {values({2, 1, 1}, {17, 53})}),
       Case("a batch by one matrix", {two_a, matrix({{1, 0}, {10, 1}})},
            {values({2, 1, 2}, {21, 2, 43, 4})}),
       Case("one matrix by a batch", {matrix({{1, 10}, {0, 1}}), two_b},
            {values({2, 2, 1}, {65, 6, 87, 8})}),
       Case("a transposed batch by one matrix",
            {values({2, 2, 1}, {1, 2, 3, 4}), matrix({{1, 0}, {10, 1}})},
            {values({2, 1, 2}, {21, 2, 43, 4})}, transposed(true, false)),
       Case("a batch by one transposed matrix", {two_a, matrix({{1, 10}, {0, 1}})},
            {values({2, 1, 2}, {21, 2, 43, 4})}, transposed(false, true)),
       Case("one transposed matrix by a transposed batch",
            {matrix({{1, 0}, {10, 1}}), values({2, 1, 2}, {5, 6, 7, 8})},
            {values({2, 2, 1}, {65, 6, 87, 8})}, transposed(true, true)),
       Case("two leading dimensions",
            {values({2, 2, 1, 1}, {1, 2, 3, 4}), values({2, 2, 1, 1}, {5, 6, 7, 8})},
            {values({2, 2, 1, 1}, {5, 12, 21, 32})}),
       Case("a 1 beside several, on both sides",
            {values({2, 1, 1, 2}, {1, 2, 3, 4}), values({1, 3, 2, 1}, {1, 2, 3, 4, 5, 6})},
            {values({2, 3, 1, 1}, {5, 11, 17, 11, 25, 39})}),
       Case("a 1 beside several, both transposed",
            {values({2, 1, 2, 1}, {1, 2, 3, 4}), values({3, 1, 2}, {1, 2, 3, 4, 5, 6})},
            {values({2, 3, 1, 1}, {5, 11, 17, 11, 25, 39})}, transposed(true, true)),
       Case("fewer leading dimensions than the other side",
            {values({2, 1, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
             values({3, 2, 2}, {-3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8})},
            {values({2, 3, 2, 2}, {-5,  -2,  -13, -6,  7,  10, 15, 22, 19, 22, 43, 50,
                                   -21, -10, -29, -14, 23, 34, 31, 46, 67, 78, 91, 106})}),
       Case("one product by a batch",
            {values({1, 1, 2}, {1, 2}), values({3, 2, 1}, {1, 2, 3, 4, 5, 6})},
            {values({3, 1, 1}, {5, 11, 17})}),
       Case("a batch by a batch of one",
            {values({3, 1, 2}, {1, 2, 3, 4, 5, 6}), values({1, 2, 2}, {1, 0, 10, 1})},
            {values({3, 1, 2}, {21, 2, 43, 4, 65, 6})}),
       Case("one side has the outer, the other the inner dimension",
            {values({2, 1, 2, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
             values({3, 1, 2, 1}, {1, 2, 3, 4, 5, 6})},
            {values({2, 3, 2, 1, 1}, {5, 11, 11, 25, 17, 39, 17, 23, 39, 53, 61, 83})}),
       Case("a 1 beside nothing", {zeros({0, 1, 2}), zeros({1, 2, 1})}, {zeros({0, 1, 1})}),
       Case("an empty inner dimension of products that broadcast",
            {zeros({2, 1, 1, 0}), zeros({3, 0, 1})}, {zeros({2, 3, 1, 1})}),
       Case("i32 of products that broadcast",
            {i32(values({2, 1, 1, 1}, {3, 4})), i32(values({2, 1, 1}, {5, 1073741824}))},
            {i32(values({2, 2, 1, 1}, {15, -1073741824, 20, 0}))})
           .as_typed(),
       Case("an empty inner dimension gives zeros", {zeros({2, 0}), zeros({0, 3})},
            {zeros({2, 3})}),
       Case("no rows", {zeros({0, 3}), zeros({3, 2})}, {zeros({0, 2})}),
       Case("no batch", {zeros({0, 2, 3}), zeros({0, 3, 2})}, {zeros({0, 2, 2})}),
       Case("infinity times zero", {matrix({{INFINITY, 1}}), matrix({{0}, {1}})}, {matrix({{NAN}})})
           .rough(),
       Case("i32 wraps around", {i32(matrix({{2147483647, 1}})), i32(matrix({{1}, {1}}))},
            {i32(matrix({{-2147483648.0}}))})
           .as_typed()},
      {
          Refused({zeros({2, 3}), zeros({2, 3})}, "inner sizes differ: [2, 3] times [2, 3]"),
          Refused({zeros({2, 3}), zeros({2, 3})},
                  "inner sizes differ: [2, 3] transposed times [2, 3] transposed",
                  transposed(true, true)),
          Refused({zeros({3}), zeros({3, 2})}, "wants two matrices, got "),
          Refused({zeros({2, 1, 3}), zeros({3, 3, 1})},
                  "leading dimensions do not broadcast: [2, 1, 3] times [3, 3, 1]; from the "
                  "last one on, sizes must agree or one of them be 1"),
          Refused({zeros({2, 3, 1, 3}), zeros({2, 3, 1})}, "leading dimensions do not broadcast: "),
          Refused({zeros({0, 1, 3}), zeros({2, 3, 1})}, "leading dimensions do not broadcast: "),
          Refused({zeros({2, 2}), zeros({2, 2}, DType::f32)},
                  "inputs must have one dtype, got f64 and f32"),
          Refused({u8(zeros({2, 2})), u8(zeros({2, 2}))},
                  "has no kernel for u8; cast to one of f32, f64, i32, i64"),
      });
});

// Odd numbers from -7 to 7, unordered: no product is a zero of either sign.
Tensor odd_numbers(const Shape& shape, uint32_t salt) {
  std::vector<int64_t> numbers(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = int64_t{(static_cast<uint32_t>(i) + salt) * 2654435761u >> 29} * 2 - 7;
  return Tensor::of<int64_t>(numbers, shape);
}

}  // namespace

TEST_CASE("oneDNN's product is the loop's product, for every transpose and batch") {
  using Sizes = Ints;
  const std::pair<Sizes, Sizes> batches[] = {
      {{}, {}},      {{3}, {3}},       {{3}, {}},        {{}, {3}},           {{2, 1}, {3}},
      {{2, 3}, {3}}, {{3, 2}, {3, 1}}, {{1, 2}, {3, 1}}, {{2, 1, 2}, {3, 1}}, {{1, 1}, {2}},
  };
  for (const auto& [batch_a, batch_b] : batches)
    for (const auto& [m, k, n] :
         {std::array{1, 16, 16}, {5, 7, 3}, {33, 65, 17}, {64, 130, 530}, {1, 300, 1}})
      for (int transposes = 0; transposes < 4; ++transposes) {
        const bool ta = transposes & 1, tb = transposes & 2;
        Sizes a = batch_a, b = batch_b;
        a.insert(a.end(), {ta ? k : m, ta ? m : k});
        b.insert(b.end(), {tb ? n : k, tb ? k : n});
        Graph graph;
        const Tensor x = waves(Shape(a), 0.1), y = waves(Shape(b), 0.2);
        const auto product = [&](DType dtype) {
          return evaluate(matmul(constant(graph, converted(x, dtype)),
                                 constant(graph, converted(y, dtype)),
                                 {.transpose_a = ta, .transpose_b = tb}));
        };
        CAPTURE(Shape(a));
        CAPTURE(Shape(b));
        CAPTURE(transposes);
        CHECK(difference(product(DType::f32), f32(product(DType::f64)), 2e-5).value_or("") == "");
      }
}

TEST_CASE("products with a tiny dimension are those of the loop of integers, which are exact") {
  using Sizes = Ints;
  const std::pair<Sizes, Sizes> batches[] = {{{}, {}},      {{5}, {5}},      {{3}, {}},
                                             {{}, {3}},     {{2, 1}, {3}},   {{700}, {700}},
                                             {{4}, {1, 4}}, {{3, 2}, {3, 1}}};
  int64_t looped = 0;
  for (const auto& [batch_a, batch_b] : batches)
    for (const auto& [m, k, n] : {std::array{1, 1, 1},
                                  {1, 100, 6},
                                  {6, 100, 1},
                                  {6, 1, 100},
                                  {100, 6, 1},
                                  {1, 6, 37},
                                  {4, 4, 4},
                                  {8, 8, 8},
                                  {2, 3, 5},
                                  {7, 19, 3},
                                  {3, 31, 8},
                                  {8, 12, 3},
                                  {21, 5, 2},
                                  {2, 5, 21},
                                  {1, 28, 33},
                                  {9, 3, 11},
                                  {3, 17, 9}})
      for (int transposes = 0; transposes < 4; ++transposes) {
        const bool ta = transposes & 1, tb = transposes & 2;
        Sizes a = batch_a, b = batch_b;
        a.insert(a.end(), {ta ? k : m, ta ? m : k});
        b.insert(b.end(), {tb ? n : k, tb ? k : n});
        // Sums stay below 2^24, so f32 holds each of them.
        const Tensor x = odd_numbers(Shape(a), 1), y = odd_numbers(Shape(b), 2);
        const auto product = [&](DType dtype) {
          Graph graph;
          return evaluate(matmul(constant(graph, converted(x, dtype)),
                                 constant(graph, converted(y, dtype)),
                                 {.transpose_a = ta, .transpose_b = tb}));
        };
        CAPTURE(Shape(a));
        CAPTURE(Shape(b));
        CAPTURE(transposes);
        const Tensor expected = converted(product(DType::i64), DType::f64);
        CHECK(same_bits(converted(product(DType::f32), DType::f64), expected));
        CHECK(same_bits(product(DType::f64), expected));
        looped += are_tiny<float>(products_of({Shape(a), ta}, {Shape(b), tb})) ? 1 : 0;
      }
  CHECK(looped > 200);
}

TEST_CASE("small products and those of vectors are for loops, by their sizes alone") {
  const auto tiny = [](const Shape& a, const Shape& b) {
    return are_tiny<float>(products_of({a, false}, {b, false}));
  };
  CHECK(tiny({256, 6, 100}, {256, 100, 1}));
  CHECK(tiny({256, 6, 1}, {256, 1, 100}));
  CHECK(tiny({2, 8, 8}, {2, 8, 8}));
  CHECK_FALSE(tiny({2, 8, 8}, {2, 8, 9}));
  CHECK_FALSE(tiny({6, 100}, {100, 1}));  // alone
  CHECK_FALSE(tiny({256, 1, 1024}, {256, 1024, 1024}));
  CHECK(are_tiny<double>(products_of({{1024, 100}, false}, {{100, 8}, false})));
  CHECK_FALSE(are_tiny<double>(products_of({{64, 64}, false}, {{64, 9}, false})));
}

TEST_CASE("however a large product is cut, it is the loop's product") {
  // Cut by columns and rows, by columns only, by rows only, and with a remainder in each.
  for (const auto& [m, k, n] : {std::array{530, 16, 1100},
                                {64, 140, 600},
                                {3, 1500, 1030},
                                {130, 40, 1030},
                                {300, 150, 100},
                                {70, 70, 1040}})
    for (int transposes = 0; transposes < 4; ++transposes) {
      const bool ta = transposes & 1, tb = transposes & 2;
      const Tensor a = waves(ta ? Shape{k, m} : Shape{m, k}, 0.1);
      const Tensor b = waves(tb ? Shape{n, k} : Shape{k, n}, 0.2);
      const auto product = [&](DType dtype) {
        Graph graph;
        return evaluate(matmul(constant(graph, converted(a, dtype)),
                               constant(graph, converted(b, dtype)),
                               {.transpose_a = ta, .transpose_b = tb}));
      };
      CAPTURE(a.shape());
      CAPTURE(b.shape());
      CAPTURE(transposes);
      CHECK(difference(product(DType::f32), f32(product(DType::f64)), 5e-5).value_or("") == "");
    }
}

TEST_CASE("inner sizes that are not known while building are checked when the step runs") {
  Graph graph;
  const Output a = placeholder(graph, DType::f32, {2, -1}),
               b = placeholder(graph, DType::f32, {-1, 4});
  const Output c = matmul(a, b);
  CHECK(c.shape() == Shape{2, 4});
  const FedValues feeds = {{a, f32(zeros({2, 3}))}, {b, f32(zeros({5, 4}))}};
  const doctest::Contains refusal("inner sizes differ: [2, 3] times [5, 4]");
  CHECK_THROWS_WITH_AS(evaluate(c, feeds), refusal, Error);
  for (const auto& device : accelerators())
    CHECK_THROWS_WITH_AS(evaluate_on(*device, graph, {c}, feeds), refusal, Error);
}

TEST_CASE("leading sizes that are not known while building broadcast when the step runs") {
  Graph graph;
  const Output a = placeholder(graph, DType::f64, {-1, 2, 1, 2}),
               b = placeholder(graph, DType::f64, {-1, 2, 1});
  const Output c = matmul(a, b);
  CHECK(c.shape() == Shape{-1, 2, 1, 1});
  const Output unknown =
      matmul(placeholder(graph, DType::f64, {-1, 1, 2}), placeholder(graph, DType::f64, {1, 2, 1}));
  CHECK(unknown.shape() == Shape{-1, 1, 1});
  const std::vector<Output> slopes = gradients({reduce_sum(c)}, {a, b});
  const Tensor x = values({1, 2, 1, 2}, {1, 2, 3, 4}), one = values({1, 2, 1}, {5, 6}),
               two = values({2, 2, 1}, {5, 6, 7, 8});
  // The same as with known shapes, by hand: 1 * 5 + 2 * 6, 3 * 5 + 4 * 6; 1 * 5 + 2 * 6, 3 * 7 + 4
  // * 8.
  const auto is = [](const Tensor& got, const Tensor& expected) {
    CHECK(difference(got, expected).value_or("") == "");
  };
  is(evaluate(c, {{a, x}, {b, one}}), values({1, 2, 1, 1}, {17, 39}));
  is(evaluate(c, {{a, x}, {b, two}}), values({1, 2, 1, 1}, {17, 53}));
  is(evaluate(slopes[0], {{a, x}, {b, one}}), values({1, 2, 1, 2}, {5, 6, 5, 6}));
  is(evaluate(slopes[1], {{a, x}, {b, one}}), values({1, 2, 1}, {4, 6}));
  is(evaluate(slopes[1], {{a, x}, {b, two}}), values({2, 2, 1}, {1, 2, 3, 4}));
  CHECK_THROWS_WITH_AS(evaluate(c, {{a, x}, {b, zeros({3, 2, 1})}}),
                       doctest::Contains("leading dimensions do not broadcast: [1, 2, 1, 2] times"),
                       Error);
}

TEST_CASE("firings of one node on several threads, of several shapes, do not disturb each other") {
  Graph graph;
  const Output a = placeholder(graph, DType::f32, {-1, 96}),
               b = placeholder(graph, DType::f32, {96, 80});
  const Output c = matmul(a, b);
  const Node& node = graph.node(c.node);
  const NodeView view = NodeView::make(node, *find_kernel(node, DeviceKind::cpu));
  const Tensor factor = f32(waves({96, 80}, 0.5));
  std::vector<Tensor> inputs, expected;
  for (int i = 0; i < 4; ++i) {
    inputs.push_back(f32(waves({40 + 8 * (i % 2), 96}, i)));
    expected.push_back(evaluate(c, {{a, inputs.back()}, {b, factor}}));
  }
  std::atomic<int> wrong = 0;
  on_threads(4, [&](size_t i) {
    HeapMemory memory;
    for (int round = 0; round < 200; ++round)
      wrong += !same_bits(run_kernel(view, {inputs[i], factor}, memory, {})[0], expected[i]);
  });
  CHECK(wrong == 0);
}

}  // namespace troupe
