// Fused: what a pass has made of several nodes (graph/fuse.cpp): a program of element-wise ops that
// passes over memory once, with the bits of its nodes one by one. Nobody else makes such nodes.
//   program: a graph as text. Its placeholders are the inputs, in their order. Behind them may come
//     one node that is no step: its kernel `finishes`, and the steps go on with each part of its
//     output while that is in cache. All others are steps, whose kernels have `elements`.
//   outputs: the numbers of the nodes whose values are wanted.
// Nodes of the program have the names and origins of the nodes that they were, and it is they who
// refuse shapes that do not fit.
#include <algorithm>
#include <mutex>
#include <optional>

#include "devices/kernel_call.hpp"
#include "ops/element_program.hpp"
#include "ops/elementwise.hpp"

namespace troupe {
namespace {

// The program of a node.
struct Program {
  std::unique_ptr<Graph> graph;
  int32_t inputs = 0;              // placeholders, which come first
  const Node* producer = nullptr;  // the one that is no step
  std::vector<int32_t> outputs;

  int32_t first_step() const { return inputs + (producer ? 1 : 0); }
  const Node& node(int32_t id) const { return graph->node(id); }
};

bool has_elements(const Node& node) {
  const Kernel* kernel = find_kernel(node, DeviceKind::cpu);
  return kernel && kernel->elements && node.outputs.size() == 1 &&
         node.inputs.size() <= ElementRun::kInputsMax;
}

bool finishes(const Node& node) {
  const Kernel* kernel = find_kernel(node, DeviceKind::cpu);
  return kernel && kernel->finishes && node.outputs.size() == 1;
}

// Throws: Error from ctx, or bad_data for a text that is no graph.
Program program_of(const InferContext& ctx) {
  const Node& node = ctx.node();
  Program program;
  program.graph =
      graph_from_text(node.attr<std::string>("program"), node.inputs[0].graph->shared_registry());
  const auto count = static_cast<int32_t>(program.graph->nodes().size());
  while (program.inputs < count && program.node(program.inputs).op->name == "Placeholder")
    ++program.inputs;
  if (program.inputs != static_cast<int32_t>(node.inputs.size()))
    throw ctx.error("its program takes ", program.inputs, " inputs, not ", node.inputs.size());
  if (program.inputs < count && !has_elements(program.node(program.inputs)) &&
      finishes(program.node(program.inputs)))
    program.producer = &program.node(program.inputs);
  if (count > kElementValuesMax)
    throw ctx.error("its program has ", count, " nodes; at most ", kElementValuesMax,
                    " are possible");
  for (int32_t id = program.first_step(); id < count; ++id)
    if (!has_elements(program.node(id)))
      throw ctx.error("its program has a step that is not element-wise: the ",
                      describe(program.node(id)));
  for (int64_t id : node.attr<std::vector<int64_t>>("outputs")) {
    if (id < program.first_step() || id >= count)
      throw ctx.error("wants the value of node ", id, " of its program, which is no step");
    const auto value = static_cast<int32_t>(id);
    if (std::find(program.outputs.begin(), program.outputs.end(), value) != program.outputs.end())
      throw ctx.error("wants the value of node ", id, " of its program twice");
    program.outputs.push_back(value);
  }
  if (program.outputs.empty()) throw ctx.error("wants no output; name a step of its program");
  return program;
}

// Of all values, by the shape rules of their nodes. Throws: what those throw.
template <class Input>
std::vector<Shape> shapes_of(const Program& program, const Input& input) {
  std::vector<Shape> shapes;
  for (const auto& node : program.graph->nodes()) {
    if (node->id < program.inputs) {
      shapes.push_back(input(node->id));
      continue;
    }
    std::vector<TensorType> types;
    for (const Output& in : node->inputs)
      types.push_back({in.dtype(), shapes[static_cast<size_t>(in.node)]});
    shapes.push_back(node->op->infer_shapes(InferContext(*node, std::move(types)))[0]);
  }
  return shapes;
}

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  const Program program = program_of(ctx);
  for (int32_t i = 0; i < program.inputs; ++i)
    if (ctx.dtype(i) != program.node(i).outputs[0].dtype)
      throw ctx.error("input ", i, " of its program is ", program.node(i).outputs[0].dtype,
                      ", got ", ctx.dtype(i));
  std::vector<DType> dtypes;
  for (int32_t id : program.outputs) dtypes.push_back(program.node(id).outputs[0].dtype);
  return dtypes;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Program program = program_of(ctx);
  const std::vector<Shape> shapes =
      shapes_of(program, [&](int32_t i) -> const Shape& { return ctx.input(i); });
  std::vector<Shape> outputs;
  for (int32_t id : program.outputs) outputs.push_back(shapes[static_cast<size_t>(id)]);
  return outputs;
}

// What is worked out for one set of input shapes.
struct Plan {
  std::vector<Shape> inputs;
  std::vector<Shape> outputs;
  std::vector<ElementPass> passes;  // one for each shape of an output
  // The steps may go on with parts of what the producer makes, in the memory of output 0.
  bool together = false;
};

std::shared_ptr<const Plan> make_plan(const Program& program, std::vector<Shape> inputs) {
  const std::vector<Shape> shapes =
      shapes_of(program, [&](int32_t i) -> const Shape& { return inputs[static_cast<size_t>(i)]; });
  auto plan = std::make_shared<Plan>();
  plan->inputs = std::move(inputs);
  for (int32_t id : program.outputs) {
    const Shape& shape = shapes[static_cast<size_t>(id)];
    const bool known =
        std::find(plan->outputs.begin(), plan->outputs.end(), shape) != plan->outputs.end();
    plan->outputs.push_back(shape);
    if (!known)
      plan->passes.emplace_back(*program.graph, program.first_step(), program.outputs, shape,
                                shapes);
  }
  const Node* producer = program.producer;
  plan->together = producer && plan->passes.size() == 1 &&
                   shapes[static_cast<size_t>(producer->id)] == plan->outputs[0] &&
                   producer->outputs[0].dtype == program.node(program.outputs[0]).outputs[0].dtype;
  return plan;
}

struct FusedState final : KernelState {
  Program program;
  std::shared_ptr<const Plan> known;     // if all shapes are
  std::optional<NodeView> producer;      // with its kernel's own state
  std::vector<int32_t> producer_inputs;  // which of ours they are
  bool over_input0 = false;              // no step after that of output 0 reads it
  mutable std::mutex mutex;
  mutable std::shared_ptr<const Plan> latest;

