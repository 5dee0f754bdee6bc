// A Session as a program sees it: results, mistakes, cancelling, closing. Everything runs in this
// process.

#include <atomic>

#include "tests/support/engine/half_step.hpp"
#include "tests/support/threads.hpp"
#include "troupe/training.hpp"

using namespace troupe;

namespace {

Tensor vector(std::initializer_list<float> values) {
  return Tensor::of<float>(values, {static_cast<int64_t>(values.size())});
}

}  // namespace

TEST_CASE("a session runs what is fetched, from several threads at once") {
  Graph g;
  Output x = placeholder(g, DType::f32, {-1}, "x");
  Output y = x * 2.0 + 1.0;
  Session session = Session::local(g, {.threads = 2});
  Callable step = session.prepare({y}, {x});
  std::atomic<int> wrong{0};
  on_threads(4, [&](int t) {
    for (int i = 0; i < 500; ++i) {
      const float v = static_cast<float>(t * 1000 + i);
      if (step({vector({v})})[0].item<float>() != 2 * v + 1) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("two virtual devices and a shadow accelerator give the results of one device") {
  const auto build = [](Graph& g, const char* device, Output& x) {
    x = placeholder(g, DType::f32, {2, 2}, "x");
    auto scope = g.scope({.device = device});
    return relu(matmul(x, x) - 1.0);
  };
  const Tensor value = Tensor::of<float>({1, -2, 3, 4}, {2, 2});
  std::vector<Tensor> results;
  for (const char* device : {"/device:cpu:0", "/device:cpu:1", "/device:shadow:0"}) {
    Graph g;
    Output x;
    Output y = build(g, device, x);
    Session session = Session::local(g, {.threads = 2, .cpu_devices = 2, .shadow_devices = 1});
    results.push_back(session.run({y}, {{x, value}})[0]);
  }
  CHECK(same_bits(results[0], results[1]));
  CHECK(same_bits(results[0], results[2]));
}

TEST_CASE("a feed of another shape or dtype is refused by name before anything runs") {
  Graph g;
  const int line = __LINE__ + 1;
  Output x = placeholder(g, DType::f32, {-1, 3}, "scope/x");
  Output y = identity(x);
  Session session = Session::local(g);
  const Callable prepared = session.prepare({y}, {x});
  const std::string feed =
      detail::concat("feed scope/x:0 (made at ", __FILE__, ":", line, ") wants f32[-1, 3], got ");
  for (const auto& [value, got] :
       std::vector<std::pair<Tensor, std::string>>{{vector({1, 2}), "f32[2]"},
                                                   {Tensor::zeros(DType::f64, {2, 3}), "f64[2, 3]"},
                                                   {Tensor::zeros(DType::f32, {2, 4}), "f32[2, 4]"},
                                                   {Tensor{}, "nothing"}}) {
    const Refusal run = refusal_of([&, v = value] { session.run({y}, {{x, v}}); });
    CHECK(run.code == Errc::invalid_argument);
    CHECK(run.text == feed + got);
    CHECK(refusal_of([&, v = value] { prepared({v}); }).text == feed + got);
  }
  CHECK(session.run({y}, {{x, Tensor::zeros(DType::f32, {2, 3})}})[0].size() == 6);
}

TEST_CASE("what is not fed is named, with what to feed, and so is a wrong number of feeds") {
  Graph g;
  const int line = __LINE__ + 1;
  Output x = placeholder(g, DType::f32, {-1, 3}, "x");
  Output y = identity(x);
  Session session = Session::local(g);
  check_invalid([&] { session.run({y}); },
                detail::concat("Placeholder node x made at ", __FILE__, ":", line,
                               ": was not fed; pass a f32[-1, 3] "),
                "tensor for it in the feeds of the run");
  const Callable step = session.prepare({y}, {x});
  const Refusal none = refusal_of([&] { step(); });
  CHECK(none.code == Errc::invalid_argument);
  CHECK(none.text ==
        "the call wants 1 feeds, got 0; give one tensor for each, in the order of prepare()");
}

TEST_CASE("a cancelled call ends, and the session goes on") {
  Graph g;
  Output x = placeholder(g, DType::f32, {1}, "x");
  Output y = identity(x);
  Session session = Session::local(g);
  Cancellation cancel;
  cancel.cancel();
  CHECK(code_of([&] {
          session.run({y}, {{x, vector({1})}}, {.cancel = &cancel});
        }) == Errc::cancelled);
  CHECK(session.run({y}, {{x, vector({5})}})[0].item<float>() == 5);
}

TEST_CASE("calls after close are refused, also through a prepared one") {
  Graph g;
  Output x = placeholder(g, DType::f32, {1}, "x");
  Output y = identity(x);
  Session session = Session::local(g);
  Callable step = session.prepare({y}, {x});
  session.close();
  CHECK(code_of([&] { step({vector({1})}); }) == Errc::cancelled);
  CHECK(code_of([&] { session.run({y}, {{x, vector({1})}}); }) == Errc::cancelled);
  CHECK(code_of([] { Callable{}(); }) == Errc::invalid_argument);
}

TEST_CASE("a step on the caller's own thread ends when all runs are cancelled") {
  HalfStep half;
  Session session = Session::local(half.graph, {.threads = 2});
  Errc code = Errc::ok;
  std::thread thread = half.run(session, code);
  session.state().master->runs().cancel_all(Errc::cancelled, "enough");
  thread.join();
  CHECK(code == Errc::cancelled);
  CHECK(session.run({fill(half.graph, {1}, 5)})[0].item<float>() == 5);
}

TEST_CASE("closing a session ends the calls of other threads and waits for them") {
  HalfStep half;
  Session session = Session::local(half.graph, {.threads = 2});
  Errc code = Errc::ok;
  std::thread thread = half.run(session, code);
  session.close();
  thread.join();
  CHECK(code == Errc::cancelled);
}

TEST_CASE("a session may be closed while threads keep calling") {
  Graph g;
  Output x = placeholder(g, DType::f32, {1}, "x");
  Session session = Session::local(g, {.threads = 2});
  Callable step = session.prepare({identity(x) + 1.0}, {x});
  std::atomic<int> called{0};
  std::vector<Errc> ends(4, Errc::ok);
  std::vector<std::thread> threads;
  for (Errc& end : ends)
    threads.emplace_back([&] {
      while (end == Errc::ok) {
        end = code_of([&] { step({vector({1})}); });
        ++called;
      }
    });
  while (called < 1000) std::this_thread::yield();
  session.close();
  for (auto& t : threads) t.join();
  for (Errc end : ends) CHECK(end == Errc::cancelled);
}

TEST_CASE(
    "two synchronous towers with half the batch equal one with the whole, and async with one tower "
    "equals sync") {
  const auto final_weight = [](int towers, Aggregation rule) {
    Graph g;
    std::vector<Tower> all;
    for (int i = 0; i < towers; ++i) {
      auto scope = g.scope({.name = detail::concat("tower", i), .replica = i});
      Output x = placeholder(g, DType::f64, {-1, 1}, "x");
      Output w = parameter("w", fill(g, {1, 1}, 0, DType::f64));
      Output loss = reduce_mean(square(matmul(x, w) - x * 3.0));
      const int64_t n = 4 / towers;
      all.push_back({i, loss, minimize(loss, sgd(0.01)), {x}, [n, i](int64_t step) {
                       std::vector<double> v;
                       for (int64_t k = 0; k < n; ++k)
                         v.push_back(static_cast<double>(step % 3 + i * n + k));
                       return std::vector<Tensor>{Tensor::of<double>(v, {n, 1})};
                     }});
    }
    Session session = Session::local(g, {.threads = 2});
    TrainOptions options{.rule = rule, .steps = 30};
    const TrainResult result = train(session, all, options);
    CHECK(result.steps == 30);
    return parameter_values(session).at("w").item<double>();
  };
  const double one = final_weight(1, Aggregation::sync);
  CHECK(final_weight(2, Aggregation::sync) == doctest::Approx(one).epsilon(1e-12));
  CHECK(final_weight(1, Aggregation::async) == one);
  CHECK(one > 1);
}

TEST_CASE("a loss that is not finite ends the training with the step's name") {
  Graph g;
  Output w = parameter("w", fill(g, {1}, 1));
  Output loss = reduce_sum(log(w * -1.0));
  Output update = minimize(loss, sgd(0.1));
  Session session = Session::local(g);
  TrainOptions options{.steps = 3};
  const Refusal end = refusal_of([&] { train(session, {{0, loss, update}}, options); });
  CHECK(end.code == Errc::bad_data);
  has(end.text, "step 0 of replica 0: the loss is ");  // nan, or -nan
  has(end.text, "nan; lower the learning rate, or look for bad records");
}
