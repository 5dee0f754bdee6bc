// SoftmaxCrossEntropy on integer labels, and its gradient.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  const Tensor logits = matrix({{1, 2, 3}, {0, 0, 0}, {-1, 4, 0.5}});
  const Tensor loss = vector({0.40760596444438013, 1.0986122886681098, 0.03626956512477886});
  const Tensor two = matrix({{1, 2, 3}, {-1, 4, 0.5}});
  const Tensor dtwo = matrix({{0.18006114634076092, 0.4894569421095953, -0.6695180884503564},
                              {0.49675102834216905, -0.4821901475734298, -0.0145608807687392}});
  const Tensor loss_of_two = vector({0.40760596444438013, 5.036269565124779});
  return {.values =
              {{.name = "three rows",
                .op = "SoftmaxCrossEntropy",
                .inputs = {logits, i32(vector({2, 0, 1}))},
                .expected = {loss}},
               {.name = "i64 labels",
                .op = "SoftmaxCrossEntropy",
                .inputs = {logits, i64(vector({2, 0, 1}))},
                .expected = {loss}},
               {.name = "one class",
                .op = "SoftmaxCrossEntropy",
                .inputs = {matrix({{5}}), i32(vector({0}))},
                .expected = {vector({0})}},
               {.name = "sure and wrong, sure and right",
                .op = "SoftmaxCrossEntropy",
                .inputs = {matrix({{400, -400}, {400, -400}, {-1000, 0}}), i32(vector({1, 0, 1}))},
                .expected = {vector({800, 0, 0})}},
               {.name = "an impossible class",
                .op = "SoftmaxCrossEntropy",
                .inputs = {matrix({{-INFINITY, 0}, {-INFINITY, 0}}), i32(vector({0, 1}))},
                .expected = {vector({INFINITY, 0})},
                .smooth = false},
               {.name = "no rows",
                .op = "SoftmaxCrossEntropy",
                .inputs = {zeros({0, 3}), zeros({0}, DType::i32)},
                .expected = {zeros({0})}},
               {.name = "no rows and no classes",
                .op = "SoftmaxCrossEntropy",
                .inputs = {zeros({0, 0}), zeros({0}, DType::i32)},
                .expected = {zeros({0})}},
               {.name = "probabilities less the label",
                .op = "SoftmaxCrossEntropyGradient",
                .inputs = {vector({2, -0.5}), two, i32(vector({2, 0}))},
                .expected = {dtwo}},
               {.name = "i64 labels",
                .op = "SoftmaxCrossEntropyGradient",
                .inputs = {vector({2, -0.5}), two, i64(vector({2, 0}))},
                .expected = {dtwo}},
               {.name = "one class",
                .op = "SoftmaxCrossEntropyGradient",
                .inputs = {vector({3}), matrix({{5}}), i32(vector({0}))},
                .expected = {matrix({{0}})}},
               {.name = "sure",
                .op = "SoftmaxCrossEntropyGradient",
                .inputs = {vector({1, 1}), matrix({{400, -400}, {400, -400}}), i32(vector({1, 0}))},
                .expected = {matrix({{1, -1}, {0, 0}})}},
               {.name = "no rows",
                .op = "SoftmaxCrossEntropyGradient",
                .inputs = {zeros({0}), zeros({0, 3}), zeros({0}, DType::i32)},
                .expected = {zeros({0, 3})}},
               {.name = "both at once",
                .op = "SoftmaxCrossEntropyAndGradient",
                .inputs = {two, i32(vector({2, 0})), vector({2, -0.5})},
                .expected = {dtwo, loss_of_two}},
               {.name = "both at once, i64 labels",
                .op = "SoftmaxCrossEntropyAndGradient",
                .inputs = {two, i64(vector({2, 0})), vector({2, -0.5})},
                .expected = {dtwo, loss_of_two}},
               {.name = "both of no rows",
                .op = "SoftmaxCrossEntropyAndGradient",
                .inputs = {zeros({0, 3}), zeros({0}, DType::i32), zeros({0})},
                .expected = {zeros({0, 3}), zeros({0})}}},
          .errors = {
              {.op = "SoftmaxCrossEntropyAndGradient",
               .inputs = {zeros({2, 3}), zeros({3}, DType::i32), zeros({2})},
               .message = "the logits are 2 rows and the labels 3: [2, 3] with [3]"},
              {.op = "SoftmaxCrossEntropyAndGradient",
               .inputs = {zeros({2, 3}), zeros({2}, DType::i32), zeros({3})},
               .message = "wants dloss [batch] and logits [batch, classes], got [3] and [2, 3]"},
              {.op = "SoftmaxCrossEntropyAndGradient",
               .inputs = {zeros({2, 3}), zeros({2}, DType::i32), zeros({2}, DType::f32)},
               .message = "dloss and logits must have one dtype, got f32 and f64"},
              {.op = "SoftmaxCrossEntropyAndGradient",
               .inputs = {zeros({2, 3}), zeros({2}), zeros({2})},
               .message = "wants labels of i32 or i64, got f64"},
              {.op = "SoftmaxCrossEntropy",
               .inputs = {zeros({2, 3}), zeros({3}, DType::i32)},
               .message = "the logits are 2 rows and the labels 3: [2, 3] with [3]"},
              {.op = "SoftmaxCrossEntropy",
               .inputs = {zeros({3}), zeros({3}, DType::i32)},
               .message = "wants logits [batch, classes] and labels [batch], got "},
              {.op = "SoftmaxCrossEntropy",
               .inputs = {zeros({2, 3}), zeros({2})},
               .message = "wants labels of i32 or i64, got f64; cast them"},
              {.op = "SoftmaxCrossEntropy",
               .inputs = {i32(zeros({2, 3})), zeros({2}, DType::i32)},
               .message = "has no kernel for i32; cast to one of f32, f64"},
              {.op = "SoftmaxCrossEntropyGradient",
               .inputs = {zeros({3}), zeros({2, 3}), zeros({2}, DType::i32)},
               .message = "wants dloss [batch] and logits [batch, classes], got [3] and [2, 3]"},
              {.op = "SoftmaxCrossEntropyGradient",
               .inputs = {zeros({2}, DType::f32), zeros({2, 3}), zeros({2}, DType::i32)},
               .message = "dloss and logits must have one dtype, got f32 and f64"},
              {.op = "SoftmaxCrossEntropyGradient",
               .inputs = {zeros({2}), zeros({2, 3}), zeros({2})},
               .message = "wants labels of i32 or i64, got f64"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("SoftmaxCrossEntropy is the surprise at the label") { check(cases()); }

TEST_CASE("a label out of range is an error that names row and label") {
  Graph graph;
  const Output logits = constant(graph, f32(zeros({2, 3})));
  for (const auto& [labels, text] :
       {std::pair{i32(vector({0, 3})), "row 1 has the label 3, but there are 3 classes"},
        {i64(vector({-1, 0})), "row 0 has the label -1, but there are 3 classes"}}) {
    const Output loss = softmax_cross_entropy(logits, constant(graph, labels));
    CHECK_THROWS_WITH_AS(evaluate(loss), doctest::Contains(text), Error);
    CHECK_THROWS_WITH_AS(evaluate(gradients({loss}, {logits})[0]), doctest::Contains(text), Error);
  }
}

}  // namespace troupe
