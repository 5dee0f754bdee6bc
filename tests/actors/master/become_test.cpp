// Hot swap: the kernel of a node is replaced while its graph runs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "tests/support/engine/own_op.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/within.hpp"

namespace troupe {
namespace {

// y = f(x) + 1, where f is Exp at first; `where`: of f.
struct TestProgram {
  explicit TestProgram(const std::string& where = "") {
    x = placeholder(graph, DType::f32, {2}, "x");
    f = within(graph.scope({.name = "f", .device = where}), [&] { return exp(x); });
    y = f + fill(graph, {2}, 1);
  }
  std::string name() const { return f.name(); }
  Graph graph;
  Output x, f, y;
};

const Tensor kTwoThree = Tensor::of<float>({2, 3}, {2});
Tensor ones_plus(float a, float b) { return Tensor::of<float>({a + 1, b + 1}, {2}); }

void tenfold(KernelContext& ctx) {
  const Tensor x = ctx.input(0);
  float* y = ctx.output(0).mutable_data<float>();
  for (int64_t i = 0; i < x.size(); ++i) y[i] = 10 * x.data<float>()[i];
}

// A kernel whose state holds the factor.
struct Factor final : KernelState {
  float by = 7;
};
const Kernel kWithState = {.device = DeviceKind::cpu,
                           .dtype = DType::f32,
                           .run =
                               [](KernelContext& ctx) {
                                 const Tensor x = ctx.input(0);
                                 float* y = ctx.output(0).mutable_data<float>();
                                 for (int64_t i = 0; i < x.size(); ++i)
                                   y[i] = ctx.state<Factor>().by * x.data<float>()[i];
                               },
                           .prepare = [](const Node&) -> std::unique_ptr<KernelState> {
                             return std::make_unique<Factor>();
                           }};

// With passes, f and the sum after it are one node.
constexpr bool kPasses[] = {false, true};

}  // namespace

TEST_CASE("the step after a replacement fires the new kernel, and the one after the next, that") {
  for (const bool passes : kPasses) {
    TestProgram p;
    Session session = Session::local(p.graph, {.threads = 2, .passes = passes});
    const Callable step = session.prepare({p.y}, {p.x});
    step({kTwoThree});
    CHECK(session.become(p.name(), "Square") == 1);
    CHECK(same_bits(step({kTwoThree})[0], ones_plus(4, 9)));
    CHECK(session.become(p.name(), {.dtype = DType::f32, .run = tenfold}) == 1);
    CHECK(same_bits(step({kTwoThree})[0], ones_plus(20, 30)));
    CHECK(session.become(p.name(), kWithState) == 1);
    CHECK(same_bits(step({kTwoThree})[0], ones_plus(14, 21)));
    CHECK(session.become(p.name(), "Square") == 1);
    CHECK(same_bits(step({kTwoThree})[0], ones_plus(4, 9)));
  }
}

TEST_CASE("a call that is prepared after a replacement fires the new kernel, too") {
  for (const bool passes : kPasses) {
    TestProgram p;
    Session session = Session::local(p.graph, {.threads = 1, .passes = passes});
    CHECK(session.become(p.name(), "Square") == 0);
    CHECK(same_bits(session.run({p.y}, {{p.x, kTwoThree}})[0], ones_plus(4, 9)));
    CHECK(session.become(p.name(), "Abs") == 1);
    CHECK(same_bits(session.run({p.f}, {{p.x, kTwoThree}})[0], kTwoThree));
    CHECK(session.become(p.name(), "Square") == 2);
  }
}

TEST_CASE("several nodes that have become one are replaced one by one, and may become themselves") {
  TestProgram p;
  Session session = Session::local(p.graph, {.threads = 1});
  const Callable step = session.prepare({p.y}, {p.x});
  const Tensor first = step({kTwoThree})[0];
  CHECK(session.become(p.y.name(), "Subtract") == 1);
  CHECK(session.become(p.name(), "Square") == 1);
  CHECK(same_bits(step({kTwoThree})[0], ones_plus(2, 7)));
  CHECK(session.become(p.y.name(), "Add") == 1);
  CHECK(same_bits(step({kTwoThree})[0], ones_plus(4, 9)));
  CHECK(session.become(p.name(), "Exp") == 1);
  CHECK(same_bits(step({kTwoThree})[0], first));
}

TEST_CASE("a product and a reduction that have become part of others are replaced in there") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {2, 3}, "x");
  const Output w = placeholder(g, DType::f32, {3, 2}, "w");
  const Output p = matmul(x, w), y = relu(p), s = reduce_sum(square(x));
  Session session = Session::local(g, {.threads = 1});
  const Callable step = session.prepare({y, s}, {x, w});
  const Tensor a = Tensor::of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor b = Tensor::of<float>({1, 0, 0, 1, -1, 1}, {3, 2});
  CHECK(same_bits(step({a, b})[0], Tensor::of<float>({0, 5, 0, 11}, {2, 2})));
  CHECK(session.become(s.name(), "ReduceMax") == 1);
  CHECK(same_bits(step({a, b})[1], Tensor::scalar(36.0F)));
  const Kernel sevens = {.dtype = DType::f32, .run = [](KernelContext& ctx) {
                           std::fill_n(ctx.output().mutable_data<float>(), 4, 7.0F);
                         }};
  CHECK(session.become(p.name(), sevens) == 1);
  CHECK(same_bits(step({a, b})[0], Tensor::of<float>({7, 7, 7, 7}, {2, 2})));
  CHECK(same_bits(step({a, b})[1], Tensor::scalar(36.0F)));
}

