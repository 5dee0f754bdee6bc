// Fused: programs of all element-wise ops give the bits of their nodes one by one, whatever they
// read, over the memory of input 0, on any number of threads; and refuse what their nodes refuse.
// tests/placement/passes/fuse_test.cpp has what is made into such a node, fused_reduction_test.cpp
// what ends in a reduction.

#include <algorithm>
#include <random>
#include <set>

#include "tests/support/engine/fused_nodes.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

bool is_element_wise(const Op& op) {
  return std::any_of(op.kernels.begin(), op.kernels.end(),
                     [](const Kernel& kernel) { return kernel.elements != nullptr; });
}

// A graph of element-wise ops, drawn at random over leaves that broadcast to `shape`; every other
// one is not among `used`, to which all are added.
class RandomGraph {
 public:
  RandomGraph(uint32_t seed, const Shape& shape, bool unknown, std::set<std::string>& used)
      : used_(used), random_(seed), shape_(shape), unknown_(unknown) {
    for (const Op* op : builtin_ops()->all())
      if (is_element_wise(*op)) ops_.push_back(op);
    for (const DType dtype :
         {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean})
      for (int i = 0; i < 3; ++i) add_leaf(dtype, i);
  }

  void grow(int nodes) {
    for (int tries = 0; nodes > 0 && tries < 200 * 30; ++tries)
      if (try_node()) --nodes;
  }

  Graph graph;
  FedValues feeds;
  std::vector<Output> values;  // leaves first

 private:
  int64_t draw(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(n)); }

  // The shape itself, one of its rows or columns, or a number.
  Shape leaf_shape(int i) {
    if (i == 0 || shape_.ndim() == 0) return shape_;
    switch (draw(4)) {
      case 0:
        return Shape{};
      case 1:
        return Shape{shape_[shape_.ndim() - 1]};
      default: {
        Shape part = shape_;
        part.set(static_cast<int>(draw(part.ndim())), 1);
        return part;
      }
    }
  }

  template <class T>
  void fill(Tensor& tensor) {
    for (int64_t i = 0; i < tensor.size(); ++i) {
      double value = static_cast<double>(draw(2001) - 1000) / 250;
      if (is_floating(tensor.dtype())) {
        const double odd[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-310, 1e30, -1e30};
        if (draw(11) == 0) value = odd[draw(8)];
      }
      if (tensor.dtype() == DType::u8) value = std::abs(value);
      if (tensor.dtype() == DType::boolean) value = draw(2) == 0 ? 0 : 1;
      tensor.mutable_data<T>()[i] = static_cast<T>(value);
    }
  }

  void add_leaf(DType dtype, int i) {
    const Shape shape = leaf_shape(i);
    Tensor value = Tensor::empty(dtype, shape);
    with_type(dtype, [&]<class T>(T) { fill<T>(value); });
    Shape told = shape;
    for (int d = 0; d < told.ndim(); ++d)
      if (unknown_ && draw(2) == 0) told.set(d, -1);
    values.push_back(placeholder(graph, dtype, told));
    feeds[values.back()] = value;
  }

  Attrs attrs_of(const Op& op) {
    Attrs attrs;
    for (const AttrSpec& spec : op.attrs) {
      if (spec.name == "low") attrs["low"] = -0.5;
      if (spec.name == "high") attrs["high"] = 0.75;
      if (spec.name == "alpha") attrs["alpha"] = 0.3;
      if (spec.kind == AttrKind::boolean) attrs[spec.name] = draw(2) == 0;
      if (spec.kind == AttrKind::shape) attrs[spec.name] = shape_;
      if (spec.kind == AttrKind::dtype) attrs[spec.name] = draw(2) == 0 ? DType::f32 : DType::f64;
    }
    return attrs;
  }

  const Op& draw_op() {
    const auto any = static_cast<size_t>(draw(static_cast<int64_t>(ops_.size())));
    if (draw(2) == 0) return *ops_[any];
    for (size_t i = 0; i < ops_.size(); ++i)
      if (const Op* op = ops_[(any + i) % ops_.size()]; !used_.count(op->name)) return *op;
    return *ops_[any];
  }

  // Rather what is new; of that dtype, if it is one.
  Output draw_value(DType dtype) {
    const auto count = static_cast<int64_t>(values.size());
    for (;;) {
      const int64_t back = draw(2) == 0 ? draw(std::min<int64_t>(count, 6)) : draw(count);
      const Output value = values[static_cast<size_t>(count - 1 - back)];
      if (dtype == DType::none || value.dtype() == dtype) return value;
    }
  }

  bool try_node() {
    const Op& op = draw_op();
    std::vector<Output> inputs = {draw_value(DType::none)};
    while (inputs.size() < op.inputs.size())
      inputs.push_back(draw_value(
          op.inputs.size() == 3 && inputs.size() == 1 ? DType::none : inputs.back().dtype()));
    try {
      const Output made = graph.add({.op = op.name, .inputs = inputs, .attrs = attrs_of(op)});
      const Kernel* kernel = find_kernel(graph.node(made.node), DeviceKind::cpu);
      if (!kernel || !kernel->elements) return false;  // stays, unread
      values.push_back(made);
      used_.insert(op.name);
      return true;
    } catch (const Error&) {  // dtypes that do not fit
      return false;
    }
  }

  std::set<std::string>& used_;
  std::mt19937 random_;
  const Shape shape_;
  const bool unknown_;
  std::vector<const Op*> ops_;
};

}  // namespace

