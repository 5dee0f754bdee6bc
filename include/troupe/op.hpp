// Op: an operation with its names, type rule, gradient and kernels. Each op is one value, in a file
// of its own or a row of its family's table; ops/all.cpp lists them. Implemented in graph/op.cpp.
// docs/adding_an_op.md shows how to write one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

enum class DeviceKind : uint8_t { cpu, shadow, cuda };
const char* to_string(DeviceKind kind);

namespace detail {
// Throws: Error(invalid_argument): the `who` ("kernel") of the op of `node` asks for `what`
// ("input") number i, but there are `count`.
[[noreturn]] void refuse_index(const Node& node, const char* who, const char* what, int i,
                               size_t count);
}  // namespace detail

// The view of a node that its type rule and its gradient get: attributes and the types of inputs.
// Asking for an input that the node does not have is an Error(invalid_argument) that says so, here
// and in the classes below.
class InferContext {
 public:
  InferContext(const Node& node, std::vector<TensorType> inputs)
      : node_(node), inputs_(std::move(inputs)) {}
  int input_count() const { return static_cast<int>(inputs_.size()); }
  const Shape& input(int i) const { return type(i).shape; }
  DType dtype(int i) const { return type(i).dtype; }
  template <class T>
  const T& attr(std::string_view name) const {
    return node_.attr<T>(name);
  }
  const Node& node() const { return node_; }
  // Makes an Error(invalid_argument) whose text is: node, op, origin, input types, then these
  // parts.
  template <class... Parts>
  Error error(const Parts&... parts) const {
    return Error(Errc::invalid_argument, where(), detail::concat(parts...));
  }

 private:
  const TensorType& type(int i) const {
    if (i < 0 || i >= input_count()) [[unlikely]]
      detail::refuse_index(node_, "type rule", "input", i, inputs_.size());
    return inputs_[static_cast<size_t>(i)];
  }
  std::string where() const;
  const Node& node_;
  std::vector<TensorType> inputs_;
};

// The backward rule of one node gives one Output per input, undefined where no gradient passes.
class GradientContext {
 public:
  using Differentiate = std::vector<Output>(const std::vector<Output>& ys,
                                            const std::vector<Output>& xs,
                                            const std::vector<Output>& y_gradients);
  GradientContext(Graph& graph, const Node& node, std::vector<Output> output_gradients,
                  Differentiate* differentiate)
      : graph_(graph),
        node_(node),
        output_gradients_(std::move(output_gradients)),
        differentiate_(differentiate) {}
  Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }
  int input_count() const { return static_cast<int>(node_.inputs.size()); }
  Output input(int i) const {
    check(i, node_.inputs.size(), "input");
    return node_.inputs[static_cast<size_t>(i)];
  }
  Output output(int i) const {
    check(i, node_.outputs.size(), "output");
    return {&graph_, node_.id, i};
  }
  // dL/d(output i). Undefined if no y depends on that output.
  Output output_gradient(int i) const {
    check(i, output_gradients_.size(), "output");
    return output_gradients_[static_cast<size_t>(i)];
  }
  template <class T>
  const T& attr(std::string_view name) const {
    return node_.attr<T>(name);
  }
  // As gradients() of troupe/graph.hpp: for an op whose gradient is that of a graph of other ops.
  std::vector<Output> gradients(const std::vector<Output>& ys, const std::vector<Output>& xs,
                                const std::vector<Output>& y_gradients) const {
    return differentiate_(ys, xs, y_gradients);
  }

 private:
  void check(int i, size_t count, const char* what) const {
    if (i < 0 || static_cast<size_t>(i) >= count) [[unlikely]]
      detail::refuse_index(node_, "gradient", what, i, count);
  }
  Graph& graph_;
  const Node& node_;
  std::vector<Output> output_gradients_;
  Differentiate* differentiate_;
};

// The training step for which a kernel asks for a parameter.
struct ParameterStep {
  int64_t replica = 0;
  int64_t step = -1;  // -1: outside of training
  int64_t first =
      -1;  // steps of the replica before this one are over and will not be done again; -1: unknown
};

