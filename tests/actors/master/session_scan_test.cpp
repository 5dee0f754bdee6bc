// scan and map_rows in a session: values, gradients and refusals.
#include "tests/support/central_differences.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

using Values = std::vector<Output>;

Tensor numbers(std::initializer_list<double> xs, const Shape& shape) {
  return Tensor::of<double>(xs, shape);
}

// h = tanh(h w + x), kept in each step; the loss reads all of them and the last one.
struct Rnn {
  Graph graph;
  Output xs, w, last, all, loss;
  Values d;
  explicit Rnn(int64_t rows, bool recompute = false, bool written_out = false) {
    xs = placeholder(graph, DType::f64, {written_out ? 3 : rows, 2}, "xs");
    w = placeholder(graph, DType::f64, {2, 2}, "w");
    const Output h0 = fill(graph, {2}, 0.5, DType::f64);
    const auto step = [&](Output h, Output x) {
      return tanh(reshape(matmul(reshape(h, {1, 2}), w), {2}) + x);
    };
    if (written_out) {
      Values kept;
      last = h0;
      for (int64_t i = 0; i < 3; ++i)
        kept.push_back(reshape(
            last = step(last, gather(xs, fill(graph, {}, static_cast<double>(i), DType::i64))),
            {1, 2}));
      all = concat(kept, 0);
    } else {
      const Scanned done = scan(
          [&](const Values& carry, const Values& row) {
            const Output h = step(carry[0], row[0]);
            return Scanned{{h}, {h}};
          },
          {h0}, {xs}, {.recompute = recompute, .name = "scan"});
      last = done.carry[0];
      all = done.rows[0];
    }
    loss = reduce_sum(all * all) + reduce_sum(last);
    d = gradients({loss}, {xs, w});
  }
  std::vector<Tensor> run(const ProcessOptions& options = {}) {
    Session session = Session::local(graph, options);
    return session.run({all, last, loss, d[0], d[1]},
                       {{xs, numbers({0.1, -0.3, 0.2, 0.7, -0.5, 0.4}, {3, 2})},
                        {w, numbers({0.3, -0.6, 0.2, 0.9}, {2, 2})}});
  }
};

}  // namespace

TEST_CASE("scan gives the values and gradients of its steps written out") {
  Rnn plain(3, false, true);
  const std::vector<Tensor> want = plain.run();
  for (int64_t rows : {3, -1})
    for (bool recompute : {false, true})
      for (bool passes : {true, false}) {
        CAPTURE(rows);
        CAPTURE(recompute);
        CAPTURE(passes);
        Rnn rnn(rows, recompute);
        const std::vector<Tensor> got = rnn.run({.threads = 2, .passes = passes});
        for (size_t i = 0; i < want.size(); ++i) check_close(got[i], want[i], 1e-12);
      }
}

TEST_CASE("map_rows applies its function to each row of several tensors, and to none") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {-1, 2}, "x");
  const Output y = placeholder(graph, DType::f64, {-1}, "y");
  const Values z = map_rows(
      [](const Values& row) {
        return Values{row[0] * row[1], greater(row[1], reduce_sum(row[0]))};
      },
      {x, y});
  CHECK(z[0].shape() == Shape{-1, 2});
  CHECK(z[1].dtype() == DType::boolean);
  const Values d = gradients({z[0]}, {x, y});
  Session session = Session::local(graph);
  const auto run = [&](const Tensor& at_x, const Tensor& at_y) {
    return session.run({z[0], z[1], d[0], d[1]}, {{x, at_x}, {y, at_y}});
  };
  const std::vector<Tensor> got = run(numbers({1, 2, 3, 4}, {2, 2}), numbers({10, -1}, {2}));
  CHECK(same_bits(got[0], numbers({10, 20, -3, -4}, {2, 2})));
  CHECK(same_bits(got[1], Tensor::of<bool>({true, false}, {2})));
  CHECK(same_bits(got[2], numbers({10, 10, -1, -1}, {2, 2})));
  CHECK(same_bits(got[3], numbers({3, 7}, {2})));
  CHECK(run(Tensor::zeros(DType::f64, {0, 2}), Tensor::zeros(DType::f64, {0}))[0].shape() ==
        Shape{0, 2});
}

