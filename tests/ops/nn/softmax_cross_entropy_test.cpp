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
  return {
      .values =
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
           {.name = "several leading dimensions",
            .op = "SoftmaxCrossEntropy",
            .inputs = {values({2, 1, 2, 3}, {1, 2, 3, 0, 0, 0, -1, 4, 0.5, 1, 2, 3}),
                       i32(values({2, 1, 2}, {2, 0, 1, 2}))},
            .expected = {values({2, 1, 2}, {0.40760596444438013, 1.0986122886681098,
                                            0.03626956512477886, 0.40760596444438013})}},
           {.name = "one row without leading dimensions",
            .op = "SoftmaxCrossEntropy",
            .inputs = {vector({1, 2, 3}), i64(scalar(2))},
            .expected = {scalar(0.40760596444438013)}},
           {.name = "no rows in the last of two leading dimensions",
            .op = "SoftmaxCrossEntropy",
            .inputs = {zeros({2, 0, 3}), zeros({2, 0}, DType::i32)},
            .expected = {zeros({2, 0})}},
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
           {.name = "several leading dimensions",
            .op = "SoftmaxCrossEntropyGradient",
            .inputs = {matrix({{2, -0.5}}), two.reshaped({1, 2, 3}), i32(matrix({{2, 0}}))},
            .expected = {dtwo.reshaped({1, 2, 3})}},
           {.name = "one row without leading dimensions",
            .op = "SoftmaxCrossEntropyGradient",
            .inputs = {scalar(2), vector({1, 2, 3}), i32(scalar(2))},
            .expected = {vector({0.18006114634076092, 0.4894569421095953, -0.6695180884503564})}},
           {.name = "both at once, several leading dimensions",
            .op = "SoftmaxCrossEntropyAndGradient",
            .inputs = {two.reshaped({2, 1, 3}), i32(matrix({{2}, {0}})), matrix({{2}, {-0.5}})},
            .expected = {dtwo.reshaped({2, 1, 3}), loss_of_two.reshaped({2, 1})}},
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
           .message = "and a label for each row, [...], got [2, 3] and [3]"},
          {.op = "SoftmaxCrossEntropyAndGradient",
           .inputs = {zeros({2, 3}), zeros({2}, DType::i32), zeros({3})},
           .message = "wants dloss [...] and logits [..., classes], got [3] and [2, 3]"},
          {.op = "SoftmaxCrossEntropyAndGradient",
           .inputs = {zeros({2, 3}), zeros({2}, DType::i32), zeros({2}, DType::f32)},
           .message = "dloss and logits must have one dtype, got f32 and f64"},
          {.op = "SoftmaxCrossEntropyAndGradient",
           .inputs = {zeros({2, 3}), zeros({2}), zeros({2})},
           .message = "wants labels of i32 or i64, got f64"},
          {.op = "SoftmaxCrossEntropy",
           .inputs = {zeros({2, 3}), zeros({3}, DType::i32)},
           .message = "and a label for each row, [...], got [2, 3] and [3]"},
          {.op = "SoftmaxCrossEntropy",
           .inputs = {zeros({2, 3}), zeros({2, 1}, DType::i32)},
           .message = "; squeeze(labels, {-1}) takes a last dimension of 1 away"},
          {.op = "SoftmaxCrossEntropy",
           .inputs = {zeros({2, 4, 3}), zeros({2, 5}, DType::i32)},
           .message = "and a label for each row, [...], got [2, 4, 3] and [2, 5]"},
          {.op = "SoftmaxCrossEntropy",
           .inputs = {scalar(0), zeros({}, DType::i32)},
           .message = "and a label for each row, [...], got [] and []"},
          {.op = "SoftmaxCrossEntropy",
           .inputs = {zeros({3}), zeros({3}, DType::i32)},
           .message = "wants logits [..., classes] and a label for each row, [...], got "},
          {.op = "SoftmaxCrossEntropy",
           .inputs = {zeros({2, 3}), zeros({2})},
           .message = "wants labels of i32 or i64, got f64; cast them"},
          {.op = "SoftmaxCrossEntropy",
           .inputs = {i32(zeros({2, 3})), zeros({2}, DType::i32)},
           .message = "has no kernel for i32; cast to one of f32, f64"},
          {.op = "SoftmaxCrossEntropyGradient",
           .inputs = {zeros({3}), zeros({2, 3}), zeros({2}, DType::i32)},
           .message = "wants dloss [...] and logits [..., classes], got [3] and [2, 3]"},
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

TEST_CASE("sizes that are not known while building are checked when the step runs") {
  Graph graph;
  const Output logits = placeholder(graph, DType::f64, {-1, -1, 3}),
               labels = placeholder(graph, DType::i64, {2, -1});
  const Output loss = softmax_cross_entropy(logits, labels);
  CHECK(loss.shape() == Shape{2, -1});
  const Tensor x = values({2, 2, 3}, {1, 2, 3, 0, 0, 0, -1, 4, 0.5, 1, 2, 3});
  const Tensor got = evaluate(loss, {{logits, x}, {labels, i64(matrix({{2, 0}, {1, 2}}))}});
  CHECK(difference(got, matrix({{0.40760596444438013, 1.0986122886681098},
                                {0.03626956512477886, 0.40760596444438013}}))
            .value_or("") == "");
  CHECK_THROWS_WITH_AS(evaluate(loss, {{logits, x}, {labels, i64(matrix({{2, 0, 1}, {1, 2, 1}}))}}),
                       doctest::Contains("got [2, 2, 3] and [2, 3]"), Error);
}

}  // namespace troupe
