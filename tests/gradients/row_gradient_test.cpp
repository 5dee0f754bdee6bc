// Gradients by rows in a graph: which gradients are by rows, which ops keep them so, and how they
// travel.

#include <cstring>

#include "devices/run_context.hpp"
#include "graph/base/packed_rows.hpp"
#include "tests/support/evaluate.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

struct Table {
  Graph graph;
  Output w = parameter("w", fill(graph, {6, 2}, 0, DType::f64));
  Output ids = placeholder(graph, DType::i64, {-1}, "ids");
  Output loss = reduce_sum(square(gather(w, ids)));

  FedValues feeds(std::vector<int64_t> indices) const {
    std::vector<double> values;
    for (int i = 0; i < 12; ++i) values.push_back(i);
    return {{w, Tensor::of<double>(values, {6, 2})},
            {ids, Tensor::of<int64_t>(indices, {static_cast<int64_t>(indices.size())})}};
  }
};

const Node& push_of(Output update) {
  const Graph& graph = *update.graph;
  return graph.node(graph.node(update.node).control_inputs.at(0));
}

// The value of `gradient`, by rows or not, for the whole of w.
Tensor filled(Output gradient, const FedValues& feeds) { return evaluate(gradient, feeds); }

}  // namespace

TEST_CASE("with sgd, rows are pushed as they were gathered") {
  Table t;
  const Node& push = push_of(minimize(t.loss, sgd(0.1)));
  REQUIRE(push.op->name == "PushRowGradient");
  CHECK(push.attr<std::string>("optimizer") == "sgd(learning rate 0.1)");
  const auto got = evaluate(t.graph, push.inputs, t.feeds({4, 1, 4}));
  CHECK(same_bits(got[0], Tensor::of<int64_t>({4, 1, 4}, {3})));
  CHECK(same_bits(got[1], Tensor::of<double>({16, 18, 4, 6, 16, 18}, {3, 2})));
}

TEST_CASE("a parameter that is only gathered from is pushed to by rows") {
  Table t;
  const Node& push = push_of(minimize(t.loss, adagrad(0.1)));
  REQUIRE(push.op->name == "PushRowGradient");
  CHECK(push.control_inputs == std::vector<int32_t>{t.w.node});
  const auto got = evaluate(t.graph, push.inputs, t.feeds({4, 1, 4}));
  CHECK(same_bits(got[0], Tensor::of<int64_t>({4, 1}, {2})));
  CHECK(same_bits(got[1], Tensor::of<double>({32, 36, 4, 6}, {2, 2})));
}

TEST_CASE("several gathers of one parameter are rows together, whatever their indices are") {
  Table t;
  const Output more = placeholder(t.graph, DType::i32, {2, 1}, "more");
  const Output loss = t.loss + reduce_sum(gather(t.w, more));
  const Node& push = push_of(minimize(loss, adagrad(0.1)));
  REQUIRE(push.op->name == "PushRowGradient");
  FedValues feeds = t.feeds({5});
  feeds.insert_or_assign(more, Tensor::of<int32_t>({5, 0}, {2, 1}));
  const auto rows = evaluate(t.graph, push.inputs, feeds);
  const auto slopes = gradients({loss}, {t.w});
  const Tensor all = evaluate(slopes[0], feeds);
  for (int64_t k = 0; k < 2; ++k)
    for (int64_t j = 0; j < 2; ++j)
      CHECK(rows[1].data<double>()[k * 2 + j] ==
            all.data<double>()[rows[0].data<int64_t>()[k] * 2 + j]);
  CHECK(rows[0].size() == 2);
}

TEST_CASE("what reads the whole parameter makes the gradient a whole one") {
  Table t;
  const Output loss = t.loss + reduce_sum(t.w);
  CHECK(push_of(minimize(loss, sgd(0.1))).op->name == "PushGradient");
  Table scaled;
  const Output other = reduce_sum(gather(scaled.w * 2, scaled.ids));
  CHECK(push_of(minimize(other, sgd(0.1))).op->name == "PushGradient");
}

TEST_CASE("clipping and weight decay keep rows, and are what they are of the whole gradient") {
  Table t;
  const auto whole = gradients({t.loss}, {t.w});
  const FedValues feeds = t.feeds({3, 0, 3});
  const auto changed = [&](const std::vector<ParameterGradient>& by_rows, Output expected) {
    CHECK(push_of(apply_gradients(by_rows, sgd(1))).op->name == "PushRowGradient");
    const Tensor got = filled(by_rows[0].gradient, feeds), wanted = evaluate(expected, feeds);
    for (int64_t i = 0; i < got.size(); ++i)
      CHECK(got.data<double>()[i] == doctest::Approx(wanted.data<double>()[i]).epsilon(1e-14));
  };
  changed(clip_by_norm(parameter_gradients(t.loss), 3), clip_by_norm(whole[0], 3));
  changed(clip_by_global_norm(parameter_gradients(t.loss), 3), clip_by_norm(whole[0], 3));
  changed(clip_by_value(parameter_gradients(t.loss), -1, 9), clip(whole[0], -1, 9));
  changed(clip_by_norm(clip_by_global_norm(parameter_gradients(t.loss), 5), 3),
          clip_by_norm(clip_by_norm(whole[0], 5), 3));
  // Zeros change, too, so the gradient is no longer by rows.
  const auto lifted = clip_by_value(parameter_gradients(t.loss), 1, 9);
  CHECK(push_of(apply_gradients(lifted, sgd(1))).op->name == "PushGradient");
  // Weight decay applies only to rows that have a gradient.
  const auto decayed = add_weight_decay(parameter_gradients(t.loss), 0.5);
  CHECK(push_of(apply_gradients(decayed, sgd(1))).op->name == "PushRowGradient");
  const Tensor got = filled(decayed[0].gradient, feeds), before = evaluate(whole[0], feeds);
  for (int64_t i = 0; i < 12; ++i) {
    const bool touched = i / 2 == 0 || i / 2 == 3;
    CHECK(got.data<double>()[i] ==
          before.data<double>()[i] + (touched ? 0.5 * static_cast<double>(i) : 0));
  }
}

