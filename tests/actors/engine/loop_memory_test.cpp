// Iterations of a loop in flight on one device, within a budget: what one iteration at a time has
// memory for, several have, however sizes change on the way.
#include <doctest/doctest.h>

#include <condition_variable>
#include <functional>
#include <mutex>

#include "devices/async_inputs.hpp"
#include "tests/support/evaluate.hpp"
#include "tests/support/engine/more_ops.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/ops/queues.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kPatience{20};       // nobody waits that long for what does come
constexpr std::chrono::milliseconds kNothing{100};  // for what does not come
constexpr int64_t kTrips = 24;

// What the kernels of a body take of the memory, by iteration, and what they did. Take begins an
// iteration and makes what Give ends it with; Take of the next one needs nothing of Give.
struct Script {
  std::function<int64_t(int64_t)> made = [](int64_t) { return 100; };  // by Take, bytes
  std::function<int64_t(int64_t)> beside = [](int64_t) { return 0; };  // by Give, while it runs
  std::vector<int64_t> finds_none;  // iterations in which Take says once that there is no memory
  int64_t kept = -1;                // iteration of which Widen is not answered
  int64_t meets = -1;               // iteration the first Give of which waits until ...
  int64_t takes_begun = 0;          // so many iterations have been begun, and
  int64_t takes_made = 0;           // in so many Take has made something.
  std::chrono::milliseconds patience = kPatience;

  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  int64_t begun = 0, taken = 0, given = 0, first = 0;  // iterations; times that the first began
  int64_t most = 0;                                    // in flight, at least
  int late = 0;                                        // how often patience has come to its end
  int refused = 0;                                     // how often Take found no memory
  std::shared_ptr<AsyncContext> widening;              // what was kept, and
  Tensor input;                                        // what it reads

  void take(KernelContext& ctx) {
    const int64_t i = ctx.input(0).item<int64_t>();
    {
      std::lock_guard lock(mutex);
      if (i == 0) {
        ++first;
        begun = taken = given = 0;
      }
      begun = std::max(begun, i + 1);
      most = std::max(most, begun - given);
      changed.notify_all();
    }
    spin();
    if (std::erase(finds_none, i) > 0) {
      std::unique_lock lock(mutex);  // when nothing else runs
      if (!changed.wait_for(lock, patience, [&] { return given >= i; })) ++late;
      throw Error(Errc::out_of_memory, "none, says the script");
    }
    Tensor& buffer = made_for(ctx, i);
    std::fill_n(buffer.mutable_data<int64_t>(), buffer.size(), i);
    *ctx.output(0).mutable_data<int64_t>() = i + 1;
    std::lock_guard lock(mutex);
    taken = std::max(taken, i + 1);
    changed.notify_all();
  }
  Tensor& made_for(KernelContext& ctx, int64_t i) {
    try {
      return ctx.output(1, Shape{made(i) / 8});
    } catch (const Error&) {
      std::lock_guard lock(mutex);
      ++refused;
      changed.notify_all();
      throw;
    }
  }
  // True: the firing is kept.
  bool widen(const std::shared_ptr<AsyncContext>& firing) {
    std::lock_guard lock(mutex);
    if (firing->input(0).data<int64_t>()[0] != kept) return false;
    kept = -1;
    widening = firing;
    input = dynamic_cast<AsyncInputs&>(*firing).take_input(
        0);  // gone when the test says so, not with the handle
    changed.notify_all();
    return true;
  }
  void give(KernelContext& ctx) {
    const int64_t i = ctx.input(2).data<int64_t>()[0];
    {
      std::unique_lock lock(mutex);
      if (i == meets) {
        meets = -1;
        if (!changed.wait_for(lock, patience,
                              [&] { return begun >= takes_begun && taken >= takes_made; }))
          ++late;
      }
    }
    spin();
    ctx.scratch(DType::i64, Shape{beside(i) / 8});
    const int64_t value = 3 * ctx.input(0).item<int64_t>() + ctx.input(1).item<int64_t>();
    *ctx.output().mutable_data<int64_t>() = value;
    std::lock_guard lock(mutex);
    given = std::max(given, i + 1);
    changed.notify_all();
  }
  // Whatever else they do, they are costly.
  static void spin() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
    while (std::chrono::steady_clock::now() < until) {
    }
  }
};
std::unique_ptr<Script> script;

