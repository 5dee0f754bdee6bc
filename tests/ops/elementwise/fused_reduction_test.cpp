// Fused programs that end in a reduction, that begin with a node of several outputs, and those
// whose members do what other ops do.

#include "tests/support/engine/fused_nodes.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// The value that a group computes of x, [.., n], a row and a column before a reduction.
Output chain_of(Output x, Output row, Output column) {
  return subtract(multiply(x, row), multiply(x, column));
}

struct Reduced {
  Shape shape;
  std::vector<int64_t> axes;
};
// Runs and columns; short, long, and cut into jobs; what is copied first; what keeps its shape.
const std::vector<Reduced> kReduced = {{{7}, {}},
                                       {{5000}, {}},
                                       {{140'000}, {}},
                                       {{300, 7}, {0}},
                                       {{300, 7}, {1}},
                                       {{300, 7}, {}},
                                       {{3, 700}, {1}},
                                       {{3, 700}, {0}},
                                       {{2, 70'000}, {1}},
                                       {{40, 3000}, {0}},
                                       {{20'000, 10}, {0}},
                                       {{9, 70, 33}, {1}},
                                       {{9, 70, 33}, {0, 2}},
                                       {{9, 70, 33}, {0, 1}},
                                       {{2, 3, 4, 5, 6}, {0, 4}},
                                       {{2, 3, 4, 5, 6}, {1, 2}},
                                       {{5, 1}, {1}},
                                       {{0, 3}, {0}},
                                       {{3, 0}, {0}},
                                       {{513, 257}, {0}},
                                       {{2, 130'000}, {0}},
                                       {{2, 90, 1000}, {0, 2}},
                                       {{700, 513}, {1}},
                                       {{33, 2049}, {0}}};

Tensor waves(DType dtype, const Shape& shape, float seed) {
  Graph g;
  return evaluate(cast(constant(g, waves_f32(shape, seed)) * 9.0, dtype));
}

Output reduced_by(int which, Output x, const ReduceOptions& options) {
  switch (which) {
    case 0:
      return reduce_sum(x, options);
    case 1:
      return reduce_mean(x, options);
    case 2:
      return reduce_max(x, options);
    case 3:
      return reduce_min(x, options);
    default:
      return reduce_prod(x, options);
  }
}

Shape column_of(Shape shape) {
  shape.set(shape.ndim() - 1, 1);
  return shape;
}

}  // namespace

TEST_CASE("a reduction gets the parts of a group's value, and has the bits it has without") {
  int which = 0;
  for (const DType dtype : {DType::f32, DType::f64, DType::i32})
    for (const Reduced& r : kReduced)
      for (const bool unknown : {false, true})
        for (const bool read : {false, true}) {
          which = (which + 1) % 5;
          if (dtype == DType::i32 && which == 1) continue;
          const Shape row{r.shape[r.shape.ndim() - 1]}, column = column_of(r.shape);
          Shape told = r.shape;
          if (unknown) told.set(0, -1);
          Graph g;
          const Output x = placeholder(g, dtype, told), b = placeholder(g, dtype, row);
          const Output c = placeholder(g, dtype, unknown ? column_of(told) : column);
          const Output y = chain_of(x, b, c);
          std::vector<Output> fetches;
          const auto refusal = refusal_of([&] {
            fetches = {reduced_by(which, y, {.axes = r.axes, .keep_dims = read})};
            if (read) fetches.push_back(roll(y, {1}, {0}));
          });
          const FedValues feeds = {{x, waves(dtype, r.shape, 1)},
                                   {b, waves(dtype, row, 2)},
                                   {c, waves(dtype, column, 3)}};
          Both both;
          if (refusal.code != Errc::ok ||
              refusal_of([&] { both = evaluate_both(g, fetches, feeds); }).code != Errc::ok) {
            CHECK((which == 2 || which == 3));  // there is no greatest of nothing
            CHECK(r.shape.size() == 0);
            continue;
          }
          CHECK(both.nodes == 1);
          for (size_t i = 0; i < fetches.size(); ++i)
            CHECK_MESSAGE(same_bits(both.plain[i], both.fused[i]), dtype, " ", r.shape, " over ",
                          to_string(Attr(r.axes)), ", reduction ", which, ", read: ", read);
        }
}

TEST_CASE("whether any or all of a comparison are true is found while it is computed") {
  for (const float limit : {-2.0F, 0.0F, 2.0F}) {
    Graph g;
    const Output x = placeholder(g, DType::f32, Shape{300, 40}, "x");
    const Output p = greater(x, constant(g, Tensor::scalar(limit)));
    const Both both =
        evaluate_both(g, {reduce_any(p, {.axes = {0}})}, {{x, waves_f32({300, 40}, 1)}});
    const Both all = evaluate_both(g, {reduce_all(p)}, {{x, waves_f32({300, 40}, 1)}});
    CHECK(both.nodes + all.nodes == 2);
    CHECK(same_bits(both.plain[0], both.fused[0]));
    CHECK(same_bits(all.plain[0], all.fused[0]));
  }
}

TEST_CASE("a reduction behind a group has the same bits on any number of threads, also in place") {
  for (const Reduced& r : kReduced) {
    if (r.shape.size() == 0) continue;
    Graph g;
    const Output x = placeholder(g, DType::f32, r.shape, "x");
    const Output y = exp(negate(square(x))), s = reduce_sum(y, {.axes = r.axes});
    const Tensor value = waves_f32(r.shape, 1);
    const Tensor plain = evaluate(s, {{x, value}});
    const FusedNode node(s);
    const FusedNode written(concat({reshape(s, {-1}), reshape(y, {-1})}, 0));
    const Tensor plain_y = evaluate(y, {{x, value}});
    for (const int threads : {1, 2, 4}) {
      Threads helpers(threads);
      std::vector<Tensor> inputs = {value};
      CHECK(same_bits(node.fire(inputs, false, &helpers.lanes)[0], plain));
      inputs = {waves_f32(r.shape, 1)};
      const void* const memory = inputs[0].raw();
      const std::vector<Tensor> both = written.fire(inputs, true, &helpers.lanes);
      if (r.shape.ndim() <= 4) CHECK(both[0].raw() == memory);
      CHECK(same_bits(both[0], plain_y));
      CHECK(same_bits(both[1], plain));
    }
  }
}

TEST_CASE("a value of another shape than the rest of the program is whole before it is reduced") {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{-1, 3}, "x");
  const Output z = placeholder(g, DType::f32, Shape{-1, 3}, "z");
  const Output a = exp(x), y = add(a, square(z)), s = reduce_sum(a, {.axes = {0}});
  for (const bool read : {false, true})
    for (const int64_t rows : {1, 4}) {
      std::vector<Output> fetches = {s, roll(y, {1}, {0})};
      if (read) fetches.push_back(roll(a, {1}, {0}));
      const Both both =
          evaluate_both(g, fetches, {{x, waves_f32({1, 3}, 1)}, {z, waves_f32({rows, 3}, 2)}});
      CHECK(both.nodes == 1);
      for (size_t i = 0; i < fetches.size(); ++i) CHECK(same_bits(both.plain[i], both.fused[i]));
    }
}

TEST_CASE("a reduction that has nothing to choose from says so by its own name") {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{-1, 3}, "x");
  const Output y = g.add({.op = "ReduceMax",
                          .inputs = {exp(x)},
                          .attrs = {{"axes", std::vector<int64_t>{0}}},
                          .name = "top"});
  const CallGraph call = rewrite(fuse, call_graph(g, {y}, {x})).call;
  CHECK(count_fused(call) == 1);
  const Refusal refused = refusal_of([&] {
    evaluate(*call.graph, call.fetches, {{call.feeds[0], Tensor::zeros(DType::f32, {0, 3})}});
  });
  has(refused.text, "ReduceMax node top");
  has(refused.text, "there is no greatest of no elements");
}

TEST_CASE("a normalization of several outputs goes on with a group, and keeps the bits of all") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : {Shape{2, 3}, Shape{7, 5, 5, 33}, Shape{3000, 64}, Shape{0, 4}})
      for (const bool unknown : {false, true}) {
        Shape told = shape;
        if (unknown) told.set(0, -1);
        const int64_t c = shape[shape.ndim() - 1];
        Graph g;
        const Output x = placeholder(g, dtype, told), r = placeholder(g, dtype, told);
        const Output gamma = placeholder(g, dtype, {c}), beta = placeholder(g, dtype, {c});
        const BatchNorm norm = batch_norm(x, gamma, beta);
        const Output y = relu(add(norm.y, r));
        const std::vector<Output> fetches = {roll(y, {1}, {0}), negate(norm.mean),
                                             roll(norm.variance, {1}, {0}), gradients({y}, {x})[0]};
        const FedValues feeds = {{x, waves(dtype, shape, 1)},
                                 {r, waves(dtype, shape, 2)},
                                 {gamma, waves(dtype, {c}, 3)},
                                 {beta, waves(dtype, {c}, 4)}};
        const Both both = evaluate_both(g, fetches, feeds);
        CHECK(both.nodes >= 2);
        for (size_t i = 0; i < fetches.size(); ++i)
          CHECK_MESSAGE(same_bits(both.plain[i], both.fused[i]), dtype, " ", shape, ", fetch ", i);
      }
}

TEST_CASE("where a member does what another op does, all are fired one by one") {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{30, 7}, "x");
  const Output w = placeholder(g, DType::f32, Shape{7, 40}, "w");
  const Output h = relu(matmul(x, w)), y = negate(square(h));
  const Tensor vx = waves_f32({30, 7}, 1), vw = waves_f32({7, 40}, 2);
  const CallGraph call = rewrite(fuse, call_graph(g, {y}, {x, w})).call;
  const auto outputs_with = [&](const std::string& member, const std::string& op) {
    Node node = call.graph->node(call.fetches[0].node);
    REQUIRE(node.op->name == "Fused");
    Op other = *node.op;
    if (!member.empty()) other.replaced[member] = {builtin_ops(), &builtin_ops()->get(op)};
    node.op = &other;
    HeapMemory memory;
    return run_kernel(NodeView::make(node, *find_kernel(node, DeviceKind::cpu)), {vx, vw}, memory,
                      RunContext{});
  };
  const std::vector<Tensor> own = outputs_with("", "");
  const std::vector<Tensor> same = outputs_with(h.name(), "Relu");
  const std::vector<Tensor> other = outputs_with(h.name(), "Negate");
  REQUIRE(own.size() == same.size());
  for (size_t i = 0; i < own.size(); ++i) CHECK(same_bits(own[i], same[i]));
  const Tensor expected = evaluate(negate(square(negate(matmul(x, w)))), {{x, vx}, {w, vw}});
  CHECK(same_bits(other[0], expected));
}

}  // namespace troupe
