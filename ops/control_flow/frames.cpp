// The ops that open frames, and that stand at their borders: branches, loops and functions. The
// engine runs them by their ControlKind; their kernels serve a plain evaluation of a graph.
#include "graph/op.hpp"
#include "ops/elementwise/type_list.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

void nothing(KernelContext&) {}

// ---- functions and calls ----

std::vector<Shape> infer_argument(const InferContext& ctx) {
  if (ctx.attr<int64_t>("index") < 0)
    throw ctx.error("wants the number of an argument, got ", ctx.attr<int64_t>("index"));
  return {ctx.attr<Shape>("shape")};
}

std::vector<TensorType> results_of(const InferContext& ctx) {
  auto types = types_of(ctx.attr<std::string>("results"));
  if (!types || types->empty())
    throw ctx.error("attribute results is no list of types: \"", ctx.attr<std::string>("results"),
                    "\"; write \"f32[2, -1] i64[]\"");
  return *types;
}

std::vector<DType> infer_result_dtypes(const InferContext& ctx) {
  std::vector<DType> dtypes;
  for (const TensorType& type : results_of(ctx)) dtypes.push_back(type.dtype);
  return dtypes;
}

std::vector<Shape> infer_results(const InferContext& ctx) {
  std::vector<Shape> shapes;
  for (const TensorType& type : results_of(ctx)) shapes.push_back(type.shape);
  return shapes;
}

constexpr int64_t kDepthMax = 1'000'000'000;

std::vector<Shape> infer_function(const InferContext& ctx) {
  for (const char* list : {"arguments", "results"})
    if (!types_of(ctx.attr<std::string>(list)))
      throw ctx.error("attribute ", list, " is no list of types: \"", ctx.attr<std::string>(list),
                      "\"; write \"f32[2, -1] i64[]\"");
  const auto depth = ctx.attr<int64_t>("depth_max");
  if (depth < 1 || depth > kDepthMax)
    throw ctx.error("wants a depth_max from 1 to ", kDepthMax, ", got ", depth);
  return {};
}

constexpr OpProperties kArgumentProperties = {
    .frame = {.index = [](const Node& node) { return node.attr<int64_t>("index"); }}};
constexpr OpProperties kCallProperties = {
    .frame = {.function = [](const Node& node) -> const std::string& {
      return node.attr<std::string>("function");
    }}};
constexpr OpProperties kFunctionProperties = {
    .frame = {.at_most = [](const Node& node) { return node.attr<int64_t>("depth_max"); }}};

// ---- branches ----

std::vector<Shape> infer_branch(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  if (ctx.input(0).ndim() != 0)
    throw ctx.error("wants a scalar that says which branch runs, got ", ctx.input(0),
                    "; reduce it to one");
  const auto branches = ctx.attr<int64_t>("branches"), branch = ctx.attr<int64_t>("branch");
  if (branch < 0 || branch >= branches)
    throw ctx.error("wants a branch from 0 to ", branches - 1, ", got ", branch);
  return {Shape{}};
}

struct Choice final : KernelState {
  explicit Choice(const Node& node)
      : branch(node.attr<int64_t>("branch")),
        branches(node.attr<int64_t>("branches")),
        otherwise(node.attr<bool>("otherwise")) {}
  const int64_t branch, branches;
  const bool otherwise;
};

std::unique_ptr<KernelState> prepare(const Node& node) { return std::make_unique<Choice>(node); }

template <class T>
void choose(KernelContext& ctx) {
  const auto& choice = ctx.state<Choice>();
  const auto index = static_cast<int64_t>(*ctx.input(0).data<T>());
  const bool known = index >= 0 && index < choice.branches;
  const bool taken = index == choice.branch || (!known && choice.branch == choice.branches - 1);
  ctx.output(0).mutable_data<bool>()[0] = taken != choice.otherwise;
}

template <class T>
Kernel choice_kernel() {
  return {DeviceKind::cpu, dtype_of<T>, choose<T>, nullptr, prepare};
}

