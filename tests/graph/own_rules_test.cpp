// Custom ops whose rules, kernels or traits are wrong: each is refused where the fault shows, with
// the op's name and the correct form.

#include <array>

#include "graph/op.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/custom_op.hpp"

namespace troupe {
namespace {

using Shapes = std::vector<Shape>;
using DTypes = std::vector<DType>;

Shapes like_x(const InferContext& ctx) { return {ctx.input(0)}; }

void nothing(KernelContext&) {}

Op own_op() {
  return {.name = "Mine",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = like_x,
          .kernels = {{DeviceKind::cpu, DType::none, nothing}}};
}

// The refusal of one node of the op.
Refusal refused(const Op& op) {
  Graph graph(ops_with({op}));
  const Output x = placeholder(graph, DType::f32, {2});
  return refusal_of([&] {
    graph.add({.op = op.name, .inputs = {x}, .name = "m"}, {"mine.cpp", 7});
  });
}

// The refusal of the gradient of one node of the op.
Refusal gradient_refused(const Op& op) {
  Graph graph(ops_with({op}));
  const Output x = placeholder(graph, DType::f32, {2});
  const Output y = graph.add({.op = op.name, .inputs = {x}, .name = "m"}, {"mine.cpp", 7});
  return refusal_of([&] { gradients({y}, {x}); });
}

void is_told(const Refusal& refusal, const std::string& text) {
  CHECK(refusal.code == Errc::invalid_argument);
  has(refusal.text, "Mine node m made at mine.cpp:7");
  has(refusal.text, text);
}

}  // namespace

TEST_CASE("rules that give another number of outputs than the op lists are refused by its name") {
  Op op = own_op();
  op.infer_shapes = [](const InferContext& ctx) { return Shapes(2, ctx.input(0)); };
  is_told(refused(op), "infer_shapes of Mine gave 2 shapes, but the op lists 1 outputs");
  op.infer_shapes = [](const InferContext&) { return Shapes(); };
  is_told(refused(op), "infer_shapes of Mine gave 0 shapes, but the op lists 1 outputs");
  op.outputs = {"y", "more..."};
  op.infer_shapes = like_x;
  is_told(refused(op), "infer_shapes of Mine gave 1 shapes, but the op lists at least 2 outputs");
  op.outputs = {"y"};
  op.infer_dtypes = [](const InferContext&) { return DTypes(3, DType::f32); };
  is_told(refused(op), "infer_dtypes of Mine gave 3 dtypes, and infer_shapes 1 shapes");
  op.infer_dtypes = [](const InferContext&) { return DTypes{DType::none}; };
  is_told(refused(op), "infer_dtypes of Mine gave no dtype for output 0");
}

TEST_CASE("a last output of none or more may be left out") {
  Op op = own_op();
  op.outputs = {"y", "more...?"};
  for (const size_t count : {1, 2, 3}) {
    op.infer_shapes = std::array<Shapes (*)(const InferContext&), 3>{
        like_x, [](const InferContext& ctx) { return Shapes(2, ctx.input(0)); },
        [](const InferContext& ctx) { return Shapes(3, ctx.input(0)); }}[count - 1];
    Graph graph(ops_with({op}));
    const Output y = graph.add({.op = "Mine", .inputs = {placeholder(graph, DType::f32, {2})}});
    CHECK(graph.node(y.node).outputs.size() == count);
  }
}

TEST_CASE("a rule that asks for an input or output that is not there is told how many there are") {
  Op op = own_op();
  op.infer_shapes = [](const InferContext& ctx) { return Shapes{ctx.input(1)}; };
  is_told(refused(op),
          "the type rule of Mine asks for input 1, but it has 1 input, counted from 0");
  op.infer_shapes = [](const InferContext& ctx) { return Shapes{ctx.input(-1)}; };
  is_told(refused(op), "asks for input -1, but it has 1 input");
  op.infer_shapes = like_x;
  op.infer_dtypes = [](const InferContext& ctx) { return DTypes{ctx.dtype(3)}; };
  is_told(refused(op), "asks for input 3, but it has 1 input");
  op.infer_dtypes = nullptr;
  op.gradient = [](const GradientContext& ctx) { return std::vector{ctx.input(1)}; };
  is_told(gradient_refused(op), "the gradient of Mine asks for input 1, but it has 1 input");
  op.gradient = [](const GradientContext& ctx) { return std::vector{ctx.output(2)}; };
  is_told(gradient_refused(op), "the gradient of Mine asks for output 2, but it has 1 output");
  op.gradient = [](const GradientContext& ctx) { return std::vector{ctx.output_gradient(1)}; };
  is_told(gradient_refused(op), "the gradient of Mine asks for output 1, but it has 1 output");
}

TEST_CASE("a gradient of another number of parts than the op has inputs is refused") {
  Op op = own_op();
  op.gradient = [](const GradientContext& ctx) { return std::vector(2, ctx.output_gradient(0)); };
  is_told(gradient_refused(op), "has 2 parts, but there are 1 inputs; it must give one Output");
  op.gradient = [](const GradientContext&) { return std::vector<Output>(); };
  is_told(gradient_refused(op), "has 0 parts, but there are 1 inputs");
}

TEST_CASE("an op of one's own cannot be a node of control flow") {
  for (int16_t kind = 1; kind <= static_cast<int16_t>(ControlKind::call); ++kind) {
    CAPTURE(kind);
    Op op = own_op();
    op.control = ControlKind{kind};
    check_invalid([&] { ops_with({op}); },
                  "op \"Mine\": its `control` says that it opens, borders or calls a frame",
                  "leave `control` out, and build with cond()");
  }
  Registry registry;  // an existing name with another schema
  Op save = builtin_ops()->get("Save");
  save.inputs = {"x", "y"};
  has(refusal_of([&] { registry.add(save); }).text, "op \"Save\": its `control` says");
}

TEST_CASE("a registry of built-in ops, copied one by one, has control flow") {
  const auto registry = std::make_shared<Registry>();
  for (const Op* op : builtin_ops()->all()) registry->add(*op);
  CHECK(registry->all().size() == builtin_ops()->all().size());
  CHECK(registry->fingerprint() == builtin_ops()->fingerprint());
  Graph graph(registry);
  const Output x = placeholder(graph, DType::f32, {});
  CHECK(cond(
            greater(x, x), [&] { return x + 1; }, [&] { return x; })
            .defined());
}

TEST_CASE("a copy of an op under another name has none of its properties") {
  Registry registry;
  Op op = builtin_ops()->get("Identity");
  REQUIRE(op.properties);
  registry.add(op);
  CHECK(registry.get("Identity").properties == op.properties);
  op.name = "Mine";
  registry.add(op);
  CHECK(registry.get("Mine").properties == nullptr);
}

TEST_CASE("kernels that cannot be called, and promises of what is not there, are refused") {
  const auto said = [](const Op& op) { return refusal_of([&] { ops_with({op}); }).text; };
  Op op = own_op();
  op.kernels = {{DeviceKind::cpu, DType::f32}};
  CHECK(said(op) ==
        "op \"Mine\": the kernel for f32 on cpu has neither of `run` and `start`; give it one of "
        "them");
  op.kernels[0].run = nothing;
  op.kernels[0].start = [](std::shared_ptr<AsyncContext>) {};
  has(said(op), "has both of `run` and `start`");
  op.kernels[0].start = nullptr;
  op.kernels.push_back(op.kernels[0]);
  CHECK(said(op) == "op \"Mine\": the kernel for f32 on cpu is listed twice");
  op = own_op();
  op.kernels.push_back(op.kernels[0]);
  CHECK(said(op) == "op \"Mine\": the kernel for any dtype on cpu is listed twice");
  const OpJoin join{.with = "Exp", .into = "Log"};
  CHECK(said({.name = "Mine", .join = std::make_shared<const OpJoin>(join)}) ==
        "op \"Mine\": its `join` names no input that it shares with Exp");
  CHECK(said({.name = "Mine", .inputs = {"x"}, .aliases = true}) ==
        "op \"Mine\": it `aliases` its first input as its first output, but lacks one of them");
}

}  // namespace troupe
