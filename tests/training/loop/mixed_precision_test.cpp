// Training in mixed precision: small networks that learn as well in bf16 and f16 as in f32, and the
// loss scale, step by step.

#include <cmath>

#include "ops/state/pushes.hpp"
#include "tests/support/fit.hpp"
#include "tests/support/engine/recursion.hpp"
#include "training/checkpoints/checkpoint.hpp"
#include "troupe/nn.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

// Horizontal or vertical stripes at any phase, under noise.
Dataset stripes(int64_t n, uint64_t state) {
  const auto draw = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  Dataset out{Tensor::empty(DType::f32, {n, 8, 8, 1}), Tensor::empty(DType::i64, {n})};
  for (int64_t i = 0; i < n; ++i) {
    const double phase = 6.2831853 * draw();
    for (int64_t p = 0; p < 64; ++p)
      out.features.mutable_data<float>()[64 * i + p] =
          static_cast<float>(std::sin(1.5 * static_cast<double>(i % 2 ? p / 8 : p % 8) + phase) +
                             1.5 * (draw() - 0.5));
    out.labels.mutable_data<int64_t>()[i] = i % 2;
  }
  return out;
}

struct Built {
  Output x, labels, logits, loss, update;
};

// A convolutional network with a batch norm; f32 uses no scope.
Built build(Graph& graph, DType compute, bool training) {
  const auto scope = graph.scope({.name = training ? "tower" : "evaluation"});
  const auto mixed = mixed_precision(graph, compute);
  nn::Model model(graph, {.training = training, .seed = 3});
  Built b;
  b.x = placeholder(graph, DType::f32, {-1, 8, 8, 1}, "x");
  b.labels = placeholder(graph, DType::i64, {-1}, "labels");
  Output h = relu(nn::batch_norm(model, nn::conv2d(model, b.x, 8, 3, {.bias = false})));
  h = relu(nn::conv2d(model, max_pool2d(h), 8, 3));
  b.logits = nn::dense(model, nn::flatten(max_pool2d(h)), 2);
  b.loss = reduce_mean(softmax_cross_entropy(b.logits, b.labels));
  CHECK(b.logits.dtype() == compute);
  CHECK(b.loss.dtype() == DType::f32);
  if (!training) return b;
  const Output update =
      compute == DType::f16 ? minimize_scaled(b.loss, adam(0.01)) : minimize(b.loss, adam(0.01));
  b.update = model.with_updates(update);
  for (const Output& w : model.parameters()) CHECK(w.dtype() == DType::f32);
  return b;
}

double accuracy_in(DType compute) {
  Graph graph;
  const Built tower = build(graph, compute, true), test = build(graph, compute, false);
  FitOptions options{.epochs = 5, .batch_size = 32, .validation = stripes(160, 2)};
  options.evaluation = {
      .feeds = {test.x, test.labels}, .fetches = {argmax(test.logits)}, .metrics = {accuracy()}};
  Session session = Session::local(graph, {.threads = 2});
  const FitResult result =
      fit(session, {{0, tower.loss, tower.update, {tower.x, tower.labels}, {}}}, stripes(320, 1),
          options);
  return result.history.back().scores.at("accuracy");
}

// One weight, initially 1, whose gradient is `slope` in every step and passes through f16.
struct Low {
  explicit Low(double slope) {
    const auto mixed = mixed_precision(graph, DType::f16);
    w = parameter("w", fill(graph, {1, 1}, 1));
    const Output x = fill(graph, {1, 1}, 1);
    loss = reduce_sum(matmul(x, w)) * slope;
  }
  std::map<std::string, Tensor> after(Output update, int64_t updates) {
    Session session = Session::local(graph);
    train(session, {{0, loss, update, {}, {}}}, steps(updates));
    return parameter_values(session);
  }
  Graph graph;
  Output w, loss;
};

double value(const std::map<std::string, Tensor>& values, const std::string& name, int64_t i = 0) {
  return values.at(name).data<float>()[i];
}

}  // namespace

TEST_CASE("a network learns in bf16 and in f16 with a scaled loss as it does in f32") {
  for (const DType compute : {DType::f32, DType::bf16, DType::f16}) {
    CAPTURE(compute);
    CHECK(accuracy_in(compute) >= 0.95);
  }
}

TEST_CASE("mixed precision has the same bits with and without passes, on one thread and on three") {
  for (const DType compute : {DType::bf16, DType::f16}) {
    CAPTURE(compute);
    const auto weights = [&](int threads, bool passes) {
      Graph graph;
      const Built tower = build(graph, compute, true);
      Session session = Session::local(graph, {.threads = threads, .passes = passes});
      const Dataset data = stripes(192, 1);
      const Tower one{0, tower.loss, tower.update, {tower.x, tower.labels}, [&](int64_t step) {
                        const Dataset part = data.rows(64 * step, 64 * step + 64);
                        return std::vector<Tensor>{part.features, part.labels};
                      }};
      return train(session, {one}, steps(3)).weights_sha256;
    };
    const std::string expected = weights(1, false);
    CHECK(weights(1, true) == expected);
    CHECK(weights(3, true) == expected);
  }
}

