// Graphs as protobuf (net/wire/graph.proto): how they travel between processes. The bytes are
// deterministic, and a graph that is read back is equal. Implemented in net/wire/graph_proto.cpp.
#pragma once

#include <memory>
#include <string>

#include "troupe/graph.hpp"

namespace troupe {

// Format version; readers refuse newer ones.
inline constexpr uint32_t kGraphVersion = 2;
// Larger ones are refused before anything is read. A graph travels as one control message, of which
// net/caf/caf_bridge.hpp allows 64 MiB.
inline constexpr size_t kGraphBytesMax = size_t{60} << 20;
inline constexpr int kGraphNodesMax = 4'000'000;

std::string graph_to_proto(const Graph& graph);
// Throws: Error(bad_data) naming the node and what is wrong: cut or corrupt bytes, a newer version,
// an unknown op, a missing input or a cycle, a name twice, a shape past all bounds, types that the
// op refuses.
std::unique_ptr<Graph> graph_from_proto(const std::string& bytes,
                                        std::shared_ptr<const Registry> registry = builtin_ops());

}  // namespace troupe
