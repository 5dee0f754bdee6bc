// Nodes that find no memory beside others of their step: in which order they are tried again, who
// waits for them meanwhile, and for what they wait.

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "tests/support/refusal.hpp"
#include "troupe/custom_op.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kPatience{20};       // nobody waits that long for what does come
constexpr std::chrono::milliseconds kNothing{100};  // for what does not come
constexpr int64_t kMega = 1'000'000;

enum Name : size_t { a, b, c, d, kNames };

// The bytes that the kernel of a Piece node takes, and its counts.
struct Piece {
  int64_t made = 800, scratch = 0;
  std::function<bool()> begins = [] { return true; };  // it waits for that,
  std::function<bool()> ends = [] { return true; };    // and, with its memory, for that
  std::function<bool()> comes;                         // and looks whether that does then
  bool came = false;
  int begun = 0, has_memory = 0, refused = 0;  // times
};

struct Script {
  std::array<Piece, kNames> pieces;
  std::mutex mutex;  // guards the counts in `pieces`, and the rest
  std::condition_variable changed;
  int late = 0;  // how often patience has come to its end

  void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& what) {
    if (!changed.wait_for(lock, kPatience, what)) ++late;
  }
  void run(KernelContext& ctx) {
    Piece& piece = pieces[static_cast<size_t>(ctx.attr<int64_t>("piece"))];
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
    while (std::chrono::steady_clock::now() < until) {  // it is costly
    }
    std::unique_lock lock(mutex);
    wait(lock, piece.begins);
    ++piece.begun;
    changed.notify_all();
    Tensor scratch;
    try {
      ctx.output(0, Shape{piece.made / 8});
      scratch = ctx.scratch(DType::i64, Shape{piece.scratch / 8});
    } catch (const Error&) {
      ++piece.refused;
      changed.notify_all();
      throw;
    }
    ++piece.has_memory;
    changed.notify_all();
    wait(lock, piece.ends);
    if (piece.comes) piece.came = changed.wait_for(lock, kNothing, piece.comes);
    std::fill_n(ctx.output().mutable_data<int64_t>(), piece.made / 8, 1);
  }
};
std::unique_ptr<Script> script;
Piece& piece(Name name) { return script->pieces[name]; }

std::shared_ptr<const Registry> scripted_ops() {
  static const auto all = ops_with(
      {{.name = "Piece",
        .inputs = {"x..."},
        .outputs = {"y"},
        .attrs = {{"piece", AttrKind::integer}, {"size", AttrKind::integer}},
        .infer_shapes =
            [](const InferContext& ctx) { return std::vector{Shape{ctx.attr<int64_t>("size")}}; },
        .no_gradient = "whole numbers have none",
        .kernels = {{DeviceKind::cpu, DType::i64, [](KernelContext& k) { script->run(k); }}},
        .value_shapes = true}});
  return all;
}

struct Program {
  Graph graph{scripted_ops()};
  Output x = placeholder(graph, DType::i64, {}, "x");
  Program() { script = std::make_unique<Script>(); }
  // `bytes` < 0: as many as the script says.
  Output add(Name name, const std::vector<Output>& inputs, int64_t bytes = -1) {
    if (bytes >= 0) piece(name).made = bytes;
    return graph.add({"Piece",
                      inputs,
                      {{"piece", static_cast<int64_t>(name)}, {"size", bytes < 0 ? -1 : bytes / 8}},
                      std::string(1, static_cast<char>('a' + name))});
  }
  Session session(int64_t budget, int threads) {
    return Session::local(graph,
                          {.threads = threads, .memory_budget_bytes = budget, .passes = false});
  }
  // Until costs have been measured.
  static void warm_up(const Callable& step) {
    for (int i = 0; i < 3; ++i) step({Tensor::scalar(int64_t{1})});
  }
  static void check(const Callable& step) {
    const Refusal refused = refusal_of([&] { step({Tensor::scalar(int64_t{1})}); });
    CHECK_MESSAGE(refused.code == Errc::ok, refused.text);
    CHECK(script->late == 0);
  }
};

}  // namespace

TEST_CASE("of nodes that found no memory the one goes first that one thread would fire first") {
  for (int round = 0; round < 5; ++round) {
    Program program;
    const Output of_c = program.add(c, {program.x}), of_a = program.add(a, {program.x}),
                 of_d = program.add(d, {of_c, of_a}), of_b = program.add(b, {program.x});
    Session session = program.session(8 * kMega + kMega / 2, 3);
    const Callable step = session.prepare({of_d, reduce_sum(of_b)}, {program.x});
    Program::warm_up(step);
    piece(c).made = 5 * kMega;
    piece(c).scratch = piece(a).made = 3 * kMega;
    piece(b).made = 6 * kMega;  // finds room when d has fired
    piece(a).refused = piece(b).refused = piece(c).has_memory = 0;
    piece(a).begins = piece(b).begins = [] { return piece(c).has_memory > 0; };
    piece(c).ends = [] { return piece(a).refused > 0 && piece(b).refused > 0; };
    Program::check(step);
  }
}

TEST_CASE("who has to wait for the turn of a node waits while that one has found no memory") {
  Program program;
  const Output of_a = program.add(a, {program.x}, 6 * kMega), of_d = program.add(d, {of_a}, 800),
               of_c = program.add(c, {program.x}, 800),
               of_b = program.add(b, {program.x}, 5 * kMega);
  Session session = program.session(10 * kMega + kMega / 2, 2);
  const Callable step = session.prepare({of_d, of_c, of_b}, {program.x});
  Program::warm_up(step);
  piece(c).scratch = 5 * kMega;
  piece(c).has_memory = piece(b).begun = 0;
  piece(a).begins = [] { return piece(c).has_memory > 0; };
  piece(c).ends = [] { return piece(a).refused > 0; };
  piece(c).comes = [] { return piece(b).begun > 0; };
  Program::check(step);
  CHECK(piece(a).refused == 1);
  CHECK_FALSE(piece(c).came);
}

TEST_CASE("a node that finds no memory waits for calls that will let some go") {
  for (int threads : {1, 2}) {
    CAPTURE(threads);
    Program program;
    const Output of_a = program.add(a, {program.x});
    // The sum of x, n calls deep: one that does not call itself would be no call.
    Function sum =
        declare_function(program.graph, "sum", {{DType::i64, Shape{-1}}, {DType::i64, Shape{}}},
                         {{DType::i64, Shape{}}});
    sum.define([&](const std::vector<Output>& v) {
      const Output zero = fill(program.graph, {}, 0, DType::i64);
      return std::vector<Output>{cond(
          less_equal(v[1], zero), [&] { return reduce_sum(v[0]); },
          [&] {
            return sum({v[0], v[1] - 1})[0];
          })};
    });
    const Output called = sum({of_a, program.x})[0], of_b = program.add(b, {reduce_max(of_a)});
    Session session = program.session(6 * kMega, threads);
    const Callable step = session.prepare({called, reduce_sum(of_b)}, {program.x});
    Program::warm_up(step);
    piece(a).made = piece(b).made = 4 * kMega;
    for (int round = 0; round < 3; ++round) Program::check(step);
  }
}

}  // namespace troupe
