// Graphs as protobuf (net/wire/graph.proto), the form in which they travel between processes. The
// bytes are deterministic, and reading them back gives an equal graph. Implemented in
// net/wire/graph_proto.cpp.
// Owner: none, functions only. Thread: any.
#pragma once

#include <memory>
#include <string>

#include "troupe/graph.hpp"

namespace troupe {

// Format version; readers refuse newer ones.
inline constexpr uint32_t kGraphVersion = 2;
// Larger inputs are refused before parsing. A graph travels as one control message, which
// net/caf/caf_bridge.hpp limits to 64 MiB.
inline constexpr size_t kGraphBytesMax = size_t{60} << 20;
inline constexpr int kGraphNodesMax = 4'000'000;

std::string graph_to_proto(const Graph& graph);
// Throws: Error(bad_data) with the node and the fault: truncated or corrupt bytes, a newer version,
// an unknown op, a missing input, a cycle, a duplicate name, a shape beyond the bounds, types that
// the op refuses.
std::unique_ptr<Graph> graph_from_proto(const std::string& bytes,
                                        std::shared_ptr<const Registry> registry = builtin_ops());

}  // namespace troupe