std::shared_ptr<const Registry> scripted_ops() {
  static const std::shared_ptr<const Registry> all = [] {
    const std::shared_ptr<Registry> r = copy_of_builtin_ops();
    r->add({.name = "Take",
            .inputs = {"i"},
            .outputs = {"next", "buffer"},
            .infer_shapes =
                [](const InferContext&) {
                  return std::vector<Shape>{{}, {-1}};
                },
            .no_gradient = "whole numbers have none",
            .kernels = {{DeviceKind::cpu, DType::i64, [](KernelContext& c) { script->take(c); }}},
            .value_shapes = true});
    r->add({.name = "Give",
            .inputs = {"x", "next", "buffer"},
            .outputs = {"y"},
            .infer_shapes = [](const InferContext&) { return std::vector<Shape>{{}}; },
            .no_gradient = "whole numbers have none",
            .kernels = {{DeviceKind::cpu, DType::i64, [](KernelContext& c) { script->give(c); }}}});
    // Of [n]: the same, on its own memory of another size, when it likes.
    r->add({.name = "Widen",
            .inputs = {"x"},
            .outputs = {"y"},
            .attrs = {{"size", AttrKind::integer}},
            .infer_shapes =
                [](const InferContext& ctx) {
                  return std::vector<Shape>{Shape{ctx.attr<int64_t>("size")}};
                },
            .no_gradient = "whole numbers have none",
            .kernels = {
                {DeviceKind::cpu, DType::i64, nullptr, [](std::shared_ptr<AsyncContext> firing) {
                   if (script->widen(firing)) return;
                   const auto size = firing->node().attr<int64_t>("size");
                   Tensor y = Tensor::zeros(DType::i64, Shape{size});
                   std::fill_n(y.mutable_data<int64_t>(), size,
                               firing->input(0).data<int64_t>()[0]);
                   firing->done({std::move(y)});
                 }}}});
    return r;
  }();
  return all;
}

// for (i = 0, k = 0, y = 1, w = 1; i < kTrips; ++i) {
//   k, buffer = take(k); y = give(y, k, buffer); w = tanh(0.9 w); }
// What the gradient of w needs is saved. `widened`: buffers come to Give by an asynchronous op.
// `nested`: give stands in a loop of its own, which it goes through once.
struct Program {
  Graph graph{scripted_ops()};
  std::vector<Output> fetches;
  std::vector<std::string> warnings;
  explicit Program(int64_t in_flight, int64_t widened = 0, bool nested = false) {
    script = std::make_unique<Script>();
    const Output zero = fill(graph, {}, 0, DType::i64), one = fill(graph, {}, 1, DType::i64),
                 w = fill(graph, {3}, 1);
    const std::vector<Output> end = while_loop(
        [&](const std::vector<Output>& v) {
          return less(v[0], fill(graph, {}, kTrips, DType::i64));
        },
        [&](const std::vector<Output>& v) {
          const Output take = graph.add({"Take", {v[1]}, {}, "take"}),
                       made = {&graph, take.node, 1};
          const Output buffer =
              widened ? graph.add({"Widen", {made}, {{"size", widened}}, "widen"}) : made;
          const auto give = [&](Output y) {
            return graph.add({"Give", {y, take, buffer}, {}, "give"});
          };
          const auto in_a_loop = [&] {
            return while_loop(
                [&](const std::vector<Output>& w) {
                  return less(w[0], fill(graph, {}, 1, DType::i64));
                },
                [&](const std::vector<Output>& w) {
                  return std::vector<Output>{w[0] + 1, give(w[1])};
                },
                {zero, v[2]}, {.iterations_in_flight = in_flight, .name = "inner"})[1];
          };
          return std::vector<Output>{v[0] + 1, take, nested ? in_a_loop() : give(v[2]),
                                     tanh(v[3] * 0.9)};
        },
        {zero, zero, one, w}, {.iterations_in_flight = in_flight});
    fetches = {end[2], gradients({reduce_sum(end[3])}, {w})[0]};
  }
  Session session(int64_t budget) {
    ProcessOptions options{.threads = 2, .memory_budget_bytes = budget, .passes = false};
    options.log = [this](LogLevel level, const std::string& line) {
      if (level == LogLevel::warn) warnings.push_back(line);
    };
    return Session::local(graph, options);
  }
  bool warned(const std::string& what) const {
    for (const std::string& line : warnings)
      if (line.find(what) != std::string::npos) return true;
    return false;
  }
};

constexpr int64_t kMega = 1'000'000;

// Iterations in flight, and whether there is a loop in the loop.
const std::vector<std::pair<int64_t, bool>> kSettings = {
    {1, false}, {8, false}, {1, true}, {8, true}};

