// Op: what an operation is: its names, type rule, gradient and kernels. One value in one file each;
// ops/all.cpp lists them. Implemented in graph/op.cpp. docs/adding_an_op.md shows how to write one.
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
// ("input") i, of which there are `count`.
[[noreturn]] void refuse_index(const Node& node, const char* who, const char* what, int i,
                               size_t count);
}  // namespace detail

// What a type rule and a gradient see of a node: attributes and the types of inputs. An input that
// the node does not have is an Error(invalid_argument) that says so, here and in what follows.
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
  // An Error(invalid_argument) whose text is: node, op, origin, input types, then these parts.
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

// The backward rule of one node: one Output per input, undefined where there is nothing to pass on.
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
  // As gradients() of troupe/graph.hpp: for an op whose gradient is that of a graph of others.
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

// In which training step a kernel asks for a parameter.
struct ParameterStep {
  int64_t replica = 0;
  int64_t step = -1;  // -1: outside of training
  int64_t first =
      -1;  // steps of the replica before this one are over, and not done again; -1: unknown
};

// A change of the values themselves, without an optimizer (troupe/ops/parameters.hpp).
struct ParameterWrite {
  enum Kind : uint8_t { assign, add, assign_rows, add_rows } kind = assign;
  int64_t number = 0;  // which one it is of those that a replica has of the parameter
  Tensor indices;      // of rows, i64
  Tensor values;
};

// Parameters as a kernel sees them: asked by name, answered later. The engine hands a kernel
// whatever its worker was given.
class ParameterPort {
 public:
  using Reply = std::function<void(Errc, std::string text, Tensor value)>;
  virtual ~ParameterPort() = default;
  // Asks for the values that this step may read; step -1 takes the newest at once.
  virtual void pull(const std::string& parameter, const ParameterStep& at, Reply reply) = 0;
  // The same of some rows: `indices`, i64, any shape. The reply's value is [indices..., row...].
  virtual void pull_rows(const std::string& parameter, const ParameterStep& at, Tensor indices,
                         Reply reply) = 0;
  // Hands over dL/d(parameter). The reply comes when the shard has acknowledged it; its value is
  // undefined.
  virtual void push(const std::string& parameter, const ParameterStep& at, Tensor gradient,
                    Reply reply) = 0;
  // The same of rows: `indices`, i64 [n], and `values`, [n, row...], or [k, row...] of which each
  // is for n / k indices, one after the other. Left out, they are packed for push()
  // (troupe/ops/row_sparse.hpp); a port that takes them as they are copies neither for a shard of
  // this process that holds all of the parameter.
  virtual void push_rows(const std::string& parameter, const ParameterStep& at, Tensor indices,
                         Tensor values, Reply reply);
  // push() with a change of the values.
  virtual void write(const std::string& parameter, const ParameterStep& at, ParameterWrite change,
                     Reply reply) = 0;
};

class Resources;  // what stateful ops keep between steps (devices/resources.hpp)

// What every firing of one run shares.
struct RunContext {
  int64_t run = 0;  // unique in a session: names the activation
  // The training step, or -1 outside training. Random numbers and pushes are keyed by it.
  int64_t step = -1;
  int64_t first_step = -1;  // ParameterStep::first, of all replicas that the run pushes for
  ParameterPort* parameters = nullptr;
  Resources* resources = nullptr;
};

// Per-node state that a kernel keeps between firings: constants, cached primitives. Several firings
// may use it at once.
class KernelState {
 public:
  virtual ~KernelState() = default;
  // Of a node that does the work of several (ops/elementwise/fused.cpp): these, behind one
  // placeholder for each of its inputs. nullptr: it is what it is.
  virtual const Graph* program() const { return nullptr; }
};

class Memory;      // where outputs come from (devices/memory/memory.hpp)
struct NodeView;   // the node, compiled for firing (devices/kernel_call.hpp)
struct Enclosing;  // the kernel of which this firing is a part (devices/kernel_call.hpp)

// One firing of one plain kernel. Valid during the call. An input or output that the node does not
// have is an Error(invalid_argument) that names the node, which one was asked for, and how many
// there are.
class KernelContext {
 public:
  int input_count() const { return input_count_; }
  const Tensor& input(int i) const {
    if (static_cast<uint32_t>(i) >= static_cast<uint32_t>(input_count_)) [[unlikely]]
      refuse_input(i);
    return values_[input_slots_[i]];
  }

