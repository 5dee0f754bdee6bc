// Queues between steps of a session: a waiting call holds no thread, a cancelled one takes no
// element, and a closed queue says that it is closed.

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

Tensor number(int64_t n) { return Tensor::scalar(n); }

struct Rig {
  Graph graph;
  Queue queue;
  Output in, put, out, close, size;

  explicit Rig(QueueOptions options = {}) {
    queue = make_queue(graph, {{DType::i64, {}}}, options);
    in = placeholder(graph, DType::i64, {}, "in");
    put = enqueue(queue, {in});
    out = dequeue(queue).at(0);
    close = close_queue(queue);
    size = queue_size(queue);
  }
  int64_t run(Session& session, const Output& output, const Feeds& feeds = {}) {
    return session.run({output}, feeds).at(0).item<int64_t>();
  }
};

std::future<RunResult> started(Session& session, const Output& output) {
  const auto promise = std::make_shared<std::promise<RunResult>>();
  session.prepare({output}).start(
      {}, {}, [promise](RunResult result) { promise->set_value(std::move(result)); });
  return promise->get_future();
}

TEST_CASE("what one step puts into a queue another takes out") {
  Rig rig;
  Session session = Session::local(rig.graph);
  CHECK(rig.run(session, rig.put, {{rig.in, number(7)}}) == 1);
  CHECK(rig.run(session, rig.put, {{rig.in, number(8)}}) == 2);
  CHECK(rig.run(session, rig.size) == 2);
  CHECK(rig.run(session, rig.out) == 7);
  CHECK(rig.run(session, rig.out) == 8);
  CHECK(rig.run(session, rig.size) == 0);
}

TEST_CASE("a hundred steps wait for elements on one thread, and each gets one") {
  Rig rig({.capacity = 200});
  Session session = Session::local(rig.graph, {.threads = 1});
  std::vector<std::future<RunResult>> waiting;
  for (int i = 0; i < 100; ++i) waiting.push_back(started(session, rig.out));
  for (int64_t i = 0; i < 100; ++i) rig.run(session, rig.put, {{rig.in, number(i)}});
  std::vector<int64_t> got;
  for (auto& result : waiting) got.push_back(result.get().values.at(0).item<int64_t>());
  std::sort(got.begin(), got.end());
  for (int64_t i = 0; i < 100; ++i) CHECK(got[static_cast<size_t>(i)] == i);
}

TEST_CASE("a step that passes its deadline while it waits loses no element") {
  Rig rig;
  Session session = Session::local(rig.graph);
  const auto take = [&] { session.run({rig.out}, {}, {.timeout = std::chrono::milliseconds(20)}); };
  CHECK(code_of(take) == Errc::timeout);
  for (int64_t i = 0; i < 3; ++i) rig.run(session, rig.put, {{rig.in, number(i)}});
  for (int64_t i = 0; i < 3; ++i) CHECK(rig.run(session, rig.out) == i);
}

TEST_CASE("closing a queue ends the steps that wait for it, with the word for it") {
  Rig rig;
  Session session = Session::local(rig.graph);
  auto waiting = started(session, rig.out);
  rig.run(session, rig.close);
  const RunResult result = waiting.get();
  CHECK(result.code == Errc::end_of_data);
  CHECK(result.text.find("the queue queue is closed") != std::string::npos);
  CHECK_THROWS_AS(rig.run(session, rig.put, {{rig.in, number(1)}}), Error);
  CHECK(rig.run(session, rig.size) == 0);  // the session still works
}

