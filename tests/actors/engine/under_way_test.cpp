// Clean borders: a run is taken back or ends at its deadline whatever it waits for, from any
// thread, and a kernel that does not return is named.

#include <atomic>
#include <future>
#include <thread>

#include "tests/support/engine/own_op.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

// Held back until the test lets them go.
struct Doorway {
  std::atomic<int> inside{0};
  std::atomic<bool> open{false};
};
Doorway& doorway() {
  static Doorway one;
  return one;
}

// Never returns, as far as the engine can tell.
void stuck(KernelContext& ctx) {
  ++doorway().inside;
  doorway().inside.notify_all();
  doorway().open.wait(false);
  ctx.set_output(0, ctx.input(0));
}

std::shared_ptr<const Registry> ops() {
  static const auto all = ops_with({
      own_op("Stuck", {.run = stuck}),
      own_op("Never", {.start = [](std::shared_ptr<AsyncContext>) {}}),  // its answer never comes
  });
  return all;
}

struct Program {
  Graph graph{ops()};
  Output x = placeholder(graph, DType::f32, {2}, "x");
  Output never = graph.add({.op = "Never", .inputs = {x}, .name = "never"});
  Output stuck = graph.add({.op = "Stuck", .inputs = {x}, .name = "stuck"});
  Output chain = x;
  Session session;
  static constexpr int kLong = 20'000;

  explicit Program(int threads = 2)
      : session([&] {
          for (int i = 0; i < kLong; ++i) chain = chain + x;
          ProcessOptions options{.threads = threads, .ops = ops()};
          return Session::local(graph, options);
        }()) {}
};

const Tensor kOnes = Tensor::of<float>({1, 1}, {2});

}  // namespace

TEST_CASE("runs of several threads that wait for what never comes are taken back from another") {
  Program p;
  const Callable never = p.session.prepare({p.never}, {p.x});
  Cancellation cancel;
  constexpr int kThreads = 4;
  std::vector<std::future<Refusal>> ends;
  for (int t = 0; t < kThreads; ++t)
    ends.push_back(std::async(std::launch::async, [&] {
      return refusal_of([&] { never({kOnes}, {.cancel = &cancel}); });
    }));
  while (p.session.under_way().size() < kThreads) std::this_thread::yield();
  std::thread([&] { cancel.cancel(); }).join();
  for (auto& end : ends) CHECK(end.get().code == Errc::cancelled);
  CHECK(p.session.under_way().empty());
  CHECK(p.session.run({p.x + p.x}, {{p.x, kOnes}})[0].data<float>()[0] == 2);
}

TEST_CASE("a long chain is taken back in its middle, and the next step is whole") {
  Program p;
  const Callable chain = p.session.prepare({p.chain}, {p.x});
  chain({kOnes});
  int taken = 0;
  // On a busy machine the canceller may wake too late many times over.
  for (int i = 0; i < 50 || (taken == 0 && i < 20'000); ++i) {
    Cancellation cancel;
    std::atomic<bool> begun{false};
    std::thread other([&] {
      begun.wait(false);
      cancel.cancel();
    });
    begun = true;
    begun.notify_all();
    const Refusal end = refusal_of([&] { chain({kOnes}, {.cancel = &cancel}); });
    other.join();
    CHECK((end.code == Errc::ok || end.code == Errc::cancelled));
    taken += end.code == Errc::cancelled;
    CHECK(chain({kOnes})[0].data<float>()[0] == Program::kLong + 1);
  }
  CHECK(taken > 0);
}

TEST_CASE("started runs end at their deadlines, each with its own") {
  Program p;
  const Callable never = p.session.prepare({p.never}, {p.x});
  constexpr int kRuns = 8;
  std::vector<std::promise<RunResult>> ends(kRuns);
  for (int i = 0; i < kRuns; ++i)
    never.start({kOnes}, {.timeout = std::chrono::milliseconds(20 + 10 * i)},
                [&ends, i](RunResult r) { ends[static_cast<size_t>(i)].set_value(std::move(r)); });
  for (auto& end : ends) {
    const RunResult result = end.get_future().get();
    CHECK(result.code == Errc::timeout);
    has(result.text, "RunOptions::timeout");
  }
}

TEST_CASE("a kernel that does not return is named, with its run, wherever it runs") {
  doorway().open = false;
  doorway().inside = 0;
  Program p;
  const Callable stuck = p.session.prepare({p.stuck}, {p.x});
  auto here = std::async(std::launch::async, [&] { return stuck({kOnes}); });
  std::promise<RunResult> ended;
  stuck.start({kOnes}, {}, [&](RunResult r) { ended.set_value(std::move(r)); });
  while (doorway().inside < 2) doorway().inside.wait(doorway().inside.load());
  const std::vector<RunUnderWay> runs = p.session.under_way();
  CHECK(runs.size() == 2);
  for (const RunUnderWay& run : runs) {
    CAPTURE(run.run);
    REQUIRE(run.waits_for.size() == 1);
    std::string waits;
    for (const std::string& one : run.waits_for.at("/job:local/task:0")) waits += one + ";";
    CHECK(waits == "stuck (running);");
  }
  CHECK(p.session.under_way(std::chrono::hours(1)).empty());
  doorway().open = true;
  doorway().open.notify_all();
  CHECK(same_bits(here.get()[0], kOnes));
  CHECK(ended.get_future().get().code == Errc::ok);
}

TEST_CASE("an input that fails every replay ends in one error, and the next one runs") {
  Program p;
  static std::atomic<int> fired{0};
  fired = 0;
  p.session.become("stuck", Kernel{.run = [](KernelContext& ctx) {
                     ++fired;
                     if (ctx.input(0).data<float>()[0] < 0) throw std::runtime_error("bad input");
                     ctx.set_output(0, ctx.input(0));
                   }});
  const Tensor bad = Tensor::of<float>({-1, 1}, {2});
  const Refusal end = refusal_of([&] { p.session.run({p.stuck}, {{p.x, bad}}); });
  CHECK(end.code == Errc::kernel_failed);
  CHECK(end.text.starts_with("node stuck on /job:local/task:0/device:cpu:0 failed 4 times: "));
  has(end.text, "node stuck made at ");
  CHECK(end.text.ends_with(": bad input"));
  CHECK(fired == 4);
  CHECK(same_bits(p.session.run({p.stuck}, {{p.x, kOnes}})[0], kOnes));
}

}  // namespace troupe
