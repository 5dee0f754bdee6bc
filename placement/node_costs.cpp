// Measured costs of nodes, keyed by a hash of name, op, types and kind of device.
#include "placement/node_costs.hpp"

#include <string_view>

namespace troupe {
namespace {

// FNV-1a (Fowler, Noll and Vo 1991).
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0);
  }
  void add(int64_t number) {
    for (int shift = 0; shift < 64; shift += 8)
      add_byte(static_cast<unsigned char>(static_cast<uint64_t>(number) >> shift));
  }
  void add(const TensorType& type) {
    add(static_cast<int64_t>(type.dtype));
    add(type.shape.ndim());
    for (const int64_t size : type.shape.dims()) add(size);
  }
  uint64_t value() const { return value_; }

 private:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3ull; }
  uint64_t value_ = 0xcbf29ce484222325ull;
};

uint64_t key_of(const Node& node, DeviceKind device) {
  Hash hash;
  hash.add(static_cast<int64_t>(device));
  hash.add(node.name);
  hash.add(node.op->name);
  for (const Output& input : node.inputs) hash.add(TensorType{input.dtype(), input.shape()});
  for (const TensorType& output : node.outputs) hash.add(output);
  return hash.value();
}

}  // namespace

NodeCosts::Cost& NodeCosts::of(const Node& node, DeviceKind device) {
  const uint64_t key = key_of(node, device);
  std::lock_guard lock(mutex_);
  Cost*& cost = by_node_[key];
  if (!cost) cost = &costs_.emplace_back(0);
  return *cost;
}

bool NodeCosts::full() const {
  std::lock_guard lock(mutex_);
  return costs_.size() >= kNodesMax;
}

std::shared_ptr<NodeCosts> NodeCosts::of_process() {
  static std::mutex mutex;
  static auto& now = *new std::shared_ptr<NodeCosts>;  // never destroyed: statics may end later
  std::lock_guard lock(mutex);
  if (!now || now->full()) now = std::make_shared<NodeCosts>();
  return now;
}

}  // namespace troupe
