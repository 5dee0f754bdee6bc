// Graph: what a program is. Nodes are added and never changed; nothing runs until a Session is
// asked. Implemented in graph/graph.cpp, graph/text.cpp, graph/dot.cpp and gradients/gradient.cpp.
// One thread builds; once built, any thread may read.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "troupe/tensor.hpp"

namespace troupe {

struct Op;
class Registry;
std::shared_ptr<const Registry> builtin_ops();  // troupe/op.hpp
class Graph;

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

// One output of one node, by number. A node without outputs is named by index 0: "that it has run".
struct Output {
  Graph* graph = nullptr;
  int32_t node = -1;
  int32_t index = 0;

  bool defined() const { return graph != nullptr; }
  // Requires: defined(). Throws: Error(invalid_argument) for a node that is not there or has no
  // such output.
  DType dtype() const;
  const Shape& shape() const;
  const std::string& name() const;  // of the node
  friend bool operator==(const Output&, const Output&) = default;
  friend auto operator<=>(const Output&, const Output&) = default;
};

struct Node {
  int32_t id = -1;
  // The node that opens the frame that this one is in: a branch, or the body of a loop
  // (troupe/ops/control_flow.hpp). -1: none. Frames nest as their openers do.
  int32_t frame = -1;
  int32_t recompute = -1;  // which of Graph::recompute_scopes() it was made in; -1: none
  std::string name;        // unique in its graph, with its scopes: "tower0/fc1/MatMul"
  const Op* op = nullptr;
  std::vector<Output> inputs;
  std::vector<int32_t> control_inputs;  // nodes that must have run before
  Attrs attrs;
  std::string device;  // as requested: "/job:ps/task:1/device:cpu:0", in part, or empty
  // Attribute "replica", else that of the scope: nodes made on behalf of this one have it, too.
  // Text and wire forms hold the attribute alone.
  int64_t replica = 0;
  std::string colocate_with;  // a node's name, or empty
  std::vector<TensorType> outputs;
  std::string file;  // origin, for messages
  int line = 0;

  // Throws: InternalError if it is missing or of another type (schemas are checked while building).
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

// What Graph::add() is told. Inference fills in the rest.
struct NodeSpec {
  std::string_view op;
  std::vector<Output> inputs = {};
  Attrs attrs = {};
  // Within the current scope; empty: the op's name. Made unique by "_1", "_2", ...
  std::string_view name = {};
  std::vector<int32_t> control_inputs = {};
};

class Graph {
 public:
  explicit Graph(std::shared_ptr<const Registry> registry = builtin_ops());
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  // Adds a node, infers its outputs, and returns its first one.
  // Throws: Error(invalid_argument) naming node, op, origin, shapes and what would be right.
  Output add(NodeSpec spec, Origin at = Origin::here());

  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  // Throws: Error(invalid_argument) for a number that is not there.
  const Node& node(int32_t id) const {
    if (id < 0 || id >= static_cast<int32_t>(nodes_.size())) [[unlikely]]
      refuse_node(id);
    return *nodes_[static_cast<size_t>(id)];
  }
  const Node* find(std::string_view name) const;  // nullptr if there is none
  // Of "fc1/MatMul" or "split:1". Throws: Error(invalid_argument) with the nearest name, or with
  // how many outputs there are.
  Output output(std::string_view name_and_index, Origin at = Origin::here()) const;
  // The nodes `ids`, which grow and hold all that these nodes read or run after, as a graph of its
  // own, numbered anew; values of attributes are shared. Without open scopes, and without what
  // set_backward() was told and what is to be computed again.
  std::unique_ptr<Graph> copy(const std::vector<int32_t>& ids) const;
  const Registry& registry() const { return *registry_; }
  std::shared_ptr<const Registry> shared_registry() const { return registry_; }

  // What the nodes added next have in common. Fields that are not given keep their outer value;
  // names nest.
  struct ScopeSpec {
    std::string name = {};
    // "/job:worker/task:1"; missing parts come from the outer scope; "": any.
    std::optional<std::string> device = {};
    std::optional<int64_t> replica = {};  // which replica reads, pushes and draws random numbers
    std::optional<std::string> colocate_with = {};  // a node's name; "": with nobody
    std::vector<int32_t> control_inputs = {};       // added to those of the outer scope
    // Said to be where the nodes were made, whatever add() is told.
    std::optional<Origin> origin = {};
    // true: gradients() reads copies of the nodes, which compute their values again from what the
    // scope reads when the backward half needs them, so that these need not be kept until then
    // (troupe/graph/recompute.hpp). false: not in such a scope, whatever is open.
    std::optional<bool> recompute = {};
    // Mixed precision: bf16 or f16, the dtype of products of f32 values; f32 or none: off. Each
    // node gets casts before it as its op's Precision says. See
    // troupe/training/mixed_precision.hpp.
    std::optional<DType> compute = {};
  };
  // Open until the object dies. Scopes close in the reverse order.
  class Scope {
   public:
    Scope(Scope&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
    Scope& operator=(Scope&&) = delete;
    ~Scope();

   private:
    friend class Graph;
    explicit Scope(Graph* graph) : graph_(graph) {}
    Graph* graph_;
  };
  // Throws: Error(invalid_argument) for a bad name, device or replica, or a node there is not.
  [[nodiscard]] Scope scope(ScopeSpec spec, Origin at = Origin::here());

