// Graph: a program as nodes, which are added and never changed. Nothing runs before a Session runs
// it. Implemented in graph/graph.cpp, text.cpp and dot.cpp, and gradients/gradient.cpp.
// One thread builds a graph; once it is built, any thread may read it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "troupe/tensor.hpp"

namespace troupe {

struct Op;
class Registry;
std::shared_ptr<const Registry> builtin_ops();  // troupe/op.hpp
class Graph;
struct GraphState;

// The value of an attribute of a node.
using Attr =
    std::variant<bool, int64_t, double, std::string, DType, Shape, std::vector<int64_t>, Tensor>;
using Attrs = std::map<std::string, Attr, std::less<>>;
std::string to_string(const Attr& attr);

struct TensorType {
  DType dtype = DType::none;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
std::ostream& operator<<(std::ostream& out, const TensorType& type);  // "f32[2, -1]"

// One output of one node, by number. Index 0 of a node without outputs stands for its completion.
struct Output {
  Graph* graph = nullptr;
  int32_t node = -1;
  int32_t index = 0;

  bool defined() const { return graph != nullptr; }
  // Requires: defined(). Throws: Error(invalid_argument) for a node that does not exist or has no
  // such output.
  DType dtype() const;
  const Shape& shape() const;
  const std::string& name() const;  // of the node
  // True if both are one output of one node. `==` and `<` make nodes (troupe/ops/elementwise.hpp).
  bool is(const Output& other) const {
    return graph == other.graph && node == other.node && index == other.index;
  }
};
bool same_outputs(const std::vector<Output>& a, const std::vector<Output>& b);  // one by one
// The order of nodes in their graph, for maps and sets: std::map<Output, Tensor, OutputOrder>.
struct OutputOrder {
  bool operator()(const Output& a, const Output& b) const {
    return std::tie(a.graph, a.node, a.index) < std::tie(b.graph, b.node, b.index);
  }
  bool operator()(const std::vector<Output>& a, const std::vector<Output>& b) const;
};

struct Node {
  int32_t id = -1;
  // The node that opens this node's frame: a branch, or the body of a loop
  // (troupe/ops/control_flow.hpp). -1: none. Frames nest as their openers do.
  int32_t frame = -1;
  int32_t recompute = -1;  // its scope of recompute(), by number; -1: none
  std::string name;        // unique in its graph, with its scopes: "tower0/fc1/MatMul"
  const Op* op = nullptr;
  std::vector<Output> inputs;
  std::vector<int32_t> control_inputs;  // nodes that must run before this one
  Attrs attrs;
  std::string device;  // as requested: "/job:ps/task:1/device:cpu:0", in part, or empty
  // The attribute "replica", else the replica of the scope. Nodes made on behalf of this one
  // inherit it. Text and wire forms hold only the attribute.
  int64_t replica = 0;
  std::string colocate_with;  // a node's name, or empty
  std::vector<TensorType> outputs;
  std::string file;  // file of the origin, for messages
  int line = 0;

  // Throws: InternalError if the attribute is missing or has another type (schemas are checked
  // while building).
  template <class T>
  const T& attr(std::string_view name) const {
    auto it = attrs.find(name);
    TROUPE_CHECK(it != attrs.end(), "node ", this->name, " has no attribute ", name);
    const T* value = std::get_if<T>(&it->second);
    TROUPE_CHECK(value, "attribute ", name, " of node ", this->name, " has another type");
    return *value;
  }
};

// "MatMul node fc1/MatMul made at train.cpp:42", for messages.
std::string describe(const Node& node);

// The arguments of Graph::add(). Inference fills in the rest of the node.
struct NodeSpec {
  std::string_view op;
  std::vector<Output> inputs = {};
  Attrs attrs = {};
  // Relative to the current scope; empty: the op's name. Made unique by "_1", "_2", ...
  std::string_view name = {};
  std::vector<int32_t> control_inputs = {};
};

class Graph {
 public:
  explicit Graph(std::shared_ptr<const Registry> registry = builtin_ops());
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  // Adds a node, infers its outputs, and returns the first one.
  // Throws: Error(invalid_argument) naming node, op, origin, shapes and what would be right.
  Output add(NodeSpec spec, Origin at = Origin::here());

  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  // Throws: Error(invalid_argument) for an id out of range.
  const Node& node(int32_t id) const {
    if (id < 0 || id >= static_cast<int32_t>(nodes_.size())) [[unlikely]]
      refuse_node(id);
    return *nodes_[static_cast<size_t>(id)];
  }
  const Node* find(std::string_view name) const;  // nullptr if there is none
  // Finds an output by name: "fc1/MatMul" or "split:1". Throws: Error(invalid_argument) with the
  // nearest name, or with the number of outputs.
  Output output(std::string_view name_and_index, Origin at = Origin::here()) const;
  const Registry& registry() const { return *registry_; }
  std::shared_ptr<const Registry> shared_registry() const { return registry_; }

