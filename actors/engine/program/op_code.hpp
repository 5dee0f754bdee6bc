// OpCode: the code of one node: its op with its attributes, and the kernel as it was prepared for
// the device. The op actor of the node owns it, and the compiled node points to it. No field
// changes: other code takes its place as a whole (Session::become(), or an op actor that was
// killed).
//
// Other code makes outputs of the types that the node has. A node that does the work of several
// (placement/passes/fuse.cpp) takes another op for one of them: then it fires its members one by
// one (Op::replaced).
//
// Owner: the op actor; the executor keeps code that steps may still fire. Thread: any.
#pragma once

#include <memory>
#include <string>

#include "devices/kernel_call.hpp"
#include "troupe/op.hpp"

namespace troupe {

struct OpCode {
  // Prepares the kernel. Throws: its exceptions, naming the node.
  OpCode(const Node& node, const Kernel& kernel);  // of a graph that outlives the code
  OpCode(const NodeView& earlier, std::shared_ptr<const Op> op, const Node& node,
         const Kernel& kernel);
  OpCode(const OpCode&) = delete;

  const std::shared_ptr<const Op> op;         // null: the graph's
  const std::unique_ptr<const Node> changed;  // the node with `op`; null: the graph's node
  NodeView view;
};
using OpCodePtr = std::shared_ptr<const OpCode>;

// Makes the codes of a program in one block of memory, in the order in which they are asked for.
// The block lives until the last of them has gone.
class OpCodes {
 public:
  explicit OpCodes(size_t most);
  std::shared_ptr<OpCode> make(const Node& node, const Kernel& kernel);

 private:
  class Block;
  const std::shared_ptr<Block> block_;
};

// The same code, prepared again: for an op actor that was killed. Throws: as OpCode().
OpCodePtr prepared_again(const OpCode& code);

// Where an op is to fire.
struct OpPlace {
  DeviceKind kind = DeviceKind::cpu;
  std::string device;  // its name, for error texts
};

// True if the code does the work of the node of that name, alone or with that of others.
bool does_work_of(const NodeView& code, const std::string& name);

// The code of the same node with `op` for the node `name`, which is the node itself or one whose
// work it does. Throws: as OpCode(); Error(invalid_argument) if `op` does not fit: as
// check_replacement(), or because it has no kernel of the same kind there.
OpCodePtr with_op(const NodeView& code, const std::string& name,
                  const std::shared_ptr<const Op>& op, const OpPlace& place);

// For codes of one node: they do the same.
bool same(const OpCode& a, const OpCode& b);

// Requires of `op` the schema of the node's op (inputs, outputs, attributes, state) and that its
// rules give the node the types that it has. Throws: Error(invalid_argument) saying what differs.
void check_replacement(const Node& node, const Op& op);

// The op of `node` with this kernel and no other. Throws: Error(invalid_argument) for one without a
// function.
std::shared_ptr<const Op> op_with_kernel(const Node& node, const Kernel& kernel);

}  // namespace troupe