TEST_CASE("random graphs of all element-wise ops have the same bits fused and not") {
  std::set<std::string> used;
  int64_t fused = 0;
  const std::vector<Shape> shapes = {{},     {1},       {7},          {0, 3},   {3, 5},
                                     {130},  {2, 1, 9}, {3, 700, 1},  {2, 600}, {4, 3, 5, 2},
                                     {5000}, {257, 10}, {2, 33, 1, 8}};
  for (uint32_t seed = 0; seed < 130; ++seed) {
    const Shape& shape = shapes[seed % shapes.size()];
    RandomGraph random(seed, shape, seed % 3 == 1, used);
    const size_t leaves = random.values.size();
    random.grow(20);
    std::vector<Output> fetches(random.values.end() - 2, random.values.end());
    for (size_t i = leaves; i < random.values.size(); i += 7) fetches.push_back(random.values[i]);
    const std::set<Output, OutputOrder> different(fetches.begin(), fetches.end());
    fetches.assign(different.begin(), different.end());
    Both both;
    const Refusal refused =
        refusal_of([&] { both = evaluate_both(random.graph, fetches, random.feeds); });
    if (refused.code != Errc::ok) {  // of sizes that are not known some do not fit
      CHECK(seed % 3 == 1);
      CHECK(refused.code == Errc::invalid_argument);
      continue;
    }
    for (size_t i = 0; i < fetches.size(); ++i)
      CHECK_MESSAGE(same_values(both.plain[i], both.fused[i]), "seed ", seed, ": ",
                    describe(random.graph.node(fetches[i].node)), " is ", both.fused[i],
                    " instead of ", both.plain[i]);
    fused += both.nodes;
  }
  CHECK(fused > 130);
  for (const Op* op : builtin_ops()->all())
    if (is_element_wise(*op)) CHECK_MESSAGE(used.count(op->name), op->name, " was never drawn");
}

