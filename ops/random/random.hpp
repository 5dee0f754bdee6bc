// Shared by the random ops: a node's numbers are determined by its attributes seed, key and
// replica, by the training step or, outside training, the run (RunContext::draws), and by the
// iteration or function call around it, which is its last inputs. Also the common parts of the ops
// without other inputs, which draw a whole tensor.
#pragma once

#include <algorithm>
#include <array>

#include "devices/kernel_call.hpp"
#include "devices/threads/isa.hpp"
#include "ops/support/node.hpp"
#include "graph/base/philox.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {

// `key` names the numbers: nodes with the same key, seed and replica draw the same numbers in a
// step. Empty: the node's name.
inline std::vector<AttrSpec> with_random_attrs(std::vector<AttrSpec> attrs) {
  attrs.push_back({"seed", AttrKind::integer, int64_t{0}});
  attrs.push_back({"key", AttrKind::text, std::string()});
  attrs.push_back({"replica", AttrKind::integer, int64_t{0}});
  return attrs;
}

// The last of an op's input names: the path, whose values come from troupe/ops/control_flow.hpp.
inline constexpr const char* kPathInput = "path...?";

// The number of a node's inputs before its path.
inline size_t inputs_before_path(const Node& node) { return node.op->inputs.size() - 1; }

// Adds a node, to the graph of its inputs or to `graph`, that draws other numbers in each iteration
// and function call.
inline Output add_drawing(Graph& graph, NodeSpec spec, Origin at) {
  for (const Output& value : iteration_path(graph)) spec.inputs.push_back(value);
  return graph.add(std::move(spec), at);
}
inline Output add_drawing(NodeSpec spec, Origin at) {
  for (const Output& input : spec.inputs)
    if (input.defined()) return add_drawing(*input.graph, std::move(spec), at);
  return add_node(std::move(spec), at);  // throws
}

inline const std::string& random_key(const Node& node) {
  const auto& key = node.attr<std::string>("key");
  return key.empty() ? node.name : key;
}

// Every random op has one of these: the second has no other inputs.
inline constexpr OpProperties kRandom = {.random = true};
inline constexpr OpProperties kRandomSource = {.draws = true, .random = true};

// For infer_shapes. Throws: Error if the path is not made of i64 scalars.
inline void check_path(const InferContext& ctx) {
  for (auto i = static_cast<int>(inputs_before_path(ctx.node())); i < ctx.input_count(); ++i)
    if (ctx.dtype(i) != DType::i64 || ctx.input(i).ndim() != 0)
      throw ctx.error("wants i64 scalars behind its other inputs, the iterations that it is in, ",
                      "got ", ctx.dtype(i), ctx.input(i));
}

// For infer_shapes. Throws: the same, and Error for a replica that does not fit the counter.
inline void check_random_attrs(const InferContext& ctx) {
  check_path(ctx);
  const int64_t replica = ctx.attr<int64_t>("replica");
  if (replica < 0 || replica >= RandomStream::kReplicasMax)
    throw ctx.error("wants a replica from 0 to ", RandomStream::kReplicasMax - 1, ", got ",
                    replica);
}

// An op that draws y in attribute shape, with the dtype of one of two kernels by attribute dtype
// (the first kernel's by default). `attrs` describe the distribution of y, and infer_shapes begins
// with drawn_shape().
inline Op drawing_op(std::string name, std::vector<AttrSpec> attrs,
                     std::vector<Shape> (*infer_shapes)(const InferContext&), Kernel first,
                     Kernel second) {
  attrs.push_back({"shape", AttrKind::shape});
  attrs.push_back({"dtype", AttrKind::dtype, first.dtype});
  return {.name = std::move(name),
          .inputs = {kPathInput},
          .outputs = {"y"},
          .attrs = with_random_attrs(std::move(attrs)),
          .infer_dtypes = infer_dtype_attr,
          .infer_shapes = infer_shapes,
          .no_gradient = "what it draws depends on nothing that has a gradient",
          .kernels = {first, second},
          .dispatch = -1,
          .stateful = true,
          .properties = &kRandomSource};
}

// Throws: Error from ctx for a dtype without a kernel, a replica out of range, or a shape with -1.
inline const Shape& drawn_shape(const InferContext& ctx) {
  require_kernel(ctx, ctx.attr<DType>("dtype"));
  check_random_attrs(ctx);
  const Shape& shape = ctx.attr<Shape>("shape");
  if (!shape.is_known()) throw ctx.error("wants a shape without -1, got ", shape);
  return shape;
}

inline RandomStream random_stream(const KernelContext& ctx) {
  const uint64_t draws = KernelCall::of(ctx).run().draws;
  RandomStream stream(ctx.attr<int64_t>("seed"), random_key(ctx.node()), draws ? 0 : ctx.step(),
                      ctx.attr<int64_t>("replica"));
  if (draws) stream.enter_run(draws);
  for (auto i = static_cast<int>(inputs_before_path(ctx.node())); i < ctx.input_count(); ++i)
    stream.enter(ctx.input(i).item<int64_t>());
  return stream;
}

struct BlocksLoop {
  static void run(const RandomStream* stream, uint64_t block,
                  uint32_t (*words)[4 * RandomStream::kBlocks]) {
    stream->blocks(block, *words);
  }
};

// The numbers of a stream, two from each block. Number i consists of words 2 * (i % 2) (low) and 2
// * (i % 2) + 1 (high) of block i / 2.
class RandomNumbers {
 public:
  // For about `count` numbers beside each other.
  RandomNumbers(const RandomStream& random, int64_t count)
      : random_(random), shift_(count > 8 ? kShift : 1) {}
  uint64_t bits(uint64_t i) {
    if (i >> shift_ != drawn_) draw(i >> shift_);
    const uint64_t at = i & ((uint64_t{1} << shift_) - 1);
    return uint64_t{words_[2 * at + 1]} << 32 | words_[2 * at];
  }
  // In [0, 1), from the 53 upper bits.
  double unit(uint64_t i) { return static_cast<double>(bits(i) >> 11) * 0x1p-53; }
  // In [0, n): the upper half of bits * n. The probability of a number is off by at most 2^-64.
  uint64_t below(uint64_t i, uint64_t n) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(bits(i)) * n >> 64);
  }

 private:
  static constexpr int kShift = 7;  // numbers of a group of blocks, as a power of two
  static_assert(2 * RandomStream::kBlocks == 1 << kShift);

  void draw(uint64_t group) {
    drawn_ = group;
    if (shift_ == kShift)
      in_isa<BlocksLoop>(&random_, group * RandomStream::kBlocks, &words_);
    else
      std::copy_n(random_.block(group).begin(), 4, words_);
  }

  RandomStream random_;
  const int shift_;
  uint64_t drawn_ = ~uint64_t{0};  // the numbers i with i >> shift_ == drawn_ are in words_
  uint32_t words_[4 * RandomStream::kBlocks];
};

}  // namespace troupe