// A change of the values themselves, without an optimizer (troupe/ops/parameters.hpp).
struct ParameterWrite {
  enum Kind : uint8_t { assign, add, assign_rows, add_rows } kind = assign;
  int64_t number = 0;  // its number among the replica's writes to the parameter
  Tensor indices;      // row numbers, i64
  Tensor values;
};

// Parameters as a kernel sees them: requested by name, answered later. The engine gives a kernel
// the port that its worker was given.
class ParameterPort {
 public:
  using Reply = std::function<void(Errc, std::string text, Tensor value)>;
  virtual ~ParameterPort() = default;
  // Asks for the values that this step may read; step -1 takes the newest at once.
  virtual void pull(const std::string& parameter, const ParameterStep& at, Reply reply) = 0;
  // The same for some rows: `indices`, i64, any shape. The reply's value is [indices..., row...].
  virtual void pull_rows(const std::string& parameter, const ParameterStep& at, Tensor indices,
                         Reply reply) = 0;
  // Sends dL/d(parameter). The reply comes when the shard has acknowledged it; its value is
  // undefined.
  virtual void push(const std::string& parameter, const ParameterStep& at, Tensor gradient,
                    Reply reply) = 0;
  // push() of rows: `indices` is i64 [n]; `values` is [n, row...], or [k, row...] where each row
  // serves n / k consecutive indices. If not overridden, packs them for push()
  // (troupe/ops/parameters.hpp); a port that overrides it copies neither tensor for a shard of this
  // process that holds the whole parameter.
  virtual void push_rows(const std::string& parameter, const ParameterStep& at, Tensor indices,
                         Tensor values, Reply reply);
  // Like push(), but sends a change of the values.
  virtual void write(const std::string& parameter, const ParameterStep& at, ParameterWrite change,
                     Reply reply) = 0;
};

class Resources;  // state that ops keep between steps (devices/resources.hpp)

// Data that all firings of one run share.
struct RunContext {
  int64_t run = 0;  // unique in a session: names the activation
  // The training step, or -1 outside training; random numbers and pushes are keyed by it.
  int64_t step = -1;
  int64_t first_step = -1;  // ParameterStep::first, for all replicas that the run pushes for
  ParameterPort* parameters = nullptr;
  Resources* resources = nullptr;
};

// Per-node state that a kernel keeps between firings: constants, cached primitives. Several firings
// may use it at once.
class KernelState {
 public:
  virtual ~KernelState() = default;
  // For a node that does the work of several (ops/elementwise/fused.cpp): those nodes, as a graph
  // with one placeholder for each input. nullptr: the node does only its own work.
  virtual const Graph* program() const { return nullptr; }
};

class Memory;      // allocates outputs (devices/memory/memory.hpp)
struct NodeView;   // the node, compiled for firing (devices/kernel_call.hpp)
struct Enclosing;  // the kernel of which this firing is a part (devices/kernel_call.hpp)

// One firing of one plain kernel. Valid during the call. Asking for an input or output that the
// node does not have is an Error(invalid_argument) that names the node, the index asked for, and
// how many there are.
class KernelContext {
 public:
  int input_count() const { return input_count_; }
  const Tensor& input(int i) const {
    if (static_cast<uint32_t>(i) >= static_cast<uint32_t>(input_count_)) [[unlikely]]
      refuse_input(i);
    return values_[input_slots_[i]];
  }

  // The i-th output, made on the first call with the inferred shape, elements not set. Check
  // everything before the first call, also shapes that were not known to the graph.
  Tensor& output(int i = 0) {
    check_output(i);
    return outputs_[i].defined() ? outputs_[i] : make_output(i);
  }
  // The same, but takes over input 0's memory when this node is its last reader and dtype and size
  // agree; for an op that declares `in_place`, otherwise it is output(0). The elements of output(0)
  // and input(0) may then be the same memory.
  Tensor& output_in_place();
  // For shapes that depend on values. Throws: Error(kernel_failed) for a shape that the graph or
  // the op's shape rule excludes.
  Tensor& output(int i, const Shape& shape);
  void set_output(int i, Tensor value) {  // passes a value on
    check_output(i);
    outputs_[i] = std::move(value);
  }
  Tensor scratch(DType dtype, const Shape& shape);  // from the same memory, freed with the handle