TEST_CASE("a gradient that f16 cannot hold is lost without a scale, and exact with one") {
  Low lost(0x1p-26), kept(0x1p-26);
  CHECK(value(lost.after(minimize(lost.loss, sgd(0x1p20)), 1), "w") == 1);
  const auto after = kept.after(minimize_scaled(kept.loss, sgd(0x1p20), {1024, 0}), 1);
  CHECK(value(after, "w") == 1 - 0x1p-6);
  CHECK(after.count("loss_scale") == 0);  // a fixed scale is not a parameter
}

TEST_CASE("a scale halves after a step that overflows, which changes nothing else, and doubles") {
  // 2^16 overflows f16, 2^15 does not: skip, step, step and double, skip, step.
  const double v[] = {1, 1.9, 1.9 * 0.9 + 1};
  const struct {
    int64_t steps;
    double moved, exponent, good;
  } expected[] = {{1, 0, 15, 0},
                  {2, v[0], 15, 1},
                  {3, v[0] + v[1], 16, 0},
                  {4, v[0] + v[1], 15, 0},
                  {5, v[0] + v[1] + v[2], 15, 1}};
  for (const auto& e : expected) {
    CAPTURE(e.steps);
    Low low(1);
    const Output update = minimize_scaled(low.loss, momentum(0.125, 0.9), {65536, 2});
    const auto after = low.after(update, e.steps);
    CHECK(value(after, "w") == doctest::Approx(1 - 0.125 * e.moved).epsilon(1e-6));
    CHECK(value(after, "loss_scale", 0) == e.exponent);
    CHECK(value(after, "loss_scale", 1) == e.good);
  }
}

TEST_CASE("gradients of a scaled loss are clipped, also in a step that overflows and is skipped") {
  for (const bool global : {false, true}) {
    CAPTURE(global);
    Low low(1);  // 2^16 overflows f16: skip, step
    ScaledGradients scaled = scaled_gradients(low.loss, {65536, 2});
    scaled.gradients =
        global ? clip_by_global_norm(scaled.gradients, 0.25) : clip_by_norm(scaled.gradients, 0.25);
    const auto after = low.after(apply_if_finite(scaled, sgd(1)), 2);
    CHECK(value(after, "w") == 0.75);
    CHECK(value(after, "loss_scale", 0) == 15);
  }
}

// The trained row after a step at each scale, of which the first overflows. The other rows keep
// their values.
template <class MakeUpdate>
void check_rows(float trained, const MakeUpdate& update_of) {
  for (const double scale : {65536.0, 1024.0}) {
    CAPTURE(scale);
    Graph graph;
    Output loss;
    {
      const auto mixed = mixed_precision(graph, DType::f16);
      const Output rows = parameter("rows", fill(graph, {3, 1}, 1));
      const Output ids = constant(graph, Tensor::of<int64_t>({2}, {1}));
      loss = reduce_sum(matmul(gather(rows, ids), fill(graph, {1, 1}, 1)));
    }
    const Output update = update_of(loss, LossScale{scale, 0});
    bool by_rows = false;
    for (const auto& node : graph.nodes()) by_rows |= node->op->name == "PushRowGradient";
    CHECK(by_rows);
    Session session = Session::local(graph);
    train(session, {{0, loss, update, {}, {}}}, steps(1));
    const Tensor after = parameter_values(session).at("rows");
    CHECK(after.data<float>()[0] == 1);
    CHECK(after.data<float>()[2] == (scale == 1024 ? trained : 1.0f));
  }
}

TEST_CASE("rows of a scaled loss are clipped as rows, also in a step that overflows") {
  check_rows(0.75f, [](Output loss, const LossScale& scale) {
    ScaledGradients scaled = scaled_gradients(loss, scale);
    scaled.gradients = clip_by_global_norm(scaled.gradients, 0.25);
    return apply_if_finite(scaled, sgd(1));
  });
}

TEST_CASE("rows of an embedding are left alone by a step that overflows") {
  check_rows(0.5f, [](Output loss, const LossScale& scale) {
    return minimize_scaled(loss, sgd(0.5), scale);
  });
}

