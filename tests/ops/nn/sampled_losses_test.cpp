// nce_loss and sampled_softmax_loss.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

using Inputs = std::vector<Output>;

// weights, biases, inputs, labels; the candidates are three constants.
std::vector<Tensor> five_classes(const Tensor& labels, const Tensor& true_expected) {
  return {matrix({{1, 2}, {0.5, -1}, {-1, 0.5}, {2, 0}, {0, 1.5}}),
          vector({0.1, -0.2, 0.3, 0, -0.5}),
          matrix({{1, -1}, {0.5, 2}}),
          labels,
          i64(vector({2, 3, 1})),
          true_expected,
          vector({0.5, 0.4, 0.6})};
}

using Loss = Output (*)(Output, Output, Output, Output, const Candidates&, bool, Origin);

BuildCase build(Loss loss, bool remove_hits) {
  return [=](Graph&, const Inputs& in) {
    const Candidates c = {in[4], in[5], in[6]};
    return Inputs{loss(in[0], in[1], in[2], in[3], c, remove_hits, Origin::here())};
  };
}

OpCase sampled(const char* name, const std::vector<Tensor>& inputs, const Tensor& expected,
               Loss loss, bool remove_hits) {
  return Case("SigmoidCrossEntropy", name, inputs, {expected}).made_by(build(loss, remove_hits));
}

OpError refused(std::vector<Tensor> inputs, const char* message) {
  return Refused("SigmoidCrossEntropy", std::move(inputs), message).made_by(build(nce_loss, false));
}

const std::vector<Tensor>& one_label() {
  static const auto inputs = five_classes(i64(vector({0, 3})), vector({0.9, 0.4}));
  return inputs;
}
const std::vector<Tensor>& two_labels() {
  static const auto inputs =
      five_classes(i32(matrix({{0, 4}, {3, 2}})), matrix({{0.9, 0.2}, {0.4, 0.5}}));
  return inputs;
}

}  // namespace

// Expected values were computed with NumPy. The second row's labels are among the candidates.

TEST_CASE("nce_loss adds the logistic losses of labels and candidates") {
  check({.values = {sampled("one label", one_label(),
                            vector({6.570185542163967, 4.099458023436675}), nce_loss, false),
                    sampled("one label, hits removed", one_label(),
                            vector({6.570185542163967, 2.045885137436583}), nce_loss, true),
                    sampled("two labels", two_labels(),
                            vector({6.8849603540233755, 6.006843893938045}), nce_loss, false),
                    sampled("two labels, hits removed", two_labels(),
                            vector({6.8849603540233755, 2.257456913093688}), nce_loss, true)}});
}

TEST_CASE("sampled_softmax_loss is the cross entropy over labels and candidates") {
  check(
      {.values = {
           sampled("one label", one_label(), vector({4.038881536181346, 0.9894957426780224}),
                   sampled_softmax_loss, false),
           sampled("one label, hits removed", one_label(),
                   vector({4.038881536181346, 0.5246561829815919}), sampled_softmax_loss, true),
           sampled("two labels", two_labels(), vector({3.8628897548178323, 1.4189973150941317}),
                   sampled_softmax_loss, false),
           sampled("two labels, hits removed", two_labels(),
                   vector({3.8628897548178323, 0.7362279586386968}), sampled_softmax_loss, true)}});
}

TEST_CASE("sampled losses say which argument is wrong") {
  auto inputs = one_label(), labels = one_label();
  inputs[2] = vector({1, 2});
  labels[3] = i64(zeros({1, 2, 1}));
  check({.errors = {refused(inputs, "wants inputs [batch, n], got ["),
                    refused(labels, "wants labels [batch] or [batch, some], got [")}});
}

TEST_CASE("with every class a candidate, sampled_softmax_loss is softmax_cross_entropy") {
  Graph graph;
  const Output weights = constant(graph, waves({6, 3}, 0.1)),
               biases = constant(graph, waves({6}, 2));
  const Output inputs = constant(graph, waves({4, 3}, 0.4));
  const Output labels = constant(graph, i64(vector({5, 0, 2, 2})));
  const Candidates all = log_uniform_candidates(labels, 6, 6, {}, DType::f64);
  // After enough draws all expected counts are near 1; given as 1, they cancel.
  const Candidates certain = {all.ids, fill(graph, {4}, 1, DType::f64),
                              fill(graph, {6}, 1, DType::f64)};
  const Output full =
      softmax_cross_entropy(matmul(inputs, weights, {.transpose_b = true}) + biases, labels);
  CHECK(!difference(evaluate(sampled_softmax_loss(weights, biases, inputs, labels, certain)),
                    evaluate(full)));
}

TEST_CASE("a model learns through sampled candidates") {
  Graph graph;
  const Output weights = constant(graph, f32(waves({50, 4}, 0.1)));
  const Output biases = fill(graph, {50}, 0);
  const Output inputs = constant(graph, f32(waves({8, 4}, 0.4)));
  const Output labels = constant(graph, i32(iota({8})));
  const Candidates c = log_uniform_candidates(labels, 50, 10);
  for (const auto loss : {nce_loss, sampled_softmax_loss}) {
    const Output y = loss(weights, biases, inputs, labels, c, true, Origin::here());
    const auto slopes = gradients({y}, {weights, biases, inputs});
    for (const Output& slope : slopes) {
      const Tensor value = evaluate(slope, {}, {.step = 1});
      CHECK(std::any_of(value.values<float>().begin(), value.values<float>().end(),
                        [](float v) { return v != 0; }));
      for (const float v : value.values<float>()) CHECK(std::isfinite(v));
    }
  }
}

}  // namespace troupe
