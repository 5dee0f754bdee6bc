// Ops whose rows or elements are cut into jobs by their shapes alone: the bits of a step are the
// same with one thread and with several.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "ops/gradients.hpp"
#include "tests/support/evaluate.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

constexpr int64_t kRows = 777, kClasses = 301;  // several jobs, and rows that are left over

std::vector<Tensor> run_with(int threads, const std::vector<Tensor>& feeds) {
  Graph g;
  const Output x = placeholder(g, DType::f32, {kRows, kClasses}, "x");
  const Output labels = placeholder(g, DType::i64, {kRows}, "labels");
  const Output loss = softmax_cross_entropy(x, labels);
  const Output gamma = fill(g, {kClasses}, 2), beta = fill(g, {kClasses}, 1);
  const BatchNorm normed = batch_norm(x, gamma, beta);
  const NormGradient d = batch_norm_gradient(x, x, gamma, normed.mean, normed.variance);
  Session session = Session::local(g, {.threads = threads});
  return session.run({softmax(x), loss, softmax_cross_entropy_gradient(loss, x, labels), normed.y,
                      normed.mean, normed.variance, d.dx, d.dgamma, d.dbeta,
                      truncated_normal(g, {100'003}, 0, 1, 5, DType::f32, "drawn"),
                      random_normal(g, {100'003}, 0, 1, 5, DType::f32, "drawn_too")},
                     {{x, feeds[0]}, {labels, feeds[1]}}, {.step = 3});
}

}  // namespace

TEST_CASE("rows and random numbers have the same bits with one thread and with several") {
  Tensor x = Tensor::empty(DType::f32, {kRows, kClasses});
  for (int64_t i = 0; i < x.size(); ++i)
    x.mutable_data<float>()[i] = static_cast<float>(5 * std::sin(static_cast<double>(i) * 0.7));
  Tensor labels = Tensor::empty(DType::i64, {kRows});
  for (int64_t i = 0; i < kRows; ++i) labels.mutable_data<int64_t>()[i] = i * 7 % kClasses;
  const std::vector<Tensor> expected = run_with(1, {x, labels});
  for (const int threads : {2, 4})
    for (int round = 0; round < 3; ++round) {
      const std::vector<Tensor> got = run_with(threads, {x, labels});
      for (size_t i = 0; i < got.size(); ++i) {
        CAPTURE(threads);
        CAPTURE(i);
        CHECK(same_bits(got[i], expected[i]));
      }
    }
}

}  // namespace troupe