  // Calls f(job) for every job in [0, jobs), on this thread and on idle ones, in any order, and
  // returns when all are done. Cut an op by its shapes alone, into jobs of 20 us or more: then its
  // bits are the same on any number of threads. Ask for outputs and scratch before the call.
  // Throws: the exception of the lowest job that failed.
  template <class F>
  void parallel(int64_t jobs, const F& f) const {
    run_jobs(
        jobs, [](const void* context, int64_t job) { (*static_cast<const F*>(context))(job); }, &f);
  }

  // Elements [begin, begin + n) of output 0 are final: the enclosing kernel goes on with them on
  // this thread, before they leave its cache. A kernel that declares `finishes` calls this once for
  // each element, from its jobs.
  void finish(int64_t begin, int64_t n) const {
    if (enclosing_) go_on(begin, n);
  }

  // The counterpart of finish() for input: calls f(x, at, count) for consecutive parts of the
  // elements [begin, begin + n) of input 0. The `count` elements from number `at` on are contiguous
  // at `x` until f returns; count is a multiple of `unit` <= kTakeUnitMax except in the last part.
  // A kernel that declares `takes` reads its input in no other way, except for its type, and takes
  // each element once, from its jobs: so elements may be made at that moment and exist only in its
  // cache.
  template <class T, class F>
  void take(int64_t begin, int64_t n, int64_t unit, const F& f) const {
    take_parts(
        begin, n, unit,
        [](const void* context, const void* x, int64_t at, int64_t count) {
          (*static_cast<const F*>(context))(static_cast<const T*>(x), at, count);
        },
        &f);
  }
  static constexpr int64_t kTakeUnitMax = 512;
  // Input 0 is in memory as a whole, so it need not be taken.
  bool input_is_whole() const;

  const Node& node() const;
  const RunContext& run() const { return *run_; }
  template <class S>
  const S& state() const {  // the result of the kernel's `prepare`
    return static_cast<const S&>(*state_);
  }
  template <class T>
  const T& attr(std::string_view name) const {  // a search: keep hot ones in the state
    return node().attr<T>(name);
  }
  // Makes an Error(invalid_argument) with node, op, origin and the parts.
  template <class... Parts>
  Error error(const Parts&... parts) const {
    return Error(Errc::invalid_argument, where(), detail::concat(parts...));
  }

 private:
  friend struct KernelCall;  // actors/ and tests fill one in
  void check_output(int i) const {
    if (static_cast<uint32_t>(i) >= static_cast<uint32_t>(output_count_)) [[unlikely]]
      refuse_output(i);
  }
  [[noreturn]] void refuse_input(int i) const;
  [[noreturn]] void refuse_output(int i) const;
  Tensor& make_output(int i);
  void run_jobs(int64_t jobs, void (*job)(const void*, int64_t), const void* context) const;
  void go_on(int64_t begin, int64_t n) const;
  void take_parts(int64_t begin, int64_t n, int64_t unit,
                  void (*part)(const void*, const void*, int64_t, int64_t),
                  const void* context) const;
  std::string where() const;

  const Tensor* values_ = nullptr;
  const uint32_t* input_slots_ = nullptr;
  Tensor* outputs_ = nullptr;
  const NodeView* view_ = nullptr;
  const KernelState* state_ = nullptr;
  const RunContext* run_ = nullptr;
  Memory* memory_ = nullptr;
  const Enclosing* enclosing_ = nullptr;
  int32_t input_count_ = 0, output_count_ = 0;
  bool may_reuse_input0_ = false;
};

