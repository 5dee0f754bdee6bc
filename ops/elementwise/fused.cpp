// Fused: what a pass has made of several nodes (placement/passes/fuse.cpp): a program of
// element-wise ops that passes over memory once, with the bits of its nodes one by one. Nobody else
// makes such nodes.
//   program: a graph as text. Its placeholders are the inputs, in their order. All others are
//     steps, whose kernels have `elements`, but for one: the first, if its kernel `finishes`: the
//     steps go on with each part of its output while that is in cache; or the last, if its kernel
//     `takes`: it gets each part of a step's value when that has been computed.
//   outputs: the numbers of the nodes whose values are wanted; those of outputs 1, 2 ... of the
//     first one follow behind the last node's.
// Nodes of the program have the names and origins of the nodes that they were, and it is they who
// refuse shapes that do not fit. Where one of them does what another op does (Op::replaced), they
// are fired one by one.
#include <algorithm>
#include <mutex>
#include <optional>

#include "devices/checked_outputs.hpp"
#include "graph/base/buffer.hpp"
#include "graph/op.hpp"
#include "ops/elementwise/element_program.hpp"
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// The program of a node.
struct Program {
  std::unique_ptr<Graph> graph;
  int32_t inputs = 0;              // placeholders, which come first
  const Node* producer = nullptr;  // the one before the steps
  const Node* taker = nullptr;     // the one behind them
  std::vector<int32_t> outputs;    // from count() on: outputs 1, 2 ... of the producer

  int32_t first_step() const { return inputs + (producer ? 1 : 0); }
  int32_t count() const { return static_cast<int32_t>(graph->nodes().size()); }
  int32_t end_of_steps() const { return count() - (taker ? 1 : 0); }
  const Node& node(int32_t id) const { return graph->node(id); }
  bool is_of_producer(int32_t value) const { return value >= count(); }
  TensorType type(int32_t value) const {
    return is_of_producer(value)
               ? producer->outputs[static_cast<size_t>(value) - static_cast<size_t>(count() - 1)]
               : node(value).outputs[0];
  }
  int32_t taken() const { return taker ? taker->inputs[0].node : -1; }
};

const Kernel* kernel_of(const Node& node) { return find_kernel(node, DeviceKind::cpu); }

bool has_elements(const Node& node) {
  const Kernel* kernel = kernel_of(node);
  return kernel && kernel->elements && node.outputs.size() == 1 &&
         node.inputs.size() <= ElementRun::kInputsMax;
}

bool finishes(const Node& node) {
  const Kernel* kernel = kernel_of(node);
  return kernel && kernel->finishes && !kernel->elements && !node.outputs.empty();
}

bool takes(const Node& node) {
  const Kernel* kernel = kernel_of(node);
  return kernel && kernel->takes && !kernel->elements && node.outputs.size() == 1 &&
         node.inputs.size() == 1;
}

// Throws: Error from ctx, or bad_data for a text that is no graph.
Program program_of(const InferContext& ctx) {
  const Node& node = ctx.node();
  Program program;
  program.graph =
      graph_from_text(node.attr<std::string>("program"), node.inputs[0].graph->shared_registry());
  const int32_t count = program.count();
  while (program.inputs < count && program.node(program.inputs).op->name == "Placeholder")
    ++program.inputs;
  if (program.inputs != static_cast<int32_t>(node.inputs.size()))
    throw ctx.error("its program takes ", program.inputs, " inputs, not ", node.inputs.size());
  if (program.inputs < count && finishes(program.node(program.inputs)))
    program.producer = &program.node(program.inputs);
  else if (program.inputs < count && takes(program.node(count - 1)) &&
           program.node(count - 1).inputs[0].node >= program.inputs)
    program.taker = &program.node(count - 1);
  if (count > kElementValuesMax)
    throw ctx.error("its program has ", count, " nodes; at most ", kElementValuesMax,
                    " are possible");
  for (int32_t id = program.first_step(); id < program.end_of_steps(); ++id)
    if (!has_elements(program.node(id)))
      throw ctx.error("its program has a step that is not element-wise: the ",
                      describe(program.node(id)));
  const int64_t values = count + (program.producer ? std::ssize(program.producer->outputs) - 1 : 0);
  for (int64_t id : node.attr<std::vector<int64_t>>("outputs")) {
    if (id < program.first_step() || id >= values)
      throw ctx.error("wants the value of node ", id, " of its program, which is no step");
    const auto value = static_cast<int32_t>(id);
    if (std::find(program.outputs.begin(), program.outputs.end(), value) != program.outputs.end())
      throw ctx.error("wants the value of node ", id, " of its program twice");
    program.outputs.push_back(value);
  }
  if (program.outputs.empty() || program.is_of_producer(program.outputs[0]))
    throw ctx.error("wants no output of a step; name one first");
  return program;
}

