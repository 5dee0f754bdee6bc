// Traces: the events of steps, and how the clocks of several hosts are aligned.
#include "tests/support/engine/own_op.hpp"
#include "tests/support/engine/executor_graphs.hpp"
#include "data/files/json.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

// The names of the events of one category.
std::vector<std::string> names(const std::string& trace, const std::string& category) {
  const Json json = parse_json(trace, "trace");
  std::vector<std::string> out;
  for (const Json& e : json.find("traceEvents")->items)
    if (const Json* c = e.find("cat"); c && c->text == category && e.find("ph")->text != "e")
      out.push_back(e.find("name")->text);
  return out;
}

}  // namespace

TEST_CASE("a traced step leaves a bar for each kernel, for what it waited for, sent and received") {
  ExecutorRig rig;
  const Output x = rig.input();
  const Output there = within(rig.on(ExecutorRig::kOther), [&] {
    return rig.op("AddOne", {rig.op("Later", {x}, "pull")}, "inc");
  });
  rig.build({rig.op("AddOne", {there}, "last")}, {x});
  rig.tracer.start();
  ExecutorRig::Run step(rig, 77, {ints({1, 2})});
  step.fire();
  knobs().next_later()->done({ints({3, 4})});
  CHECK(step.finish().code == Errc::ok);
  rig.tracer.stop();
  const std::string trace = chrome_trace({rig.tracer.take(rig.tracer.started_ns())});
  CAPTURE(trace);
  CHECK(names(trace, "kernel") == std::vector<std::string>{"inc", "last"});
  CHECK(names(trace, "wait") == std::vector<std::string>{"pull"});
  CHECK(names(trace, "send").size() == 2);
  CHECK(names(trace, "receive").size() == 2);
  CHECK(contains(trace, "\"run\":77"));
}

TEST_CASE("a node that does the work of several says whose, and counts what they compute") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {4, 3}, "x");
  const Output w = placeholder(g, DType::f32, {3, 5}, "w");
  const Output p = matmul(x, w), y = relu(p), s = reduce_sum(square(x));
  Session session = Session::local(g, {.threads = 1});
  const Callable step = session.prepare({y, s}, {x, w});
  session.start_trace();
  step({Tensor::zeros(DType::f32, {4, 3}), Tensor::zeros(DType::f32, {3, 5})});
  const Json trace = parse_json(session.stop_trace(), "trace");
  int found = 0;
  for (const Json& e : trace.find("traceEvents")->items) {
    const Json* c = e.find("cat");
    if (!c || c->text != "kernel") continue;
    const Json* args = e.find("args");
    const bool product = e.find("name")->text == y.name();
    CHECK(args->find("members")->text ==
          (product ? p.name() + ", " + y.name() : "Square, " + s.name()));
    if (product) CHECK(args->find("flops")->text == "120");
    CHECK((args->find("flops") != nullptr) == product);
    ++found;
  }
  CHECK(found == 2);
}

namespace {

// A kernel of two jobs that wait for each other, so two threads run them.
struct Pair {
  static inline std::mutex mutex;
  static inline std::condition_variable came;
  static inline int inside = 0;
  static void kernel(KernelContext& ctx) {
    inside = 0;
    ctx.parallel(2, [](int64_t) {
      std::unique_lock lock(mutex);
      ++inside;
      came.notify_all();
      came.wait_for(lock, std::chrono::seconds(20), [] { return inside == 2; });
    });
    ctx.set_output(0, ctx.input(0));
  }
};

}  // namespace

TEST_CASE("what other lanes do of a kernel, and what is copied from a device, has bars as well") {
  Graph g(ops_with({own_op("Pair", {.run = Pair::kernel})}));
  const Output x = placeholder(g, DType::f32, {3}, "x");
  const Output pair = g.add({.op = "Pair", .inputs = {x}, .name = "pair"});
  const auto there = g.scope({.device = "/device:shadow:0"});
  const Output y = relu(pair);
  Session session = Session::local(g, {.threads = 3, .shadow_devices = 1});
  const Callable step = session.prepare({y}, {x});
  std::vector<std::string> jobs, copies;
  // A helping thread records its event only after the step has gone on or even ended.
  for (int tries = 0; jobs.empty() && tries < 100; ++tries) {
    session.start_trace();
    for (int i = 0; i < 4; ++i) step({Tensor::of<float>({1, -1, 2}, {3})});
    const std::string trace = session.stop_trace();
    jobs = names(trace, "job");
    copies = names(trace, "copy");
  }
  REQUIRE_FALSE(jobs.empty());
  CHECK(jobs[0] == "jobs of a kernel on another thread");
  CHECK(copies.size() == 4);
}

TEST_CASE("a trace is valid JSON whatever nodes are called, with nanoseconds from its origin on") {
  Tracer tracer("pro\"cess\\", 3);
  tracer.record({.category = "kernel", .name = "before the start"});
  tracer.start();
  const int64_t origin = 1'700'000'000'000'000'000;
  tracer.record({.category = "kernel",
                 .name = "a\n\"b\"\\",
                 .begin_ns = origin + 1234,
                 .end_ns = origin + 5678});
  tracer.record({.category = "wait", .name = "w", .begin_ns = origin - 10, .end_ns = origin});
  const std::string trace = chrome_trace({tracer.take(origin), std::string{}});
  const Json json = parse_json(trace, "trace");
  const std::vector<Json>& events = json.find("traceEvents")->items;
  REQUIRE(events.size() == 4);
  CHECK(events[0].find("args")->find("name")->text == "pro\"cess\\");
  CHECK(events[1].find("name")->text == "a\n\"b\"\\");
  CHECK(events[1].find("ts")->text == "1.234");
  CHECK(events[1].find("dur")->text == "4.444");
  CHECK(events[2].find("ts")->text == "-0.010");
  CHECK(events[3].find("ts")->text == "0.000");
  CHECK(chrome_trace({}).size() == chrome_trace({std::string{}}).size());
}

TEST_CASE("clocks that may agree are not corrected; others by the quickest answer") {
  CHECK(clock_ahead_ns({}) == 0);
  CHECK(clock_ahead_ns({{100, 105, 110}}) == 0);
  CHECK(clock_ahead_ns({{100, 110, 110}, {200, 201, 300}}) == 0);
  CHECK(clock_ahead_ns({{100, 1'000'105, 110}}) == 1'000'000);
  // The slow answer was delayed on its way back, so its estimate is too low.
  CHECK(clock_ahead_ns({{100, 1'000'105, 2'000}, {3'000, 1'003'005, 3'010}}) == 1'000'000);
  CHECK(clock_ahead_ns({{1'000'000, 5, 1'000'010}}) == -1'000'000);
}

}  // namespace troupe
