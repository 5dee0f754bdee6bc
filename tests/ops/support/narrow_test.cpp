// f16, bf16 and i8: the kernels, in addition to each op's tables, which also run in these dtypes.
#include <algorithm>

#include "graph/graph_state.hpp"
#include "tests/support/op_cases.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

constexpr DType kHalves[] = {DType::f16, DType::bf16};

// Checks that y = f(x...) in a 16-bit dtype has the bits of f in f32, rounded once.
void check_rounded(const std::string& name, const std::function<Output(std::vector<Output>)>& f,
                   const std::vector<Tensor>& inputs) {
  for (const DType half : kHalves) {
    CAPTURE(name);
    CAPTURE(half);
    Graph graph;
    FedValues feeds;
    std::vector<Output> low, wide;
    for (const Tensor& input : inputs) {
      const bool real = input.dtype() == DType::f64;
      const Tensor x = real ? converted(input, half) : input;
      low.push_back(placeholder(graph, x.dtype(), x.shape()));
      feeds[low.back()] = x;
      const Tensor exact = real ? converted(x, DType::f32) : x;
      wide.push_back(placeholder(graph, exact.dtype(), exact.shape()));
      feeds[wide.back()] = exact;
    }
    const Tensor got = evaluate(f(low), feeds);
    const Tensor exact = evaluate(f(wide), feeds);
    const Tensor expected = exact.dtype() == DType::f32 ? converted(exact, half) : exact;
    CHECK_MESSAGE(same_bits(got, expected), got, " instead of ", expected);
  }
}

}  // namespace

TEST_CASE("ops in 16 bits give what they give in f32, rounded once") {
  const Tensor a = waves({37, 65}, 1), b = waves({37, 65}, 2), row = waves({65}, 3);
  const auto one = [](auto f) { return [f](std::vector<Output> x) { return f(x[0]); }; };
  const auto two = [](auto f) { return [f](std::vector<Output> x) { return f(x[0], x[1]); }; };
  check_rounded("add", two([](Output x, Output y) { return x + y; }), {a, b});
  check_rounded("add a row", two([](Output x, Output y) { return x + y; }), {a, row});
  check_rounded("multiply by a scalar", one([](Output x) { return x * 0.75; }), {a});
  check_rounded("exp", one([](Output x) { return exp(x); }), {a});
  check_rounded("gelu", one([](Output x) { return gelu(x); }), {a});
  check_rounded("less", two([](Output x, Output y) { return less(x, y); }), {a, b});
  check_rounded("sum", one([](Output x) { return reduce_sum(x, {.axes = {0}}); }), {a});
  check_rounded("softmax", one([](Output x) { return softmax(x); }), {a});
  check_rounded("sort", one([](Output x) { return sort(x, {.axis = 0}); }), {a});
  check_rounded("transpose", one([](Output x) { return transpose(x); }), {a});
  check_rounded("gather", two([](Output x, Output i) { return gather(x, i); }),
                {a, i64(vector({3, 0, 3}))});
  check_rounded("where", [](std::vector<Output> x) { return where(less(x[0], x[1]), x[0], x[1]); },
                {a, b});
}

TEST_CASE("large tensors, which are cut into jobs, have the same bits in 16 bits") {
  const Tensor x = waves({20, 28, 28, 3}, 1), filter = waves({3, 3, 3, 16}, 2);
  const Tensor y = waves({20, 28, 28, 16}, 3);
  const auto first = [](auto f) { return [f](std::vector<Output> in) { return f(in[0]); }; };
  check_rounded("relu", first([](Output in) { return relu(in); }), {y});
  check_rounded("max_pool2d", first([](Output in) { return max_pool2d(in); }), {y});
  check_rounded("product with itself", first([](Output in) { return in * in; }), {y});
  check_rounded("to f32 and back",
                first([](Output in) { return cast(cast(in, DType::f32), in.dtype()); }), {y});
  for (const std::vector<int64_t>& axes :
       std::vector<std::vector<int64_t>>{{}, {0}, {3}, {0, 1, 2}, {1, 3}, {0, 2}}) {
    CAPTURE(axes.size());
    const auto over = [&](auto f) {
      return first([&axes, f](Output in) { return f(in, {.axes = axes}); });
    };
    using Options = ReduceOptions;
    check_rounded("sum", over([](Output in, Options o) { return reduce_sum(in, o); }), {y});
    check_rounded("mean", over([](Output in, Options o) { return reduce_mean(in, o); }), {y});
    check_rounded("max", over([](Output in, Options o) { return reduce_max(in, o); }), {y});
  }
}