// The shapes of all values, by the shape rules of their nodes. Throws: errors of these rules.
template <class Input>
std::vector<Shape> shapes_of(const Program& program, const Input& input) {
  std::vector<Shape> shapes, more;
  for (const auto& node : program.graph->nodes()) {
    if (node->id < program.inputs) {
      shapes.push_back(input(node->id));
      continue;
    }
    std::vector<TensorType> types;
    for (const Output& in : node->inputs)
      types.push_back({in.dtype(), shapes[static_cast<size_t>(in.node)]});
    const std::vector<Shape> made = node->op->infer_shapes(InferContext(*node, std::move(types)));
    shapes.push_back(made[0]);
    more.insert(more.end(), made.begin() + 1, made.end());  // the producer's
  }
  shapes.insert(shapes.end(), more.begin(), more.end());
  return shapes;
}

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  const Program program = program_of(ctx);
  for (int32_t i = 0; i < program.inputs; ++i)
    if (ctx.dtype(i) != program.node(i).outputs[0].dtype)
      throw ctx.error("input ", i, " of its program is ", program.node(i).outputs[0].dtype,
                      ", got ", ctx.dtype(i));
  std::vector<DType> dtypes;
  for (int32_t id : program.outputs) dtypes.push_back(program.type(id).dtype);
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

// The passes for one set of input shapes.
struct Plan {
  std::vector<ElementPass> passes;  // one for each shape of what they write
  std::vector<Shape> outputs;
  std::vector<Shape> inputs;
  // The values that the passes write: outputs, -1 for those of taker and producer, and the input of
  // the taker where it has to be in memory as a whole.
  std::vector<int32_t> written;
  Shape taken_shape;
  Tensor taken;  // its type alone: the taker gets it in parts
  // The steps may go on with parts of what the producer makes, in the memory of output 0.
  bool together = false;

  bool hands_over() const { return taken.dtype() != DType::none; }
};

// The taker can go on with parts if all that is written has the shape of what it takes, so that one
// pass makes it all.
void plan_taker(const Program& program, const std::vector<Shape>& shapes, Plan& plan) {
  const auto shape_of = [&](int32_t id) -> const Shape& { return shapes[static_cast<size_t>(id)]; };
  const int32_t taken = program.taken();
  plan.taken_shape = shape_of(taken);
  std::replace(plan.written.begin(), plan.written.end(), program.taker->id, -1);
  if (std::all_of(plan.written.begin(), plan.written.end(),
                  [&](int32_t id) { return id < 0 || shape_of(id) == plan.taken_shape; }))
    plan.taken = tensor_type(program.node(taken).outputs[0].dtype, plan.taken_shape);
  if (!plan.hands_over() &&
      std::find(plan.written.begin(), plan.written.end(), taken) == plan.written.end())
    plan.written.push_back(taken);
}

