// Replacement: a kernel that takes the place of a node's own in a graph that runs. Steps that begin
// afterwards fire it, and none is held up or lost: the firing loop reads one pointer of the node.
// The type of the node stays what it is. A node that has become part of another one
// (placement/passes/fuse.cpp) is replaced in there: that one then fires its members one by one
// (Op::replaced).
//
// Owner: the executor of the program. Thread: any.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/engine/program/program.hpp"
#include "devices/kernel_call.hpp"
#include "troupe/op.hpp"

namespace troupe {

// Its schema is that of the node's op: inputs, outputs, attributes, state; and its rules give the
// node the types that it has. Throws: Error(invalid_argument) saying what differs.
void check_replacement(const Node& node, const Op& op);

// The op of `node` with this kernel and no other. Throws: Error(invalid_argument) for one without a
// function.
std::shared_ptr<const Op> op_with_kernel(const Node& node, const Kernel& kernel);

// Made when it is known to fit, so that nothing can fail once it is put in.
struct Replacement {
  // `index`: of the node in its program. Throws: as check_replacement(), and
  // Error(invalid_argument) if `op` has no kernel of the same kind for `device`.
  Replacement(uint32_t index, const Node& replaced, const Kernel& replaced_kernel,
              std::shared_ptr<const Op> op, DeviceKind device, const std::string& where);
  Replacement(const Replacement&) = delete;

  const uint32_t index;
  const std::shared_ptr<const Op> op;
  Node node;  // with the new op
  NodeView view;
};

// A kernel for the node of that name; null if that node does not fire in `program`. Throws: as
// check_replacement().
std::unique_ptr<Replacement> make_replacement(const Program& program, DeviceKind device,
                                              const std::string& name,
                                              const std::shared_ptr<const Op>& op);

// The replacements of a program, all there ever were: a running step may still fire an older one.
class Replacements {
 public:
  // Steps that begin from now on fire it, and those that run may.
  void put(FiringNode& node, std::unique_ptr<Replacement> replacement);

 private:
  std::mutex mutex_;  // guards the next
  std::vector<std::unique_ptr<Replacement>> all_;
};

}  // namespace troupe