constexpr OpProperties kBranchProperties = {
    .frame = {.index = [](const Node& node) { return node.attr<int64_t>("branch"); },
              .branches = [](const Node& node) { return node.attr<int64_t>("branches"); }}};

std::vector<Shape> infer_merged(const InferContext& ctx) {
  Shape shape = ctx.input(0);
  for (int i = 1; i < ctx.input_count(); ++i) {
    const Shape& other = ctx.input(i);
    if (other.ndim() != shape.ndim())
      throw ctx.error("wants values with one number of dimensions, got ", ctx.input(0), " and ",
                      other, "; reshape what one of the branches returns");
    for (int d = 0; d < shape.ndim(); ++d)
      if (other[d] != shape[d]) shape.set(d, -1);
  }
  return {shape};
}

// ---- loops ----

// Limits the iterations in flight: values from a device that is ahead wait in the memory of slower
// devices.
constexpr int64_t kInFlightMax = 1024;

std::vector<Shape> infer_loop(const InferContext& ctx) {
  const auto in_flight = ctx.attr<int64_t>("iterations_in_flight");
  if (in_flight < 1 || in_flight > kInFlightMax)
    throw ctx.error("wants 1 to ", kInFlightMax, " iterations in flight, got ", in_flight);
  return {};
}

constexpr OpProperties kLoopProperties = {.frame = {.at_most = [](const Node& node) {
                                            return node.attr<int64_t>("iterations_in_flight");
                                          }}};

std::vector<Shape> infer_variable(const InferContext& ctx) {
  const Shape& shape = ctx.attr<Shape>("shape");
  const Shape& initial = ctx.input(0);
  bool fits = shape.ndim() == initial.ndim();
  for (int d = 0; fits && d < shape.ndim(); ++d) fits = shape[d] < 0 || shape[d] == initial[d];
  if (!fits)
    throw ctx.error("is ", shape, ", which its initial value ", initial,
                    " is not; a size that changes or is not known is -1");
  return {shape};
}

std::vector<DType> infer_while_dtypes(const InferContext& ctx) {
  if (ctx.input_count() % 2 != 0)
    throw ctx.error("wants a next value for each variable, got ", ctx.input_count(), " inputs");
  std::vector<DType> dtypes;
  for (int i = 0; i < ctx.input_count() / 2; ++i) dtypes.push_back(ctx.dtype(i));
  dtypes.push_back(DType::i64);
  return dtypes;
}

std::vector<Shape> infer_while(const InferContext& ctx) {
  const int variables = ctx.input_count() / 2;
  std::vector<Shape> shapes;
  for (int i = 0; i < variables; ++i) {
    const TensorType now{ctx.dtype(i), ctx.input(i)},
        next{ctx.dtype(variables + i), ctx.input(variables + i)};
    if (now.dtype != next.dtype || !may_equal(now.shape, next.shape))
      throw ctx.error("variable ", i, " is ", now, ", but the body makes ", next,
                      " of it; cast or reshape it, or say with WhileOptions::shapes which sizes "
                      "change");
    shapes.push_back(now.shape);
  }
  shapes.push_back(Shape{});
  return shapes;
}

// The engine runs the loop. A plain evaluation cannot, and returns the variables unchanged.
void pass_variables(KernelContext& ctx) {
  const int variables = ctx.input_count() / 2;
  for (int i = 0; i < variables; ++i) ctx.set_output(i, ctx.input(i));
  ctx.set_output(variables, Tensor::scalar<int64_t>(0));
}

}  // namespace

