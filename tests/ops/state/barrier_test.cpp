// The state machine of a barrier, call by call, and the refusals of its ops.
#include "ops/state/barrier.hpp"

#include "tests/support/op_cases.hpp"
#include "tests/support/engine/queue_waiter.hpp"

namespace troupe {
namespace {

using Numbers = std::vector<int64_t>;

// Two components, each an i64.
BarrierState pairs(int64_t capacity = 10) {
  Graph graph;
  return BarrierState(make_barrier(graph, {{DType::i64, {}}, {DType::i64, {}}}, capacity, "b"));
}

WaiterPtr put(BarrierState& barrier, size_t component, const Numbers& keys, const Numbers& values) {
  const auto who = std::make_shared<Waiter>();
  std::vector<Tensor> rows;
  for (const int64_t value : values) rows.push_back(Tensor::scalar(value));
  barrier.insert(component, keys, std::move(rows), who);
  return who;
}

WaiterPtr take(BarrierState& barrier, int64_t count) {
  const auto who = std::make_shared<Waiter>();
  barrier.take(count, who);
  return who;
}

Numbers numbers_of(const Tensor& t) {
  const auto values = t.values<int64_t>();
  return {values.begin(), values.end()};
}

TEST_CASE("an element leaves when all its components are there, the first begun first") {
  BarrierState barrier = pairs();
  const WaiterPtr taker = take(barrier, 2);
  CHECK(put(barrier, 0, {7, 8, 9}, {70, 80, 90})->number() == 0);  // completes elements
  CHECK(put(barrier, 1, {9}, {900})->number() == 1);
  CHECK(!taker->answered);
  CHECK(put(barrier, 1, {7}, {700})->number() == 2);
  CHECK(numbers_of(taker->outputs.at(0)) == Numbers{7, 9});
  CHECK(numbers_of(taker->outputs.at(1)) == Numbers{70, 90});
  CHECK(numbers_of(taker->outputs.at(2)) == Numbers{700, 900});
  CHECK(barrier.ready() == 0);
}

TEST_CASE(
    "a component that is there already, or twice at once, is refused, and nothing is put in") {
  BarrierState barrier = pairs();
  put(barrier, 0, {1}, {10});
  const WaiterPtr again = put(barrier, 0, {2, 1}, {20, 11});
  CHECK(again->code == Errc::invalid_argument);
  CHECK(again->text == "the barrier b has component 0 of key 1 already");
  CHECK(put(barrier, 1, {1, 1}, {1, 2})->code == Errc::invalid_argument);
  put(barrier, 1, {1, 2}, {100, 200});
  CHECK(numbers_of(take(barrier, 1)->outputs.at(1)) == Numbers{10});
  CHECK(!take(barrier, 1)->answered);  // key 2 has no component 0
}

TEST_CASE("who begins more than there is room for waits; who completes what was begun does not") {
  BarrierState barrier = pairs(2);
  put(barrier, 0, {1, 2}, {10, 20});
  const WaiterPtr more = put(barrier, 0, {3}, {30});
  CHECK(!more->answered);
  CHECK(put(barrier, 1, {1}, {100})->answered);
  CHECK(!more->answered);
  take(barrier, 1);
  CHECK(more->answered);
  CHECK(put(barrier, 0, {4, 5, 6}, {1, 2, 3})->code == Errc::invalid_argument);
  CHECK(take(barrier, 3)->code == Errc::invalid_argument);
}

TEST_CASE("an insert that would wait for itself to make room is refused") {
  BarrierState barrier = pairs(2);
  put(barrier, 0, {1}, {10});
  const WaiterPtr all = put(barrier, 1, {1, 2, 3}, {100, 200, 300});
  CHECK(all->code == Errc::invalid_argument);
  CHECK(all->text ==
        "the barrier b holds at most 2 elements, and 3 are given a component at once; "
        "give it a larger capacity");
}

TEST_CASE("a closed barrier takes no new keys, and ends when nothing can become complete") {
  BarrierState barrier = pairs();
  put(barrier, 0, {1, 2}, {10, 20});
  barrier.close(false);
  CHECK(put(barrier, 0, {3}, {30})->code == Errc::cancelled);
  const WaiterPtr two = take(barrier, 2);
  put(barrier, 1, {1}, {100});
  CHECK(!two->answered);  // key 2 may still be completed
  put(barrier, 1, {2}, {200});
  CHECK(numbers_of(two->outputs.at(0)) == Numbers{1, 2});
  CHECK(take(barrier, 1)->code == Errc::end_of_data);
}

TEST_CASE("who waited for room when a barrier was closed is still let in") {
  BarrierState barrier = pairs(1);
  put(barrier, 0, {1}, {10});
  const WaiterPtr waiting = put(barrier, 0, {2}, {20});
  barrier.close(false);
  CHECK(!waiting->answered);
  put(barrier, 1, {1}, {100});
  CHECK(numbers_of(take(barrier, 1)->outputs.at(0)) == Numbers{1});
  CHECK(waiting->code == Errc::ok);
  CHECK(waiting->answered);
  const WaiterPtr second = take(barrier, 1);
  put(barrier, 1, {2}, {200});
  CHECK(numbers_of(second->outputs.at(1)) == Numbers{20});
  CHECK(take(barrier, 1)->code == Errc::end_of_data);
}

TEST_CASE("closing with cancel_pending drops what was begun") {
  BarrierState barrier = pairs(1);
  put(barrier, 0, {1}, {10});
  const WaiterPtr waiting = put(barrier, 0, {2}, {20}), taker = take(barrier, 1);
  barrier.close(true);
  CHECK(waiting->code == Errc::cancelled);
  CHECK(taker->code == Errc::end_of_data);
}

TEST_CASE("a step that has ended takes nothing from a barrier and leaves nothing") {
  BarrierState barrier = pairs();
  const auto ends = std::make_shared<Waiter>();
  ends->ends_when_told = true;
  barrier.insert(0, {1}, {Tensor::scalar<int64_t>(10)}, ends);
  CHECK(put(barrier, 0, {1}, {11})->answered);
  put(barrier, 1, {1}, {100});
  const auto taker = std::make_shared<Waiter>();
  taker->ends_when_told = true;
  barrier.take(1, taker);
  CHECK(numbers_of(take(barrier, 1)->outputs.at(1)) == Numbers{11});
  const WaiterPtr last = take(barrier, 1);
  barrier.end();
  CHECK(last->code == Errc::cancelled);
}

TEST_CASE("what does not fit a barrier is refused while the graph is built") {
  Graph g;
  const Barrier barrier = make_barrier(g, {{DType::f32, {2}}, {DType::i64, {}}});
  const Output keys = constant(g, Tensor::zeros(DType::i64, {3})),
               rows = constant(g, Tensor::zeros(DType::f32, {3, 2})),
               two = constant(g, Tensor::zeros(DType::f32, {2, 2}));
  CHECK_NOTHROW(barrier_insert(barrier, 0, keys, rows));
  CHECK_THROWS_WITH_AS(barrier_insert(barrier, 2, keys, rows),
                       doctest::Contains("a component from 0 to 1, got 2"), Error);
  CHECK_THROWS_WITH_AS(barrier_insert(barrier, 1, keys, rows), doctest::Contains("each i64[]"),
                       Error);
  CHECK_THROWS_WITH_AS(barrier_insert(barrier, 0, keys, two), doctest::Contains("got f32[2, 2]"),
                       Error);
  CHECK_THROWS_WITH_AS(barrier_insert(barrier, 0, rows, rows), doctest::Contains("keys i64[n]"),
                       Error);
  CHECK_THROWS_WITH_AS(barrier_take(barrier, 0), doctest::Contains("at least 1, got 0"), Error);
  CHECK_THROWS_AS(make_barrier(g, {}, 1), Error);
  CHECK_THROWS_AS(make_barrier(g, {{DType::f32, {-1}}}), Error);
  CHECK_THROWS_AS(make_barrier(g, {{DType::f32, {}}}, 0), Error);
  const std::vector<Output> taken = barrier_take(barrier, 4);
  CHECK(taken.at(0).shape() == Shape{4});
  CHECK(taken.at(1).shape() == Shape{4, 2});
  CHECK_NOTHROW(close_barrier(barrier));
}

}  // namespace
}  // namespace troupe
