// Loops give the same bits, gradients and order of effects on any number of threads, with any
// WhileOptions::iterations_in_flight, within the same memory.

#include <functional>

#include "tests/support/evaluate.hpp"
#include "tests/support/engine/recursion.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

constexpr int64_t kSize = 40'000;  // takes cumsum more than 20 us

// A tensor of numbers that are neither all alike nor all exact.
Tensor wave(int64_t size, double scale) {
  Tensor x = Tensor::zeros(DType::f32, Shape{size});
  for (int64_t i = 0; i < size; ++i)
    x.mutable_data<float>()[i] = static_cast<float>(scale * static_cast<double>(i * 37 % 101 - 50));
  return x;
}

// A program with a loop, made anew for each setting.
struct Made {
  std::vector<Output> fetches;
  Feeds feeds;
};
using Make = std::function<Made(Graph&, int64_t in_flight)>;

std::vector<Tensor> run(Session& session, const Made& made) {
  return session.run(made.fetches, made.feeds, {.seed = 1});  // all runs draw the same numbers
}

// Every setting gives what one thread gives with one iteration after another. The third run has
// measured costs; the first one measures them on its way.
void check_same_everywhere(const Make& make) {
  std::vector<Tensor> want;
  {
    Graph graph;
    const Made made = make(graph, 1);
    Session session = Session::local(graph, {.threads = 1});
    want = run(session, made);
  }
  for (int threads : {1, 2, 4})
    for (int64_t in_flight : {1, 2, 8}) {
      CAPTURE(threads);
      CAPTURE(in_flight);
      Graph graph;
      const Made made = make(graph, in_flight);
      Session session = Session::local(graph, {.threads = threads});
      run(session, made);
      const int64_t used = session.device_states()[0].used_bytes;
      for (int round = 0; round < 3; ++round) {
        const std::vector<Tensor> got = run(session, made);
        for (size_t k = 0; k < want.size(); ++k) CHECK(same_bits(got[k], want[k]));
      }
      CHECK(session.device_states()[0].used_bytes == used);
    }
}

Output heavy(Output x) { return tanh(cumsum(x) * 0.01); }

// i = 0, a = x, b = 0 * x; while (i < n) { a = heavy(a + x); b = 0.5 b + heavy(a * w); ++i; }
struct TwoChains {
  Output n, x, w, a, b;
  TwoChains(Graph& graph, int64_t in_flight, bool recompute = false) {
    n = placeholder(graph, DType::i64, {}, "n");
    x = placeholder(graph, DType::f32, {kSize}, "x");
    w = placeholder(graph, DType::f32, {kSize}, "w");
    const Values end =
        counted_loop(n, {x, x * 0.0}, {.iterations_in_flight = in_flight, .recompute = recompute},
                     [&](const Values& v) {
                       const Output next = heavy(v[1] + x);
                       return Values{next, v[2] * 0.5 + heavy(next * w)};
                     });
    a = end[1];
    b = end[2];
  }
  Feeds feeds(int64_t trips) const {
    return {{n, count(trips)}, {x, wave(kSize, 0.01)}, {w, wave(kSize, 0.3)}};
  }
};

// From the least budget on with which `make` runs one iteration after another, it runs with several
// in flight: on one thread; and on two if there is room beside that for the values of one
// iteration. Lanes fire the nodes of a loop in any order (placement/memory_plan.hpp). With less,
// chance decides whether a node that comes late finds memory.
void check_fits(const Make& make) {
  const auto end = [&](int threads, int64_t in_flight, int64_t budget, int rounds) {
    Graph graph;
    const Made made = make(graph, in_flight);
    Session session =
        Session::local(graph, {.threads = threads, .memory_budget_bytes = budget, .passes = false});
    return code_of([&] {
      for (int i = 0; i < rounds; ++i) run(session, made);
    });
  };
  constexpr int64_t kValue = kSize * 4;
  constexpr int64_t kMade = 16;  // values, by an iteration, at most
  int64_t budget = 3 * kValue;
  while (end(1, 1, budget, 4) != Errc::ok) budget += kValue / 2;
  CHECK(budget < 20 * kValue);
  for (int64_t more : {0, 1, 2, 4, 8, 16, 32}) {
    CAPTURE(more);
    CHECK(end(1, 8, budget + more * kValue, 4) == Errc::ok);
    CHECK(end(2, 8, budget + (kMade + more) * kValue, 8) == Errc::ok);
    const Errc tight = end(2, 8, budget + more * kValue, 4);
    CHECK((tight == Errc::ok || tight == Errc::out_of_memory));
  }
}

}  // namespace

TEST_CASE("iterations in flight give the same bits on 1, 2 and 4 threads, however many fly") {
  check_same_everywhere([](Graph& graph, int64_t in_flight) {
    const TwoChains loop(graph, in_flight);
    return Made{{loop.a, loop.b}, loop.feeds(25)};
  });
}