  // Properties of the nodes that are added next. A field left out keeps its outer value; names
  // nest.
  struct ScopeSpec {
    std::string name = {};
    // "/job:worker/task:1"; missing parts come from the outer scope; "": any.
    std::optional<std::string> device = {};
    std::optional<int64_t> replica = {};  // the replica for reads, pushes and random numbers
    std::optional<std::string> colocate_with = {};  // a node's name; "": with no node
    std::vector<int32_t> control_inputs = {};       // added to those of the outer scope
    // Recorded as the origin of the nodes, instead of the one that add() is given.
    std::optional<Origin> origin = {};
    // true: gradients() reads copies of the nodes. When the backward half needs their values, the
    // copies compute them again from the inputs of the scope, so the values need not be kept until
    // then (troupe/graph.hpp). false: not in such a scope, even if one is open.
    std::optional<bool> recompute = {};
    // Mixed precision: bf16 or f16, the dtype for products of f32 values; f32 or none: off. Casts
    // are added before each node as its op's Precision says. See
    // troupe/optimizer.hpp.
    std::optional<DType> compute = {};
  };
  // The scope is open until this object is destroyed. Scopes close in the reverse order.
  class Scope {
   public:
    explicit Scope(GraphState& state) : state_(&state) {}  // the innermost one
    Scope(Scope&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    Scope& operator=(Scope&&) = delete;
    ~Scope();

   private:
    GraphState* state_;
  };
  // Throws: Error(invalid_argument) for a bad name, device or replica, or a node that does not
  // exist.
  [[nodiscard]] Scope scope(ScopeSpec spec, Origin at = Origin::here());

  int64_t replica() const;     // of the innermost scope that names one, else 0
  std::string device() const;  // the device that the open scopes request for the next node; "": any

  // Names, open scopes and all else that the library keeps with the nodes (graph/graph_state.hpp).
  GraphState& state() { return *state_; }
  const GraphState& state() const { return *state_; }

 private:
  [[noreturn]] void refuse_node(int32_t id) const;