  // ---- frames ----
  // What stands for a value of a frame that does not enclose the open one: how a loop that goes
  // back reads what the loop that went forward had.
  using Route = std::function<Output(Output)>;
  // Nodes added while it is open are in the frame that node `opener` opens (-1: in none). What they
  // read of enclosing frames is captured, once a scope; what has no inputs runs after the opener.
  // `elsewhere`: for values of other frames; left out, that of the open scope. Throws:
  // Error(invalid_argument) for a node that opens none.
  [[nodiscard]] Scope open_frame(int32_t opener, Route elsewhere = {}, Origin at = Origin::here());
  int32_t frame() const;  // the open one; -1: none
  // `value` as nodes of the open frame read it: itself, or a Capture node of it.
  // Throws: Error(invalid_argument) for a value of a frame that does not enclose the open one.
  Output captured(Output value, Origin at = Origin::here());
  bool encloses(int32_t outer, int32_t inner) const;  // or is the same

  int64_t replica() const;     // of the innermost scope that names one, else 0
  std::string device() const;  // what the open scopes request for the next node; "": any
  DType compute() const;       // bf16 or f16 in a scope of mixed precision, else none

  // How gradients() goes back through a node instead of asking its op; with_gradient() sets it.
  // Part of this object only: a graph that is written down and read again has forgotten it.
  struct Backward {
    std::vector<Output> inputs;  // gradients go to these, whatever the node's own inputs are
    // One for each of `inputs`; undefined: none.
    std::function<std::vector<Output>(Output output_gradient)> build;
  };
  // Requires: the node has exactly one output, and the inputs are earlier.
  void set_backward(int32_t node, Backward backward);
  const Backward* backward(int32_t node) const;  // nullptr if there is none

  // ---- what gradients() computes again (gradients/recompute.cpp) ----
  struct RecomputeScope {
    std::string name;            // what names in it begin with: "block1"
    int32_t parent = -1;         // the one it was opened in
    int32_t frame = -1;          // the one that was open
    std::vector<int32_t> nodes;  // by id, those of scopes in it as well
  };
  const std::vector<RecomputeScope>& recompute_scopes() const { return recompute_scopes_; }
  // The node that this one computes again; itself if it is no such copy. Part of this object only,
  // as what set_backward() was told.
  int32_t original(int32_t node) const;
  void set_original(int32_t copy, int32_t original);  // requires: an earlier node with its outputs

 private:
  friend class GraphEditor;  // placement/passes/rewrite.cpp: passes, on a copy of their own
  struct OpenScope;
  [[noreturn]] void refuse_node(int32_t id) const;
  std::string unique_name(std::string_view wanted);
  Output enter(Output value, int32_t frame, const Node& reader, Origin at);
  void check_reach(const Output& value, int32_t frame, const Node& reader) const;
  void enter_frame(Node& node, Origin at);
  void cast_inputs(const Op& op, std::vector<Output>& inputs, Origin at);

  std::shared_ptr<const Registry> registry_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::string, int32_t, std::less<>> by_name_;
  std::map<std::string, int64_t, std::less<>> next_suffix_;  // where to look for a free name
  std::vector<OpenScope> scopes_;
  std::map<int32_t, Backward> backwards_;
  std::vector<RecomputeScope> recompute_scopes_;
  std::map<int32_t, int32_t> originals_;  // copy -> the node that it computes again
};

// The outputs dy_i/dx_j summed over i: one for each of `xs`, with the shape of that x; an undefined
// Output where no y depends on the x, or where it is not floating. The backward half is added to
// the graph as ordinary nodes, so it can be differentiated again. What goes back through node n is
// called "gradients/n/...", within the open scope, and has n's device, replica, partner and origin
// instead of that scope's. `y_gradients`: dL/dy for each y, ones when left out or undefined.
// Throws: Error(invalid_argument) for an op on the way that has no gradient, naming it.
// Implemented in gradients/gradient.cpp.
std::vector<Output> gradients(const std::vector<Output>& ys, const std::vector<Output>& xs,
                              const std::vector<Output>& y_gradients = {},
                              Origin at = Origin::here());

// The graph as text, one node a line (graph/text.cpp says how), and back: what to_text() wrote
// reads back equal. Throws: Error(bad_data) with the line of a cycle, a missing input, an unknown
// op, or whatever else is wrong, and for a text of another version.
std::string to_text(const Graph& graph);
std::unique_ptr<Graph> graph_from_text(const std::string& text,
                                       std::shared_ptr<const Registry> registry = builtin_ops());

// What one pass has made of the graph of a call.
struct PassResult {
  std::string pass;
  int64_t nodes_before = 0, nodes_after = 0;
  std::string graph;  // as to_text() writes it
};
// What the passes make of `graph` for a call with these fetches and feeds, one after the other; the
// first one leaves what the call needs. Nothing is placed here: nodes have the devices they ask
// for, where a session has those they got. Throws: Error(invalid_argument) for a fetch or feed that
// is undefined, of another graph, or fed twice. Implemented in placement/call_graph.cpp.
std::vector<PassResult> explain_passes(const Graph& graph, const std::vector<Output>& fetches,
                                       const std::vector<Output>& feeds = {});

// Graphviz. `device_of` gives a node's device for colouring and clustering; may be empty.
std::string to_dot(const Graph& graph, const std::map<int32_t, std::string>& device_of = {});

}  // namespace troupe
