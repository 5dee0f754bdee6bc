// The state machine of a queue, call by call, and the refusals of its ops.
// tests/actors/master/queue_session_test.cpp tests how steps wait for a queue.

#include <algorithm>
#include <set>

#include "tests/support/op_cases.hpp"
#include "tests/support/engine/queue_waiter.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

Queue described(QueueOptions options, std::vector<TensorType> types = {{DType::i64, {}}}) {
  Graph graph;
  return make_queue(graph, std::move(types), options, "q");
}

WaiterPtr put(QueueState& queue, const std::vector<int64_t>& numbers) {
  const auto who = std::make_shared<Waiter>();
  std::vector<QueueElement> elements;
  for (const int64_t number : numbers) elements.push_back({Tensor::scalar(number)});
  queue.enqueue(std::move(elements), who);
  return who;
}

WaiterPtr take(QueueState& queue, QueueState::Wish wish = {}) {
  const auto who = std::make_shared<Waiter>();
  queue.dequeue(wish, who);
  return who;
}

std::vector<int64_t> numbers_of(const Tensor& t) {
  const auto values = t.values<int64_t>();
  return {values.begin(), values.end()};
}

using Numbers = std::vector<int64_t>;

TEST_CASE("elements leave a fifo queue in the order in which they came") {
  QueueState queue(described({.capacity = 4}));
  CHECK(put(queue, {1})->number() == 1);  // the new size
  CHECK(put(queue, {2, 3})->number() == 3);
  CHECK(take(queue)->number() == 1);
  CHECK(numbers_of(take(queue, {.count = 2, .stacked = true})->outputs[0]) == Numbers{2, 3});
  CHECK(queue.size() == 0);
}

TEST_CASE("who finds no room waits, and those behind wait with it") {
  QueueState queue(described({.capacity = 2}));
  put(queue, {1, 2});
  const WaiterPtr two = put(queue, {3, 4}), one = put(queue, {5});
  CHECK(!two->answered);
  CHECK(take(queue)->number() == 1);
  CHECK(!two->answered);  // needs room for both
  CHECK(!one->answered);  // would have room, but came later
  CHECK(take(queue)->number() == 2);
  CHECK(two->number() == 2);
  CHECK(!one->answered);
  CHECK(numbers_of(take(queue, {.count = 2, .stacked = true})->outputs[0]) == Numbers{3, 4});
  CHECK(one->answered);
}

TEST_CASE("who finds too few elements waits, and those behind wait with it") {
  QueueState queue(described({.capacity = 4}));
  const WaiterPtr three = take(queue, {.count = 3, .stacked = true}), one = take(queue);
  put(queue, {1, 2});
  CHECK(!three->answered);
  CHECK(!one->answered);
  put(queue, {3, 4});
  CHECK(numbers_of(three->outputs.at(0)) == Numbers{1, 2, 3});
  CHECK(one->number() == 4);
}

TEST_CASE("a step that has ended takes nothing and leaves nothing") {
  QueueState queue(described({.capacity = 2}));
  const WaiterPtr gone = take(queue);
  gone->wanted = false;
  put(queue, {1, 2});
  CHECK(queue.size() == 2);
  const WaiterPtr left = put(queue, {3});
  left->wanted = false;
  CHECK(take(queue)->number() == 1);
  CHECK(take(queue)->number() == 2);
  CHECK(queue.size() == 0);
}

TEST_CASE("what a step refuses that ends just then stays in its place") {
  const auto take_refusing = [](QueueState& queue) {
    const auto who = std::make_shared<Waiter>();
    who->ends_when_told = true;
    queue.dequeue({.count = 2, .stacked = true}, who);
    CHECK(who->outputs.empty());
  };
  QueueState fifo(described({}));
  put(fifo, {1, 2, 3});
  take_refusing(fifo);
  CHECK(numbers_of(take(fifo, {.count = 3, .stacked = true})->outputs[0]) == Numbers{1, 2, 3});
  QueueState ranked(described({.kind = QueueKind::priority}));
  put(ranked, {3, 1, 2, 5, 4});
  take_refusing(ranked);
  CHECK(numbers_of(take(ranked, {.count = 5, .stacked = true})->outputs[0]) ==
        Numbers{1, 2, 3, 4, 5});
  QueueState shuffled(described({.kind = QueueKind::shuffle}));
  put(shuffled, {1, 2, 3});
  take_refusing(shuffled);
  Numbers all = numbers_of(take(shuffled, {.count = 3, .stacked = true})->outputs[0]);
  std::sort(all.begin(), all.end());
  CHECK(all == Numbers{1, 2, 3});
}

TEST_CASE("a closed queue gives what it has, and then its end") {
  QueueState queue(described({.capacity = 3}));
  put(queue, {1, 2, 3});
  const WaiterPtr waiting = put(queue, {4});
  queue.close(/*cancel_pending=*/false);
  CHECK(waiting->code == Errc::ok);
  CHECK(put(queue, {5})->code == Errc::cancelled);
  CHECK(take(queue)->number() == 1);
  const WaiterPtr four = take(queue, {.count = 4, .stacked = true});
  CHECK(four->code == Errc::end_of_data);
  CHECK(four->text == "the queue q is closed and has 3 of 4 elements left");
  const QueueState::Wish rest{.count = 4, .stacked = true, .partial = true};
  CHECK(numbers_of(take(queue, rest)->outputs.at(0)) == Numbers{2, 3, 4});
  CHECK(take(queue, rest)->code == Errc::end_of_data);
  CHECK(take(queue)->code == Errc::end_of_data);
}

