// OrderBuffer: the events of the slices of a shard that are in no file yet.
// Owner: the shard and its rules. Thread: the shard's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "training/rules/order.hpp"

namespace troupe {

// Events of one shard, in the order of their slices, as a file has them.
struct OrderChunk {
  int64_t upto = -1;  // all events of steps before it are here, or in earlier ones
  std::map<uint32_t, std::string> events = {};              // by slice
  std::vector<std::pair<int64_t, std::string>> rules = {};  // that hold from a step on
};

class OrderBuffer {
 public:
  // From so many bytes on they are worth a write.
  static constexpr int64_t kDueBytes = int64_t{64} << 10;

  void add(uint32_t slice, const OrderEvent& event) {
    OrderWriter& writer = slices_[slice];
    const size_t before = writer.bytes().size();
    writer.add(event);
    bytes_ += static_cast<int64_t>(writer.bytes().size() - before);
  }
  void add_rule(int64_t step, std::string rule) { rules_.emplace_back(step, std::move(rule)); }
  bool due() const { return bytes_ >= kDueBytes; }
  OrderChunk take() {
    OrderChunk out;
    for (auto& [slice, writer] : slices_)
      if (!writer.bytes().empty()) out.events[slice] = writer.take();
    out.rules = std::exchange(rules_, {});
    bytes_ = 0;
    return out;
  }

 private:
  std::map<uint32_t, OrderWriter> slices_;
  std::vector<std::pair<int64_t, std::string>> rules_;
  int64_t bytes_ = 0;
};

}  // namespace troupe