TEST_CASE("no step is lost while kernels are replaced under steps of two threads") {
  for (const bool passes : kPasses) {
    TestProgram p;
    Session session = Session::local(p.graph, {.threads = 2, .passes = passes});
    const Callable step = session.prepare({p.y}, {p.x});
    session.become(p.name(), "Square");
    constexpr int kSteps = 2'000, kSwaps = 400;
    std::atomic<int> done{0}, other{0};
    std::vector<std::thread> running;
    for (int t = 0; t < 2; ++t)
      running.emplace_back([&] {
        for (int i = 0; i < kSteps || done.load() < 2 * kSteps; ++i) {
          const Tensor got = step({kTwoThree})[0];
          if (!same_bits(got, ones_plus(4, 9)) && !same_bits(got, ones_plus(20, 30)) &&
              !same_bits(got, ones_plus(14, 21)))
            ++other;
          ++done;
        }
      });
    for (int i = 0; i < kSwaps; ++i) {
      session.become(p.name(), {.dtype = DType::f32, .run = tenfold});
      session.become(p.name(), kWithState);
      session.become(p.name(), "Square");
    }
    for (std::thread& thread : running) thread.join();
    CHECK(other == 0);
    CHECK(done >= 2 * kSteps);
    CHECK(same_bits(step({kTwoThree})[0], ones_plus(4, 9)));
  }
}