TEST_CASE("gradients of iterations in flight have the same bits, kept or computed again") {
  for (bool recompute : {false, true}) {
    CAPTURE(recompute);
    check_same_everywhere([&](Graph& graph, int64_t in_flight) {
      const TwoChains loop(graph, in_flight, recompute);
      const std::vector<Output> d = gradients({reduce_sum(loop.a * loop.b)}, {loop.x, loop.w});
      return Made{{loop.b, d[0], d[1]}, loop.feeds(12)};
    });
  }
}

TEST_CASE("variables that change places, stay or are captured go through iterations in flight") {
  check_same_everywhere([](Graph& graph, int64_t in_flight) {
    const Output n = placeholder(graph, DType::i64, {}, "n"),
                 x = placeholder(graph, DType::f32, {kSize}, "x");
    const Values end = counted_loop(
        n, {x, x * 2.0, x * 3.0, x * 4.0, x * 5.0, x * 6.0}, {.iterations_in_flight = in_flight},
        [&](const Values& v) {
          return Values{v[2], v[1] + heavy(v[2]), v[3], x, v[4], fill(graph, {kSize}, 2) + v[5]};
        });
    return Made{end, {{n, count(15)}, {x, wave(kSize, 0.1)}}};
  });
}

TEST_CASE("branches in iterations in flight, and random numbers, stay what they are") {
  check_same_everywhere([](Graph& graph, int64_t in_flight) {
    const Output n = placeholder(graph, DType::i64, {}, "n"),
                 x = placeholder(graph, DType::f32, {kSize}, "x");
    const Values end =
        counted_loop(n, {x, x * 0.0}, {.iterations_in_flight = in_flight}, [&](const Values& v) {
          const Output odd = equal(v[0] % 2, whole(graph, 1));
          const Output a = cond(
              odd, [&] { return heavy(v[1]); }, [&] { return dropout(v[1], 0.3, 5) + x; });
          return Values{a, v[2] * 0.5 + heavy(dropout(a, 0.2, 7))};
        });
    const std::vector<Output> d = gradients({reduce_sum(end[1] * end[2])}, {x});
    return Made{{end[1], end[2], d[0]}, {{n, count(9)}, {x, wave(kSize, 0.1)}}};
  });
}

TEST_CASE("loops with iterations in flight stand in loops, and scans are such loops") {
  check_same_everywhere([](Graph& graph, int64_t in_flight) {
    const Output n = placeholder(graph, DType::i64, {}, "n"),
                 x = placeholder(graph, DType::f32, {6, kSize}, "x");
    const Values end = counted_loop(
        n, {x, fill(graph, {kSize}, 0)}, {.iterations_in_flight = in_flight}, [&](const Values& v) {
          const Scanned rows = scan(
              [&](const std::vector<Output>& carry, const std::vector<Output>& row) {
                const Output a = heavy(row[0] + carry[0] * 0.1);
                return Scanned{{carry[0] + row[0]}, {a}};
              },
              {v[2]}, {v[1]}, {.iterations_in_flight = in_flight, .name = "rows"});
          return Values{rows.rows[0], rows.carry[0] * 0.01};
        });
    const Output loss = reduce_sum(end[1] * end[1]);
    return Made{{end[1], end[2], gradients({loss}, {x})[0]},
                {{n, count(3)}, {x, wave(6 * kSize, 0.1).reshaped({6, kSize})}}};
  });
}

TEST_CASE("loops in iterations in flight give the same bits, three deep and of any trips") {
  check_same_everywhere([](Graph& graph, int64_t in_flight) {
    const Output n = placeholder(graph, DType::i64, {}, "n"),
                 x = placeholder(graph, DType::f32, {kSize}, "x"),
                 w = placeholder(graph, DType::f32, {kSize}, "w");
    const WhileOptions options{.iterations_in_flight = in_flight};
    const Values end = counted_loop(n, {x, x * 0.0, x}, options, [&](const Values& v) {
      const Output a = v[1] * 0.5 + x;
      // None, one or two times; what comes in changes places with what is captured.
      const Values rows = counted_loop(v[0] % 3, {a, a * 2.0, w}, options, [&](const Values& u) {
        const Values cells =
            counted_loop(whole(graph, 2), {u[1], u[2]}, options, [&](const Values& t) {
              return Values{t[1], heavy(t[1] * w + u[1]) + fill(graph, {kSize}, 1)};
            });
        return Values{a, u[1] + heavy(cells[1]), cells[2] * 0.5};
      });
      const Output more = counted_loop(whole(graph, 1), {a}, options, [&](const Values& u) {
        return Values{heavy(u[1] + v[3])};
      })[1];
      return Values{a, v[2] * 0.5 + rows[2] + more, rows[3] + rows[1] * 0.1};
    });
    return Made{end, {{n, count(8)}, {x, wave(kSize, 0.1)}, {w, wave(kSize, 0.3)}}};
  });
}