// One firing of a kernel that finishes later. It holds its inputs; `done` or `fail` is called once,
// from any thread. The step may end earlier, and then no longer waits for this firing.
class AsyncContext {
 public:
  virtual ~AsyncContext() = default;
  virtual const Tensor& input(int i) const = 0;
  virtual const Node& node() const = 0;
  virtual const RunContext& run() const = 0;
  virtual bool waits() const = 0;  // false: done() and fail() have no effect any more
  // Returns false if the step had ended; the outputs are then dropped.
  virtual bool done(std::vector<Tensor> outputs) = 0;
  virtual void fail(Errc code, std::string text) = 0;
};

// Contiguous elements, for Kernel::elements.
struct ElementRun {
  static constexpr int kInputsMax = 3;
  const Node* node = nullptr;
  const void* inputs[kInputsMax] = {};  // the first element of each
  bool once[kInputsMax] = {};           // one element that serves all elements of the output
  void* output = nullptr;  // may be an input with elements of the same size that is not `once`
  int64_t n = 0;           // elements of the output, at least 1
};

struct Kernel {
  DeviceKind device = DeviceKind::cpu;
  DType dtype = DType::none;  // of the op's dispatch value; none: any
  // A plain kernel, or
  void (*run)(KernelContext&) = nullptr;
  // one that finishes later and holds no thread.
  void (*start)(std::shared_ptr<AsyncContext>) = nullptr;
  // Called once a node, when its partition is installed.
  std::unique_ptr<KernelState> (*prepare)(const Node&) = nullptr;
  // For an op that computes each element of its one output from the elements of its inputs that
  // broadcast to it, and refuses no values: computes some elements, with the bits that `run` gives
  // them at any position. So several such ops can be one pass over memory
  // (placement/passes/fuse.cpp).
  void (*elements)(const ElementRun&) = nullptr;
  bool finishes = false;  // `run` calls KernelContext::finish() for all elements
  bool takes = false;     // `run` reads its one input by KernelContext::take()
};

enum class AttrKind : uint8_t { boolean, integer, real, text, dtype, shape, integers, tensor };

struct AttrSpec {
  std::string name;
  AttrKind kind = AttrKind::integer;
  std::optional<Attr> default_value = {};  // none: must be given
};

// The role of a node in the frames of a graph (Node::frame). The engine compiles the role, and
// knows no op by name; the functions of troupe/ops/control_flow.hpp build with these. Only built-in
// ops may have another role than none: the engine trusts their names and attributes.
enum class ControlKind : int16_t {
  none,
  branch,    // opens a frame that runs if output 0, a bool scalar, is true; else its nodes are dead
  capture,   // in a frame: a value of the frame around it, the same one in all iterations
  merge,     // passes on the one input that is alive; dead if none is
  loop,      // opens a frame that runs anew in each iteration
  variable,  // in a loop's frame: first its input, then its value from the iteration before
  repeat,    // the loop as its surroundings see it. Inputs: its n variables, then n values of a
             // branch of its frame, which is dead after the last iteration; n outputs
  save,      // keeps its input, in the order of iterations
  restore,   // takes the value that the save it runs after kept last
  function,  // opens a frame that runs anew in each call; it reads nothing from outside
  argument,  // in a function's frame: the input of the call that attribute "index" names
  result,    // in a function's frame: its inputs are the outputs of the call
  call,      // runs the frame that the node named in attribute "function" opens
};

// The dtype in which a node computes that is added in a scope with a `compute` dtype
// (Graph::ScopeSpec): its inputs of f32 and of the `compute` dtype are cast to it, other inputs
// stay.
enum class Precision : uint8_t {
  same,  // the dtype of its inputs; f32 if they have both
  low,   // the scope's dtype: products, whose sums are f32 inside
  wide,  // f32: sums of many elements, exponentials, statistics, losses
  kept,  // inputs are taken as they are
};

struct OpProperties;  // facts about a built-in op, for passes (graph/op_properties.hpp)