TEST_CASE(
    "convolutions of bf16 are those of f32, rounded once, also of one channel and odd batches") {
  for (const int64_t channels : {1, 3, 16})
    for (const int64_t batch : {1, 9, 33}) {
      CAPTURE(channels);
      CAPTURE(batch);
      Graph graph;
      FedValues low, wide;
      const auto both = [&](const Shape& shape, double seed) {
        const Tensor x = converted(waves(shape, seed), DType::bf16);
        const Output a = placeholder(graph, DType::bf16, shape);
        const Output b = placeholder(graph, DType::f32, shape);
        low[a] = x;
        wide[b] = converted(x, DType::f32);
        return std::pair{a, b};
      };
      const auto [x, wide_x] = both({batch, 12, 12, channels}, 1);
      const auto [filter, wide_filter] = both({3, 3, channels, 32}, 2);
      const auto [dy, wide_dy] = both({batch, 12, 12, 32}, 3);
      const auto compare = [&](const Output& got, const Output& expected) {
        const Tensor exact = evaluate(expected, wide);
        const auto other = difference(evaluate(got, low), converted(exact, DType::bf16));
        CHECK_MESSAGE(!other, *other);
      };
      compare(conv2d(x, filter), conv2d(wide_x, wide_filter));
      const std::vector<Output> slopes = gradients({conv2d(x, filter)}, {x, filter}, {dy});
      const std::vector<Output> exact =
          gradients({conv2d(wide_x, wide_filter)}, {wide_x, wide_filter}, {wide_dy});
      compare(slopes[0], exact[0]);
      compare(slopes[1], exact[1]);
    }
}

TEST_CASE("a sum of many 16-bit numbers is kept in f32") {
  // In 16 bits the sum would stop at 256 and at 2048, where 1 is half a unit.
  for (const DType half : kHalves) {
    Graph graph;
    const Output x = placeholder(graph, half, {4096});
    const Tensor ones = converted(full({4096}, 1), half);
    CHECK(to_doubles(evaluate(reduce_sum(x), {{x, ones}}))[0] == 4096);
  }
}

TEST_CASE("products of bf16 are summed in f32 and rounded once, whatever the size") {
  for (const Shape& shape : {Shape{3, 5}, Shape{64, 64}, Shape{130, 300}}) {
    Graph graph;
    const int64_t m = shape[0], k = shape[1], n = 70;
    const Output a = placeholder(graph, DType::bf16, {m, k});
    const Output b = placeholder(graph, DType::bf16, {n, k});
    const Tensor at = converted(waves({m, k}, 1), DType::bf16);
    const Tensor bt = converted(waves({n, k}, 2), DType::bf16);
    const Tensor got = evaluate(matmul(a, b, {.transpose_b = true}), {{a, at}, {b, bt}});
    const std::vector<double> x = to_doubles(at), y = to_doubles(bt), z = to_doubles(got);
    double worst = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += x[static_cast<size_t>(i * k + l)] * y[static_cast<size_t>(j * k + l)];
        // Half a unit in the last place, and the error of f32.
        const double bound = 0x1p-8 * std::abs(sum) + 1e-5;
        worst = std::max(worst, std::abs(z[static_cast<size_t>(i * n + j)] - sum) / bound);
      }
    CHECK(worst <= 1);
  }
}