TEST_CASE("each element-wise op has the same bits between two others, in each of its dtypes") {
  for (const Op* op : builtin_ops()->all())
    for (const Kernel& kernel : op->kernels) {
      if (!kernel.elements || kernel.dtype == DType::none || op->name == "Cast") continue;
      for (const int64_t n : {1, 63, 64, 65, 3000}) {
        Graph g;
        FedValues feeds;
        NodeSpec spec{.op = op->name};
        for (const AttrSpec& attr : op->attrs) {
          if (attr.name == "low") spec.attrs["low"] = -0.5;
          if (attr.name == "high") spec.attrs["high"] = 1.0;
        }
        if (op->name == "Clip" && kernel.dtype == DType::u8) spec.attrs["low"] = 0.0;
        if (op->name == "Clip" && !is_floating(kernel.dtype)) spec.attrs["low"] = 0.0;
        for (size_t i = 0; i < op->inputs.size(); ++i) {
          const DType dtype = op->name == "Where" && i == 0 ? DType::boolean : kernel.dtype;
          const Output x = placeholder(g, dtype, Shape{n});
          Tensor value = Tensor::empty(dtype, {n});
          with_type(dtype, [&]<class T>(T) {
            for (int64_t k = 0; k < n; ++k)
              value.mutable_data<T>()[k] =
                  static_cast<T>(std::is_floating_point_v<T>
                                     ? static_cast<T>((k * 37 + 11 * int64_t(i)) % 97) / 16 - 2
                                     : static_cast<T>((k + int64_t(i)) % 2));
          });
          feeds[x] = value;
          // A step of the program, so that this op reads a block.
          const Output none = placeholder(g, DType::boolean, Shape{});
          feeds[none] = Tensor::scalar(false);
          spec.inputs.push_back(where(none, x, x));
        }
        const Output made = g.add(spec);
        const Output never = placeholder(g, DType::boolean, Shape{n});
        Tensor zeros = Tensor::empty(DType::boolean, {n});
        std::memset(zeros.mutable_raw(), 0, static_cast<size_t>(n));
        feeds[never] = zeros;
        const Output y = where(never, made, made);
        const Both both = evaluate_both(g, {y}, feeds);
        CHECK_MESSAGE(both.nodes == 1, op->name);
        CHECK_MESSAGE(same_bits(both.plain[0], both.fused[0]), op->name, " of ", kernel.dtype, ", ",
                      n, " elements: ", both.fused[0], " instead of ", both.plain[0]);
      }
    }
}

TEST_CASE("sizes that are not known may turn out to broadcast within the group") {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{-1, 3}, "x");
  const Output z = placeholder(g, DType::f32, Shape{-1, 3}, "z");
  const Output a = exp(x), b = square(z), y = add(a, b);
  const Output s = reduce_sum(a), t = reduce_sum(b), u = negate(y);
  for (const int64_t rows : {1, 4}) {
    const Both both =
        evaluate_both(g, {u, s, t}, {{x, waves_f32({1, 3}, 1)}, {z, waves_f32({rows, 3}, 2)}});
    CHECK(both.nodes == 1);
    CHECK(both.fused[0].shape() == Shape{rows, 3});
    for (size_t i = 0; i < 3; ++i) CHECK(same_bits(both.plain[i], both.fused[i]));
  }
}

TEST_CASE("a shape that does not fit is refused by the name of the program's node") {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{-1}, "x");
  const Output z = placeholder(g, DType::f32, Shape{-1}, "z");
  const Output sum = g.add({.op = "Add", .inputs = {exp(x), z}, .name = "loss/sum"}, {"a.cpp", 7});
  const Output y = negate(sum);
  const CallGraph call = rewrite(fuse, call_graph(g, {y}, {x, z})).call;
  CHECK(count_fused(call) == 1);
  check_invalid(
      [&] {
        evaluate(*call.graph, call.fetches,
                 {{call.feeds[0], waves_f32({3}, 0)}, {call.feeds[1], waves_f32({4}, 0)}});
      },
      "Add node loss/sum made at a.cpp:7", "shapes do not broadcast: [3] and [4]");
}

TEST_CASE("a division that refuses its values says so by its own name, beside a group") {
  Graph g;
  const Output x = placeholder(g, DType::i32, Shape{2}, "x");
  const Output share =
      g.add({.op = "Divide", .inputs = {negate(square(x)), abs(x)}, .name = "share"});
  const Output y = negate(square(share));
  const CallGraph call = rewrite(fuse, call_graph(g, {y}, {x})).call;
  CHECK(count_fused(call) == 2);
  const Refusal refused = refusal_of([&] {
    evaluate(*call.graph, call.fetches, {{call.feeds[0], Tensor::of<int32_t>({1, 0}, {2})}});
  });
  has(refused.text, "Divide node share");
  has(refused.text, "divides an integer by zero");
}

