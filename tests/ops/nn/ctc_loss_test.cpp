// CtcLoss and its gradient. Expected values are sums over all paths, one by one.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs blank(int64_t k) { return {{"blank", k}}; }

std::vector<Tensor> rows(const Tensor& logits, const Tensor& labels, const Tensor& times,
                         const Tensor& sizes) {
  return {logits, i32(labels), i32(times), i32(sizes)};
}

OpError refused(std::vector<Tensor> inputs, const char* message, bool when_run = false,
                Attrs attrs = {}) {
  return {.op = "CtcLoss",
          .inputs = std::move(inputs),
          .attrs = std::move(attrs),
          .message = message,
          .when_run = when_run};
}

const Table loss_table("CtcLoss adds up all paths that say the labels", [] {
  const Tensor x = waves({5, 3, 4}, 0.3);
  const Tensor one = waves({2, 1, 3}, 0.2);
  return table_of(
      "CtcLoss",
      {Case("two labels, equal labels in less time, none",
            rows(x, matrix({{1, 2}, {3, 3}, {-9, 9}}), vector({5, 4, 5}), vector({2, 2, 0})),
            {vector({3.17816029893545, 5.210925505094197, 7.234199283990912})})
           .once(),
       Case("another blank; what does not fit into the time",
            rows(x, matrix({{1, 2}, {0, 0}, {1, 0}}), vector({5, 2, 1}), vector({2, 2, 1})),
            {vector({3.6230753097482506, INFINITY, 1.5574354380176538})}, blank(3))
           .rough(),
       Case("no time at all, for nothing and for something",
            {zeros({0, 2, 2}), i64(matrix({{1}, {1}})), i64(vector({0, 0})), i64(vector({0, 1}))},
            {vector({0, INFINITY})})
           .rough(),
       Case("one class, the blank", rows(zeros({3, 1, 1}), zeros({1, 0}), vector({3}), vector({0})),
            {vector({0})})
           .once(),
       Case("large logits, and a class that cannot be",
            rows(values({2, 1, 3}, {1000, 0, -INFINITY, 0, 1000, -INFINITY}), matrix({{1}}),
                 vector({2}), vector({1})),
            {vector({0})})
           .rough(),
       Case("NaN", rows(values({2, 1, 2}, {0, NAN, 1, 2}), matrix({{1}}), vector({2}), vector({1})),
            {vector({NAN})})
           .rough(),
       Case("no rows", rows(zeros({3, 0, 2}), zeros({0, 1}), zeros({0}), zeros({0})), {zeros({0})})
           .once()},
      {refused(rows(zeros({3, 2}), matrix({{1}}), vector({1}), vector({1})),
               "wants logits [time, batch, classes], labels [batch, most] and two sizes [batch]"),
       refused(rows(one, matrix({{1}, {1}}), vector({1}), vector({1})),
               "got [2, 1, 3], [2, 1], [1] and [1]"),
       refused(rows(one, matrix({{1}}), vector({1, 1}), vector({1})),
               "got [2, 1, 3], [1, 1], [2] and [1]"),
       refused(rows(one, matrix({{1}}), vector({1}), vector({1})),
               "blank 3 is none of the 3 classes", false, blank(3)),
       refused({one, matrix({{1}}), i32(vector({1})), i32(vector({1}))},
               "wants indices of i32 or i64, got f64"),
       refused({one, i32(matrix({{1}})), i64(vector({1})), i32(vector({1}))},
               "wants labels and sizes of one dtype, got i32 and i64; cast them"),
       refused({i32(zeros({2, 1, 3})), i32(matrix({{1}})), i32(vector({1})), i32(vector({1}))},
               "has no kernel for i32; cast to one of f32, f64"),
       refused(rows(one, matrix({{1}}), vector({3}), vector({1})),
               "row 0 has the time size 3, which is not in [0, 2]", true),
       refused(rows(one, matrix({{1}}), vector({2}), vector({2})),
               "row 0 has the label size 2, which is not in [0, 1]", true),
       refused(rows(one, matrix({{3}}), vector({2}), vector({1})),
               "row 0 has the label 3, but labels are in [0, 3) and not the blank, 0", true),
       refused(rows(one, matrix({{0}}), vector({2}), vector({1})),
               "row 0 has the label 0, but labels are in [0, 3) and not the blank, 0", true)});
});

const Table gradient_table("the gradient of CtcLoss is what the paths of the labels lack", [] {
  const Tensor x = waves({3, 2, 3}, 0.9);
  const Tensor labels = i32(matrix({{1, 2}, {2, 0}}));
  const Tensor times = i32(vector({3, 2})), sizes = i32(vector({2, 1}));
  return table_of(
      "CtcLossGradient",
      {Case("two rows, one of less time", {vector({2, -0.5}), x, labels, times, sizes},
            {values({3, 2, 3},
                    {0.7762538790443088, -0.9639266996548396, 0.18767282061053073,
                     0.09503723878656624, -0.3006421093029122, 0.20560487051634596,
                     0.12084821817713721, 0.1612883058338977, -0.28213652401103484,
                     -0.0256100849709371, -0.07282413410592832, 0.0984342190768654,
                     0.1560780128976327, 0.2881256633030752, -0.444203676200708, 0, 0, 0})}),
       Case("labels that do not fit have no gradient",
            {vector({1, 1}), x, labels, i32(vector({1, 0})), sizes}, {zeros({3, 2, 3})}),
       Case("no rows",
            {zeros({0}), zeros({2, 0, 3}), zeros({0, 1}, DType::i64), zeros({0}, DType::i64),
             zeros({0}, DType::i64)},
            {zeros({2, 0, 3})})},
      {Refused({vector({1}), x, labels, times, sizes}, "wants a dloss for each row, [2], got [1]"),
       Refused({f32(vector({1, 1})), x, labels, times, sizes},
               "dloss and logits must have one dtype, got f32 and f64"),
       Refused({vector({1, 1}), x, labels, vector({1, 1}), sizes},
               "wants indices of i32 or i64, got f64")});
});

}  // namespace

TEST_CASE("CtcLoss of long rows is finite") {
  Graph graph;
  const Output x = constant(graph, f32(waves({400, 2, 5}, 0.3)));
  Tensor labels = i32(zeros({2, 100}));
  for (int64_t i = 0; i < 200; ++i) labels.mutable_data<int32_t>()[i] = 1 + i % 4;
  const Output loss = ctc_loss(x, constant(graph, labels), constant(graph, i32(vector({400, 399}))),
                               constant(graph, i32(vector({100, 99}))));
  const auto got = evaluate(graph, {loss, gradients({loss}, {x})[0]});
  for (const float v : got[0].values<float>()) CHECK((v > 0 && std::isfinite(v)));
  // At each time, the gradient sums to 0.
  for (int64_t row = 0; row < 800; ++row) {
    float sum = 0;
    for (int64_t k = 0; k < 5; ++k) sum += got[1].data<float>()[row * 5 + k];
    CHECK(std::abs(sum) < 1e-5f);
  }
}

}  // namespace troupe