TEST_CASE("i8 wraps around, as other integers do, and refuses a division by zero") {
  Graph graph;
  const Output a = placeholder(graph, DType::i8, {3}), b = placeholder(graph, DType::i8, {3});
  const Tensor x = converted(vector({127, -128, 100}), DType::i8);
  const Tensor y = converted(vector({1, -1, 3}), DType::i8);
  const FedValues feeds = {{a, x}, {b, y}};
  CHECK(same_bits(evaluate(a + b, feeds), converted(vector({-128, 127, 103}), DType::i8)));
  CHECK(same_bits(evaluate(a * b, feeds), converted(vector({127, -128, 44}), DType::i8)));
  CHECK(same_bits(evaluate(maximum(a, b), feeds), converted(vector({127, -1, 100}), DType::i8)));
  CHECK_THROWS_AS(evaluate(a / (b - b), feeds), Error);
}

TEST_CASE("a cast to 16 bits rounds once, from f64 and from integers, too") {
  const auto cast_of = [](const Tensor& x, DType to) {
    Graph graph;
    const Output in = placeholder(graph, x.dtype(), x.shape());
    return to_doubles(evaluate(cast(in, to), {{in, x}}));
  };
  // Just above a tie of bf16; via f32 it would first round to the tie, and then to even.
  const double above = 1 + 0x1p-8 + 0x1p-40;
  CHECK(cast_of(vector({above, -above, 1 + 0x1p-8}), DType::bf16) ==
        std::vector<double>{1 + 0x1p-7, -1 - 0x1p-7, 1});
  const double above_f16 = 1 + 0x1p-11 + 0x1p-40;
  CHECK(cast_of(vector({above_f16, 65519.999, 65520}), DType::f16) ==
        std::vector<double>{1 + 0x1p-10, 65504, INFINITY});
  const Tensor large = Tensor::of<int64_t>({(int64_t{1} << 62) + (int64_t{1} << 54) + 1}, {1});
  CHECK(cast_of(large, DType::bf16) == std::vector<double>{0x1p62 + 0x1p55});
  CHECK(cast_of(Tensor::of<BFloat16>({BFloat16(-3.7), BFloat16(300), BFloat16(NAN)}, {3}),
                DType::i8) == std::vector<double>{-3, 127, 0});
  CHECK(cast_of(Tensor::of<Float16>({Float16(0.5), Float16(0)}, {2}), DType::boolean) ==
        std::vector<double>{1, 0});
}

TEST_CASE("a scope of mixed precision computes products low, and losses and sums in f32") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {4, 3}),
               w = placeholder(graph, DType::f32, {3, 2});
  const Output labels = placeholder(graph, DType::i64, {4});
  Output product, hidden, loss;
  {
    const auto mixed = mixed_precision(graph);
    CHECK(graph.state().scopes.back().compute == DType::bf16);
    product = matmul(x, w);
    hidden = relu(product);
    loss = reduce_mean(softmax_cross_entropy(hidden, labels));
    const auto off = mixed_precision(graph, DType::f32);
    CHECK(matmul(x, w).dtype() == DType::f32);
  }
  CHECK(graph.state().scopes.back().compute == DType::none);
  CHECK(product.dtype() == DType::bf16);
  CHECK(hidden.dtype() == DType::bf16);
  CHECK(loss.dtype() == DType::f32);
  CHECK(matmul(x, w).dtype() == DType::f32);
  const std::vector<Output> slopes = gradients({loss}, {x, w});
  CHECK(slopes[0].dtype() == DType::f32);
  CHECK(slopes[1].dtype() == DType::f32);
  // The backward products are in low precision as well.
  int low = 0;
  for (const auto& node : graph.nodes())
    low += node->op->name == "MatMul" && node->outputs[0].dtype == DType::bf16;
  CHECK(low == 3);
  CHECK_THROWS_WITH_AS((void)mixed_precision(graph, DType::i32),
                       doctest::Contains("products are computed in bf16, f16 or f32, got i32"),
                       Error);
}

TEST_CASE("where f32 meets 16 bits, an op that is no product computes in f32") {
  Graph graph;
  const auto mixed = mixed_precision(graph, DType::f16);
  const Output x = placeholder(graph, DType::f32, {2, 2});
  const Output y = matmul(x, x);
  CHECK((y + x).dtype() == DType::f32);
  CHECK((y + y).dtype() == DType::f16);
  CHECK((y * 2).dtype() == DType::f16);
  CHECK(concat({y, x}, 0).dtype() == DType::f32);
  CHECK(cast(y, DType::f64).dtype() == DType::f64);
}