std::vector<Op> frame_ops() {
  return {
      // Function: opens the frame of a function's body (troupe/ops/control_flow.hpp). No inputs, no
      // outputs. `arguments` and `results` are lists of types, "f32[2, -1] i64[]"; empty `results`:
      // unknown until there is a body. A function that a program defines is a pattern, which never
      // runs. `of` names the pattern of which this function is a running copy; a copy reads nothing
      // from its surroundings. `gradient_of` names the function that this one differentiates.
      // `path` is the index of the argument with the call's path (troupe/ops/control_flow.hpp), or
      // -1.
      {.name = "Function",
       .attrs = {{"arguments", AttrKind::text},
                 {"results", AttrKind::text, std::string()},
                 {"depth_max", AttrKind::integer, int64_t{100'000}},
                 {"of", AttrKind::text, std::string()},
                 {"gradient_of", AttrKind::text, std::string()},
                 {"path", AttrKind::integer, int64_t{-1}}},
       .infer_shapes = infer_function,
       .no_gradient = "it has no outputs",
       .kernels = {{.run = nothing}},
       .dispatch = -1,
       .control = ControlKind::function,
       .properties = &kFunctionProperties},
      // Argument: y = argument number `index` of the function call that runs the node's function.
      {.name = "Argument",
       .outputs = {"y"},
       .attrs = {{"index", AttrKind::integer},
                 {"dtype", AttrKind::dtype},
                 {"shape", AttrKind::shape}},
       .infer_dtypes = infer_dtype_attr,
       .infer_shapes = infer_argument,
       .no_gradient = "it has no inputs",
       .kernels =
           {{.run = [](KernelContext& ctx) { throw ctx.error("has a value in a call alone"); }}},
       .dispatch = -1,
       .control = ControlKind::argument,
       .stateful = true,
       .properties = &kArgumentProperties},
      // Return: its inputs are the results of a call of the node's function. No outputs.
      {.name = "Return",
       .inputs = {"values..."},
       .infer_dtypes = [](const InferContext&) { return std::vector<DType>(); },
       .infer_shapes = [](const InferContext&) { return std::vector<Shape>(); },
       .no_gradient = "it has no outputs",
       .kernels = {{.run = nothing}},
       .control = ControlKind::result,
       .precision = Precision::kept},
      // Call: calls the function that attribute `function` names. `results` lists the types of the
      // call's results, "f32[2, -1] i64[]". The engine runs the function's body anew for each
      // firing. Gradient: a call of the function's gradient function
      // (gradients/function_gradient.cpp).
      {.name = "Call",
       .inputs = {"arguments..."},
       .outputs = {"results..."},
       .attrs = {{"function", AttrKind::text}, {"results", AttrKind::text}},
       .infer_dtypes = infer_result_dtypes,
       .infer_shapes = infer_results,
       .no_gradient = "gradients() goes back through it itself, by a call of another function",
       .kernels = {{.run = [](KernelContext& ctx) { throw ctx.error("runs in a session alone"); }}},
       .control = ControlKind::call,
       .stateful = true,  // the body may be stateful
       .precision = Precision::kept,
       .properties = &kCallProperties},
      // Branch: opens the frame of one branch of a choice. taken = (index is `branch`); the last of
      // `branches` is also taken for every index out of range; `otherwise` inverts the result. A
      // bool counts as 0 or 1.
      //   index: [] bool, i32 or i64   taken: [] bool
      // The nodes of the frame run if `taken`, otherwise they are dead.
      {.name = "Branch",
       .inputs = {"index"},
       .outputs = {"taken"},
       .attrs = {{"branch", AttrKind::integer},
                 {"branches", AttrKind::integer},
                 {"otherwise", AttrKind::boolean, false}},
       .infer_dtypes = [](const InferContext&) { return std::vector<DType>{DType::boolean}; },
       .infer_shapes = infer_branch,
       .no_gradient = "a choice has none; gradients go through what the branches compute",
       .kernels = {choice_kernel<bool>(), choice_kernel<int32_t>(), choice_kernel<int64_t>()},
       .control = ControlKind::branch,
       .value_shapes = true,  // the host reads the value of `taken`
       .properties = &kBranchProperties},
      // Capture: y = x, a value of the surrounding frame, used inside a branch or a loop's body. In
      // a loop it is the same in all iterations. Graph::add() makes these nodes. Any dtype.
      {.name = "Capture",
       .inputs = {"x"},
       .outputs = {"y"},
       .infer_shapes = infer_same_shape,
       .no_gradient = "gradients() goes back through it itself, out of the frame",
       .kernels = {{.run = pass_on}},
       .control = ControlKind::capture,
       .aliases = true,
       .precision = Precision::kept},
      // Merge: y = its one live input, the result of the branch that ran. The inputs have one dtype
      // and number of dimensions; a size in which they differ is unknown before the step runs. The
      // engine passes the live input; in a plain evaluation all are present, and y is the first.
      {.name = "Merge",
       .inputs = {"x..."},
       .outputs = {"y"},
       .infer_shapes = infer_merged,
       .no_gradient = "gradients() goes back through it itself, into each branch",
       .kernels = {{.run = pass_on}},
       .control = ControlKind::merge,
       .aliases = true,
       .precision = Precision::kept},
      // Loop: opens the frame of a loop's iterations. No inputs, no outputs: it completes when the
      // loop may begin.
      {.name = "Loop",
       .attrs = {{"iterations_in_flight", AttrKind::integer, int64_t{1}},
                 {"recompute", AttrKind::boolean, false}},
       .infer_shapes = infer_loop,
       .no_gradient = "it has no outputs",
       .kernels = {{.run = nothing}},
       .dispatch = -1,
       .control = ControlKind::loop,
       .precision = Precision::kept,
       .properties = &kLoopProperties},
      // LoopVariable: y = its input in the first iteration, and in later iterations the loop's
      // result of the previous one. Attribute `shape` is its shape in every iteration; `counts`: it
      // is the iteration number. Any dtype.
      {.name = "LoopVariable",
       .inputs = {"initial"},
       .outputs = {"y"},
       .attrs = {{"shape", AttrKind::shape}, {"counts", AttrKind::boolean, false}},
       .infer_shapes = infer_variable,
       .no_gradient = "gradients() goes back through the whole loop",
       .kernels = {{.run = pass_on}},
       .control = ControlKind::variable,
       .stateful = true,  // two with one initial value stay two
       .aliases = true,
       .precision = Precision::kept},
      // While: a loop as seen from outside. Its inputs are the loop's n variables (LoopVariable),
      // then the body's next value of each; its outputs are the variables after the last iteration
      // and the number of iterations, an i64 scalar.
      {.name = "While",
       .inputs = {"variables_and_next..."},
       .outputs = {"y..."},
       .infer_dtypes = infer_while_dtypes,
       .infer_shapes = infer_while,
       .no_gradient = "gradients() makes a loop that goes back",
       .kernels = {{.run = pass_variables}},
       .control = ControlKind::repeat,
       .precision = Precision::kept},
      // Save: keeps x, in a loop once an iteration, for a Restore on the same device that runs
      // later: a loop's gradient needs values of the forward loop. No outputs. Any dtype.
      {.name = "Save",
       .inputs = {"x"},
       .no_gradient = "it has no outputs",
       .kernels = {{.run = nothing}},
       .control = ControlKind::save,
       .stateful = true,
       .precision = Precision::kept},
      // Restore: y = the value last kept by the Save that it runs after and not yet taken;
      // attributes dtype and shape give its type. Any dtype.
      {.name = "Restore",
       .outputs = {"y"},
       .attrs = {{"dtype", AttrKind::dtype}, {"shape", AttrKind::shape}},
       .infer_dtypes = infer_dtype_attr,
       .infer_shapes =
           [](const InferContext& ctx) { return std::vector{ctx.attr<Shape>("shape")}; },
       .no_gradient = "gradients() inside the loop that takes it does not reach what was saved; "
                      "differentiate what that loop returns instead",
       .kernels = {{.run =
                        [](KernelContext& ctx) {
                          throw ctx.error("has nothing to take outside a step");
                        }}},
       .dispatch = -1,
       .control = ControlKind::restore,
       .stateful = true,
       .precision = Precision::kept},
  };
}

}  // namespace troupe