struct Op {
  std::string name;
  // Names; a last name that ends in "..." stands for one or more, in "...?" for none or more.
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};  // the same; their number is that of the inferred shapes
  std::vector<AttrSpec> attrs = {};
  // Dtypes of the outputs. Left out: all inputs must have one dtype, which the outputs get, too.
  std::vector<DType> (*infer_dtypes)(const InferContext&) = nullptr;
  // Shapes of the outputs from shapes of the inputs; -1 for unknown sizes. Called again with known
  // shapes when a step runs.
  std::vector<Shape> (*infer_shapes)(const InferContext&) = nullptr;
  // Left out: the op has no gradient, and `no_gradient` says why.
  std::vector<Output> (*gradient)(const GradientContext&) = nullptr;
  std::string no_gradient = {};
  std::vector<Kernel> kernels = {};
  // The input whose dtype chooses the kernel; -1: output 0 (also when there are no inputs).
  int16_t dispatch = 0;
  ControlKind control = ControlKind::none;
  // Kernels may write output 0 over input 0, and cannot throw after their first write.
  bool in_place = false;
  // Runs anew in every step, whatever its inputs are: random numbers, parameters, placeholders.
  // Without outputs it runs for its effect, and its call is a training step: pushes.
  bool stateful = false;
  // Output 0 shares input 0's elements (identity, reshape): a device need not run a kernel.
  bool aliases = false;
  // Sizes of outputs depend on values of inputs and are unknown before the kernel runs: the kernel
  // calls output(i, shape), and runs on a host device.
  bool value_shapes = false;
  // Inputs whose shape alone is used, and which may have any dtype: bit i for input i.
  uint32_t shape_only = 0;
  // For a backward op that reads an input of an earlier node: the two can become one node, so that
  // the input is read once (placement/passes/join.cpp).
  struct Join {
    // The op of the earlier node. Its inputs are this op's last ones; it has one output, with the
    // shape of its input `like`. Neither op has attributes.
    std::string with;
    int like = 0;
    std::string into;  // an op with this op's inputs and outputs, then the output of `with`
  };
  std::optional<Join> join = {};
  // For a node with a KernelState::program(): ops that replace those of nodes of the program, by
  // node name (actors/engine/replacement.hpp).
  std::map<std::string, std::shared_ptr<const Op>> replaced = {};
  // The number of floating-point multiplications and additions in one firing, for traces; shapes
  // are known. Left out: its time is that of memory.
  int64_t (*flops)(const Node& node, const std::vector<Shape>& inputs,
                   const std::vector<Shape>& outputs) = nullptr;
  Precision precision = Precision::same;
  const OpProperties* properties = nullptr;  // lives as long as the process; null: none
  // The op of builtin_ops() that this one is, or is a copy of; null for an op that a program or
  // plugin defines.
  const Op* built_in = nullptr;
};

// All ops a graph may use. Immutable once shared.
class Registry {
 public:
  // Throws: Error(invalid_argument) for a second op of that name, a bad schema, and a `control` of
  // an op that is not built in.
  void add(Op op);
  const Op* find(std::string_view name) const;  // nullptr if there is none
  // Throws: Error(invalid_argument) naming the nearest known op.
  const Op& get(std::string_view name) const;
  std::vector<const Op*> all() const;  // by name
  // Covers names, inputs, outputs and attributes; processes of one cluster must agree.
  uint64_t fingerprint() const;

 private:
  friend std::shared_ptr<const Registry> builtin_ops();
  Op& add_checked(Op op);  // of any control
  void add_built_in(Op op);
  std::map<std::string, std::unique_ptr<Op>, std::less<>> ops_;
};

// Every op of the project, listed in ops/all.cpp. The same object each time.
std::shared_ptr<const Registry> builtin_ops();

// The kernel of `node` on a device kind: the one for its dispatch dtype, else the one for any
// dtype. nullptr if there is none.
const Kernel* find_kernel(const Node& node, DeviceKind device);
DType dispatch_dtype(const Node& node);

}  // namespace troupe