  std::shared_ptr<const Plan> plan(const KernelContext& ctx) const {
    if (known) return known;
    std::vector<Shape> inputs;
    for (int i = 0; i < ctx.input_count(); ++i) inputs.push_back(ctx.input(i).shape());
    {
      const std::lock_guard lock(mutex);
      if (latest && latest->inputs == inputs) return latest;
    }
    auto made = make_plan(program, std::move(inputs));
    const std::lock_guard lock(mutex);
    return latest = std::move(made);
  }
};

std::unique_ptr<KernelState> prepare(const Node& node) {
  auto state = std::make_unique<FusedState>();
  std::vector<TensorType> types;
  for (const Output& input : node.inputs) types.push_back({input.dtype(), input.shape()});
  state->program = program_of(InferContext(node, types));
  const Program& program = state->program;
  if (const Node* producer = program.producer) {
    state->producer.emplace(NodeView::make(*producer, *find_kernel(*producer, DeviceKind::cpu)));
    for (const Output& input : producer->inputs) state->producer_inputs.push_back(input.node);
  }
  state->over_input0 = true;
  for (const auto& step : program.graph->nodes())
    for (const Output& input : step->inputs)
      if (input.node == 0 && (step->id > program.outputs[0] || step->id < program.first_step()))
        state->over_input0 = false;
  std::vector<Shape> inputs;
  for (const TensorType& type : types) inputs.push_back(type.shape);
  if (std::all_of(inputs.begin(), inputs.end(), [](const Shape& s) { return s.is_known(); }))
    state->known = make_plan(program, std::move(inputs));
  return state;
}

// One firing.
struct Firing {
  const FusedState& state;
  const Plan& plan;
  KernelContext& ctx;
  const void* given[kElementValuesMax] = {};  // by value
  void* outputs[kElementValuesMax] = {};

  void make_output(int i) {
    Tensor& output =
        state.known ? ctx.output(i) : ctx.output(i, plan.outputs[static_cast<size_t>(i)]);
    outputs[i] = output.mutable_raw();
  }

  void run_producer(Tensor* output) const {
    const Enclosing within{.kernel = &ctx,
                           .finish =
                               [](const void* firing, int64_t begin, int64_t n) {
                                 const auto& self = *static_cast<const Firing*>(firing);
                                 if (self.plan.together)
                                   self.plan.passes[0].run(self.given, self.outputs, begin, n);
                               },
                           .context = this};
    uint32_t slots[kElementValuesMax];
    int32_t count = 0;
    for (int32_t input : state.producer_inputs) slots[count++] = KernelCall::input_slot(ctx, input);
    KernelCall call;
    call.bind_within(within, *state.producer, KernelCall::values(ctx), slots, count, output);
    state.producer->kernel->run(call.context);
  }
};

void cpu(KernelContext& ctx) {
  const auto& state = ctx.state<FusedState>();
  const std::shared_ptr<const Plan> plan = state.plan(ctx);
  Firing firing{state, *plan, ctx};
  const auto count = static_cast<int>(plan->outputs.size());
  for (int i = 0; i < ctx.input_count(); ++i) firing.given[i] = ctx.input(i).raw();
  for (int i = 1; i < count; ++i) firing.make_output(i);
  Tensor produced[1];
  if (plan->together) {
    firing.make_output(0);
    firing.given[state.program.producer->id] = firing.outputs[0];
    return firing.run_producer(&ctx.output(0));
  }
  if (state.producer) {
    firing.run_producer(produced);
    firing.given[state.program.producer->id] = produced[0].raw();
  }
  if (state.known && state.over_input0)
    firing.outputs[0] = ctx.output_in_place().mutable_raw();
  else
    firing.make_output(0);
  for (const ElementPass& pass : plan->passes)
    in_parts(ctx, pass.size(),
             [&](int64_t begin, int64_t n) { pass.run(firing.given, firing.outputs, begin, n); });
}

}  // namespace

Op fused_op() {
  return {.name = "Fused",
          .inputs = {"x..."},
          .outputs = {"y..."},
          .attrs = {{"program", AttrKind::text}, {"outputs", AttrKind::integers}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "passes make it, when gradients have been built",
          .kernels = {{.run = cpu, .prepare = prepare}},
          .in_place = true};
}

}  // namespace troupe