std::shared_ptr<const Plan> make_plan(const Program& program, std::vector<Shape> inputs) {
  const std::vector<Shape> shapes =
      shapes_of(program, [&](int32_t i) -> const Shape& { return inputs[static_cast<size_t>(i)]; });
  const auto shape_of = [&](int32_t id) -> const Shape& { return shapes[static_cast<size_t>(id)]; };
  auto plan = std::make_shared<Plan>();
  plan->inputs = std::move(inputs);
  plan->written = program.outputs;
  std::replace_if(
      plan->written.begin(), plan->written.end(),
      [&](int32_t id) { return program.is_of_producer(id); }, -1);
  for (int32_t id : program.outputs) plan->outputs.push_back(shape_of(id));
  if (program.taker) plan_taker(program, shapes, *plan);
  std::vector<Shape> known;
  const auto add_pass = [&](const Shape& shape) {
    if (std::find(known.begin(), known.end(), shape) != known.end()) return;
    known.push_back(shape);
    plan->passes.emplace_back(*program.graph, program.first_step(), plan->written, shape, shapes,
                              plan->hands_over() ? program.taken() : -1);
  };
  for (int32_t id : plan->written)
    if (id >= 0) add_pass(shape_of(id));
  if (plan->hands_over()) add_pass(plan->taken_shape);
  const Node* producer = program.producer;
  plan->together = producer && plan->passes.size() == 1 && shape_of(producer->id) == known[0] &&
                   producer->outputs[0].dtype == program.node(program.outputs[0]).outputs[0].dtype;
  return plan;
}

// A node of the program that is fired as itself.
struct Member {
  Node node;  // with the op that it has by now
  NodeView view;
  std::vector<uint32_t> inputs;  // values of the program
};

struct FusedState final : ProgramState {
  std::shared_ptr<const Plan> known;  // if all shapes are
  bool over_input0 = false;           // no step after that of output 0 reads it
  bool passes_alone = false;          // by `known`, without a producer, a taker or members
  Program text;
  std::optional<NodeView> producer;      // with its kernel's own state
  std::vector<int32_t> producer_inputs;  // which of ours they are
  std::optional<NodeView> taker;
  // If one of them has been replaced, all of them, and what nobody reads after each.
  std::vector<std::unique_ptr<Member>> members;
  std::vector<std::vector<int32_t>> last_read;
  // For the shapes that came last, as batches of several lengths come again and again.
  static constexpr size_t kPlansMax = 32;
  mutable std::mutex mutex;
  mutable std::vector<std::shared_ptr<const Plan>> plans;
  mutable size_t oldest = 0;

  const Graph& program() const override { return *text.graph; }

  std::shared_ptr<const Plan> plan(const KernelContext& ctx) const {
    if (known) return known;
    std::vector<Shape> inputs;
    for (int i = 0; i < ctx.input_count(); ++i) inputs.push_back(ctx.input(i).shape());
    {
      const std::lock_guard lock(mutex);
      for (const auto& plan : plans)
        if (plan->inputs == inputs) return plan;
    }
    auto made = make_plan(text, std::move(inputs));
    const std::lock_guard lock(mutex);
    if (plans.size() < kPlansMax) return plans.emplace_back(std::move(made));
    oldest = (oldest + 1) % kPlansMax;
    return plans[oldest] = std::move(made);
  }
};

// Requires: each op in `replaced` has a kernel for its node (actors/engine/program/op_code.hpp).
void prepare_members(const std::map<std::string, std::shared_ptr<const Op>>& replaced,
                     FusedState& state) {
  const Program& program = state.text;
  std::vector<size_t> last(static_cast<size_t>(program.count()));
  for (int32_t id = program.inputs; id < program.count(); ++id) {
    auto member = std::make_unique<Member>();
    member->node = program.node(id);
    if (const auto it = replaced.find(member->node.name); it != replaced.end())
      member->node.op = it->second.get();
    member->view = NodeView::make(member->node, *kernel_of(member->node));
    for (const Output& input : member->node.inputs) {
      member->inputs.push_back(static_cast<uint32_t>(input.node));
      last[static_cast<size_t>(input.node)] = state.members.size();
    }
    last[static_cast<size_t>(id)] = state.members.size();  // unless somebody reads it
    state.members.push_back(std::move(member));
  }
  state.last_read.resize(state.members.size());
  for (int32_t id = 0; id < program.count(); ++id)
    if (std::find(program.outputs.begin(), program.outputs.end(), id) == program.outputs.end())
      state.last_read[last[static_cast<size_t>(id)]].push_back(id);
}

