// The parts of ops and kernels that the library alone uses: control flow, joins, and kernels that
// run as one pass over memory. Part of the implementation of troupe/op.hpp.
#pragma once

#include <string>

#include "troupe/op.hpp"

namespace troupe {

// The role of a node in the frames of a graph (Node::frame). The engine compiles the role, and
// knows no op by name; the functions of troupe/ops/control_flow.hpp build with these.
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

// For a backward op that reads an input of an earlier node: the two can become one node, so that
// the input is read once (placement/passes/join.cpp).
struct OpJoin {
  // The op of the earlier node. Its inputs are this op's last ones; it has one output, with the
  // shape of its input `like`. Neither op has attributes.
  std::string with;
  int like = 0;
  std::string into;  // an op with this op's inputs and outputs, then the output of `with`
};

// The argument of Kernel::elements: contiguous elements. An op has that function if it computes
// each element of its one output from the elements of its inputs that broadcast to it, and refuses
// no values; it gives them the bits that `run` gives them at any position. So several such ops can
// be one pass over memory (placement/passes/fuse.cpp).
struct ElementRun {
  static constexpr int kInputsMax = 3;
  const Node* node = nullptr;
  const void* inputs[kInputsMax] = {};  // the first element of each
  bool once[kInputsMax] = {};           // one element that serves all elements of the output
  void* output = nullptr;  // may be an input with elements of the same size that is not `once`
  int64_t n = 0;           // elements of the output, at least 1
};

// Throws: Error(invalid_argument): the `who` ("kernel") of the op of `node` asks for `what`
// ("input") number i, but there are `count`.
[[noreturn]] void refuse_index(const Node& node, const char* who, const char* what, int i,
                               size_t count);

// The kernel of `node` on a device kind: the one for its dispatch dtype, else the one for any
// dtype. nullptr if there is none.
const Kernel* find_kernel(const Node& node, DeviceKind device);
DType dispatch_dtype(const Node& node);

}  // namespace troupe