TEST_CASE("rows travel as one tensor, and come back") {
  const std::vector<int64_t> indices = {7, 0};
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const Tensor packed = pack_rows(3, indices, values.data(), DType::f32);
  CHECK(packed.dtype() == DType::u8);
  const auto rows = unpack_rows(packed, DType::f32, 24);
  REQUIRE(rows);
  CHECK(rows->row_size == 3);
  CHECK(std::vector<int64_t>(rows->indices.begin(), rows->indices.end()) == indices);
  CHECK(std::memcmp(rows->values, values.data(), 24) == 0);
  const auto none = unpack_rows(pack_rows(3, {}, nullptr, DType::f32), DType::f32, 24);
  REQUIRE(none);
  CHECK(none->indices.empty());
}

TEST_CASE("rows that are not as many for each index are refused, with the parameter's name") {
  struct Port final : ParameterPort {
    void pull(const std::string&, const ParameterStep&, Reply) override {}
    void pull_rows(const std::string&, const ParameterStep&, Tensor, Reply) override {}
    void write(const std::string&, const ParameterStep&, ParameterWrite, Reply) override {}
    void push(const std::string&, const ParameterStep&, Tensor gradient, Reply) override {
      packed = std::move(gradient);
    }
    Tensor packed;
  };
  const auto pushed = [](int64_t n, const Shape& values) {
    Port port;
    port.push_rows("table/w", {}, Tensor::zeros(DType::i64, {n}), Tensor::zeros(DType::f64, values),
                   nullptr);
    return unpack_rows(port.packed, DType::f64, 24).value().indices.size();
  };
  CHECK(pushed(4, {2, 3}) == 4);
  CHECK(pushed(3, {3}) == 3);
  CHECK(pushed(0, {0, 3}) == 0);
  const std::vector<std::pair<int64_t, Shape>> refused = {
      {3, {2, 3}}, {3, {0, 3}}, {0, {2, 3}}, {2, {4, 3}}, {1, {}}};
  for (const auto& one : refused) {
    CAPTURE(one.second);
    const auto& [n, values] = one;
    check_invalid([&, n = n, &values = values] { pushed(n, values); }, "table/w");
  }
}

TEST_CASE("what is not rows of that tensor is not read as such") {
  const std::vector<int64_t> indices = {7, 0};
  const std::vector<double> values(6);
  const Tensor good = pack_rows(3, indices, values.data(), DType::f64);
  REQUIRE(unpack_rows(good, DType::f64, 24));
  CHECK(!unpack_rows({}, DType::f64, 24));
  CHECK(!unpack_rows(Tensor::zeros(DType::f64, {24}), DType::f64, 24));
  CHECK(!unpack_rows(Tensor::zeros(DType::u8, {15}), DType::f64, 24));
  CHECK(!unpack_rows(good, DType::f32, 24));  // too long
  CHECK(!unpack_rows(good, DType::f64, 21));  // index 7 of 7 rows
  CHECK(!unpack_rows(good, DType::f64, 25));  // rows that do not fill the buffer
  CHECK(!unpack_rows(good, DType::f64, 0));
  const auto with_number = [&](size_t place, int64_t number) {
    Tensor bad = Tensor::empty(DType::u8, good.shape());
    std::memcpy(bad.mutable_raw(), good.raw(), static_cast<size_t>(good.byte_size()));
    std::memcpy(bad.mutable_data<uint8_t>() + 8 * place, &number, sizeof number);
    return bad;
  };
  for (const int64_t number :
       {int64_t{-1}, int64_t{0}, int64_t{4}, INT64_MAX, INT64_MIN, INT64_MAX / 8}) {
    CAPTURE(number);
    CHECK(!unpack_rows(with_number(0, number), DType::f64, 24));  // the size of a row
    CHECK(!unpack_rows(with_number(1, number), DType::f64, 24));  // the number of rows
  }
  CHECK(!unpack_rows(with_number(2, -1), DType::f64, 24));
  CHECK(!unpack_rows(with_number(3, 8), DType::f64, 24));
  CHECK(unpack_rows(with_number(3, 5), DType::f64, 24));
}

}  // namespace troupe