  std::shared_ptr<const Registry> registry_;
  std::unique_ptr<GraphState> state_;
  const std::vector<std::unique_ptr<Node>>& nodes_;  // owned by the state
};

// The outputs dy_i/dx_j summed over i: one for each of `xs`, with the shape of that x; an undefined
// Output where no y depends on the x, or where x is not floating. The backward half is added to the
// graph as ordinary nodes, so it can be differentiated again. The backward nodes of node n are
// called "gradients/n/...", within the open scope, and have n's device, replica, partner and origin
// instead of that scope's. `y_gradients`: dL/dy for each y, ones when left out or undefined.
// Throws: Error(invalid_argument) for an op on the way that has no gradient, naming it. Implemented
// in gradients/gradient.cpp.
std::vector<Output> gradients(const std::vector<Output>& ys, const std::vector<Output>& xs,
                              const std::vector<Output>& y_gradients = {},
                              Origin at = Origin::here());

// The graph as text, one node a line (format: graph/text.cpp), and back: the text of to_text()
// reads back as an equal graph. Throws: Error(bad_data) with the line of a cycle, a missing input,
// an unknown op or any other mistake, and for a text of another version.
std::string to_text(const Graph& graph);
std::unique_ptr<Graph> graph_from_text(const std::string& text,
                                       std::shared_ptr<const Registry> registry = builtin_ops());

// The result of one pass over the graph of a call.
struct PassResult {
  std::string pass;
  int64_t nodes_before = 0, nodes_after = 0;
  std::string graph;  // as to_text() writes it
};
// The graph after each pass for a call with these fetches and feeds, in order; the first pass
// prunes the graph to the nodes that the call needs. Nothing is placed here: nodes have the devices
// that they request, while in a session they have the devices that they got. Throws:
// Error(invalid_argument) for a fetch or feed that is undefined, of another graph, or fed twice.
// Implemented in placement/call_graph.cpp.
std::vector<PassResult> explain_passes(const Graph& graph, const std::vector<Output>& fetches,
                                       const std::vector<Output>& feeds = {});

// Graphviz. `device_of` gives a node's device for colours and clusters; may be empty.
std::string to_dot(const Graph& graph, const std::map<int32_t, std::string>& device_of = {});

// ----------------------------------------------------------------------------------------------
// recompute: trades time for memory. The backward half keeps no values of nodes made in such a
// scope: those it needs are computed again, from the inputs of the scope, right before it goes back
// through the scope (gradient checkpointing; Griewank and Walther 2000, Chen et al. 2016).
// Implemented in gradients/recompute.cpp.
//
//   {
//     const auto scope = recompute(graph, "block1");
//     x = nn::residual_block(model, x, 16);
//   }
//   const Output update = minimize(loss, momentum(0.1));  // or gradients()
//
// Values and gradients keep every bit: random numbers are drawn again with the same key. Not
// computed again, but kept: parameters, feeds, queues and everything else with state; branches and
// loops, which have a `recompute` of their own (troupe/ops/control_flow.hpp); and the values that a
// backward function of with_gradient() reads itself. A nested scope is computed again twice, and
// the outer scope then holds less at once.
//
// The scopes are part of the Graph object only: writing a graph and reading it back, or copying it,
// loses them. The nodes that gradients() has made for them stay, as ordinary nodes.

// Nodes added while it is open are computed again. `name`: as ScopeSpec::name; empty: names are not
// nested. Throws: Error(invalid_argument) for a bad name.
[[nodiscard]] Graph::Scope recompute(Graph& graph, std::string name = {},
                                     Origin at = Origin::here());

// The cost and saving of a scope in a call. Dimensions that only a step knows count as 1.
struct RecomputedScope {
  std::string name;
  int64_t nodes = 0;  // nodes that run again
  double flops = 0;   // of products and the like among them (Op::flops), if shapes are known
  // Inputs of the scope that are kept until the backward half needs them, without those that have
  // state.
  int64_t kept_bytes = 0;
  // Values of its nodes that the backward half would read, and that need not be kept any more.
  int64_t freed_bytes = 0;
};
// By scope, in the order in which they were opened. Left out: scopes of which the call computes
// nothing again. Empty for a graph that was read from text. Throws: Error(invalid_argument) for
// fetches and feeds as explain_passes() does.
std::vector<RecomputedScope> recomputed(const Graph& graph, const std::vector<Output>& fetches,
                                        const std::vector<Output>& feeds = {});

// ----------------------------------------------------------------------------------------------
// The memory that a step of a call takes on each device, planned before it runs: how long each
// value lives, which value takes over the memory of another, and the peak. The plan assumes a step
// that fires its nodes one after the other and has the device to itself. Implemented in
// placement/memory_plan.cpp.

struct MemoryPlan {
  // A value that is alive when most memory is in use.
  struct Value {
    std::string name;  // "fc1/MatMul:0"
    TensorType type;
    int64_t bytes = 0;
    std::string first, last;  // nodes: the one that makes it, and the last one that reads it
  };
  std::string device;
  int64_t values = 0;       // values that the step makes and that are not in place of another
  int64_t naive_bytes = 0;  // of all values that nodes make, as if no memory were reused
  int64_t peak_bytes = 0;   // the most at once: no plan takes less with this order of nodes
  int64_t pool_bytes = 0;   // the same in blocks of the device's pool
  // One block of memory in which each value has a fixed place, chosen by size, the largest first
  // (Pisarchyk and Lee 2020). -1: more than 20,000 values, too many to find out.
  int64_t arena_bytes = 0;
  int64_t in_place = 0;        // values that take over the memory of an input
  std::string peak_at;         // the node that fires at the peak
  std::vector<Value> largest;  // alive at the peak, at most ten, by size
  // The number of values that are left out because only a step knows their shapes. One iteration of
  // a loop's body is counted, without the values that it saves for its gradient. Scratch of
  // kernels, parameters, constants and feeds are not counted.
  int64_t unknown = 0;
};

// By device, the client's first. Nodes stand on the devices they request; a missing part of a
// request is taken from /job:local/task:0/device:cpu:0. The passes run first. Throws: as
// explain_passes(); Error(invalid_argument), as a session would, for requests that cannot be met.
std::vector<MemoryPlan> explain_memory(const Graph& graph, const std::vector<Output>& fetches,
                                       const std::vector<Output>& feeds = {});
std::string to_text(const MemoryPlan& plan);  // lines for people

}  // namespace troupe
