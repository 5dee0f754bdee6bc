// Softmax over the last dimension; SoftmaxCrossEntropy on integer labels, and its gradient.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Table softmax_table("Softmax turns logits into probabilities", [] {
  const double a = 0.09003057317038046, b = 0.24472847105479764, c = 0.6652409557748218;
  return table_of(
      "Softmax",
      {Case("a row", {vector({1, 2, 3})}, {vector({a, b, c})}),
       Case("each row by itself", {matrix({{1, 2, 3}, {10, 12, 11}})},
            {matrix({{a, b, c}, {a, c, b}})}),
       Case("three dimensions", {values({2, 1, 2}, {0, 0, 5, 5})}, {full({2, 1, 2}, 0.5)}),
       Case("one class", {matrix({{-7}})}, {matrix({{1}})}),
       Case("more than a vector register, and a rest", {full({2, 37}, -3)},
            {full({2, 37}, 1.0 / 37)}),
       Case("800 and -800", {matrix({{800, -800}, {-800, -800}, {800, 800}})},
            {matrix({{1, 0}, {0.5, 0.5}, {0.5, 0.5}})})
           .rough(),
       Case("impossible classes", {vector({-INFINITY, 0, -INFINITY})}, {vector({0, 1, 0})}).rough(),
       Case("NaN spreads in its row only", {matrix({{NAN, 1}, {1, 1}})},
            {matrix({{NAN, NAN}, {0.5, 0.5}})})
           .rough(),
       Case("no rows", {zeros({0, 3})}, {zeros({0, 3})}),
       Case("no classes", {zeros({3, 0})}, {zeros({3, 0})})},
      {Refused({scalar(1)}, "wants logits [..., classes], got a scalar"),
       Refused({i32(vector({1}))}, "has no kernel for i32; cast to one of f32, f64")});
});

