// A budget that is too small, alone, beside other steps, in a loop and on a lane; and how much
// memory steps took at most.

#include <sstream>

#include "tests/support/refusal.hpp"
#include "tests/support/engine/executor_graphs.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

constexpr int64_t kElements = 25'000, kBytes = kElements * 4;

Tensor large(int32_t value) {
  Tensor x = Tensor::zeros(DType::i32, Shape{kElements});
  std::fill_n(x.mutable_data<int32_t>(), kElements, value);
  return x;
}

// Has all of a memory that is left, in pieces that are a byte smaller than the values of these
// tests, in blocks of the same size.
struct Hogs {
  explicit Hogs(Memory& memory) {
    try {
      for (;;) pieces.push_back(memory.make(DType::u8, Shape{kBytes - 1}));
    } catch (const Error& e) {
      REQUIRE(e.code() == Errc::out_of_memory);
    }
  }
  void let_go(int count) { pieces.resize(pieces.size() - static_cast<size_t>(count)); }
  std::vector<Tensor> pieces;
};

}  // namespace

TEST_CASE("out of budget says who asked for what, and the largest tensors with whose they are") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {-1}, "x"), w = parameter("w", fill(g, {60'000}, 3));
  const Output y = concat({square(x), exp(x), tanh(x), sigmoid(x), sin(x), w}, 0);
  Session session =
      Session::local(g, {.threads = 1, .memory_budget_bytes = 1'500'000, .passes = false});
  const Callable step = session.prepare({y}, {x});
  const Tensor few = Tensor::zeros(DType::f32, {1'000});
  CHECK(step({few})[0].dim(0) == 65'000);
  const int64_t before = session.device_states()[0].used_bytes;
  const Refusal refused = refusal_of([&] { step({Tensor::zeros(DType::f32, {60'000})}); });
  CHECK(refused.code == Errc::out_of_memory);
  for (const char* part :
       {"device /job:local/task:0/device:cpu:0 has no room for a tensor of 240000 bytes",
        "budget of 1500000 bytes", "raise the budget (ProcessOptions::memory_budget_bytes)",
        "it was asked for as output 0 of the ", "f32[60000]", "1. 240000 bytes: output 0 of the ",
        " node Square, f32[-1]; this step", "output 0 of the Parameter node w, f32[60000]; kept",
        "480000 of parameters and constants"})
    has(refused.text, part);
  CHECK(session.device_states()[0].used_bytes == before);
  CHECK(step({few})[0].data<float>()[1'000] == 1);
}

TEST_CASE("out of budget tells the tensors of other steps, which go on") {
  ExecutorRig rig;
  const Output x = rig.input("x", Shape{kElements});
  const Output held = rig.op("Mul", {x, x}, "held");
  rig.build({rig.op("Add", {held, rig.op("Later", {x})})}, {x});
  const int64_t used = rig.used_bytes();
  ExecutorRig::Run first(rig, 1, {large(3)});
  first.fire();  // and waits
  const auto firing = knobs().next_later();
  {
    const Hogs hogs(rig.device(ExecutorRig::kClient).memory());
    ExecutorRig::Run second(rig, 2, {large(5)});
    second.fire();
    const StepResult failed = second.finish();
    CHECK(failed.code == Errc::out_of_memory);
    has(failed.text, "node held on /job:a/task:0/device:cpu:0");
    has(failed.text, "output 0 of the Mul node held, i32[25000]; another step");
    has(failed.text, "of what no node has made");
  }
  firing->done({large(7)});
  CHECK(first.finish().code == Errc::ok);
  CHECK(same_bits(first.values[0], large(16)));
  first.values.clear();
  CHECK(rig.used_bytes() == used);
}

TEST_CASE("out of budget in a loop ends the step in that iteration, and the next step runs") {
  ExecutorRig rig;
  const Output n = rig.input("n", Shape{}), x = rig.input("x", Shape{kElements});
  const std::vector<Output> end = while_loop(
      [&](const std::vector<Output>& v) {
        return rig.op("Less", {v[0], n});
      },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{rig.op("AddOne", {v[0]}),
                                   rig.op("Mul", {v[1], v[1]}, "product")};
      },
      {rig.input("zero", Shape{}), x});
  rig.build({end[1]}, {n, x, end[0].graph->output("zero")});
  const std::vector<Tensor> values = {Tensor::scalar(int32_t{5}), large(1),
                                      Tensor::scalar(int32_t{0})};
  CHECK(same_bits(rig.run(values)[0], large(1)));
  const int64_t used = rig.used_bytes();
  {
    Hogs hogs(rig.device(ExecutorRig::kClient).memory());
    hogs.let_go(1);  // the second product needs a place beside the first
    rig.run(values);
    CHECK(rig.last.code == Errc::out_of_memory);
    has(rig.last.text, "product");
    has(rig.last.text, "this step");
    has(rig.last.text, "iteration");
  }
  CHECK(rig.used_bytes() == used);
  CHECK(same_bits(rig.run(values)[0], large(1)));
}

TEST_CASE("out of budget on a lane is the node's that ran there, and the next step runs") {
  ExecutorRig rig(2);
  knobs().work = 20;
  const Output x = rig.input("x", Shape{kElements});
  std::vector<Output> wide;
  for (int i = 0; i < 4; ++i)
    wide.push_back(rig.op("Slow", {rig.op("AddOne", {x}, "first")}, "slow"));
  rig.build({rig.op("Join", wide)}, {x});
  for (int i = 0; i < 3; ++i) rig.run({large(i)});  // until their costs have been measured
  const Tensor expected = rig.run({large(9)})[0];
  const int64_t used = rig.used_bytes();
  knobs().take_threads();
  {
    Hogs hogs(rig.device(ExecutorRig::kClient).memory());
    hogs.let_go(4);
    rig.run({large(9)});
    CHECK(rig.last.code == Errc::out_of_memory);
    has(rig.last.text, "node slow");
    has(rig.last.text, "of the AddOne node first");
    has(rig.last.text, "; this step");
    std::set<std::thread::id> threads = knobs().take_threads();
    threads.erase(std::this_thread::get_id());
    CHECK(!threads.empty());
    for (const std::string& line : rig.warnings()) CHECK(line.find('\n') == line.npos);
  }
  CHECK(rig.used_bytes() == used);
  CHECK(same_bits(rig.run({large(9)})[0], expected));
}

TEST_CASE("what a step keeps of its small values makes room for what a lane asks for") {
  Graph g;
  const Output a = placeholder(g, DType::f32, {600, 8}, "a");
  const Output b = placeholder(g, DType::f32, {8, 640}, "b");
  std::vector<Output> parts;  // 1 MB, which the step keeps once they are read
  for (int i = 0; i < 17; ++i) parts.push_back(random_uniform(g, {15'000}, 0, 1, i));
  const Output most = reduce_max(concat(parts, 0));
  const Output y = reduce_max(matmul(a + most, b));  // by way of 1.5 MB
  Session session =
      Session::local(g, {.threads = 2, .memory_budget_bytes = 2'300'000, .passes = false});
  const Callable step = session.prepare({y}, {a, b});
  const std::vector<Tensor> fed = {Tensor::zeros(DType::f32, {600, 8}),
                                   Tensor::zeros(DType::f32, {8, 640})};
  for (int i = 0; i < 10; ++i)
    CHECK(step(fed)[0].item<float>() == 0);  // from the third on, on lanes
}

TEST_CASE("a step that fits in the budget node by node fits on several lanes, too") {
  Graph g;
  std::vector<Output> most;
  for (int i = 0; i < 16; ++i)  // each by way of 1 MB
    most.push_back(expand_dims(reduce_max(cumsum(random_uniform(g, {250'000}, 0, 1, i))), 0));
  const Output y = concat(most, 0);
  std::vector<Tensor> want;
  for (const int threads : {1, 2, 4}) {
    CAPTURE(threads);
    Session session =
        Session::local(g, {.threads = threads, .memory_budget_bytes = 1'500'000, .passes = false});
    const Callable step = session.prepare({y});
    for (int64_t i = 0; i < 6; ++i) {  // from the third on, on lanes
      const Tensor got = step({}, {.step = i})[0];
      if (threads == 1)
        want.push_back(got);
      else
        CHECK(same_bits(got, want[static_cast<size_t>(i)]));
    }
  }
}

TEST_CASE("what the steps of other calls keep for their next ones makes room for a step") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {-1, 16}, "x");
  std::vector<Output> sums;
  for (int i = 0; i < 8; ++i) {
    const Output y = sort(x + static_cast<double>(i));
    sums.push_back(reduce_sum(sort(multiply(y, y))));
  }
  ProcessOptions options{.threads = 1};
  options.memory_budget_bytes = 200'000;
  Session session = Session::local(g, options);
  // Each call in turn, with sizes of their own: what one keeps does for no other.
  for (int64_t rows = 100; rows <= 800; rows += 100)
    for (const Output& sum : sums) {
      CAPTURE(rows);
      const Tensor value = Tensor::zeros(DType::f32, {rows, 16});
      CHECK(session.run({sum}, {{x, value}})[0].defined());
    }
}

TEST_CASE("a call that can only fail for want of memory is warned of when it is prepared") {
  for (const int64_t budget : {1'000'000, 10'000'000}) {
    Graph g;
    const Output x = placeholder(g, DType::f32, {100'000}, "x");
    const Output y = reduce_sum(concat({square(x), exp(x), tanh(x)}, 0));
    std::vector<std::string> warnings;
    ProcessOptions options{.threads = 1, .memory_budget_bytes = budget, .passes = false};
    options.log = [&](LogLevel level, const std::string& line) {
      if (level == LogLevel::warn) warnings.push_back(line);
    };
    Session session = Session::local(g, options);
    session.prepare({y}, {x});
    const std::vector<std::string> told = warnings;
    if (budget < 2'400'000) {
      REQUIRE(told.size() == 1);
      has(told[0], "device=/job:local/task:0/device:cpu:0 bytes=2400000 budget=1000000 at=Concat");
      has(told[0], "largest=Concat:0(1200000),");
    } else {
      CHECK(told.empty());
    }
  }
}

TEST_CASE("high-water marks are of the steps since they were reset") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {-1}, "x");
  const Output y = reduce_sum(concat({square(x), exp(x)}, 0));
  Session session = Session::local(g, {.threads = 1, .passes = false});
  const auto run = [&](int64_t n) { session.run({y}, {{x, Tensor::zeros(DType::f32, {n})}}); };
  const auto peak = [&] { return session.device_states()[0].peak_bytes; };
  run(100'000);
  CHECK(peak() >= 1'600'000);
  session.reset_peaks();
  CHECK(peak() == session.device_states()[0].used_bytes);
  run(1'000);
  CHECK(peak() < 1'000'000);
  run(200'000);
  CHECK(peak() >= 3'200'000);
}

TEST_CASE("a trace has the most memory of each step, between its samples as well") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {-1}, "x");
  const Output y = reduce_sum(concat({square(x), exp(x)}, 0));
  Session session = Session::local(g, {.threads = 1, .passes = false});
  session.run({y}, {{x, Tensor::zeros(DType::f32, {1'000'000})}});  // before the trace
  session.start_trace();
  for (const int64_t n : {300'000, 30'000}) session.run({y}, {{x, Tensor::zeros(DType::f32, {n})}});
  const std::string table = describe_trace(session.stop_trace());
  std::istringstream lines(table.substr(table.find("of 2 steps")));
  std::vector<double> most;
  for (std::string line; std::getline(lines, line) && most.size() < 2;) {
    std::istringstream words(line);
    std::vector<std::string> row;
    for (std::string word; words >> word;) row.push_back(word);
    if (row.size() == 7 && row[0].find_first_not_of("0123456789") == row[0].npos)
      most.push_back(std::stod(row.back()));
  }
  CAPTURE(table);
  REQUIRE(most.size() == 2);
  CHECK(most[0] >= 4 * 1.2 / 1.048576);  // MiB: square, exp, and both in a row
  CHECK(most[0] < 8);
  CHECK(most[1] >= 0.4);
  CHECK(most[1] < 1);
  CHECK(session.device_states()[0].peak_bytes >= 16'000'000);  // earlier peaks count
}

}  // namespace troupe