// The values without a limit, one iteration after another.
std::vector<Tensor> expected() {
  Program program(1);
  Session session = program.session(1'000 * kMega);
  return session.run(program.fetches);
}

void check(Session& session, const Program& program, const std::vector<Tensor>& want) {
  std::vector<Tensor> got;
  const Refusal refused = refusal_of([&] { got = session.run(program.fetches); });
  CHECK_MESSAGE(refused.code == Errc::ok, refused.text);
  for (size_t k = 0; k < got.size(); ++k) CHECK(same_bits(got[k], want[k]));
  CHECK(script->late == 0);
}

}  // namespace

TEST_CASE("an iteration that finds no memory waits until the one before has ended") {
  const std::vector<Tensor> want = expected();
  for (const auto& setting : kSettings) {
    const int64_t in_flight = setting.first;
    const bool nested = setting.second;
    CAPTURE(in_flight);
    CAPTURE(nested);
    Program program(in_flight, 0, nested);
    Session session = program.session(6 * kMega);
    check(session, program, want);  // small ones
    script->made = [](int64_t i) { return i < 10 ? 800 : 4 * kMega; };
    if (in_flight > 1) {
      script->meets = 10;
      script->takes_begun = 12;  // the next one has no room
    }
    for (int round = 0; round < 3; ++round) check(session, program, want);
    CHECK(program.warned("fewer iterations at a time: loop=while/While") == (in_flight > 1));
    CHECK_FALSE(program.warned("begins again"));
  }
}

TEST_CASE("a loop in which later iterations hold what an earlier one needs begins again, alone") {
  const std::vector<Tensor> want = expected();
  for (const auto& setting : kSettings) {
    const int64_t in_flight = setting.first;
    const bool nested = setting.second;
    CAPTURE(in_flight);
    CAPTURE(nested);
    Program program(in_flight, 0, nested);
    Session session = program.session(7 * kMega);
    check(session, program, want);
    const int64_t used = session.device_states()[0].used_bytes;
    script->made = [](int64_t i) { return i < 10 ? 800 : kMega; };
    script->beside = [](int64_t i) { return i == 10 ? 5 * kMega : 0; };
    script->first = 0;
    if (in_flight > 1) {
      script->meets = 10;
      script->takes_made = 14;
    }
    check(session, program, want);
    CHECK(script->first == (in_flight > 1 ? 2 : 1));
    CHECK(program.warned("begins again: loop=while/While") == (in_flight > 1));
    CHECK(session.device_states()[0].used_bytes == used);
    script->most = script->first = 0;
    for (int round = 0; round < 2; ++round) check(session, program, want);  // that is remembered
    CHECK(script->first == 2);
    CHECK(script->most == 1);
  }
}