TEST_CASE("closing ends what waits for elements, and on request what waits for room") {
  QueueState queue(described({.capacity = 1}));
  const WaiterPtr taker = take(queue, {.count = 1});
  put(queue, {1});
  CHECK(taker->number() == 1);
  put(queue, {2});
  const WaiterPtr putter = put(queue, {3});
  queue.close(/*cancel_pending=*/true);
  CHECK(putter->code == Errc::cancelled);
  CHECK(take(queue)->number() == 2);
  QueueState empty(described({}));
  const WaiterPtr waiting = take(empty);
  empty.close(false);
  CHECK(waiting->code == Errc::end_of_data);
}

TEST_CASE("the end of a session fails all who wait") {
  QueueState queue(described({.capacity = 1}));
  const WaiterPtr taker = take(queue);
  queue.end();
  CHECK(taker->code == Errc::cancelled);
}

TEST_CASE("a shuffle queue keeps some back, gives each once, and the same ones to the same seed") {
  const auto order = [](int64_t seed) {
    QueueState queue(described(
        {.kind = QueueKind::shuffle, .capacity = 50, .min_after_dequeue = 10, .seed = seed}));
    Numbers all(50), got;
    for (int64_t i = 0; i < 50; ++i) all[static_cast<size_t>(i)] = i;
    put(queue, all);
    for (int i = 0; i < 40; ++i) got.push_back(take(queue)->number());
    const WaiterPtr waiting = take(queue);
    CHECK(!waiting->answered);
    queue.close(false);
    got.push_back(waiting->number());
    for (int i = 0; i < 9; ++i) got.push_back(take(queue)->number());
    CHECK(std::set<int64_t>(got.begin(), got.end()).size() == 50);
    CHECK(got != all);
    return got;
  };
  CHECK(order(1) == order(1));
  CHECK(order(1) != order(2));
}

TEST_CASE("a priority queue gives the smallest first, and among equals the oldest") {
  QueueState queue(described({.kind = QueueKind::priority}, {{DType::i64, {}}, {DType::i64, {}}}));
  const std::vector<std::pair<int64_t, int64_t>> pairs = {{3, 0}, {1, 1}, {2, 2}, {1, 3}, {-5, 4}};
  for (const auto& [priority, name] : pairs)
    queue.enqueue({{Tensor::scalar(priority), Tensor::scalar(name)}}, std::make_shared<Waiter>());
  const WaiterPtr three = take(queue, {.count = 3, .stacked = true});
  CHECK(numbers_of(three->outputs.at(1)) == Numbers{4, 1, 3});
  CHECK(take(queue)->outputs.at(1).item<int64_t>() == 2);
}

