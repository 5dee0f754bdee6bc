// Op: an operation with its names, type rule, gradient and kernels. Each op is one value, in a file
// of ops/ or a row of its family's table; ops/all.cpp lists them. Implemented in graph/op.cpp.
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
  const TensorType& type(int i) const;
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
  Output input(int i) const;
  Output output(int i) const;
  Output output_gradient(int i) const;  // dL/d(output i); undefined if no y depends on that output
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
  Graph& graph_;
  const Node& node_;
  std::vector<Output> output_gradients_;
  Differentiate* differentiate_;
};

// Per-node state that a kernel keeps between firings: constants, cached primitives. Several firings
// may use it at once.
class KernelState {
 public:
  virtual ~KernelState() = default;
};

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

  const Node& node() const;
  // The training step, or -1 outside of training, where the library's random numbers go by the run.
  int64_t step() const;
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
  void check_output(int i) const {
    if (static_cast<uint32_t>(i) >= static_cast<uint32_t>(output_count_)) [[unlikely]]
      refuse_output(i);
  }
  [[noreturn]] void refuse_input(int i) const;
  [[noreturn]] void refuse_output(int i) const;
  Tensor& make_output(int i);
  void run_jobs(int64_t jobs, void (*job)(const void*, int64_t), const void* context) const;
  std::string where() const;

 protected:  // for KernelCall of the library, the rest of a firing
  KernelContext() = default;
  const Tensor* values_ = nullptr;
  const uint32_t* input_slots_ = nullptr;
  Tensor* outputs_ = nullptr;
  const KernelState* state_ = nullptr;
  int32_t input_count_ = 0, output_count_ = 0;
};

struct RunContext;  // of the library: what all firings of one run share

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

struct ElementRun;  // of the library: contiguous elements

struct Kernel {
  DeviceKind device = DeviceKind::cpu;
  DType dtype = DType::none;  // of the op's dispatch value; none: any
  // A plain kernel, or
  void (*run)(KernelContext&) = nullptr;
  // one that finishes later and holds no thread.
  void (*start)(std::shared_ptr<AsyncContext>) = nullptr;
  // Called once a node, when its partition is installed.
  std::unique_ptr<KernelState> (*prepare)(const Node&) = nullptr;
  // How the built-in ops run as one pass over memory.
  void (*elements)(const ElementRun&) = nullptr;
  bool finishes = false, takes = false;
};

enum class AttrKind : uint8_t { boolean, integer, real, text, dtype, shape, integers, tensor };

struct AttrSpec {
  std::string name;
  AttrKind kind = AttrKind::integer;
  std::optional<Attr> default_value = {};  // none: must be given
};

// The role of a node in control flow. Only built-in ops have another one than none, which is 0: the
// engine trusts their names and attributes.
enum class ControlKind : int16_t;

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
struct OpJoin;

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
  ControlKind control = {};
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
  std::shared_ptr<const OpJoin> join = {};  // how a built-in op becomes one node with another
  // For a node that does the work of several: ops that replace theirs, by node name.
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

struct SourceFunction;  // troupe/source.hpp

// All ops a graph may use, and the functions that its sources may name. Immutable once shared.
class Registry {
 public:
  // Throws: Error(invalid_argument) for a second op of that name, a bad schema, and a `control` of
  // an op that is not built in.
  void add(Op op);
  const Op* find(std::string_view name) const;  // nullptr if there is none
  // Throws: Error(invalid_argument) naming the nearest known op.
  const Op& get(std::string_view name) const;
  std::vector<const Op*> all() const;  // by name
  // Throws: Error(invalid_argument) for a second function of that name, or one without bind().
  void add(SourceFunction function);
  const SourceFunction* find_function(std::string_view name) const;  // nullptr if there is none
  std::vector<const SourceFunction*> functions() const;              // by name
  // Covers names, inputs, outputs and attributes, and names of functions; processes of one cluster
  // must agree.
  uint64_t fingerprint() const;

 private:
  friend std::shared_ptr<const Registry> builtin_ops();
  Op& add_checked(Op op);  // of any control
  void add_built_in(Op op);
  std::map<std::string, std::unique_ptr<Op>, std::less<>> ops_;
  std::map<std::string, std::shared_ptr<const SourceFunction>, std::less<>> functions_;
};

// Every op of the project, listed in ops/all.cpp. The same object each time.
std::shared_ptr<const Registry> builtin_ops();

}  // namespace troupe