TEST_CASE("the result takes over the memory of input 0, and has the same bits") {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{300, 7}, "x");
  const Output b = placeholder(g, DType::f32, Shape{7}, "b");
  const FusedNode node(multiply(tanh(bias_add(x, b)), x));
  std::vector<Tensor> inputs = {waves_f32({300, 7}, 1), waves_f32({7}, 2)};
  const Tensor kept = node.fire(inputs, false)[0];
  const void* const memory = inputs[0].raw();
  const Tensor over = node.fire(inputs, true)[0];
  CHECK(over.raw() == memory);
  CHECK(same_bits(kept, over));
}

TEST_CASE("any number of threads gives the same bits, and so does no product of its own") {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{700, 300}, "x");
  const Output w = placeholder(g, DType::f32, Shape{300, 1100}, "w");
  const Output b = placeholder(g, DType::f32, Shape{1100}, "b");
  const Output r = placeholder(g, DType::f32, Shape{700, 1}, "r");
  const Output z = bias_add(matmul(x, w), b), y = relu(z) * r;
  std::vector<Tensor> inputs = {waves_f32({700, 300}, 1), waves_f32({300, 1100}, 2),
                                waves_f32({1100}, 3), waves_f32({700, 1}, 4)};
  const Tensor plain =
      evaluate(y, {{x, inputs[0]}, {w, inputs[1]}, {b, inputs[2]}, {r, inputs[3]}});
  const FusedNode node(y);
  CHECK(node.call.graph->nodes().size() == 5);
  for (const int threads : {1, 2, 4}) {
    Threads helpers(threads);
    CHECK(same_bits(node.fire(inputs, false, &helpers.lanes)[0], plain));
  }
  const FusedNode chain(exp(negate(relu(x))));
  std::vector<Tensor> one = {waves_f32({700, 300}, 1)};
  const Tensor alone = evaluate(exp(negate(relu(x))), {{x, one[0]}});
  for (const int threads : {1, 2, 4}) {
    Threads helpers(threads);
    CHECK(same_bits(chain.fire(one, false, &helpers.lanes)[0], alone));
  }
}

TEST_CASE("shapes that come again have the same bits, also if they are more than are remembered") {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{-1, 3}, "x");
  const Output y = exp(negate(relu(x)));
  const FusedNode node(y);
  const NodeView view = NodeView::make(*node.node, *find_kernel(*node.node, DeviceKind::cpu));
  HeapMemory memory;
  const RunContext run;
  for (int round = 0; round < 2; ++round)
    for (int64_t rows = 0; rows < 70; ++rows) {
      const Tensor in = waves_f32({rows, 3}, static_cast<float>(rows));
      CHECK(same_bits(run_kernel(view, {in}, memory, run)[0], evaluate(y, {{x, in}})));
    }
}