TEST_CASE("a training that is resumed in another dtype says so, and goes on where it was") {
  Folder folder("resumed-dtype");
  Dataset data = stripes(64, 1);
  std::vector<std::string> said;
  const auto trained = [&](DType compute, int64_t until, const LossScale& scale) {
    said.clear();
    Graph graph;
    Output x, labels, loss, update;
    {
      const auto mixed = mixed_precision(graph, compute);
      x = placeholder(graph, DType::f32, {-1, 8, 8, 1}, "x");
      labels = placeholder(graph, DType::i64, {-1}, "labels");
      nn::Model model(graph, {.seed = 3});
      loss = reduce_mean(softmax_cross_entropy(nn::dense(model, nn::flatten(x), 2), labels));
      update = compute == DType::f16 ? minimize_scaled(loss, adam(0.01), scale)
                                     : minimize(loss, adam(0.01));
    }
    TrainOptions options{.steps = until, .checkpoint_dir = folder.path(), .resume = until > 1};
    options.on_event = [&](const TrainEvent& e) {
      if (e.kind == TrainEvent::warning) said.push_back(e.text);
    };
    Session session = Session::local(graph, {.threads = 1});
    const auto batch = [&](int64_t) { return std::vector<Tensor>{data.features, data.labels}; };
    return train(session, {{0, loss, update, {x, labels}, batch}}, options).resumed_at;
  };
  using Lines = std::vector<std::string>;
  const LossScale fixed{1024, 0}, dynamic{};
  CHECK(trained(DType::f32, 1, fixed) == 0);
  CHECK(trained(DType::f32, 2, fixed) == 1);
  CHECK(said == Lines{});
  CHECK(trained(DType::bf16, 3, fixed) == 2);
  CHECK(said == Lines{"training continues in bf16; the checkpoint was written in f32"});
  CHECK(trained(DType::f16, 4, fixed) == 3);
  CHECK(said == Lines{"training continues in f16; the checkpoint was written in bf16"});
  CHECK(trained(DType::f32, 5, fixed) == 4);
  CHECK(said == Lines{"training continues in f32; the checkpoint was written in f16"});
  // A dynamic scale is a parameter, whose value a training in f32 does not have.
  CHECK_THROWS_WITH_AS(trained(DType::f16, 6, dynamic),
                       doctest::Contains("the checkpoint of step 5, written in f32, is of another "
                                         "run: it has no parameter loss_scale"),
                       Error);
}

TEST_CASE("two losses with moving scales are refused in one step, and work if one of them stays") {
  const auto trained = [](const LossScale& second) {
    Graph graph;
    std::vector<Output> weights, losses, updates;
    {
      const auto mixed = mixed_precision(graph, DType::f16);
      for (const char* name : {"u", "v"}) {
        weights.push_back(parameter(name, fill(graph, {1, 1}, 1)));
        losses.push_back(reduce_sum(matmul(fill(graph, {1, 1}, 1), weights.back())));
      }
    }
    for (size_t i = 0; i < 2; ++i)
      updates.push_back(minimize_scaled(losses[i], sgd(0.25), i == 0 ? LossScale{1024, 2} : second,
                                        {weights[i]}));
    Session session = Session::local(graph);
    train(session, {{0, losses[0], group(graph, updates), {}, {}}}, steps(1));
    return parameter_values(session);
  };
  check_invalid(
      [&] {
        trained({1024, 2});
      },
      "parameter loss_scale is pushed to twice in a step of replica 0, by the ",
      "each is the moving scale of a loss",
      "scale the sum of the losses, give all but one a LossScale whose "
      "growth_interval is 0");
  const auto after = trained({1024, 0});
  CHECK(value(after, "u") == 0.75);
  CHECK(value(after, "v") == 0.75);
  CHECK(value(after, "loss_scale", 1) == 1);
}

TEST_CASE("products in functions that call themselves count for the dtype of a checkpoint") {
  Folder folder("dtype-of-functions");
  Graph graph;
  Output loss;
  {
    const auto mixed = mixed_precision(graph);
    const TensorType one{DType::f32, {1, 1}};
    const Output two = fill(graph, {1, 1}, 2);
    Function power = declare_function(graph, "power", {kCount, one}, {one});
    power.define([&](const Values& v) {
      return Values{cond(
          less_equal(v[0], whole(graph, 0)), [&] { return v[1]; },
          [&] {
            return power({v[0] - 1, cast(matmul(v[1], two), DType::f32)})[0];
          })};
    });
    const Output w = parameter("w", fill(graph, {1, 1}, 1));
    loss = reduce_sum(w * stop_gradient(power({whole(graph, 3), fill(graph, {1, 1}, 1)})[0]));
  }
  TrainOptions options{.steps = 1, .checkpoint_dir = folder.path()};
  Session session = Session::local(graph);
  train(session, {{0, loss, minimize(loss, sgd(0.125)), {}, {}}}, options);
  CHECK(value(parameter_values(session), "w") == 0);
  std::vector<std::string> warnings;
  CHECK(find_newest(real_disk(), folder.path(), warnings).value().compute == "bf16");
}

TEST_CASE("a scale that cannot be is refused with the caller's line") {
  Low low(1);
  CHECK_THROWS_WITH_AS(minimize_scaled(low.loss, sgd(1), {3, 0}),
                       doctest::Contains("a power of two in [1, 2^24], got 3"), Error);
  CHECK_THROWS_WITH_AS(minimize_scaled(low.loss, sgd(1), {2, -1}),
                       doctest::Contains("growth interval"), Error);
  CHECK_THROWS_AS(apply_if_finite({}, sgd(1)), Error);
  CHECK_THROWS_WITH_AS(push_finite_gradient(low.w, {}, {}, sgd(1)),
                       doctest::Contains("its gradient is an undefined Output"), Error);
}

}  // namespace troupe