TEST_CASE("a node that a pass has absorbed is refused, and before the call is prepared it is not") {
  // Each of these nodes is absorbed by another pass; only x is fed.
  Graph g;
  const Output x = placeholder(g, DType::f32, {2}, "x");
  const Output table = parameter("table", constant(g, Tensor::of<float>({1, 2, 3, 4}, {2, 2})));
  const Output rows = gather(table, constant(g, Tensor::of<int64_t>({1}, {1})));  // pull_rows
  const Output twice = exp(x), as_twice = exp(x);                                 // merge_common
  const Output same = multiply(x, fill(g, {2}, 1));                               // simplify
  const Output folded = square(constant(g, Tensor::of<float>({2, 3}, {2})));      // fold_constants
  const Output y = add(add(add(rows, twice), same), folded);
  const Output other = as_twice + 1;
  const auto replaced = [&](const std::string& node, const std::string& pass, const Tensor& made) {
    CAPTURE(node);
    Session plain = Session::local(g, {.threads = 1, .passes = false});
    Session session = Session::local(g, {.threads = 1});
    static Tensor gives;
    gives = made;
    const Kernel kernel = {.run = [](KernelContext& ctx) {
      std::copy_n(gives.data<float>(), gives.size(), ctx.output().mutable_data<float>());
    }};
    const Feeds feeds = {{x, kTwoThree}};
    const Tensor old = plain.run({y, other}, feeds)[0];
    CHECK(plain.become(node, kernel) == 1);
    {
      Session prepared = Session::local(g, {.threads = 1});
      const Callable step = prepared.prepare({y, other}, {x});
      check_invalid([&] { prepared.become(node, kernel); },
                    "cannot be replaced in a call that is prepared: the pass " + pass,
                    "replace it before the call is prepared");
      CHECK(same_bits(step({kTwoThree})[0], old));
    }
    CHECK(session.become(node, kernel) == 0);
    const auto now = session.run({y, other}, feeds), wanted = plain.run({y, other}, feeds);
    CHECK(same_bits(now[0], wanted[0]));
    CHECK(same_bits(now[1], wanted[1]));
    CHECK_FALSE(same_bits(now[0], old));
    CHECK(session.become(node, kernel) == 1);  // now the node runs, as without passes
  };
  replaced(rows.name(), "pull_rows", Tensor::of<float>({70, 80}, {1, 2}));
  replaced(twice.name(), "merge_common", Tensor::of<float>({50, 60}, {2}));
  replaced(same.name(), "simplify", Tensor::of<float>({30, 40}, {2}));
  replaced(folded.name(), "fold_constants", Tensor::of<float>({10, 20}, {2}));
}

TEST_CASE(
    "a loss is replaced under steps of two threads, and one joined with its gradient is not") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {2, 3}, "x");
  const Output labels = constant(g, Tensor::of<int64_t>({0, 2}, {2}));
  const Output losses = softmax_cross_entropy(x, labels), loss = reduce_sum(losses);
  const Output dx = gradients({loss}, {x})[0];
  Session session = Session::local(g, {.threads = 2, .passes = false});
  const Callable step = session.prepare({loss, dx}, {x});
  const Tensor value = Tensor::of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const std::vector<Tensor> first = step({value});
  const Kernel sevens = {.dtype = DType::f32, .run = [](KernelContext& ctx) {
                           std::fill_n(ctx.output().mutable_data<float>(), 2, 7.0F);
                         }};
  std::atomic<int> other{0};
  std::atomic<bool> stop{false};
  std::atomic<int64_t> steps{0};
  std::vector<std::thread> running;
  for (int t = 0; t < 2; ++t)
    running.emplace_back([&] {
      while (!stop) {
        const std::vector<Tensor> got = step({value});
        const bool known =
            got[0].item<float>() == 14 || got[0].item<float>() == first[0].item<float>();
        if (!known || !same_bits(got[1], first[1])) ++other;
        ++steps;
      }
    });
  {
    Session with_passes = Session::local(g, {.threads = 1});
    const Callable joined = with_passes.prepare({loss, dx}, {x});
    const Refusal refused = refusal_of([&] { with_passes.become(losses.name(), sevens); });
    has(refused.text, "the pass join has left out the SoftmaxCrossEntropy node");
    CHECK(joined({value})[0].item<float>() == first[0].item<float>());
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int i = 0; i < 300 || (steps < 1'000 && std::chrono::steady_clock::now() < until); ++i) {
    CHECK(session.become(losses.name(), sevens) == 1);
    CHECK(step({value})[0].item<float>() == 14);
    CHECK(session.become(losses.name(), "SoftmaxCrossEntropy") == 1);
    CHECK(step({value})[0].item<float>() == first[0].item<float>());
  }
  stop = true;
  for (std::thread& thread : running) thread.join();
  CHECK(other == 0);
  CHECK(steps >= 1'000);
}

TEST_CASE(
    "runs that ask for their call each time are not held up by one replacement after another") {
  TestProgram p;
  Session session = Session::local(p.graph, {.threads = 2});
  session.run({p.y}, {{p.x, kTwoThree}});
  constexpr int kRuns = 300;
  std::atomic<int> running{2}, swaps{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kRuns; ++i) session.run({p.y}, {{p.x, kTwoThree}});
      --running;
    });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const char* const ops[] = {"Square", "Exp"};
  while (running > 0 && std::chrono::steady_clock::now() < until)
    session.become(p.name(), ops[++swaps % 2]);
  CHECK(running == 0);
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE(
    "what is absorbed in a call of several processes is refused with the pass, and then not") {
  LocalCluster cluster({"/job:worker/task:0"});
  Graph g;
  const Output x = placeholder(g, DType::f32, {2}, "x");
  const auto scope = g.scope({.device = "/job:worker/task:0"});
  const Output a = exp(x), b = exp(x), y = add(a, b), z = multiply(b, y);
  Session session = cluster.connect(g);
  const Callable step = session.prepare({y}, {x});
  const Tensor first = step({kTwoThree})[0];
  for (const Output& node : {a, b}) {  // the merged node that stays, and the one left out
    check_invalid([&] { session.become(node.name(), "Square"); },
                  "cannot be replaced in a call that is prepared: ",
                  "the pass merge_common has left out the Exp node " + b.name(),
                  "the Exp node " + a.name(), "replace it before the call is prepared");
  }
  CHECK(same_bits(step({kTwoThree})[0], first));
  Session later = cluster.connect(g);
  CHECK(later.become(b.name(), "Square") == 0);
  const Tensor got = later.run({z}, {{x, kTwoThree}})[0];
  const double e2 = std::exp(2.0);
  CHECK(got.data<float>()[0] == doctest::Approx(4 * (e2 + 4)));
}