  // The i-th output, made on the first call with the inferred shape, elements not set. Check
  // everything before the first call: shapes as well, where they were not known to the graph.
  Tensor& output(int i = 0) {
    check_output(i);
    return outputs_[i].defined() ? outputs_[i] : make_output(i);
  }
  // The same, but takes over input 0's memory when this node is its last reader and dtype and size
  // agree; for an op that declares `in_place`, else it is output(0). Elements of output(0) and
  // input(0) may then be the same ones.
  Tensor& output_in_place();
  // For shapes that depend on values. Throws: Error(kernel_failed) for one that the graph excludes,
  // or the op's shape rule.
  Tensor& output(int i, const Shape& shape);
  void set_output(int i, Tensor value) {  // passes a value on
    check_output(i);
    outputs_[i] = std::move(value);
  }
  Tensor scratch(DType dtype, const Shape& shape);  // from the same memory, gone with the handle

  // Calls f(job) for every job in [0, jobs), on this thread and on those that have nothing else to
  // do, in any order, and returns when all are done. Cut an op by its shapes alone, into jobs of 20
  // us or more: then its bits are the same on any number of threads. Ask for outputs and scratch
  // before. Throws: what the lowest job that failed has thrown.
  template <class F>
  void parallel(int64_t jobs, const F& f) const {
    run_jobs(
        jobs, [](const void* context, int64_t job) { (*static_cast<const F*>(context))(job); }, &f);
  }

  // Elements [begin, begin + n) of output 0 are there and will not be touched again: whoever waits
  // for them goes on with them, on this thread, before they leave its cache. A kernel that declares
  // `finishes` says so once of each element, from its jobs.
  void finish(int64_t begin, int64_t n) const {
    if (enclosing_) go_on(begin, n);
  }

  // The other way round: calls f(x, at, count) for parts of the elements [begin, begin + n) of
  // input 0, in their order. The `count` elements from number `at` on stand in a row at `x` until f
  // returns; count is a multiple of `unit` <= kTakeUnitMax but in the last part. A kernel that
  // declares `takes` reads its input in no other way, but for its type, and takes each element
  // once, from its jobs: so they may be made at that moment, and be nowhere but in its cache.
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
  // Input 0 is in memory as a whole, so that it need not be taken.
  bool input_is_whole() const;