TEST_CASE("products and convolutions of any dtype and size go on with a group") {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32})
    for (const bool unknown : {false, true})
      for (const Shape& sizes : {Shape{5, 3, 10}, Shape{64, 200, 40}, Shape{0, 3, 4},
                                 Shape{4, 0, 5}, Shape{130, 70, 1030}}) {
        Graph g;
        const int64_t m = sizes[0], k = sizes[1], n = sizes[2];
        const auto of = [&](const Shape& shape) {
          return placeholder(g, dtype, unknown ? Shape{-1, shape[1]} : shape);
        };
        const Output a = of({m, k}), b = placeholder(g, dtype, Shape{k, n}),
                     c = placeholder(g, dtype, Shape{n});
        const Output h = bias_add(matmul(a, b), c), y = relu(h), s = reduce_sum(h);
        const auto value = [&](const Shape& shape, float seed) {
          return evaluate(cast(constant(g, waves_f32(shape, seed)) * 9.0, dtype));
        };
        const Both both = evaluate_both(
            g, {y, s}, {{a, value({m, k}, 1)}, {b, value({k, n}, 2)}, {c, value({n}, 3)}});
        CHECK(both.nodes == 1);
        CHECK(same_bits(both.plain[0], both.fused[0]));
        CHECK(same_bits(both.plain[1], both.fused[1]));
      }
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int64_t batch : {0, 1, 13}) {
      Graph g;
      const Output x = placeholder(g, dtype, Shape{-1, 9, 8, 3}, "x");
      const Output f = placeholder(g, dtype, Shape{3, 3, 3, 5}, "f");
      const Output b = placeholder(g, dtype, Shape{5}, "b");
      const Output y = relu(bias_add(conv2d(x, f), b));
      const Output dx = gradients({y}, {x})[0];
      const auto value = [&](const Shape& shape, float seed) {
        return evaluate(cast(constant(g, waves_f32(shape, seed)), dtype));
      };
      const Both both = evaluate_both(
          g, {y, exp(negate(dx))},
          {{x, value({batch, 9, 8, 3}, 1)}, {f, value({3, 3, 3, 5}, 2)}, {b, value({5}, 3)}});
      CHECK(both.nodes >= 2);
      CHECK(same_bits(both.plain[0], both.fused[0]));
      CHECK(same_bits(both.plain[1], both.fused[1]));
    }
}

TEST_CASE("a product that turns out smaller than the group is computed first") {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{-1, 3}, "x");
  const Output w = placeholder(g, DType::f32, Shape{3, 4}, "w");
  const Output z = placeholder(g, DType::f32, Shape{-1, 4}, "z");
  const Output y = exp(add(matmul(x, w), z));
  const Both both = evaluate_both(
      g, {y}, {{x, waves_f32({1, 3}, 1)}, {w, waves_f32({3, 4}, 2)}, {z, waves_f32({6, 4}, 3)}});
  CHECK(both.nodes == 1);
  CHECK(both.fused[0].shape() == Shape{6, 4});
  CHECK(same_bits(both.plain[0], both.fused[0]));
}

TEST_CASE("a program that is none is refused") {
  const auto refused = [](const std::string& program, const std::vector<int64_t>& outputs) {
    Graph g;
    const Output x = placeholder(g, DType::f32, Shape{2});
    return refusal_of([&] {
             g.add({.op = "Fused",
                    .inputs = {x},
                    .attrs = {{"program", kGraphHead + program}, {"outputs", outputs}}});
           })
        .text;
  };
  const std::string one = "a = Placeholder() dtype=f32 shape=[2]\n";
  const std::string sum = " axes={} keep_dims=false\n";
  CHECK(refused(one + "y = Exp(a)\n", {1}).empty());
  CHECK(refused(one + "y = Exp(a)\ns = ReduceSum(y)" + sum, {2, 1}).empty());
  has(refused(one + "s = ReduceSum(a)" + sum, {1}), "a step that is not element-wise");
  has(refused(one + "y = Exp(a)\ns = ReduceSum(y)" + sum + "z = Exp(s)\n", {3}),
      "a step that is not element-wise");
  has(refused("no graph", {1}), "graph text");
  has(refused(one + one.substr(1) + "y = Exp(a)\n", {1}), "graph text");
  has(refused(one + "b = Placeholder() dtype=f32 shape=[2]\ny = Add(a, b)\n", {2}),
      "its program takes 2 inputs, not 1");
  has(refused(one + "y = Reverse(a) axes={0}\n", {1}), "a step that is not element-wise");
  has(refused(one + "y = Exp(a)\n", {0}), "the value of node 0 of its program, which is no step");
  has(refused(one + "y = Exp(a)\n", {1, 1}), "the value of node 1 of its program twice");
  has(refused(one + "y = Exp(a)\n", {}), "wants no output");
  has(refused("a = Placeholder() dtype=f64 shape=[2]\ny = Exp(a)\n", {1}),
      "input 0 of its program");
}

}  // namespace troupe
