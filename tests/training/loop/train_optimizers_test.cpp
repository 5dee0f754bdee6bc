// Whole trainings in one process with every optimizer and schedule: a resumed training ends with
// the same bits, and ops between gradients and pushes take effect.

#include "tests/support/fit.hpp"
#include "tests/support/optimizers.hpp"

namespace troupe {
namespace {

TEST_CASE("a training with any optimizer and schedule is resumed to the same bits" *
          doctest::test_suite("slow")) {
  for (const Optimizer& optimizer : every_optimizer(0.02)) {
    CAPTURE(describe(optimizer));
    Folder folder("train-optimizers");
    TrainOptions options = steps(7);
    const auto run = [&] { return trained(options, optimizer); };
    const std::string whole = run().weights_sha256;
    options.checkpoint_dir = folder.path();
    options.steps = 4;
    run();
    options.steps = 7;
    options.resume = true;
    const TrainResult resumed = run();
    CHECK(resumed.resumed_at == 4);
    CHECK(resumed.weights_sha256 == whole);
  }
}

// One weight with the gradient `slope` in every step.
struct Slope {
  explicit Slope(double slope) : loss(w * slope) {}
  Graph graph;
  Output w = parameter("w", fill(graph, {}, 1, DType::f64));
  Output loss;
  double after(Output update, int64_t updates) {
    Session session = Session::local(graph);
    train(session, {{0, loss, update, {}, {}}}, steps(updates));
    return parameter_values(session).at("w").item<double>();
  }
};

TEST_CASE("shards follow the schedule, update by update") {
  for (int64_t updates : {1, 2, 5, 6}) {
    Slope slope(1);
    const Optimizer optimizer = sgd(0.5).with(step_decay(2, 0.5, 2));
    double w = 1;
    for (int64_t t = 1; t <= updates; ++t) w -= learning_rate_at(optimizer, t);
    CHECK(slope.after(minimize(slope.loss, optimizer), updates) == w);
  }
}

TEST_CASE("a gradient is clipped, and a weight decays, before the push") {
  Slope clipped(100), decayed(0);
  const Output update =
      apply_gradients(clip_by_global_norm(parameter_gradients(clipped.loss), 0.25), sgd(1));
  CHECK(clipped.after(update, 2) == 0.5);
  const auto gradients = add_weight_decay(parameter_gradients(decayed.loss), 0.5);
  CHECK(decayed.after(apply_gradients(gradients, sgd(1)), 3) == 0.125);
}

TEST_CASE("a norm that is not finite ends the training with the clip's line") {
  Slope slope(1e200);
  const Output update =
      apply_gradients(clip_by_global_norm(parameter_gradients(slope.loss), 1), sgd(1));
  CHECK_THROWS_WITH_AS(slope.after(update, 2), doctest::Contains("clip_by_global_norm at "), Error);
}

TEST_CASE("a moving average counts the weights that its step has read, and is in the checkpoint") {
  Folder folder("train-average");
  TrainOptions options{.steps = 2, .checkpoint_dir = folder.path()};
  const auto run = [&] {
    Slope slope(1);
    const MovingAverage average = moving_average(slope.w, 0.5);
    const Output update =
        group(slope.graph, {minimize(slope.loss, sgd(0.25)), average.update}, "both");
    Session session = Session::local(slope.graph);
    train(session, {{0, slope.loss, update, {}, {}}}, options);
    return parameter_values(session);
  };
  double w = 1, a = 1;
  const auto next = [&] {
    a = 0.5 * a + 0.5 * w;
    w -= 0.25;
  };
  next();
  next();
  auto values = run();
  CHECK(values.at("w").item<double>() == w);
  CHECK(values.at("w/average").item<double>() == a);
  options.steps = 4;
  options.resume = true;
  next();
  next();
  values = run();
  CHECK(values.at("w/average").item<double>() == a);
}

}  // namespace
}  // namespace troupe
