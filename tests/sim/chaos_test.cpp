// run_chaos(): a program's own training, and its own invariants, in simulated clusters.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/support/paths.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/chaos.hpp"
#include "troupe/custom_op.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

// y = w * x + b with w = 2, b = 1; the x of a step are its own.
std::vector<Tensor> batch(int64_t replica, int64_t step) {
  const auto first = static_cast<float>((step * 7 + replica * 3) % 10) * 0.1F;
  const std::vector<float> x = {first, first - 1}, y = {2 * x[0] + 1, 2 * x[1] + 1};
  return {Tensor::of<float>(x, {2, 1}), Tensor::of<float>(y, {2, 1})};
}

Tower tower(Graph& graph, int64_t replica, const std::function<Output(Output)>& last = {}) {
  const auto scope = graph.scope({.name = detail::concat("tower", replica),
                                  .device = detail::concat("/job:worker/task:", replica),
                                  .replica = replica});
  const Output x = placeholder(graph, DType::f32, {-1, 1}, "x");
  const Output y = placeholder(graph, DType::f32, {-1, 1}, "y");
  const Output w = parameter("w", fill(graph, {1, 1}, 0)), b = parameter("b", fill(graph, {1}, 0));
  const Output sum = bias_add(matmul(x, w), b);
  const Output loss = reduce_mean(square((last ? last(sum) : sum) - y));
  return {.replica = replica,
          .loss = loss,
          .update = minimize(loss, sgd(0.3)),
          .feeds = {x, y},
          .batch = [replica](int64_t step) { return batch(replica, step); }};
}

ChaosTraining line(int ps, int workers) {
  return {.build =
              [workers](Graph& graph) {
                std::vector<Tower> towers;
                for (int i = 0; i < workers; ++i) towers.push_back(tower(graph, i));
                return towers;
              },
          .steps = 6,
          .ps = ps,
          .workers = workers,
          .checkpoint_every = 2};
}

// Same: y = x, and after some firings its kernel fails.
int64_t firings_left = INT64_MAX;
void same(KernelContext& ctx) {
  if (--firings_left < 0) throw ctx.error("the sky falls");
  const Tensor x = ctx.input(0);
  std::copy_n(x.data<float>(), x.size(), ctx.output(0, x.shape()).mutable_data<float>());
}
Op same_op() {
  return {
      .name = "Same",
      .inputs = {"x"},
      .outputs = {"y"},
      .infer_shapes = [](const InferContext& ctx) { return std::vector{ctx.input(0)}; },
      .gradient = [](const GradientContext& ctx) { return std::vector{ctx.output_gradient(0)}; },
      .kernels = {{DeviceKind::cpu, DType::f32, same}}};
}

const Invariant falls{
    "loss falls", [](const ChaosView& v) -> std::string {
      if (v.moment != ChaosView::end || v.steps.back().loss < v.steps.front().loss) return "";
      return detail::concat("from ", v.steps.front().loss, " to ", v.steps.back().loss);
    }};

int64_t words_of(const std::string& faults, std::string_view kind) {
  int64_t n = 0;
  for (size_t at = faults.find(kind); at != faults.npos; at = faults.find(kind, at + 1)) ++n;
  return n;
}
std::string said(const ChaosReport& report) { return to_string(report); }
void holds(const ChaosTraining& training, uint64_t seeds) {
  const ChaosReport report = run_chaos(training, {.seeds = seeds}, {falls});
  INFO(said(report));
  CHECK(!report.failure);
  CHECK(report.seeds == seeds);
  CHECK(!report.faults.empty());
  CHECK(report.acknowledged >= static_cast<int64_t>(seeds) * 12);
}

}  // namespace

TEST_CASE("chaos: a training holds its promises with 1 ps and 2 workers") { holds(line(1, 2), 8); }

TEST_CASE("chaos: a training holds its promises with 4 ps and 8 workers") { holds(line(4, 8), 3); }

TEST_CASE("chaos: an asynchronous training with pauses holds its promises") {
  ChaosTraining training = line(2, 3);
  training.rule = Aggregation::async;
  training.pause_every = 2;
  holds(training, 8);
}

TEST_CASE("chaos: invariants see each step, the pauses and the end, and all parameters") {
  ChaosTraining training = line(1, 2);
  training.pause_every = 2;
  int64_t steps = 0, pauses = 0, ends = 0;
  const Invariant sees{
      "sees", [&](const ChaosView& v) -> std::string {
        steps += v.moment == ChaosView::step;
        pauses += v.moment == ChaosView::pause;
        ends += v.moment == ChaosView::end;
        if (v.moment == ChaosView::step) return v.parameters.empty() ? "" : "parameters of a step";
        if (v.seed != 7 || v.time.count() <= 0) return "wrong seed or time";
        return v.parameters.count("w") && v.parameters.at("w").shape() == Shape{1, 1} ? "" : "no w";
      }};
  const ChaosReport report =
      run_chaos(training, {.first_seed = 7, .seeds = 1, .faults = "400:reset:ps0>worker1"}, {sees});
  INFO(said(report));
  CHECK(!report.failure);
  CHECK(report.faults == std::map<std::string, int64_t>{{"reset", 1}});
  CHECK(ends == 3);  // without faults, and two times with them
  CHECK(pauses >= 6);
  CHECK(steps >= 36);
}

