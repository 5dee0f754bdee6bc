// MatMul: values, transposes, leading dimensions, and oneDNN against the loop.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <thread>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs transposed(bool a, bool b) { return {{"transpose_a", a}, {"transpose_b", b}}; }

OpCases cases() {
  const Tensor a = matrix({{1, 2, 3}, {4, 5, 6}}), b = matrix({{1, 0}, {2, -1}, {0, 3}});
  const Tensor at = matrix({{1, 4}, {2, 5}, {3, 6}}), bt = matrix({{1, 2, 0}, {0, -1, 3}});
  const Tensor c = matrix({{5, 7}, {14, 13}});
  const Tensor two_a = values({2, 1, 2}, {1, 2, 3, 4}), two_b = values({2, 2, 1}, {5, 6, 7, 8});
  return {.values = {{.name = "2x3 by 3x1",
                      .op = "MatMul",
                      .inputs = {a, matrix({{1}, {0}, {-1}})},
                      .expected = {matrix({{-2}, {-2}})}},
                     {.name = "2x3 by 3x2", .op = "MatMul", .inputs = {a, b}, .expected = {c}},
                     {.name = "a transposed",
                      .op = "MatMul",
                      .inputs = {at, b},
                      .attrs = transposed(true, false),
                      .expected = {c}},
                     {.name = "b transposed",
                      .op = "MatMul",
                      .inputs = {a, bt},
                      .attrs = transposed(false, true),
                      .expected = {c}},
                     {.name = "both transposed",
                      .op = "MatMul",
                      .inputs = {at, bt},
                      .attrs = transposed(true, true),
                      .expected = {c}},
                     {.name = "size one",
                      .op = "MatMul",
                      .inputs = {matrix({{3}}), matrix({{-2}})},
                      .expected = {matrix({{-6}})}},
                     {.name = "one batch on both sides",
                      .op = "MatMul",
                      .inputs = {two_a, two_b},
                      .expected = {values({2, 1, 1}, {17, 53})}},
                     {.name = "a batch by one matrix",
                      .op = "MatMul",
                      .inputs = {two_a, matrix({{1, 0}, {10, 1}})},
                      .expected = {values({2, 1, 2}, {21, 2, 43, 4})}},
                     {.name = "one matrix by a batch",
                      .op = "MatMul",
                      .inputs = {matrix({{1, 10}, {0, 1}}), two_b},
                      .expected = {values({2, 2, 1}, {65, 6, 87, 8})}},
                     {.name = "a transposed batch by one matrix",
                      .op = "MatMul",
                      .inputs = {values({2, 2, 1}, {1, 2, 3, 4}), matrix({{1, 0}, {10, 1}})},
                      .attrs = transposed(true, false),
                      .expected = {values({2, 1, 2}, {21, 2, 43, 4})}},
                     {.name = "a batch by one transposed matrix",
                      .op = "MatMul",
                      .inputs = {two_a, matrix({{1, 10}, {0, 1}})},
                      .attrs = transposed(false, true),
                      .expected = {values({2, 1, 2}, {21, 2, 43, 4})}},
                     {.name = "one transposed matrix by a transposed batch",
                      .op = "MatMul",
                      .inputs = {matrix({{1, 0}, {10, 1}}), values({2, 1, 2}, {5, 6, 7, 8})},
                      .attrs = transposed(true, true),
                      .expected = {values({2, 2, 1}, {65, 6, 87, 8})}},
                     {.name = "two leading dimensions",
                      .op = "MatMul",
                      .inputs = {values({2, 2, 1, 1}, {1, 2, 3, 4}),
                                 values({2, 2, 1, 1}, {5, 6, 7, 8})},
                      .expected = {values({2, 2, 1, 1}, {5, 12, 21, 32})}},
                     {.name = "an empty inner dimension gives zeros",
                      .op = "MatMul",
                      .inputs = {zeros({2, 0}), zeros({0, 3})},
                      .expected = {zeros({2, 3})}},
                     {.name = "no rows",
                      .op = "MatMul",
                      .inputs = {zeros({0, 3}), zeros({3, 2})},
                      .expected = {zeros({0, 2})}},
                     {.name = "no batch",
                      .op = "MatMul",
                      .inputs = {zeros({0, 2, 3}), zeros({0, 3, 2})},
                      .expected = {zeros({0, 2, 2})}},
                     {.name = "infinity times zero",
                      .op = "MatMul",
                      .inputs = {matrix({{INFINITY, 1}}), matrix({{0}, {1}})},
                      .expected = {matrix({{NAN}})},
                      .smooth = false},
                     {.name = "i32 wraps around",
                      .op = "MatMul",
                      .inputs = {i32(matrix({{2147483647, 1}})), i32(matrix({{1}, {1}}))},
                      .expected = {i32(matrix({{-2147483648.0}}))},
                      .as_written = true}},
          .errors = {
              {.op = "MatMul",
               .inputs = {zeros({2, 3}), zeros({2, 3})},
               .message = "inner sizes differ: [2, 3] times [2, 3]"},
              {.op = "MatMul",
               .inputs = {zeros({2, 3}), zeros({2, 3})},
               .attrs = transposed(true, true),
               .message = "inner sizes differ: [2, 3] transposed times [2, 3] transposed"},
              {.op = "MatMul",
               .inputs = {zeros({3}), zeros({3, 2})},
               .message = "wants two matrices, got "},
              {.op = "MatMul",
               .inputs = {zeros({2, 1, 3}), zeros({3, 3, 1})},
               .message = "leading dimensions differ: [2, 1, 3] times [3, 3, 1]; make them equal"},
              {.op = "MatMul",
               .inputs = {zeros({1, 2, 1, 3}), zeros({2, 3, 1})},
               .message = "leading dimensions differ: "},
              {.op = "MatMul",
               .inputs = {zeros({2, 2}), zeros({2, 2}, DType::f32)},
               .message = "inputs must have one dtype, got f64 and f32"},
              {.op = "MatMul",
               .inputs = {u8(zeros({2, 2})), u8(zeros({2, 2}))},
               .message = "has no kernel for u8; cast to one of f32, f64, i32, i64"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("MatMul multiplies matrices") { check(cases()); }

TEST_CASE("oneDNN's product is the loop's product, for every transpose and batch") {
  for (const auto& [batch_a, batch_b] : {std::pair{0, 0}, {3, 3}, {3, 0}, {0, 3}})
    for (const auto& [m, k, n] :
         {std::array{1, 16, 16}, {5, 7, 3}, {33, 65, 17}, {64, 130, 530}, {1, 300, 1}})
      for (int transposes = 0; transposes < 4; ++transposes) {
        const bool ta = transposes & 1, tb = transposes & 2;
        std::vector<int64_t> a, b;
        if (batch_a) a.push_back(batch_a);
        if (batch_b) b.push_back(batch_b);
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

TEST_CASE("however a large product is cut, it is the loop's product") {
  // By columns and rows, by columns alone, by rows alone, and with what is left over in each.
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
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      HeapMemory memory;
      for (int round = 0; round < 200; ++round)
        wrong += !same_bits(run_kernel(view, {inputs[i], factor}, memory, {})[0], expected[i]);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace troupe