TEST_CASE("a body that goes back through its own loop does so in iterations in flight") {
  for (bool recompute : {false, true}) {
    CAPTURE(recompute);
    check_same_everywhere([&](Graph& graph, int64_t in_flight) {
      const Output n = placeholder(graph, DType::i64, {}, "n"),
                   x = placeholder(graph, DType::f32, {kSize}, "x");
      const WhileOptions options{.iterations_in_flight = in_flight, .recompute = recompute};
      const Values end = counted_loop(n, {x, x * 0.0}, options, [&](const Values& v) {
        const Output w = v[1] * 0.9 + 0.01;
        const Output h = counted_loop(whole(graph, 3), {x}, options,
                                      [&](const Values& u) { return Values{heavy(u[1] * w)}; })[1];
        const Output d = gradients({reduce_sum(h * h)}, {w})[0];
        return Values{w, v[2] * 0.5 + heavy(d * 0.01) + h};
      });
      return Made{{end[1], end[2]}, {{n, count(6)}, {x, wave(kSize, 0.01)}}};
    });
  }
}

TEST_CASE("branches and random numbers around and in loops in iterations in flight stay") {
  check_same_everywhere([](Graph& graph, int64_t in_flight) {
    const Output n = placeholder(graph, DType::i64, {}, "n"),
                 x = placeholder(graph, DType::f32, {kSize}, "x");
    const WhileOptions options{.iterations_in_flight = in_flight};
    const Values end = counted_loop(n, {x, x * 0.0}, options, [&](const Values& v) {
      const Output odd = equal(v[0] % 2, whole(graph, 1));
      const Output a = cond(
          odd,
          [&] {
            return counted_loop(whole(graph, 2), {x}, options, [&](const Values& u) {
              const Output even = equal(u[0] % 2, whole(graph, 0));
              return Values{cond(
                  even, [&] { return heavy(u[1] + x * 0.1); }, [&] { return u[1] * 0.5; })};
            })[1];
          },
          [&] { return heavy(x * 0.3); });
      const Output b = counted_loop(whole(graph, 2), {a}, options, [&](const Values& u) {
        return Values{heavy(dropout(u[1], 0.3, 5))};
      })[1];
      return Values{v[1] * 0.5 + x, v[2] * 0.5 + b};
    });
    const std::vector<Output> d = gradients({reduce_sum(end[1] * end[2])}, {x});
    return Made{{end[1], end[2], d[0]}, {{n, count(6)}, {x, wave(kSize, 0.1)}}};
  });
}

TEST_CASE("functions that call themselves are called in iterations in flight") {
  check_same_everywhere([](Graph& graph, int64_t in_flight) {
    Function down = declare_function(graph, "down", {kCount}, {kCount});
    down.define([&](const Values& k) {
      return Values{cond(
          less_equal(k[0], whole(graph, 0)), [&] { return whole(graph, 0); },
          [&] { return k[0] + down({k[0] - 1})[0]; })};
    });
    const Output n = placeholder(graph, DType::i64, {}, "n"),
                 x = placeholder(graph, DType::f32, {kSize}, "x");
    const Values end =
        counted_loop(n, {x, x * 0.0, whole(graph, 0)}, {.iterations_in_flight = in_flight},
                     [&](const Values& v) {
                       const Output sum = down({v[0] + 3})[0];
                       const Output a = heavy(v[1] + cast(sum, DType::f32) * 0.01);
                       return Values{a, v[2] + heavy(a * 2.0), v[3] + down({sum % 9})[0]};
                     });
    return Made{end, {{n, count(12)}, {x, wave(kSize, 0.1)}}};
  });
}

