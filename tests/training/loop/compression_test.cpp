// train() with codecs: the same bits wherever shards stand, and the refusals.
#include <cmath>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/fit.hpp"
#include "training/loop/train_loop.hpp"

namespace troupe {
namespace {

// Two towers with a weight that is cut over two shards and a small one. `device`: of each tower.
struct WideFit {
  static constexpr int64_t kRows = 300, kColumns = 131;

  explicit WideFit(const std::vector<std::string>& devices = {"", ""}) {
    for (int32_t i = 0; i < 2; ++i) {
      auto scope = graph.scope({.name = detail::concat("tower", i),
                                .device = devices.at(static_cast<size_t>(i)),
                                .replica = i});
      const Output x = placeholder(graph, DType::f32, {-1, kRows}, "x");
      const Output w = parameter("w", truncated_normal(graph, {kRows, kColumns}, 0, 0.5, 11));
      const Output b = parameter("b", fill(graph, {kColumns}, 0));
      const Output loss = reduce_mean(square(bias_add(matmul(x, w), b) - 1.0));
      all.push_back({i, loss, minimize(loss, adam(0.01)), {x}, [i](int64_t step) {
                       Tensor batch = Tensor::empty(DType::f32, Shape{2, kRows});
                       for (int64_t k = 0; k < batch.size(); ++k)
                         batch.mutable_data<float>()[k] =
                             std::sin(static_cast<float>(k * 7 + step * 3 + i));
                       return std::vector<Tensor>{batch};
                     }});
    }
  }
  Graph graph;
  std::vector<Tower> all;
};

TrainOptions options_of(const std::string& gradients, const std::string& values) {
  TrainOptions out{.compression = {gradients, values}, .steps = 6};
  out.data_seed = 5;
  return out;
}

std::string alone(const TrainOptions& options, int threads) {
  WideFit fit;
  Session session = Session::local(fit.graph, {.threads = threads});
  return train(session, fit.all, options).weights_sha256;
}

std::string on_cluster(const TrainOptions& options, const std::vector<std::string>& tasks,
                       const std::vector<std::string>& devices) {
  LocalCluster cluster(tasks);
  WideFit fit(devices);
  Session session = cluster.connect(fit.graph);
  return train(session, fit.all, options).weights_sha256;
}

TEST_CASE("synchronous training has the same bits in one process and over 2 and 4") {
  const std::string plain = alone(options_of("", ""), 1);
  const std::vector<std::pair<std::string, std::string>> lists = {{"bf16", ""},
                                                                  {"f16", "f16"},
                                                                  {"int8", ""},
                                                                  {"int8", "bf16"},
                                                                  {"w=int8,b=bf16", "w=bf16"},
                                                                  {"topk:0.0001", ""},
                                                                  {"topk:0.1", ""},
                                                                  {"sign", ""}};
  for (const auto& [gradients, values] : lists) {
    CAPTURE(gradients);
    CAPTURE(values);
    const TrainOptions options = options_of(gradients, values);
    const std::string wanted = alone(options, 1);
    CHECK(wanted != plain);
    CHECK(alone(options, 4) == wanted);
    CHECK(on_cluster(options, {"/job:ps/task:0"}, {"", ""}) == wanted);
    CHECK(
        on_cluster(options,
                   {"/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1"},
                   {"/job:worker/task:0", "/job:worker/task:1"}) == wanted);
  }
}

TEST_CASE("the bytes that are pushed and pulled are those of the codecs") {
  const auto slice_of = [](const std::string& gradients, const std::string& values) {
    WideFit fit;
    Session session = Session::local(fit.graph, {.threads = 1});
    train(session, fit.all, options_of(gradients, values));
    for (const ParameterSlice& slice : parameter_slices(session))
      if (slice.parameter == "w") return slice;
    return ParameterSlice{};
  };
  const int64_t n = WideFit::kRows * WideFit::kColumns, pushes = 12;
  CHECK(slice_of("", "").pushed_bytes == pushes * n * 4);
  CHECK(slice_of("bf16", "").pushed_bytes == pushes * n * 2);
  CHECK(slice_of("int8", "").pushed_bytes ==
        pushes * (n + (n + 255) / 256 * int64_t{sizeof(float)}));
  CHECK(slice_of("", "bf16").pulled_bytes < slice_of("", "").pulled_bytes);
}

TEST_CASE("values that steps pull are rounded, and those of other runs are not") {
  WideFit fit;
  Session session = Session::local(fit.graph, {.threads = 1});
  train(session, fit.all, options_of("", "bf16"));
  const Tensor w = parameter_value(session, "w");
  const auto is_rounded = [](float x) { return static_cast<float>(BFloat16(x)) == x; };
  CHECK_FALSE(std::all_of(w.values<float>().begin(), w.values<float>().end(), is_rounded));
}

TEST_CASE("a NaN is named by replica, step and element, whatever the codec is") {
  for (const char* const codec : {"bf16", "f16", "int8"}) {
    CAPTURE(codec);
    LocalFit fit(sgd(0.01), 2);
    fit.all.at(1).batch = [batch = fit.all.at(1).batch](int64_t step) {
      if (step != 3) return batch(step);
      return std::vector<Tensor>{Tensor::of<double>({1, NAN}, {2, 1})};
    };
    const Refusal refusal = refusal_of([&] {
      fit.train({.compression = {codec, ""}, .steps = 10});
    });
    CHECK(refusal.code == Errc::bad_data);
    has(refusal.text, "replica 1");
    has(refusal.text, "step 3");
  }
}

TEST_CASE("a codec with a residual is refused where a residual could be lost") {
  const auto text = [](const std::function<void(TrainOptions&)>& change) {
    WideFit fit;
    Session session = Session::local(fit.graph, {.threads = 1});
    TrainOptions options = options_of("topk:0.1", "");
    change(options);
    const Refusal refusal = refusal_of([&] { train(session, fit.all, options); });
    CHECK(refusal.code == Errc::invalid_argument);
    return refusal.text;
  };
  has(text([](TrainOptions& o) { o.rule = aggregation_from_string("sync-backup:1"); }),
      "the rule sync-backup:1 leaves gradients out");
  has(text([](TrainOptions& o) { o.bad_gradients = TrainOptions::BadGradients::skip; }),
      "bad_gradients fail or roll_back");
  LocalFit wide;  // in f64
  has(refusal_of([&] {
        wide.train({.compression = {"w=sign", ""}, .steps = 2});
      }).text,
      "only parameters in f32 that are trained have a codec with a residual");
}

TEST_CASE("with a residual a training that is resumed has the bits of one that was not") {
  for (const char* const codec : {"topk:0.05", "sign"}) {
    const auto trained_to = [&](Folder& folder, int64_t steps, bool resume) {
      WideFit fit;
      Session session = Session::local(fit.graph, {.threads = 1});
      TrainOptions options = options_of(codec, "");
      options.steps = steps;
      options.checkpoint_dir = folder.path();
      options.checkpoint_every = 4;
      options.resume = resume;
      return train(session, fit.all, options).weights_sha256;
    };
    Folder once("residual-once"), twice("residual-twice");
    const std::string wanted = trained_to(once, 8, false);
    trained_to(twice, 4, false);
    CHECK(trained_to(twice, 8, true) == wanted);
  }
}

TEST_CASE("lost residuals take the towers back to a checkpoint, though no shard is lost") {
  const TrainLoop::Millis now{0};
  TrainLoop loop({.replicas = {0}, .steps = 9, .checkpoints = true}, {});
  loop.begin(now);
  loop.step_done(0, 0, 1, now);
  CHECK(loop.shards_lost("a worker is gone", now, /*residuals=*/true).back().kind ==
        TrainAction::cancel);
  const TrainActions actions = loop.step_failed(0, 1, Errc::cancelled, "", now);
  REQUIRE_FALSE(actions.empty());
  CHECK(actions.back().kind == TrainAction::restore);
  CHECK(actions.back().code == Errc::bad_data);  // the shards are not looked at
  CHECK(loop.restored({{0, 0}}, now).back().kind == TrainAction::start);
  CHECK(loop.recoveries() == 1);
}

TEST_CASE("a list that does not fit the graph ends the training before any step") {
  LocalFit fit;
  const auto text = [&](const std::string& gradients, const std::string& values) {
    const Refusal refusal = refusal_of([&] {
      fit.train({.compression = {gradients, values}, .steps = 2});
    });
    CHECK(refusal.code == Errc::invalid_argument);
    return refusal.text;
  };
  has(text("v=bf16", ""), "TrainOptions::compression.gradients names v");
  has(text("w=fp8", ""), "\"fp8\" is no codec");
  has(text("", "w=int8"), "int8 is for gradients");
  CHECK(fit.train(steps(2)).steps == 2);
}

}  // namespace
}  // namespace troupe