TEST_CASE("chaos: a promise that never holds is broken without any fault") {
  const auto folder = binary_dir() + "/test-chaos";
  const Invariant negative{"loss is below 0", [](const ChaosView& v) -> std::string {
                             if (v.steps.back().loss < 0) return "";
                             return detail::concat("it is ", v.steps.back().loss, " in step ",
                                                   v.steps.back().step);
                           }};
  const ChaosReport report = run_chaos(line(1, 2), {.report_dir = folder}, {negative});
  REQUIRE(report.failure);
  CHECK(report.seeds == 1);
  CHECK(report.failure->invariant == "loss is below 0");
  CHECK(report.failure->reason.ends_with(" in step 0"));
  CHECK(report.failure->shrunk == "");
  CHECK(std::filesystem::exists(report.failure->report));
  std::filesystem::remove_all(folder);
}

TEST_CASE("chaos: a promise that a fault breaks fails, is shrunk, and is broken by the replay") {
  const Invariant once{"each step ends once", [](const ChaosView& v) -> std::string {
                         for (size_t i = 0; i + 1 < v.steps.size(); ++i)
                           if (v.steps[i].replica == v.steps.back().replica &&
                               v.steps[i].step == v.steps.back().step)
                             return detail::concat("step ", v.steps.back().step, " ended again");
                         return "";
                       }};
  ChaosTraining training = line(2, 2);
  training.checkpoint_every = 4;
  const ChaosReport report =
      run_chaos(training, {.kinds = {"kill", "reset"}, .faults_a_seed = 6}, {once});
  REQUIRE(report.failure);
  const ChaosFailure& f = *report.failure;
  INFO(said(report));
  CHECK(f.invariant == "each step ends once");
  CHECK(std::count(f.faults.begin(), f.faults.end(), ' ') == 5);
  CHECK(words_of(f.faults, ":kill:") + words_of(f.faults, ":reset:") == 6);
  REQUIRE(f.shrunk);
  CHECK(std::count(f.shrunk->begin(), f.shrunk->end(), ' ') <= 1);
  CHECK(words_of(*f.shrunk, ":kill:") >= 1);
  has(said(report), "the fewest: " + *f.shrunk);
  has(f.replay,
      detail::concat("{.first_seed = ", f.seed, ", .seeds = 1, .faults = \"", *f.shrunk, "\"}"));
  const ChaosReport again = run_chaos(
      training, {.first_seed = f.seed, .seeds = 1, .faults = f.shrunk, .shrink = false}, {once});
  REQUIRE(again.failure);
  CHECK(again.failure->invariant == f.invariant);
  CHECK(again.failure->faults == *f.shrunk);
  CHECK(!again.failure->shrunk);
  CHECK(said(again).find("the fewest") == std::string::npos);
}

TEST_CASE("chaos: a batch that is no function of its step is named, and no other invariant") {
  ChaosTraining training = line(1, 2);
  int64_t calls = 0;
  training.build = [&calls](Graph& graph) {
    std::vector<Tower> towers = {tower(graph, 0), tower(graph, 1)};
    towers[1].batch = [&calls](int64_t) { return batch(1, ++calls); };
    return towers;
  };
  SUBCASE("synchronous") {}
  SUBCASE("asynchronous") { training.rule = Aggregation::async; }
  const ChaosReport report = run_chaos(training, {.seeds = 3});
  INFO(said(report));
  REQUIRE(report.failure);
  CHECK(report.failure->invariant == "I23");
  CHECK(!report.failure->shrunk);
}

TEST_CASE("chaos: a report that cannot be written costs the report alone") {
  const auto folder = binary_dir() + "/test-chaos-taken";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/seed-1") << "a file in the place of the folder";
  const Invariant never{"never", [](const ChaosView&) { return std::string("no"); }};
  const ChaosReport report = run_chaos(line(1, 2), {.report_dir = folder}, {never});
  REQUIRE(report.failure);
  CHECK(report.failure->invariant == "never");
  has(report.failure->reason, "no; no report: ");
  CHECK(report.failure->report.empty());
  std::filesystem::remove_all(folder);
}

TEST_CASE("chaos: a graph with an op of its own trains, and its kernel may fail") {
  ChaosTraining training = line(2, 2);
  training.ops = ops_with({same_op()});
  training.build = [](Graph& graph) {
    const auto same = [&graph](Output x) { return graph.add({.op = "Same", .inputs = {x}}); };
    return std::vector<Tower>{tower(graph, 0, same), tower(graph, 1, same)};
  };
  holds(training, 3);

  firings_left = 5;
  const ChaosReport report = run_chaos(training, {.seeds = 1});
  firings_left = INT64_MAX;
  REQUIRE(report.failure);
  INFO(said(report));
  CHECK(report.failure->reason.find("the sky falls") != std::string::npos);
  CHECK(report.failure->reason.find("Same") != std::string::npos);
}