TEST_CASE("effects of iterations in flight come in the order of iterations") {
  for (int threads : {2, 4}) {
    CAPTURE(threads);
    Graph graph;
    const Output n = placeholder(graph, DType::i64, {}, "n"),
                 x = placeholder(graph, DType::f32, {kSize}, "x");
    constexpr int64_t kTrips = 30;
    const Queue queue = make_queue(graph, {{DType::i64, {}}}, {.capacity = 4 * kTrips});
    // The first effect of an iteration needs nothing of what is slow, the second all of it, and the
    // third is in a branch that only each other iteration takes.
    const Values end = counted_loop(n, {x, x * 0.0, whole(graph, 0)}, {}, [&](const Values& v) {
      const Output first = enqueue(queue, {v[0] * 4}), a = heavy(v[1] + x);
      const Output slow = heavy(a * 2.0);
      const Output none = cast(reduce_sum(slow) * 0.0, DType::i64);
      const Output second = enqueue(queue, {v[0] * 4 + 1 + none});
      const Output third = cond(
          equal(v[0] % 2, whole(graph, 1)),
          [&] { return enqueue(queue, {v[0] * 4 + 2 + second * 0}); },
          [&] { return whole(graph, 0); });
      return Values{a, v[2] + slow, first + second + third};
    });
    const Output out = dequeue_many(queue, 2 * kTrips + kTrips / 2).at(0);
    Session session = Session::local(graph, {.threads = threads});
    for (int round = 0; round < 5; ++round) {
      session.run({end[2], end[3]}, {{n, count(kTrips)}, {x, wave(kSize, 0.01)}});
      const Tensor got = session.run({out})[0];
      int64_t at = 0;
      for (int64_t i = 0; i < kTrips; ++i)
        for (int64_t k = 0; k < 2 + i % 2; ++k) CHECK(got.data<int64_t>()[at++] == 4 * i + k);
    }
  }
}

TEST_CASE("effects in loops in iterations in flight come in the order of iterations") {
  Graph graph;
  const Output n = placeholder(graph, DType::i64, {}, "n"),
               x = placeholder(graph, DType::f32, {kSize}, "x");
  constexpr int64_t kTrips = 12, kInner = 3;
  const Queue queue = make_queue(graph, {{DType::i64, {}}}, {.capacity = 2 * kTrips * kInner});
  const Values end = counted_loop(n, {x, whole(graph, 0)}, {}, [&](const Values& v) {
    const Output a = heavy(x * 0.5 + cast(v[0], DType::f32));
    const Values inner =
        counted_loop(whole(graph, kInner), {a, whole(graph, 0)}, {}, [&](const Values& u) {
          const Output slow = heavy(u[1]);
          const Output none = cast(reduce_sum(slow) * 0.0, DType::i64);
          const Output put = enqueue(queue, {v[0] * kInner + u[0] + none});
          return Values{slow, u[2] + put};
        });
    return Values{v[1] * 0.5 + inner[1], v[2] + inner[2]};
  });
  const Output out = dequeue_many(queue, kTrips * kInner).at(0);
  Session session = Session::local(graph, {.threads = 2});
  for (int round = 0; round < 5; ++round) {
    session.run({end[1], end[2]}, {{n, count(kTrips)}, {x, wave(kSize, 0.01)}});
    const Tensor got = session.run({out})[0];
    for (int64_t i = 0; i < kTrips * kInner; ++i) CHECK(got.data<int64_t>()[i] == i);
  }
}

TEST_CASE("a loop that has memory for one iteration at a time runs, however many may fly") {
  check_fits([](Graph& graph, int64_t in_flight) {
    const TwoChains loop(graph, in_flight);
    return Made{{loop.a, loop.b}, loop.feeds(12)};
  });
  // The same, with the second chain in a loop in the loop.
  check_fits([](Graph& graph, int64_t in_flight) {
    const Output n = placeholder(graph, DType::i64, {}, "n"),
                 x = placeholder(graph, DType::f32, {kSize}, "x");
    const WhileOptions options{.iterations_in_flight = in_flight};
    const Values end = counted_loop(n, {x, x * 0.0}, options, [&](const Values& v) {
      const Output a = heavy(v[1] + x);
      const Values inner = counted_loop(whole(graph, 2), {a, x}, options, [&](const Values& u) {
        return Values{heavy(u[1] * 0.9), u[2] * 0.5 + heavy(u[1])};
      });
      return Values{a, v[2] * 0.5 + inner[2]};
    });
    return Made{{end[1], end[2]}, {{n, count(7)}, {x, wave(kSize, 0.1)}}};
  });
}

TEST_CASE("what a loop made beside its condition for one iteration more is gone when it ends") {
  constexpr int64_t kValues = 100'000;
  Graph graph;
  const Output x = placeholder(graph, DType::i64, {-1}, "x"),
               n = placeholder(graph, DType::i64, {}, "n");
  Output next;
  const Output end = while_loop(
      [&](const Values& v) {
        next = v[1] + 1;
        return less(v[0] + reduce_min(next) * 0, n);
      },
      [&](const Values& v) {
        return Values{v[0] + 1, next};
      },
      {whole(graph, 0), x})[1];
  Session session = Session::local(graph, {.threads = 2, .passes = false});
  const Callable step = session.prepare({end}, {x, n});
  for (int64_t trips = 17; trips < 40; ++trips) {
    const Tensor got = step({Tensor::zeros(DType::i64, Shape{kValues}), count(trips)})[0];
    CHECK(got.data<int64_t>()[kValues - 1] == trips);
    CHECK(session.device_states()[0].used_bytes < 2 * kValues * 8);
  }
}

}  // namespace troupe
