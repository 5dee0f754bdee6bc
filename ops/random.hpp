// What the random ops share: which numbers a node draws, by its attributes seed, key and slot and
// by the training step.
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

inline RandomStream random_stream(const KernelContext& ctx) {
  return {ctx.attr<int64_t>("seed"), random_key(ctx.node()), ctx.step().step,
          ctx.attr<int64_t>("slot")};
}

}  // namespace troupe