std::unique_ptr<KernelState> prepare(const Node& node) {
  auto state = std::make_unique<FusedState>();
  std::vector<TensorType> types;
  for (const Output& input : node.inputs) types.push_back({input.dtype(), input.shape()});
  state->text = program_of(InferContext(node, types));
  const Program& program = state->text;
  if (!node.op->replaced.empty()) {
    prepare_members(node.op->replaced, *state);
    return state;
  }
  if (const Node* producer = program.producer) {
    state->producer.emplace(NodeView::make(*producer, *kernel_of(*producer)));
    for (const Output& input : producer->inputs) state->producer_inputs.push_back(input.node);
  }
  if (program.taker)
    state->taker.emplace(NodeView::make(*program.taker, *kernel_of(*program.taker)));
  state->over_input0 = !program.taker || program.outputs[0] != program.taker->id;
  for (const auto& step : program.graph->nodes())
    for (const Output& input : step->inputs)
      if (input.node == 0 && (step->id > program.outputs[0] || step->id < program.first_step()))
        state->over_input0 = false;
  std::vector<Shape> inputs;
  for (const TensorType& type : types) inputs.push_back(type.shape);
  if (std::all_of(inputs.begin(), inputs.end(), [](const Shape& s) { return s.is_known(); }))
    state->known = make_plan(program, std::move(inputs));
  state->passes_alone = state->known && !program.producer && !program.taker;
  return state;
}

// One firing.
struct Firing {
  const FusedState& state;
  const Plan& plan;
  KernelContext& ctx;
  const void* given[kElementValuesMax] = {};  // by value
  void* outputs[kElementValuesMax] = {};      // as Plan::written

  void make_output(int i) {
    Tensor& output =
        state.known ? ctx.output(i) : output_by_rule(ctx, i, plan.outputs[static_cast<size_t>(i)]);
    outputs[i] = output.mutable_raw();
  }
  void make_output0() {
    // A taker of a whole value asks for memory after the value has been written.
    if (state.known && state.over_input0 && (!state.text.taker || plan.hands_over()))
      outputs[0] = ctx.output_in_place().mutable_raw();
    else
      make_output(0);
  }

  // Its output 0 is `made` where that is defined.
  Tensor run_producer(const Tensor& made) const {
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
    for (int32_t input : state.producer_inputs)
      slots[count++] = KernelCall::of(ctx).input_slot(input);
    std::vector<Tensor> produced(state.producer->outputs.size());
    produced[0] = made;
    KernelCall call;
    call.bind_within(within, *state.producer, KernelCall::of(ctx).values(), slots, count,
                     produced.data());
    state.producer->kernel->run(call);
    for (size_t i = 0; i < state.text.outputs.size(); ++i)
      if (const int32_t value = state.text.outputs[i]; state.text.is_of_producer(value))
        ctx.set_output(static_cast<int>(i),
                       std::move(produced[static_cast<size_t>(value) -
                                          static_cast<size_t>(state.text.count() - 1)]));
    return std::move(produced[0]);
  }

  // `taken`: its value, or the type alone if it is handed over.
  void run_taker(const Tensor& taken) const {
    Enclosing within{.kernel = &ctx, .context = this};
    if (plan.hands_over())
      within.take = [](const void* firing, int64_t begin, int64_t n, int64_t unit,
                       void (*part)(const void*, const void*, int64_t, int64_t),
                       const void* context) {
        const auto& self = *static_cast<const Firing*>(firing);
        self.plan.passes[0].run_taken(self.given, self.outputs, begin, n, {unit, part, context});
      };
    const uint32_t slot = 0;
    Tensor output;
    KernelCall call;
    call.bind_within(within, *state.taker, &taken, &slot, 1, &output);
    state.taker->kernel->run(call);
    const auto& wanted = state.text.outputs;
    const auto at = std::find(wanted.begin(), wanted.end(), state.text.taker->id);
    if (at != wanted.end())
      ctx.set_output(static_cast<int>(at - wanted.begin()), std::move(output));
  }

  void run_passes() const {
    for (const ElementPass& pass : plan.passes)
      in_parts(ctx, pass.size(),
               [&](int64_t begin, int64_t n) { pass.run(given, outputs, begin, n); });
  }
};

