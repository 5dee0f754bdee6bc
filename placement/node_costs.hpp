// NodeCosts: what firing each node took, measured while graphs run. A stage that is compiled later
// for the same node begins with what an earlier one has measured: one of another call, of another
// session of the graph, or of the same call before a process was lost.
//
// One for an operating system process, bounded; any thread. Values decide where a kernel runs,
// never what it computes.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "graph/flops.hpp"
#include "troupe/op.hpp"

namespace troupe {

class NodeCosts {
 public:
  using Cost = std::atomic<int64_t>;  // nanoseconds; 0: not measured

  // Nodes of one name, op and types on devices of one kind share theirs. It stays where it is as
  // long as this lives.
  Cost& of(const Node& node, DeviceKind device);

  // The one that is filled now. Past kNodesMax a new one begins; the other lives on with those who
  // use it.
  static std::shared_ptr<NodeCosts> of_process();
  static constexpr size_t kNodesMax = size_t{1} << 18;  // about 20 MB

 private:
  bool full() const;

  mutable std::mutex mutex_;  // guards the rest; what stands in a Cost needs none
  std::deque<Cost> costs_;
  std::unordered_map<uint64_t, Cost*> by_node_;
};

// No core does so many floating-point operations within 20 us: a node that does more is worth a
// lane of its own before anybody has measured it.
inline constexpr int64_t kManyFlops = 8'000'000;
// Few write so many bytes then.
inline constexpr int64_t kManyBytes = int64_t{2} << 20;

}  // namespace troupe