TEST_CASE("what the steps of a scan keep is written in place: 20,000 rows take no quadratic time" *
          doctest::test_suite("slow")) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {-1, 16}, "x");
  const Values z = map_rows([](const Values& row) { return Values{row[0] + row[0]}; }, {x});
  const Values d = gradients({z[0]}, {x});
  Session session = Session::local(graph, {.threads = 1});
  const std::vector<Tensor> got =
      session.run({z[0], d[0]}, {{x, Tensor::zeros(DType::f32, {20'000, 16})}});
  CHECK(got[0].shape() == Shape{20'000, 16});
  CHECK(got[1].data<float>()[0] == 2);
  CHECK(got[1].data<float>()[20'000 * 16 - 1] == 2);
}

TEST_CASE("a scan of tensors with unequal numbers of rows fails in the step that finds it") {
  for (const int64_t known : {-1, 3}) {
    CAPTURE(known);
    Graph graph;
    const Output x = placeholder(graph, DType::f64, {-1, 2}, "x"),
                 y = placeholder(graph, DType::f64, {known}, "y");
    const auto add = [](const Values& row) { return Values{row[0] + row[1]}; };
    const int line = __LINE__ + 1;
    const Values mapped = map_rows(add, {x, y});
    const Scanned scanned = scan(
        [](const Values& c, const Values& row) {
          return Scanned{{c[0] + row[1]}, {row[0]}};
        },
        {fill(graph, {}, 0, DType::f64)}, {x, y});
    Session session = Session::local(graph, {.threads = 1});
    for (const int64_t rows : {2, 4}) {
      const Feeds feeds = {{x, Tensor::zeros(DType::f64, {rows, 2})},
                           {y, Tensor::zeros(DType::f64, {3})}};
      const std::string counts =
          detail::concat(" wants xs with one number of rows, got ", rows, ", 3;");
      check_invalid([&] { session.run({mapped[0]}, feeds); },
                    detail::concat("made at ", __FILE__, ":", line), "map_rows" + counts);
      has(refusal_of([&] { session.run({scanned.carry[0]}, feeds); }).text, "scan" + counts);
      has(refusal_of([&] { session.run({scanned.rows[0]}, feeds); }).text, "scan" + counts);
    }
    CHECK(session
              .run({mapped[0]},
                   {{x, Tensor::zeros(DType::f64, {3, 2})}, {y, Tensor::zeros(DType::f64, {3})}})[0]
              .shape() == Shape{3, 2});
  }
}

TEST_CASE("what scan cannot do is refused with the reason") {
  Graph graph;
  const Output x = fill(graph, {3, 2}, 1), other = fill(graph, {4}, 1), h = fill(graph, {}, 0);
  const Output ragged = placeholder(graph, DType::f32, {3, -1});
  const auto keep = [](const Values& carry, const Values& row) { return Scanned{carry, row}; };
  check_invalid([&] { scan(keep, {h}, {}); }, "wants at least one x");
  check_invalid([&] { scan(keep, {h}, {h}); }, "wants xs with rows, got a scalar");
  check_invalid([&] { scan(keep, {h}, {x, other}); }, "one number of rows, got [3, 2] and [4]");
  check_invalid([&] { scan(keep, {h}, {ragged}); }, "its shape must be known");
  check_invalid([&] { scan(keep, {h}, {x, Output{}}); }, "inputs are undefined Outputs");
  check_invalid([&] { scan(keep, {h}, {x, h}); }, "wants xs with rows, got a scalar");
  check_invalid(
      [&] {
        scan(keep, {h}, {x}, {.shapes = {{}, {}}});
      },
      "got 2 shapes for a carry of 1 values; give one for each, or none");
  check_invalid([&] { scan([](const Values&, const Values&) { return Scanned{}; }, {h}, {x}); },
                "returns a carry of 0 values, but gets one of 1");
  check_invalid(
      [&] {
        scan([&](const Values&, const Values&) { return Scanned{{x}, {}}; }, {h}, {x});
      },
      "value 0 of the carry is f32[], but the step makes f32[3, 2]");
  check_invalid([&] { map_rows(LoopBody(), {x}); }, "its function is empty");
}

}  // namespace troupe