TEST_CASE("a node that found memory when it was alone waits again in a later iteration") {
  const std::vector<Tensor> want = expected();
  for (bool nested : {false, true}) {
    CAPTURE(nested);
    Program program(8, 0, nested);
    Session session = program.session(1'000 * kMega);
    constexpr int kRounds = 20;
    script->first = 0;
    for (int round = 0; round < kRounds; ++round) {
      // Both are in the same copy of the body.
      script->finds_none = {11, 19};
      check(session, program, want);
      CHECK(script->finds_none.empty());
    }
    CHECK(script->first == kRounds);
    CHECK(program.warned("fewer iterations at a time"));
    CHECK_FALSE(program.warned("begins again"));
  }
}

TEST_CASE("an iteration that finds no memory waits for what the one before has asked for") {
  const std::vector<Tensor> want = expected();
  constexpr int64_t kWidened = 800;
  Program program(8, kWidened);
  Session session = program.session(6 * kMega);
  check(session, program, want);
  script->made = [](int64_t i) { return i < 10 ? 800 : 4 * kMega; };
  for (int round = 0; round < 2; ++round) {
    script->refused = 0;
    script->kept = 10;
    int tries = 1;
    std::thread answers([&tries] {
      std::unique_lock lock(script->mutex);
      const auto comes = [] { return script->widening && script->refused > 0; };
      if (!script->changed.wait_for(lock, kPatience, comes)) ++script->late;
      const auto again = [&tries] { return script->refused > tries; };
      while (script->changed.wait_for(lock, kNothing, again)) tries = script->refused;
      const std::shared_ptr<AsyncContext> firing = std::exchange(script->widening, nullptr);
      script->input = {};
      lock.unlock();
      if (!firing) return;
      Tensor y = Tensor::zeros(DType::i64, Shape{kWidened});
      std::fill_n(y.mutable_data<int64_t>(), kWidened, 10);
      firing->done({std::move(y)});
    });
    check(session, program, want);
    answers.join();
    CHECK(tries <= 8);  // once more for each iteration that ended before the one that waits
  }
}

TEST_CASE("an iteration that waits for another loop's does not keep that from its turn") {
  // One loop takes two values from a queue in each iteration, another one puts in one.
  constexpr int64_t kTaken = 12, kPut = 2 * kTaken;
  script = std::make_unique<Script>();
  script->made = [](int64_t i) { return i < 6 ? kMega / 10 : 4 * kMega; };
  Graph graph{scripted_ops()};
  const Output zero = fill(graph, {}, 0, DType::i64);
  const Queue queue = make_queue(graph, {{DType::i64, Shape{}}}, {.capacity = 64});
  const auto loop = [&](int64_t trips, const auto& body) {
    return while_loop(
        [&](const std::vector<Output>& v) {
          return less(v[0], fill(graph, {}, static_cast<double>(trips), DType::i64));
        },
        [&](const std::vector<Output>& v) {
          const Output take = graph.add({"Take", {v[0]}, {}, "take"});
          const Output i = reduce_max(Output{&graph, take.node, 1});
          return std::vector<Output>{v[0] + 1, v[1] + body(i)};
        },
        {zero, zero});
  };
  const Output taken =
      loop(kTaken, [&](Output i) { return i + reduce_sum(dequeue_many(queue, 2)[0]); })[1];
  const Output put = loop(kPut, [&](Output i) { return enqueue(queue, {i}) * 0; })[0];
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    Session session =
        Session::local(graph, {.threads = 3, .memory_budget_bytes = 10 * kMega, .passes = false});
    std::vector<Tensor> got;
    const Refusal refused = refusal_of([&] {
      got = session.run({taken, put}, {}, {.timeout = std::chrono::seconds(20)});
    });
    REQUIRE_MESSAGE(refused.code == Errc::ok, refused.text);
    CHECK(got[0].item<int64_t>() == kTaken * (kTaken - 1) / 2 + kPut * (kPut - 1) / 2);
  }
}

TEST_CASE("what a loop made beside its condition for one iteration more is gone when it ends") {
  for (int64_t in_flight : {1, 8}) {
    CAPTURE(in_flight);
    script = std::make_unique<Script>();
    Graph graph{scripted_ops()};
    const Output x = placeholder(graph, DType::i64, {-1}, "x"),
                 trips = placeholder(graph, DType::i64, {}, "trips"),
                 zero = fill(graph, {}, 0, DType::i64);
    Output next;
    const Output end = while_loop(
        [&](const std::vector<Output>& v) {
          const Output take = graph.add({"Take", {v[0]}, {}, "take"});
          next = v[1] + reduce_sum(Output{&graph, take.node, 1}) * 0 + 1;
          return less(v[0], trips);
        },
        [&](const std::vector<Output>& v) {
          return std::vector<Output>{v[0] + 1, next};
        },
        {zero, x}, {.iterations_in_flight = in_flight})[1];
    Session session = Session::local(graph, {.threads = 2, .passes = false});
    const Callable step = session.prepare({end}, {x, trips});
    const Tensor values = Tensor::zeros(DType::i64, Shape{100'000});
    const auto run = [&](int64_t n) {
      const Tensor got = step({values, Tensor::scalar(n)})[0];
      CHECK(got.data<int64_t>()[99'999] == n);
    };
    for (int64_t n = 17; n < 20; ++n) run(n);
    const int64_t used = session.device_states()[0].used_bytes;
    CHECK(used < 100'000);
    for (int64_t n = 20; n < 40; ++n) run(n);
    CHECK(session.device_states()[0].used_bytes < 100'000);
  }
}

TEST_CASE("what asynchronous kernels make counts as what an iteration needs") {
  const std::vector<Tensor> want = expected();
  Program program(8, kMega / 8);
  Session session = program.session(12 * kMega);
  check(session, program, want);
  for (int64_t trips : {1, 2}) {
    CAPTURE(trips);
    script->most = 0;
    script->meets = 12;
    script->takes_begun = 20;
    script->patience = kNothing;
    session.run(program.fetches);
    CHECK(script->most >= 2);
    CHECK(script->most <= 6);  // twice a megabyte for each
    script->late = 0;
  }
}

}  // namespace troupe