void run_members(KernelContext& ctx, const FusedState& state) {
  std::vector<Tensor> values(static_cast<size_t>(state.text.count()));
  for (int i = 0; i < ctx.input_count(); ++i) values[static_cast<size_t>(i)] = ctx.input(i);
  const Enclosing within{.kernel = &ctx};
  for (size_t i = 0; i < state.members.size(); ++i) {
    const Member& member = *state.members[i];
    std::vector<Tensor> outputs(member.node.outputs.size());
    KernelCall call;
    call.bind_within(within, member.view, values.data(), member.inputs.data(),
                     static_cast<int32_t>(member.inputs.size()), outputs.data());
    const auto types = types_to_check(call, member.view);
    member.view.kernel->run(call);
    check_outputs(member.view, outputs.data(), types);
    values[static_cast<size_t>(member.node.id)] = std::move(outputs[0]);
    values.insert(values.end(), std::make_move_iterator(outputs.begin() + 1),
                  std::make_move_iterator(outputs.end()));  // the producer's, behind the nodes
    for (int32_t value : state.last_read[i]) values[static_cast<size_t>(value)] = {};
  }
  for (size_t i = 0; i < state.text.outputs.size(); ++i)
    ctx.set_output(static_cast<int>(i), values[static_cast<size_t>(state.text.outputs[i])]);
}

// A small program runs often and has no taker or producer, so it does without the checks
// of cpu().
void run_passes_alone(KernelContext& ctx, const FusedState& state) {
  const Plan& plan = *state.known;
  const void* given[kElementValuesMax];
  void* outputs[kElementValuesMax];
  for (int i = 0; i < ctx.input_count(); ++i) given[i] = ctx.input(i).raw();
  const auto count = static_cast<int>(plan.outputs.size());
  for (int i = 1; i < count; ++i) outputs[i] = ctx.output(i).mutable_raw();
  outputs[0] = (state.over_input0 ? ctx.output_in_place() : ctx.output()).mutable_raw();
  for (const ElementPass& pass : plan.passes)
    in_parts(ctx, pass.size(),
             [&](int64_t begin, int64_t n) { pass.run(given, outputs, begin, n); });
}

void cpu(KernelContext& ctx) {
  const auto& state = ctx.state<FusedState>();
  if (state.passes_alone) return run_passes_alone(ctx, state);
  if (!state.members.empty()) return run_members(ctx, state);
  const std::shared_ptr<const Plan> plan = state.plan(ctx);
  Firing firing{state, *plan, ctx};
  const Program& program = state.text;
  const auto count = static_cast<int>(plan->outputs.size());
  for (int i = 0; i < ctx.input_count(); ++i) firing.given[i] = ctx.input(i).raw();
  for (int i = 1; i < count; ++i)
    if (plan->written[static_cast<size_t>(i)] >= 0) firing.make_output(i);
  if (plan->together) {
    firing.make_output(0);
    firing.given[program.producer->id] = firing.outputs[0];
    firing.run_producer(ctx.output(0));
    return;
  }
  Tensor produced;
  if (state.producer) {
    produced = firing.run_producer({});
    firing.given[program.producer->id] = produced.raw();
  }
  if (plan->written[0] >= 0) firing.make_output0();
  if (plan->hands_over()) return firing.run_taker(plan->taken);
  if (!program.taker) return firing.run_passes();
  // The last one that is written, or an output.
  const auto at =
      static_cast<size_t>(std::find(plan->written.begin(), plan->written.end(), program.taken()) -
                          plan->written.begin());
  Tensor taken;
  if (at >= static_cast<size_t>(count)) {
    taken = ctx.scratch(program.node(program.taken()).outputs[0].dtype, plan->taken_shape);
    firing.outputs[at] = taken.mutable_raw();
  } else {
    taken = ctx.output(static_cast<int>(at));
  }
  firing.run_passes();
  firing.run_taker(taken);
}

constexpr OpProperties kProperties = {.program = [](const Node& node) -> const std::string& {
  return node.attr<std::string>("program");
}};

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
          .in_place = true,
          .precision = Precision::kept,
          .properties = &kProperties};
}

}  // namespace troupe