TEST_CASE("a kernel that does not make what its node says fails the step, and the next one runs") {
  const std::pair<void (*)(KernelContext&), std::string> wrong[] = {
      {[](KernelContext&) {}, "left output 0 undefined"},
      {[](KernelContext& ctx) { ctx.set_output(0, Tensor::zeros(DType::f32, {1})); },
       "gave f32[1] as output 0, which is to be f32[2]"},
      {[](KernelContext& ctx) { ctx.set_output(0, Tensor::zeros(DType::i32, {2})); },
       "gave i32[2] as output 0, which is to be f32[2]"}};
  for (const bool passes : kPasses) {
    TestProgram p;
    const Output sum = reduce_sum(p.f + p.x);
    for (const Output& fetched : {p.f, p.y, sum}) {
      Session session = Session::local(p.graph, {.threads = 2, .passes = passes});
      const Callable step = session.prepare({fetched}, {p.x});
      const Tensor first = step({kTwoThree})[0];
      for (const auto& [kernel, text] : wrong) {
        session.become(p.name(), {.dtype = DType::f32, .run = kernel});
        check_error(
            Errc::kernel_failed, [&] { step({kTwoThree}); }, text, p.name());
        session.become(p.name(), "Exp");
        CHECK(same_bits(step({kTwoThree})[0], first));
      }
    }
  }
}

TEST_CASE("a kernel of one's own op that does not make what its op says fails the step") {
  static Tensor made;
  const auto ops = ops_with({own_op(
      "Lies", {.dtype = DType::f32, .run = [](KernelContext& ctx) { ctx.set_output(0, made); }})});
  Graph graph(ops);
  const Output x = placeholder(graph, DType::f32, {2}, "x");
  const Output lies = graph.add({"Lies", {x}, {}, "lies"});
  Session session = Session::local(graph, {.threads = 1});
  const Callable step = session.prepare({reduce_sum(exp(lies))}, {x});
  for (const Tensor& wrong :
       {Tensor(), Tensor::of<float>({1}, {1}), Tensor::of<int32_t>({1, 2}, {2})}) {
    made = wrong;
    check_error(
        Errc::kernel_failed, [&] { step({kTwoThree}); }, "the kernel of Lies node lies made at");
  }
  made = Tensor::of<float>({0, 0}, {2});
  CHECK(step({kTwoThree})[0].item<float>() == 2);
}