const Table softmax_cross_entropy_table("SoftmaxCrossEntropy is the surprise at the label", [] {
  const Tensor logits = matrix({{1, 2, 3}, {0, 0, 0}, {-1, 4, 0.5}});
  const Tensor loss = vector({0.40760596444438013, 1.0986122886681098, 0.03626956512477886});
  const Tensor two = matrix({{1, 2, 3}, {-1, 4, 0.5}});
  const Tensor dtwo = matrix({{0.18006114634076092, 0.4894569421095953, -0.6695180884503564},
                              {0.49675102834216905, -0.4821901475734298, -0.0145608807687392}});
  const Tensor loss_of_two = vector({0.40760596444438013, 5.036269565124779});
  return table_of(
      "SoftmaxCrossEntropy",
      {Case("three rows", {logits, i32(vector({2, 0, 1}))}, {loss}),
       Case("i64 labels", {logits, i64(vector({2, 0, 1}))}, {loss}),
       Case("one class", {matrix({{5}}), i32(vector({0}))}, {vector({0})}),
       Case("sure and wrong, sure and right",
            {matrix({{400, -400}, {400, -400}, {-1000, 0}}), i32(vector({1, 0, 1}))},
            {vector({800, 0, 0})}),
       Case("an impossible class", {matrix({{-INFINITY, 0}, {-INFINITY, 0}}), i32(vector({0, 1}))},
            {vector({INFINITY, 0})})
           .rough(),
       Case("no rows", {zeros({0, 3}), zeros({0}, DType::i32)}, {zeros({0})}),
       Case("several leading dimensions",
            {values({2, 1, 2, 3}, {1, 2, 3, 0, 0, 0, -1, 4, 0.5, 1, 2, 3}),
             i32(values({2, 1, 2}, {2, 0, 1, 2}))},
            {values({2, 1, 2}, {0.40760596444438013, 1.0986122886681098, 0.03626956512477886,
                                0.40760596444438013})}),
       Case("one row without leading dimensions", {vector({1, 2, 3}), i64(scalar(2))},
            {scalar(0.40760596444438013)}),
       Case("no rows in the last of two leading dimensions",
            {zeros({2, 0, 3}), zeros({2, 0}, DType::i32)}, {zeros({2, 0})}),
       Case("no rows and no classes", {zeros({0, 0}), zeros({0}, DType::i32)}, {zeros({0})}),
       Case("SoftmaxCrossEntropyGradient", "probabilities less the label",
            {vector({2, -0.5}), two, i32(vector({2, 0}))}, {dtwo}),
       Case("SoftmaxCrossEntropyGradient", "i64 labels",
            {vector({2, -0.5}), two, i64(vector({2, 0}))}, {dtwo}),
       Case("SoftmaxCrossEntropyGradient", "one class",
            {vector({3}), matrix({{5}}), i32(vector({0}))}, {matrix({{0}})}),
       Case("SoftmaxCrossEntropyGradient", "sure",
            {vector({1, 1}), matrix({{400, -400}, {400, -400}}), i32(vector({1, 0}))},
            {matrix({{1, -1}, {0, 0}})}),
       Case("SoftmaxCrossEntropyGradient", "no rows",
            {zeros({0}), zeros({0, 3}), zeros({0}, DType::i32)}, {zeros({0, 3})}),
       Case("SoftmaxCrossEntropyGradient", "several leading dimensions",
            {matrix({{2, -0.5}}), two.reshaped({1, 2, 3}), i32(matrix({{2, 0}}))},
            {dtwo.reshaped({1, 2, 3})}),
       Case("SoftmaxCrossEntropyGradient", "one row without leading dimensions",
            {scalar(2), vector({1, 2, 3}), i32(scalar(2))},
            {vector({0.18006114634076092, 0.4894569421095953, -0.6695180884503564})}),
       Case("SoftmaxCrossEntropyAndGradient", "both at once, several leading dimensions",
            {two.reshaped({2, 1, 3}), i32(matrix({{2}, {0}})), matrix({{2}, {-0.5}})},
            {dtwo.reshaped({2, 1, 3}), loss_of_two.reshaped({2, 1})}),
       Case("SoftmaxCrossEntropyAndGradient", "both at once",
            {two, i32(vector({2, 0})), vector({2, -0.5})}, {dtwo, loss_of_two}),
       Case("SoftmaxCrossEntropyAndGradient", "both at once, i64 labels",
            {two, i64(vector({2, 0})), vector({2, -0.5})}, {dtwo, loss_of_two}),
       Case("SoftmaxCrossEntropyAndGradient", "both of no rows",
            {zeros({0, 3}), zeros({0}, DType::i32), zeros({0})}, {zeros({0, 3}), zeros({0})})},
      {
          Refused("SoftmaxCrossEntropyAndGradient",
                  {zeros({2, 3}), zeros({3}, DType::i32), zeros({2})},
                  "and a label for each row, [...], got [2, 3] and [3]"),
          Refused("SoftmaxCrossEntropyAndGradient",
                  {zeros({2, 3}), zeros({2}, DType::i32), zeros({3})},
                  "wants dloss [...] and logits [..., classes], got [3] and [2, 3]"),
          Refused("SoftmaxCrossEntropyAndGradient",
                  {zeros({2, 3}), zeros({2}, DType::i32), zeros({2}, DType::f32)},
                  "dloss and logits must have one dtype, got f32 and f64"),
          Refused("SoftmaxCrossEntropyAndGradient", {zeros({2, 3}), zeros({2}), zeros({2})},
                  "wants labels of i32 or i64, got f64"),
          Refused({zeros({2, 3}), zeros({3}, DType::i32)},
                  "and a label for each row, [...], got [2, 3] and [3]"),
          Refused({zeros({2, 3}), zeros({2, 1}, DType::i32)},
                  "; squeeze(labels, {-1}) takes a last dimension of 1 away"),
          Refused({zeros({2, 4, 3}), zeros({2, 5}, DType::i32)},
                  "and a label for each row, [...], got [2, 4, 3] and [2, 5]"),
          Refused({scalar(0), zeros({}, DType::i32)},
                  "and a label for each row, [...], got [] and []"),
          Refused({zeros({3}), zeros({3}, DType::i32)},
                  "wants logits [..., classes] and a label for each row, [...], got "),
          Refused({zeros({2, 3}), zeros({2})}, "wants labels of i32 or i64, got f64; cast them"),
          Refused({i32(zeros({2, 3})), zeros({2}, DType::i32)},
                  "has no kernel for i32; cast to one of f32, f64"),
          Refused("SoftmaxCrossEntropyGradient",
                  {zeros({3}), zeros({2, 3}), zeros({2}, DType::i32)},
                  "wants dloss [...] and logits [..., classes], got [3] and [2, 3]"),
          Refused("SoftmaxCrossEntropyGradient",
                  {zeros({2}, DType::f32), zeros({2, 3}), zeros({2}, DType::i32)},
                  "dloss and logits must have one dtype, got f32 and f64"),
          Refused("SoftmaxCrossEntropyGradient", {zeros({2}), zeros({2, 3}), zeros({2})},
                  "wants labels of i32 or i64, got f64"),
      });
});

}  // namespace

TEST_CASE("a row's probabilities do not depend on where it stands") {
  Graph graph;
  const Tensor row = f32(iota({1, 10}, 0.1, 0.37));
  Tensor many = Tensor::empty(DType::f32, {7, 10});
  for (int i = 0; i < 7; ++i)
    std::copy_n(row.data<float>(), 10, many.mutable_data<float>() + 10 * i);
  const Tensor one = evaluate(softmax(constant(graph, row)));
  const Tensor all = evaluate(softmax(constant(graph, many)));
  for (int i = 0; i < 7; ++i) CHECK(same_bits(all.rows(i, i + 1), one));
}

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
