// A program of element-wise ops as one pass over memory: a block of elements goes through all of
// them before the next one is touched, so what is between the ops stays in the nearest cache. Each
// op computes its elements by its kernel's `elements`, so the bits are those of the ops one by one.
//
// The program is a graph whose nodes have one output each (ops/elementwise/fused.cpp); a value is
// known by the number of its node.
#pragma once

#include <vector>

#include "graph/op.hpp"
#include "ops/support/broadcast.hpp"
#include "troupe/op.hpp"

namespace troupe {

// Values that a program may have.
constexpr int kElementValuesMax = 128;

// A pass over inputs and outputs of known shapes. Immutable: threads may run parts of it at once.
class ElementPass {
 public:
  // Computes those of `outputs` whose shape is `shape`, and what they need of the others. The steps
  // are the nodes from `first_step` on; values of earlier nodes are given. `shapes`: by value.
  // Requires: steps are nodes with a kernel that has `elements`; no more than kElementValuesMax
  // nodes; what an output needs broadcasts to its shape. An output of -1 is no value of a step.
  // `taken`: a step's value of that shape, for run_taken(); -1: none.
  ElementPass(const Graph& program, int32_t first_step, const std::vector<int32_t>& outputs,
              const Shape& shape, const std::vector<Shape>& shapes, int32_t taken = -1);

  int64_t size() const { return size_; }  // elements of an output

  // Elements [begin, begin + n) of the outputs. `given`: by value, those before the first step;
  // `outputs`: in the constructor's order. An output may have the memory of a given value of its
  // size and dtype that no later step reads.
  void run(const void* const* given, void* const* outputs, int64_t begin, int64_t n) const {
    run_parts(given, outputs, begin, n, nullptr);
  }

  // The op that takes a value as it is computed (KernelCall::take).
  struct Taker {
    int64_t unit = 1;
    void (*part)(const void* context, const void* x, int64_t at, int64_t count) = nullptr;
    const void* context = nullptr;
  };
  // The same, and the elements of `taken` are handed over in their order.
  void run_taken(const void* const* given, void* const* outputs, int64_t begin, int64_t n,
                 const Taker& taker) const {
    run_parts(given, outputs, begin, n, &taker);
  }

 private:
  // A given value, and how a block of it is found.
  struct Leaf {
    enum class Way : uint8_t {
      whole,       // it has `shape`
      once,        // one element
      once_a_row,  // the same in each row; blocks end where it does
      long_rows,   // repeated as a whole; blocks end where it does
      short_rows,  // the same, repeated in a buffer before the first block
      gathered,    // any other broadcast, written to a buffer for each block
    };
    int32_t value = -1;
    Way way = Way::whole;
    int8_t element_size = 0;
    int64_t period = 0;  // elements of a row
    int64_t buffer = 0;  // offset in bytes
  };
  struct Step {
    const Node* node = nullptr;
    void (*elements)(const ElementRun&) = nullptr;
    int32_t value = -1;  // its node's number
    int arity = 0;
    int32_t inputs[ElementRun::kInputsMax] = {};
    int64_t element_size = 0;
    int output = -1;     // its place among the outputs, or
    bool kept = false;   // in a buffer for one part that is taken, or
    int32_t cell = -1;   // which of the buffers for one block
    int64_t buffer = 0;  // offset in bytes

    bool has_place() const { return output >= 0 || kept || cell >= 0; }
  };

  std::vector<bool> needed(const Graph& program, int32_t first_step,
                           const std::vector<int32_t>& outputs, const std::vector<Shape>& shapes,
                           int32_t taken) const;
  void add_leaf(const Node& node, const Shape& shape);
  void add_step(const Node& node, const std::vector<int32_t>& outputs,
                const std::vector<Shape>& shapes, int32_t taken);
  int32_t assign_cells(size_t values);  // how many there are
  void place_buffers(int32_t cells);
  int64_t next_block(int64_t at, int64_t end) const;
  int64_t part_of(int64_t at, int64_t end, int64_t unit) const;
  void run_parts(const void* const* given, void* const* outputs, int64_t begin, int64_t n,
                 const Taker* taker) const;

  // In the order in which a pass looks at them, close together: of thousands of small passes in a
  // step, each finds its own far from a core.
  int64_t size_ = 0;
  int64_t length_ = 0;  // elements of a block, at most
  std::vector<Leaf> leaves_;
  std::vector<Step> steps_;
  int taken_ = -1;                    // among the steps
  std::vector<BroadcastWalk> walks_;  // of the leaves
  Shape shape_;
};

}  // namespace troupe