TEST_CASE("threads that put in and threads that take out pass every element on once") {
  Rig rig({.capacity = 3});
  Session session = Session::local(rig.graph, {.threads = 2});
  constexpr int64_t kEach = 300;
  std::atomic<int64_t> sum{0}, count{0};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < kEach; ++i)
        rig.run(session, rig.put, {{rig.in, number(t * kEach + i)}});
    });
    threads.emplace_back([&] {
      for (int64_t i = 0; i < kEach; ++i) {
        sum += rig.run(session, rig.out);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(count == 2 * kEach);
  CHECK(sum == kEach * (2 * kEach - 1));
}

TEST_CASE("two sessions have queues of their own under one name") {
  Rig rig;
  Session one = Session::local(rig.graph), two = Session::local(rig.graph);
  rig.run(one, rig.put, {{rig.in, number(1)}});
  CHECK(rig.run(one, rig.size) == 1);
  CHECK(rig.run(two, rig.size) == 0);
}

TEST_CASE("two queues of one name that differ are refused when the second one is used") {
  Rig rig;
  const Queue other = make_queue(rig.graph, {{DType::f32, {}}});
  const Output size = queue_size(other);
  Session session = Session::local(rig.graph);
  rig.run(session, rig.put, {{rig.in, number(1)}});
  CHECK_THROWS_WITH_AS(session.run({size}), doctest::Contains("other types or options"), Error);
}

TEST_CASE("a queue of another process is filled from here, and ends with the session") {
  const std::string task = "/job:worker/task:0";
  const LocalCluster cluster({task});
  Graph graph;
  const Output in = placeholder(graph, DType::i64, {}, "in");
  Output put, out, size;
  {
    const auto there = graph.scope({.device = task});
    const Queue queue = make_queue(graph, {{DType::i64, {}}});
    put = enqueue(queue, {in});
    size = queue_size(queue);
    const auto elsewhere = graph.scope({.device = "/job:client"});
    out = dequeue(queue).at(0);  // runs where the queue is, in any scope
  }
  const auto run = [&](Session& session, const Output& output, const Feeds& feeds = {}) {
    return session.run({output}, feeds).at(0).item<int64_t>();
  };
  {
    Session session = cluster.connect(graph);
    CHECK(session.placement(session.prepare({out})).at(0).device == task + "/device:cpu:0");
    auto waiting = started(session, out);
    run(session, put, {{in, number(5)}});
    CHECK(waiting.get().values.at(0).item<int64_t>() == 5);
    CHECK(run(session, put, {{in, number(6)}}) == 1);
  }
  Session next = cluster.connect(graph);
  CHECK(run(next, size) == 0);
}

TEST_CASE("a call that is taken back ends in each process, also where a value never comes") {
  const std::vector<std::string> tasks = {"/job:worker/task:0", "/job:worker/task:1",
                                          "/job:worker/task:2"};
  const LocalCluster cluster(tasks);
  Graph graph;
  const auto queue_on = [&](const std::string& task) {
    const auto there = graph.scope({.device = task});
    return make_queue(graph, {{DType::i64, {}}});
  };
  Output x = dequeue(queue_on(tasks[0])).at(0);
  std::vector<Output> fetches, begun;
  for (const std::string& task : {tasks[1], tasks[2]}) {
    const Queue queue = queue_on(task);
    const auto there = graph.scope({.device = task});
    fetches.push_back(enqueue(queue, {constant(graph, number(1))}));
    begun.push_back(dequeue(queue).at(0));
    x = x + 1;
  }
  fetches.push_back(x);
  Session session = cluster.connect(graph);
  Cancellation cancel;
  std::promise<RunResult> result;
  session.prepare(fetches).start({}, {.cancel = &cancel},
                                 [&](RunResult r) { result.set_value(std::move(r)); });
  for (const Output& one : begun) CHECK(session.run({one})[0].item<int64_t>() == 1);
  cancel.cancel();
  CHECK(result.get_future().get().code == Errc::cancelled);
}

TEST_CASE("a session that ends while a step waits for a queue ends that step") {
  Rig rig;
  std::future<RunResult> waiting;
  {
    Session session = Session::local(rig.graph);
    waiting = started(session, rig.out);
  }
  CHECK(waiting.get().code == Errc::cancelled);
}

}  // namespace
}  // namespace troupe
