// Loops in executors: kernels that throw and op actors that are killed in the middle of one, values
// that come in any order, steps that end early. The harness is
// tests/support/engine/executor_rig.hpp.

#include "tests/support/engine/executor_graphs.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

Tensor number(int32_t x) { return Tensor::scalar(x); }

// for (i = 0, s = 0; i < n; ++i) s = f(s + 1), f(x) = x, or 5 x by a Flaky, on a device.
struct LoopRig : ExecutorRig {
  Output n, zero;
  explicit LoopRig(int lanes = 1) : ExecutorRig(lanes) {
    n = input("n", Shape{});
    zero = input("zero", Shape{});
  }
  void loop(const char* device, std::string_view f, int64_t in_flight = 4) {
    const std::vector<Output> end = while_loop(
        [&](const std::vector<Output>& v) {
          return op("Less", {v[0], n});
        },
        [&](const std::vector<Output>& v) {
          const auto there = on(device);
          return std::vector<Output>{op("AddOne", {v[0]}), op(f, {op("AddOne", {v[1]})}, "f")};
        },
        {zero, zero}, {.iterations_in_flight = in_flight});
    build({end[1]}, {n, zero});
  }
};

}  // namespace

TEST_CASE("a loop waits for kernels that finish later, and runs again those that throw") {
  for (const char* device : {ExecutorRig::kClient, ExecutorRig::kOther}) {
    CAPTURE(device);
    LoopRig rig;
    rig.loop(device, "Later");
    const int64_t before = rig.used_bytes();
    LoopRig::Run step(rig, 1, {number(1'002), number(0)});
    step.fire();
    for (int i = 0; i < 1'002; ++i) {
      const auto firing = knobs().next_later();
      CHECK(firing->input(0).item<int32_t>() == i + 1);
      firing->done({firing->input(0)});
    }
    CHECK(step.finish().code == Errc::ok);
    CHECK(step.values[0].item<int32_t>() == 1'002);
    step.values.clear();
    CHECK(rig.used_bytes() == before);
  }
  LoopRig rig;
  rig.loop(ExecutorRig::kClient, "Flaky");
  knobs().failures = 2;
  CHECK(rig.run({number(2), number(0)})[0].item<int32_t>() == 30);
  CHECK(rig.client().kernel_restarts() == 2);
  knobs().failures = kKernelRestartsMax + 1;
  rig.run({number(1'000), number(0)});
  CHECK(rig.last.code == Errc::io);
  CHECK_MESSAGE(contains(rig.last.text, "node while/body/f on"), rig.last.text);
  CHECK_MESSAGE(contains(rig.last.text, "the loop while/While was in iteration 0"), rig.last.text);
  CHECK(rig.run({number(2), number(0)})[0].item<int32_t>() == 30);
}

TEST_CASE("op actors may be killed while a loop runs over two executors") {
  LoopRig rig(2);
  rig.loop(ExecutorRig::kOther, "AtOnce");
  for (int i = 0; i < 60; ++i) {
    PartitionExecutor& victim = rig.executor(static_cast<size_t>(i % 2));
    LoopRig::Run step(rig, 100 + i, {number(50), number(0)});
    step.fire();
    caf::anon_send_exit(victim.op_actor(static_cast<uint32_t>(i / 2) %
                                        static_cast<uint32_t>(victim.program().nodes.names.size())),
                        caf::exit_reason::kill);
    CHECK(step.finish().code == Errc::ok);
    CHECK(step.values[0].item<int32_t>() == 50);
  }
}

TEST_CASE("iterations over two executors give the same on 1, 2 and 4 threads, however many fly") {
  for (int lanes : {1, 2, 4})
    for (int64_t in_flight : {1, 2, 16})
      for (const char* f : {"AtOnce", "Slow", "Flaky"}) {
        CAPTURE(lanes);
        CAPTURE(in_flight);
        CAPTURE(f);
        LoopRig rig(lanes);
        rig.loop(ExecutorRig::kOther, f, in_flight);
        uint32_t want = 0;
        for (int i = 0; i < 40; ++i) want = (want + 1) * (f[0] == 'F' ? 5 : 1);
        for (int i = 0; i < 5; ++i)
          CHECK(rig.run({number(40), number(0)})[0].item<int32_t>() == static_cast<int32_t>(want));
      }
}

TEST_CASE("what executors tell each other of iterations may come twice") {
  for (int64_t in_flight : {1, 2, 4}) {
    CAPTURE(in_flight);
    LoopRig rig(2);
    rig.repeats = true;
    knobs().work = 20'000;  // so the device that counts is ahead, as far as it may be
    const std::vector<Output> end = while_loop(
        [&](const std::vector<Output>& v) {
          return rig.op("Less", {v[0], rig.n});
        },
        [&](const std::vector<Output>& v) {
          const Output next = rig.op("AddOne", {v[0]});
          const auto there = rig.on(ExecutorRig::kOther);
          return std::vector<Output>{next, rig.op("Slow", {v[1]})};
        },
        {rig.zero, rig.zero}, {.iterations_in_flight = in_flight});
    rig.build({end[0], end[1]}, {rig.n, rig.zero});
    for (int i = 0; i < 10; ++i) {
      rig.run({number(40), number(0)});
      CHECK_MESSAGE(rig.last.code == Errc::ok, rig.last.text);
    }
  }
}

TEST_CASE("a step that is cancelled in a loop ends, and the next one runs") {
  for (const char* device : {ExecutorRig::kClient, ExecutorRig::kOther}) {
    CAPTURE(device);
    LoopRig rig;
    rig.loop(device, "Later");
    const int64_t before = rig.used_bytes();
    {
      LoopRig::Run step(rig, 1, {number(100), number(0)});
      step.fire();
      for (int i = 0; i < 7; ++i) {
        const auto firing = knobs().next_later();
        firing->done({firing->input(0)});
      }
      const auto open = knobs().next_later();
      rig.client().cancel(1, Errc::cancelled, "enough");
      const StepResult result = step.finish();
      CHECK(result.code == Errc::cancelled);
      CHECK_MESSAGE(contains(result.text, "the loop while/While was in iteration 7"), result.text);
    }
    CHECK(rig.used_bytes() == before);
    LoopRig::Run step(rig, 2, {number(3), number(0)});
    step.fire();
    for (int i = 0; i < 3; ++i) {
      const auto firing = knobs().next_later();
      firing->done({firing->input(0)});
    }
    CHECK(step.finish().code == Errc::ok);
    CHECK(step.values[0].item<int32_t>() == 3);
  }
}

TEST_CASE("values of a run that is not armed yet wait by edge and iteration") {
  EarlyValues early;
  for (int64_t iteration : {0, 1, 1}) {
    Deliver value = ExecutorRig::deliver(5, 3, ints({1}));
    value.key.iteration = iteration;
    early.add(std::move(value), "f");
  }
  CHECK(early.take(5).values.size() == 2);
}

}  // namespace troupe