TEST_CASE("what a kernel throws when it is prepared names the node") {
  TestProgram p;
  Session session = Session::local(p.graph, {.threads = 1});
  session.run({p.y}, {{p.x, kTwoThree}});
  const Kernel unprepared = {.dtype = DType::f32,
                             .run = tenfold,
                             .prepare = [](const Node&) -> std::unique_ptr<KernelState> {
                               throw std::runtime_error("no licence");
                             }};
  check_error(
      Errc::kernel_failed, [&] { session.become(p.name(), unprepared); },
      "Exp node " + p.name() + " made at", "no licence");
}

TEST_CASE("what does not fit a node is refused, and the node stays as it was") {
  for (const bool passes : kPasses) {
    TestProgram p;
    Session session = Session::local(p.graph, {.threads = 1, .passes = passes});
    const Callable step = session.prepare({p.y}, {p.x});
    const auto refused = [&](const std::string& node, const std::string& op) {
      return error_text(Errc::invalid_argument, [&] { session.become(node, op); });
    };
    has(refused("f/Exq", "Square"), "did you mean f/Exp");
    has(refused("nowhere/at/all", "Square"), "the graph has no node");
    CHECK(refused("nowhere/at/all", "Square").find("called at") == std::string::npos);
    has(refused(p.name(), "Squore"), "did you mean Square");
    has(refused(p.name(), "Add"), "2 inputs and 1 outputs instead of 1 and 1");
    has(refused(p.name(), "Cast"), "other attributes");
    has(refused(p.name(), "IsFinite"), "bool[2] instead of f32[2]");
    const Refusal two = refusal_of([&] { session.become(p.name(), Kernel{}); });
    has(two.text, "either `run` or `start`");
    const Refusal dtype =
        refusal_of([&] { session.become(p.name(), {.dtype = DType::f64, .run = tenfold}); });
    has(dtype.text, "has no kernel for f32");
    const Refusal later = refusal_of([&] {
      session.become(p.name(), {.start = [](std::shared_ptr<AsyncContext> ctx) {
                       ctx->done({ctx->input(0)});
                     }});
    });
    has(later.text, "finishes at once, and the other later");
    const Tensor got = step({kTwoThree})[0];
    CHECK(got.data<float>()[0] == doctest::Approx(8.389));
  }
}

TEST_CASE("a node of another process is replaced by an op's name, also when that process is new") {
  for (const bool passes : kPasses) {
    LocalCluster cluster({"/job:worker/task:0"});
    TestProgram p("/job:worker/task:0");
    ConnectOptions options;
    options.process.passes = passes;
    Session session = cluster.connect(p.graph, {}, options);
    const Callable step = session.prepare({p.y}, {p.x});
    step({kTwoThree});
    CHECK(session.become(p.name(), "Square") == 1);
    CHECK(same_bits(step({kTwoThree})[0], ones_plus(4, 9)));
    check_invalid([&] { session.become(p.name(), {.dtype = DType::f32, .run = tenfold}); },
                  "runs in /job:worker/task:0, and a function does not travel");
    cluster.process(0).stop();
    cluster.restart(0);
    Refusal lost;  // steps that meet the loss fail; the call is installed again later
    do lost = refusal_of([&] { CHECK(same_bits(step({kTwoThree})[0], ones_plus(4, 9))); });
    while (lost.code == Errc::peer_lost || lost.code == Errc::cancelled);
    CHECK(lost.code == Errc::ok);
  }
}

}  // namespace troupe