TEST_CASE("an op of one's own that has no kernel for 16 bits computes in f32 after a product") {
  const auto thirds = [](KernelContext& ctx) {
    const Tensor x = ctx.input(0);
    float* y = ctx.output(0, x.shape()).mutable_data<float>();
    for (int64_t i = 0; i < x.size(); ++i) y[i] = x.data<float>()[i] / 3;
  };
  const auto moves = [](KernelContext& ctx) { ctx.set_output(0, ctx.input(0)); };
  const auto own = [](const char* name, std::vector<Kernel> kernels, Precision precision) {
    return Op{.name = name,
              .inputs = {"x"},
              .outputs = {"y"},
              .infer_shapes = [](const InferContext& ctx) { return std::vector{ctx.input(0)}; },
              .no_gradient = "it is not asked for",
              .kernels = std::move(kernels),
              .precision = precision};
  };
  const Kernel f32{DeviceKind::cpu, DType::f32, thirds}, f16{DeviceKind::cpu, DType::f16, moves},
      any{DeviceKind::cpu, DType::none, moves};
  Graph graph(
      ops_with({own("Thirds", {f32}, Precision::same), own("LowThirds", {f32}, Precision::low),
                own("Both", {f32, f16}, Precision::same),
                own("WideBoth", {f32, f16}, Precision::wide), own("Any", {any}, Precision::same)}));
  const auto mixed = mixed_precision(graph, DType::f16);
  const Output x = placeholder(graph, DType::f32, {1, 1});
  const Output y = matmul(x, x);
  CHECK(y.dtype() == DType::f16);
  const auto of = [&](const char* op) { return graph.add({.op = op, .inputs = {y}}); };
  for (const char* op : {"Thirds", "LowThirds"}) {
    CAPTURE(op);
    CHECK(of(op).dtype() == DType::f32);
    CHECK(evaluate(of(op), {{x, Tensor::of<float>({2}, {1, 1})}}).data<float>()[0] == 4.0f / 3);
  }
  CHECK(of("Both").dtype() == DType::f16);
  CHECK(of("WideBoth").dtype() == DType::f32);
  CHECK(of("Any").dtype() == DType::f16);
}

TEST_CASE("an op that says in what it computes has kernels for that") {
  int low = 0, wide = 0;
  for (const Op* op : builtin_ops()->all()) {
    CAPTURE(op->name);
    const auto has = [op](DType dtype) {
      return std::any_of(op->kernels.begin(), op->kernels.end(),
                         [dtype](const Kernel& kernel) { return kernel.dtype == dtype; });
    };
    low += op->precision == Precision::low;
    wide += op->precision == Precision::wide;
    if (op->precision == Precision::low) CHECK((has(DType::bf16) && has(DType::f16)));
    if (op->precision == Precision::wide) CHECK(has(DType::f32));
  }
  CHECK(low > 0);
  CHECK(wide > 0);
}

TEST_CASE("a call takes and gives what its function declares, also where f32 meets 16 bits") {
  Graph graph;
  const auto mixed = mixed_precision(graph, DType::f16);
  const Output x = placeholder(graph, DType::f32, {2, 2}), y = matmul(x, x);
  const std::vector<TensorType> types = {{DType::f32, Shape{2, 2}}, {DType::f16, Shape{2, 2}}};
  Function f = declare_function(graph, "f", types, types);
  f.define([&](const std::vector<Output>& in) {
    return cond(
        less(reduce_sum(in[0]), constant(graph, Tensor::scalar(1.0f))), [&] { return in; },
        [&] {
          return f({in[0] * 0.5, in[1]});
        });
  });
  const std::vector<Output> out = f({x, y});
  CHECK(out[0].dtype() == DType::f32);
  CHECK(out[1].dtype() == DType::f16);
  for (const auto& node : graph.nodes())
    if (node->op->name == "Call" || node->op->name == "Return") {
      REQUIRE(node->inputs.size() == 2);
      CHECK(node->inputs[0].dtype() == DType::f32);
      CHECK(node->inputs[1].dtype() == DType::f16);
    }
}

}  // namespace troupe
