// What the random ops share: which numbers a node draws, by its attributes seed, key and slot and
// by the training step; and what ops without inputs, which draw a whole tensor, have in common.
#pragma once

#include "ops/node.hpp"
#include "ops/philox.hpp"

namespace troupe {

// `key` names the numbers: nodes with the same key, seed and slot draw the same ones in a step.
// Empty: the node's name.
inline std::vector<AttrSpec> with_random_attrs(std::vector<AttrSpec> attrs) {
  attrs.push_back({"seed", AttrKind::integer, int64_t{0}});
  attrs.push_back({"key", AttrKind::text, std::string()});
  attrs.push_back({"slot", AttrKind::integer, int64_t{0}});
  return attrs;
}

inline const std::string& random_key(const Node& node) {
  const auto& key = node.attr<std::string>("key");
  return key.empty() ? node.name : key;
}

// For infer_shapes. Throws: Error for a slot that a counter cannot hold.
inline void check_random_attrs(const InferContext& ctx) {
  const int64_t slot = ctx.attr<int64_t>("slot");
  if (slot < 0 || slot >= RandomStream::kSlotsMax)
    throw ctx.error("wants a slot from 0 to ", RandomStream::kSlotsMax - 1, ", got ", slot);
}

// An op that draws y, f32 or f64 by attribute dtype, in attribute shape; `attrs` says how y is
// distributed, and infer_shapes begins with drawn_shape().
inline Op drawing_op(std::string name, std::vector<AttrSpec> attrs,
                     std::vector<Shape> (*infer_shapes)(const InferContext&), Kernel f32,
                     Kernel f64) {
  attrs.push_back({"shape", AttrKind::shape});
  attrs.push_back({"dtype", AttrKind::dtype, DType::f32});
  return {.name = std::move(name),
          .outputs = {"y"},
          .attrs = with_random_attrs(std::move(attrs)),
          .infer_dtypes = infer_dtype_attr,
          .infer_shapes = infer_shapes,
          .no_gradient = "it has no inputs",
          .kernels = {f32, f64},
          .dispatch = -1,
          .stateful = true};
}

// Throws: Error from ctx for a dtype that cannot be drawn, a slot out of range, a shape with -1.
inline const Shape& drawn_shape(const InferContext& ctx) {
  require_kernel(ctx, ctx.attr<DType>("dtype"));
  check_random_attrs(ctx);
  const Shape& shape = ctx.attr<Shape>("shape");
  if (!shape.is_known()) throw ctx.error("wants a shape without -1, got ", shape);
  return shape;
}

inline RandomStream random_stream(const KernelContext& ctx) {
  return {ctx.attr<int64_t>("seed"), random_key(ctx.node()), ctx.run().step,
          ctx.attr<int64_t>("slot")};
}

}  // namespace troupe