TEST_CASE("chaos: functions of a program that throw are failures with their words") {
  ChaosTraining training = line(1, 2);
  int builds = 0;
  SUBCASE("a batch") {
    training.build = [](Graph& graph) {
      std::vector<Tower> towers = {tower(graph, 0), tower(graph, 1)};
      towers[1].batch = [](int64_t step) {
        return step < 3 ? batch(1, step) : throw std::runtime_error("no record");
      };
      return towers;
    };
    const ChaosReport report = run_chaos(training);
    REQUIRE(report.failure);
    CHECK(report.failure->invariant == "error");
    CHECK(report.failure->reason == "Tower::batch of replica 1 in step 3 threw: no record");
  }
  SUBCASE("an invariant") {
    const ChaosReport report =
        run_chaos(training, {}, {Invariant{"x", [](const ChaosView&) {
                                             return std::string(nullptr == nullptr ? throw 3 : "");
                                           }}});
    REQUIRE(report.failure);
    CHECK(report.failure->invariant == "x");
    CHECK(report.failure->reason == "the invariant threw");
  }
  SUBCASE("the build of a later program") {
    for (const int last : {1, 2}) {  // the second call is that of the run without faults
      builds = 0;
      ChaosTraining later = training;
      later.build = [&builds, last, build = training.build](Graph& graph) {
        return ++builds <= last ? build(graph) : throw std::runtime_error("no graph");
      };
      const ChaosReport report = run_chaos(later);
      REQUIRE(report.failure);
      CHECK(report.failure->invariant == "error");
      CHECK(report.failure->reason == "ChaosTraining::build threw: no graph");
      has(report.failure->replay, ".first_seed = 1");
    }
  }
  SUBCASE("the first build") {
    training.build = [](Graph&) -> std::vector<Tower> { throw std::runtime_error("no graph"); };
    CHECK_THROWS_AS(run_chaos(training), std::runtime_error);
  }
}

TEST_CASE("chaos: a training or options that cannot be are refused by field") {
  const auto refused = [](const auto& change) {
    ChaosTraining training = line(1, 2);
    ChaosOptions options{.seeds = 1};
    change(training, options);
    return error_text(Errc::invalid_argument, [&] { run_chaos(training, options); });
  };
  using T = ChaosTraining;
  using O = ChaosOptions;
  has(refused([](T& t, O&) { t.build = nullptr; }), "ChaosTraining::build is empty");
  has(refused([](T& t, O&) { t.steps = 0; }), "ChaosTraining::steps is 0");
  has(refused([](T& t, O&) { t.pace = std::chrono::seconds(11); }), "wants 0 to 10000");
  has(refused([](T& t, O&) { t.ps = 0; }), "ChaosTraining::ps is 0");
  has(refused([](T& t, O&) { t.workers = 1; }), "places tower1/");
  has(refused([](T& t, O&) { t.workers = 65; }), "at most 64 processes");
  has(refused([](T& t, O&) { t.checkpoint_every = -1; }), "checkpoint_every is -1");
  has(refused([](T& t, O&) { t.ops = nullptr; }), "ChaosTraining::ops is null");
  has(refused([](T& t, O&) { t.build = [](Graph&) { return std::vector<Tower>(); }; }),
      "made no tower");
  has(refused([](T& t, O&) {
        t.build = [](Graph& graph) { return std::vector<Tower>{tower(graph, 1)}; };
      }),
      "replica 1 as tower 0");
  has(refused([](T& t, O&) {
        t.build = [](Graph& graph) {
          Tower one = tower(graph, 0), two = tower(graph, 0);
          two.replica = 1;
          return std::vector<Tower>{one, two};
        };
      }),
      "pushes no gradient as replica 1");
  has(refused([](T&, O& o) { o.seeds = 0; }), "ChaosOptions::seeds is 0");
  has(refused([](T&, O& o) { o.kinds = {"kil"}; }), "did you mean kill?");
  has(refused([](T&, O& o) { o.faults_a_seed = -1; }), "faults_a_seed is -1");
  has(refused([](T&, O& o) { o.faults = "7:kill:ps1"; }), "no process is called ps1");
  has(refused([](T&, O& o) { o.faults = "7:kill:client1"; }), "there is one, client0");
  has(refused([](T&, O& o) { o = {.kinds = {"kill"}, .faults = "7:kill:ps0"}; }), "leave kinds");

  const auto named = [](const std::vector<Invariant>& invariants) {
    return error_text(Errc::invalid_argument, [&] { run_chaos(line(1, 2), {}, invariants); });
  };
  has(named({{"nothing", nullptr}}), "\"nothing\" is empty");
  has(named({{"I5", falls.broken}}), "\"I5\" of an invariant is one of docs/simulation.md");
  has(named({falls, falls}), "two invariants are called \"loss falls\"");
}

}  // namespace troupe