TEST_CASE("a padding queue fills what is smaller with zeros") {
  QueueState queue(described({.kind = QueueKind::padding}, {{DType::i64, {-1, -1}}}));
  const auto put_one = [&](const Tensor& t) { queue.enqueue({{t}}, std::make_shared<Waiter>()); };
  put_one(Tensor::of<int64_t>({1, 2, 3, 4}, {2, 2}));
  put_one(Tensor::of<int64_t>({5, 6, 7}, {1, 3}));
  put_one(Tensor::zeros(DType::i64, {0, 1}));
  const Tensor all = take(queue, {.count = 3, .stacked = true})->outputs.at(0);
  CHECK(all.shape() == Shape{3, 2, 3});
  CHECK(numbers_of(all) == Numbers{1, 2, 0, 3, 4, 0, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("what a queue can never do is refused at once") {
  QueueState queue(described({.kind = QueueKind::shuffle, .capacity = 4, .min_after_dequeue = 2}));
  CHECK(take(queue, {.count = 3, .stacked = true})->code == Errc::invalid_argument);
  CHECK(put(queue, {1, 2, 3, 4, 5})->code == Errc::invalid_argument);
  CHECK(queue.size() == 0);
}

TEST_CASE("a queue that cannot be is refused with the reason") {
  Graph g;
  const std::vector<TensorType> one = {{DType::f32, {2}}};
  const auto refused = [&](std::vector<TensorType> types, QueueOptions options, const char* text) {
    check_invalid([&] { make_queue(g, std::move(types), options, "q"); }, text);
  };
  refused({}, {}, "wants the types of its components");
  refused(one, {.capacity = 0}, "capacity of at least 1, got 0");
  refused({{DType::f32, {-1}}}, {}, "padding queue");
  refused(one, {.kind = QueueKind::priority}, "i64[]");
  refused(one, {.min_after_dequeue = 1}, "only a shuffle queue");
  refused(one, {.kind = QueueKind::shuffle, .capacity = 3, .min_after_dequeue = 3},
          "below its capacity");
}

TEST_CASE("elements that do not fit the queue are refused while the graph is built") {
  Graph g;
  const Queue queue = make_queue(g, {{DType::f32, {2}}, {DType::i64, {}}});
  const Output x = constant(g, Tensor::zeros(DType::f32, {2})),
               n = constant(g, Tensor::scalar<int64_t>(1)),
               rows = constant(g, Tensor::zeros(DType::f32, {3, 2})),
               numbers = constant(g, Tensor::zeros(DType::i64, {4}));
  CHECK_NOTHROW(enqueue(queue, {x, n}));
  CHECK_THROWS_WITH_AS(enqueue(queue, {x}), doctest::Contains("has 2 components, got 1"), Error);
  CHECK_THROWS_WITH_AS(enqueue(queue, {rows, n}), doctest::Contains("is f32[2], got f32[3, 2]"),
                       Error);
  CHECK_THROWS_WITH_AS(enqueue(queue, {n, n}), doctest::Contains("is f32[2], got i64[]"), Error);
  CHECK_THROWS_WITH_AS(enqueue_many(queue, {rows, numbers}),
                       doctest::Contains("has 4 rows, those before have 3"), Error);
  CHECK_THROWS_WITH_AS(enqueue_many(queue, {rows, n}), doctest::Contains("got a scalar"), Error);
  CHECK_THROWS_WITH_AS(dequeue_many(queue, 0), doctest::Contains("at least 1, got 0"), Error);
  const std::vector<Output> many = dequeue_many(queue, 5), some = dequeue_up_to(queue, 5);
  CHECK(many.at(0).shape() == Shape{5, 2});
  CHECK(many.at(1).shape() == Shape{5});
  CHECK(some.at(0).shape() == Shape{-1, 2});
}

TEST_CASE("what is more than a queue ever holds is refused while the graph is built") {
  Graph g;
  const std::vector<TensorType> numbers = {{DType::f32, {}}};
  const Queue fifo = make_queue(g, numbers, {.capacity = 4});
  const Queue shuffle =
      make_queue(g, numbers, {.kind = QueueKind::shuffle, .capacity = 4, .min_after_dequeue = 2});
  CHECK_NOTHROW(dequeue_many(fifo, 4));
  CHECK_THROWS_WITH_AS(dequeue_many(fifo, 5),
                       doctest::Contains("the queue queue never has 5 elements to give: its "
                                         "capacity is 4, of which 0 stay; give it a larger"),
                       Error);
  CHECK_NOTHROW(dequeue_many(shuffle, 2));
  CHECK_THROWS_WITH_AS(dequeue_many(shuffle, 3),
                       doctest::Contains("its capacity is 4, of which 2 stay"), Error);
  CHECK_NOTHROW(dequeue_up_to(fifo, 5));  // once the queue is closed, these are all that is left
  CHECK_NOTHROW(enqueue_many(fifo, {constant(g, Tensor::zeros(DType::f32, {4}))}));
  CHECK_THROWS_WITH_AS(enqueue_many(fifo, {constant(g, Tensor::zeros(DType::f32, {5}))}),
                       doctest::Contains("has room for 4 elements, and 5 are to be put in at once"),
                       Error);
  const Barrier barrier = make_barrier(g, numbers, 4);
  CHECK_NOTHROW(barrier_take(barrier, 4));
  CHECK_THROWS_WITH_AS(barrier_take(barrier, 5),
                       doctest::Contains("holds at most 4 elements, and 5 are to be taken"), Error);
  CHECK_THROWS_WITH_AS(barrier_insert(barrier, 0, constant(g, Tensor::zeros(DType::i64, {5})),
                                      constant(g, Tensor::zeros(DType::f32, {5}))),
                       doctest::Contains("holds at most 4 elements, and 5 are given a component"),
                       Error);
}

TEST_CASE("queues and barriers have names of one line") {
  Graph g;
  const std::vector<TensorType> one = {{DType::f32, {}}};
  for (const std::string& name :
       {std::string(), std::string("two\nlines"), std::string("a\0b", 3)}) {
    const std::string fault = "wants a name of one line, not empty and without control characters";
    const int line = __LINE__ + 1;
    const Refusal queue = refusal_of([&] { make_queue(g, one, {}, name); });
    const Refusal barrier = refusal_of([&] { make_barrier(g, one, 4, name); });
    const auto made = [](const char* what, int at) {
      return detail::concat(what, " made at ", __FILE__, ":", at, " ");
    };
    CHECK(queue.code == Errc::invalid_argument);
    CHECK(queue.text == made("a queue", line) + fault);
    CHECK(barrier.text == made("a barrier", line + 1) + fault);
    // The same for a node that states its queue itself, as in a text.
    Queue handmade = make_queue(g, one);
    handmade.name = name;
    has(refusal_of([&] { queue_size(handmade); }).text, "its queue " + fault);
  }
  CHECK_NOTHROW(make_queue(g, one, {}, "spaces, \"quotes\" and \xc3\xa4 are names"));
}

}  // namespace
}  // namespace troupe