  const Node& node() const;
  const RunContext& run() const { return *run_; }
  template <class S>
  const S& state() const {  // what the kernel's `prepare` returned
    return static_cast<const S&>(*state_);
  }
  template <class T>
  const T& attr(std::string_view name) const {  // a search: keep what is needed often in the state
    return node().attr<T>(name);
  }
  // Error(invalid_argument) with node, op, origin and the parts.
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
// from any thread. Its step may end early, and does not wait for it any more then.
class AsyncContext {
 public:
  virtual ~AsyncContext() = default;
  virtual const Tensor& input(int i) const = 0;
  virtual const Node& node() const = 0;
  virtual const RunContext& run() const = 0;
  virtual bool waits() const = 0;  // false: whatever it is told has no effect
  // False: the step had ended, so nobody has the outputs.
  virtual bool done(std::vector<Tensor> outputs) = 0;
  virtual void fail(Errc code, std::string text) = 0;
};

// Elements that stand in a row, for Kernel::elements.
struct ElementRun {
  static constexpr int kInputsMax = 3;
  const Node* node = nullptr;
  const void* inputs[kInputsMax] = {};  // the first element of each
  bool once[kInputsMax] = {};           // there is but this one, for all elements of the output
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
  // Once a node, when its partition is installed.
  std::unique_ptr<KernelState> (*prepare)(const Node&) = nullptr;
  // Of an op that computes each element of its one output from the elements of its inputs that
  // broadcast to it, and refuses no values: some elements, with the bits that `run` gives them
  // wherever they stand. So several such ops can be one pass over memory
  // (placement/passes/fuse.cpp).
  void (*elements)(const ElementRun&) = nullptr;
  bool finishes = false;  // `run` tells KernelContext::finish() of all elements
  bool takes = false;     // `run` reads its one input by KernelContext::take()
};

enum class AttrKind : uint8_t { boolean, integer, real, text, dtype, shape, integers, tensor };

struct AttrSpec {
  std::string name;
  AttrKind kind = AttrKind::integer;
  std::optional<Attr> default_value = {};  // none: must be given
};

// What a node is to the frames of a graph (Node::frame). The engine compiles it, and knows no op by
// name; troupe/ops/control_flow.hpp has functions that build with these. Built-in ops alone are
// other than none: the engine trusts their names and attributes.
enum class ControlKind : int16_t {
  none,
  branch,    // opens a frame that runs if output 0, a bool scalar, is true; else its nodes are dead
  capture,   // in a frame: a value of the frame around it, the same one in all iterations
  merge,     // passes on the one input that is alive; dead if none is
  loop,      // opens a frame that runs anew in each iteration
  variable,  // in a loop's frame: first its input, then what the iteration before made of it
  repeat,    // the loop as its surroundings see it. Inputs: its n variables, then n values of a
             // branch of its frame, which is dead after the last iteration; n outputs
  save,      // keeps its input, in the order of iterations
  restore,   // takes what the save that it runs after kept last
  function,  // opens a frame that runs anew in each call; it reads nothing of what is around it
  argument,  // in a function's frame: the input of the call that attribute "index" names
  result,    // in a function's frame: its inputs are the outputs of the call
  call,      // runs the frame that the node of the name in attribute "function" opens
};

// In which dtype a node computes that is added in a scope with a `compute` dtype
// (Graph::ScopeSpec): f32 inputs, and those of that dtype, are cast to it. Other inputs stay.
enum class Precision : uint8_t {
  same,  // that of its inputs; f32 where both meet
  low,   // the scope's: products, whose sums are f32 inside
  wide,  // f32: sums of many elements, exponentials, statistics, losses
  kept,  // inputs are taken as they are
};

struct Op {
  std::string name;
  // Names; a last one that ends in "..." stands for one or more, in "...?" for none or more.
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};  // the same: the number is that of the inferred shapes
  std::vector<AttrSpec> attrs = {};
  // Dtypes of the outputs. Left out: all inputs must have one dtype, and the outputs have it, too.
  std::vector<DType> (*infer_dtypes)(const InferContext&) = nullptr;
  // Shapes of the outputs from shapes of the inputs, -1 for what is not known. Called again with
  // known shapes when a step runs.
  std::vector<Shape> (*infer_shapes)(const InferContext&) = nullptr;
  // Left out: the op has no gradient, and `no_gradient` says why.
  std::vector<Output> (*gradient)(const GradientContext&) = nullptr;
  std::string no_gradient = {};
  std::vector<Kernel> kernels = {};
  // Which input's dtype chooses the kernel; -1: output 0's (also when there are no inputs).
  int16_t dispatch = 0;
  ControlKind control = ControlKind::none;
  // Kernels may write output 0 over input 0, and cannot throw after their first write.
  bool in_place = false;
  // Runs anew in every step, whatever its inputs are: random numbers, parameters, placeholders.
  // Without outputs it is run for its effect, and its call is a training step: pushes.
  bool stateful = false;
  // Output 0 shares input 0's elements (identity, reshape): a device need not run a kernel.
  bool aliases = false;
  // Sizes of outputs depend on values of inputs, so that they are not known before the kernel runs:
  // it says them with output(i, shape), and runs on a host device.
  bool value_shapes = false;
  // Inputs of which nothing but the shape is used, and that may be of any dtype: bit i for input i.
  uint32_t shape_only = 0;
  // A backward op that reads what an earlier node reads: the two can be one node, so that it is
  // read once (placement/passes/join.cpp).
  struct Join {
    // The op of the earlier node. Its inputs are this op's last ones; it has one output, of the
    // shape of its input `like`. Neither op has attributes.
    std::string with;
    int like = 0;
    std::string into;  // an op with this op's inputs and outputs, and behind them that of `with`
  };
  std::optional<Join> join = {};
  // Of a node with a KernelState::program(): nodes of the program, by name, that do what another op
  // does (actors/engine/replacement.hpp).
  std::map<std::string, std::shared_ptr<const Op>> replaced = {};
  // How many floating-point numbers one firing multiplies and adds, each counted, for traces;
  // shapes are known. Left out: its time is memory's.
  int64_t (*flops)(const Node& node, const std::vector<Shape>& inputs,
                   const std::vector<Shape>& outputs) = nullptr;
  Precision precision = Precision::same;
  // The op of builtin_ops() that this one is, or is a copy of; null for an op of a program or
  // plugin.
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
  // Of names, inputs, outputs and attributes: processes of one cluster must agree.
  uint64_t fingerprint() const;

 private:
  friend std::shared_ptr<const Registry> builtin_ops();
  Op& add_checked(Op op);  // of any control
  void add_built_in(Op op);
  std::map<std::string, std::unique_ptr<Op>, std::less<>> ops_;
};

// Every op of the project, listed in ops/all.cpp. The same object each time.
std::shared_ptr<const Registry> builtin_ops();

// The kernel of `node` on a device kind: the one for its dispatch dtype, else the one for any.
// nullptr if there is none.
const Kernel* find_kernel(const Node& node, DeviceKind device);
DType dispatch_dtype(const Node& node);

}  // namespace troupe
