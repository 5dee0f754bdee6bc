// NodeCosts: the measured firing times of nodes. A executor that is compiled later for the same
// node begins with the measurements of an earlier one: of another call, of another session of the
// graph, or of the same call before a process was lost.
//
// One object for an operating system process, bounded; any thread. The costs decide where a kernel
// runs, never its result.
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

  // Nodes of one name, op and types on devices of one kind share a Cost. Its address is stable as
  // long as this object lives.
  Cost& of(const Node& node, DeviceKind device);

  // The object that is filled now. Past kNodesMax a new one begins; the old one lives on as long as
  // it has users.
  static std::shared_ptr<NodeCosts> of_process();
  static constexpr size_t kNodesMax = size_t{1} << 18;  // about 20 MB

 private:
  bool full() const;

  mutable std::mutex mutex_;  // guards the rest; the values of a Cost need no lock
  std::deque<Cost> costs_;
  std::unordered_map<uint64_t, Cost*> by_node_;
};

// More floating-point operations than a core can do in 20 us: a node with more of them is worth a
// lane of its own even before it has been measured.
inline constexpr int64_t kManyFlops = 8'000'000;
// More bytes than most cores write in that time.
inline constexpr int64_t kManyBytes = int64_t{2} << 20;

}  // namespace troupe
