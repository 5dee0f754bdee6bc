// OpProperties: facts about an op that passes, placement, the engine and the shards ask for instead
// of its name. A built-in op states them in ops/, beside its kernels. Most ops state none, and are
// left as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/op.hpp"

namespace troupe {

// Equalities that hold bit for bit, for all values (placement/passes/simplify.cpp).
struct Identities {
  // x op e is x if all elements of e are this value; `either_side`: so is e op x.
  struct Neutral {
    double real = 0, integer = 0;
    bool either_side = false;
  };
  std::optional<Neutral> neutral = {};
  // True: output 0 is input 0, provided that they have one type.
  bool (*passes_on)(const Node& node) = nullptr;
  // For a node that reads `inner`, a node of the same op. True: output 0 is the input of `inner`,
  // provided that they have one type.
  bool (*undoes)(const Node& node, const Node& inner) = nullptr;
  // The same: attributes of one node that gives output 0 from the input of `inner`; none if no node
  // does.
  std::optional<Attrs> (*composed)(const Node& node, const Node& inner) = nullptr;
};

// Dimension i of a transposed value is dimension [i] of the value before.
using DimensionOrder = std::vector<int64_t>;

// Takes numbers by dimension of the transposed value to the dimensions of the value before.
inline std::vector<int64_t> in_order_before(const DimensionOrder& order,
                                            const std::vector<int64_t>& numbers) {
  std::vector<int64_t> all(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) all[static_cast<size_t>(order[i])] = numbers[i];
  return all;
}

// The elements of its inputs that an op puts into its outputs, unchanged.
struct Arrangement {
  // Output 0 is input 0 transposed.
  DimensionOrder (*permutation)(const Node& node) = nullptr;
  // All inputs and output 0 have one number of dimensions. If they all are transposed by `order`:
  // the attributes of a node that gives the output before from the inputs before.
  Attrs (*reordered)(const Node& node, const DimensionOrder& order) = nullptr;
  // Its Kernel::elements may not be used in another order of dimensions.
  bool by_dimension = false;
  // Output 0 is input 0 repeated along these dimensions of output 0 (bit d: dimension d), and
  // before that divided by the number of repetitions if `shares`.
  struct Repeated {
    uint32_t dimensions = 0;
    bool shares = false;
  };
  Repeated (*repeated)(const Node& node) = nullptr;
  // The outputs are the parts of input 0 along this axis, one after the other.
  int (*cut_axis)(const Node& node) = nullptr;
  // Output 0 is the rows of input 0 that input 1 names; or zeros with the rows of input 0 at the
  // places that input 1 names.
  enum class Rows : uint8_t { none, taken, placed } rows = Rows::none;
};

// The effect of a node on a parameter of its replica.
struct ParameterUse {
  enum Kind : uint8_t {
    none,
    reads,
    reads_rows,
    pushes,  // sends the shards dL/d(parameter), all of it or some rows
    writes,  // changes the values without an optimizer
  } kind = none;
  const std::string& (*parameter)(const Node& node) = nullptr;  // its name
  const std::string& (*initial)(const Node& node) = nullptr;    // reads: the output to begin with
  // reads: the options of its table, as text (graph/table_options.hpp); empty: it is none
  const std::string& (*table)(const Node& node) = nullptr;
  const std::string& (*optimizer)(const Node& node) = nullptr;  // pushes: its text
  // reads: the node that pulls the rows `indices` alone, in place of a gather from `node`.
  NodeSpec (*rows)(const Node& node, Output indices) = nullptr;
  // pushes, of rows: attributes of a node that pushes each row, of `row_size` elements, for `times`
  // consecutive indices; none if `node` does so already.
  std::optional<Attrs> (*repeated)(const Node& node, int64_t times, int64_t row_size) = nullptr;
};

// The attributes of a node that opens, borders or calls a frame (ControlKind).
struct FrameAttributes {
  const std::string& (*function)(const Node& node) = nullptr;  // call: the name of its opener
  int64_t (*index)(const Node& node) = nullptr;     // argument; branch: its place in the choice
  int64_t (*branches)(const Node& node) = nullptr;  // branch: the size of the choice
  // loop: the most iterations in flight; function: the most calls inside each other
  int64_t (*at_most)(const Node& node) = nullptr;
};

// The source of records that a node reads (troupe/source.hpp).
struct InputUse {
  const std::string& (*source)(const Node& node) = nullptr;  // its text
  int64_t (*replicas)(const Node& node) = nullptr;
  bool (*ends)(const Node& node) = nullptr;  // a step after its end fails with end_of_data
};

struct OpProperties {
  Identities identities = {};
  Arrangement arrangement = {};
  ParameterUse parameter = {};
  FrameAttributes frame = {};
  InputUse input = {};
  const Tensor& (*constant)(const Node& node) = nullptr;  // the value of output 0, always
  // The graph whose work it does, as text.
  const std::string& (*program)(const Node& node) = nullptr;
  // The memory of its outputs is the step's, though it has no inputs and is stateful.
  bool draws = false;
  bool random = false;  // it makes random numbers, by RunContext::step or draws
};

inline const OpProperties& properties_of(const Node& node) {
  static constexpr OpProperties kNone;
  return node.op->properties ? *node.op->properties : kNone;
}

// The replica that the node's own attribute names, if its op has one; it is Node::replica as the
// graph was built. Defined in graph/graph.cpp.
std::optional<int64_t> own_replica(const Node& node);

}  // namespace troupe
