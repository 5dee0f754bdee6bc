// merge_common: common subexpressions. Among nodes with the same op, attributes, inputs, control
// inputs, frame, device and partner, and no state, the first one stays; if only a later one is
// fetched, the first one takes its name. The names of the others disappear from traces and errors,
// which show the first one's. Several fetched nodes all stay.
#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "placement/passes/passes.hpp"

namespace troupe {
namespace {

// Mixes a 64-bit word into a hash: the finalizer of SplitMix64.
uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) + 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

uint64_t mix_bytes(uint64_t hash, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  hash = mix(hash, bytes);
  for (uint64_t word = 0; bytes > 0; word = 0) {
    const size_t n = std::min(bytes, sizeof word);
    std::memcpy(&word, at, n);
    hash = mix(hash, word);
    at += n;
    bytes -= n;
  }
  return hash;
}

struct AttrHash {
  uint64_t hash;
  uint64_t operator()(bool v) const { return mix(hash, v); }
  uint64_t operator()(int64_t v) const { return mix(hash, static_cast<uint64_t>(v)); }
  uint64_t operator()(double v) const { return mix(hash, std::bit_cast<uint64_t>(v)); }
  uint64_t operator()(const std::string& v) const { return mix_bytes(hash, v.data(), v.size()); }
  uint64_t operator()(DType v) const { return mix(hash, static_cast<uint64_t>(v)); }
  uint64_t operator()(const Shape& v) const {
    return mix_bytes(hash, v.begin(), static_cast<size_t>(v.ndim()) * sizeof(int64_t));
  }
  uint64_t operator()(const std::vector<int64_t>& v) const {
    return mix_bytes(hash, v.data(), v.size() * sizeof(int64_t));
  }
  uint64_t operator()(const Tensor& v) const {
    const uint64_t type = AttrHash{mix(hash, static_cast<uint64_t>(v.dtype()))}(v.shape());
    return mix_bytes(type, v.raw(), static_cast<size_t>(v.byte_size()));
  }
};

// Compares numbers and tensors by their bits: 0 and -0 differ, and a NaN equals itself.
bool same(const Attr& a, const Attr& b) {
  if (a.index() != b.index()) return false;
  if (const auto* x = std::get_if<double>(&a))
    return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(std::get<double>(b));
  if (const auto* x = std::get_if<Tensor>(&a)) return same_bits(*x, std::get<Tensor>(b));
  return std::visit(
      [&]<class T>(const T& x) {
        if constexpr (std::is_same_v<T, Tensor>)
          return false;
        else
          return x == std::get<T>(b);
      },
      a);
}

bool same(const Attrs& a, const Attrs& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same(x.second, y.second);
  });
}

// A node's inputs for comparison: each input is represented by the first node that computes the
// same.
struct Reads {
  std::vector<Output> inputs;
  std::vector<int32_t> before;  // sorted
  friend bool operator==(const Reads& a, const Reads& b) {
    return same_outputs(a.inputs, b.inputs) && a.before == b.before;
  }
};

class Merging {
 public:
  explicit Merging(const CallGraph& call)
      : graph_(*call.graph), roles_(roles_of(call)), edits_(call) {}

  Edits run() {
    const auto count = graph_.nodes().size();
    reads_.resize(count);
    known_.reserve(count);
    for (const auto& node : graph_.nodes()) visit(*node);
    return std::move(edits_);
  }

 private:
  NodeRoles& roles(const Node& node) { return roles_[static_cast<size_t>(node.id)]; }
  Reads& reads(const Node& node) { return reads_[static_cast<size_t>(node.id)]; }

  void visit(const Node& node) {
    if (!roles(node).runs || roles(node).fed || roles(node).partner) return;
    if (node.op->stateful || node.outputs.empty()) return;
    Reads& mine = reads(node);
    for (const Output& input : node.inputs) mine.inputs.push_back(edits_.now(input));
    for (int32_t id : node.control_inputs)
      mine.before.push_back(edits_.now({const_cast<Graph*>(&graph_), id, 0}).node);
    std::sort(mine.before.begin(), mine.before.end());
    mine.before.erase(std::unique(mine.before.begin(), mine.before.end()), mine.before.end());
    const uint64_t hash = hash_of(node);
    const auto [begin, end] = known_.equal_range(hash);
    const Node* first = nullptr;
    for (auto it = begin; it != end; ++it) {
      const Node& known = graph_.node(it->second);
      const bool taken = roles(node).fetched && roles(known).fetched;  // two names, both fetched
      if (!taken && (!first || known.id < first->id) && alike(known, node)) first = &known;
    }
    if (!first) {
      known_.emplace(hash, node.id);
    } else if (roles(node).fetched) {
      roles(*first).fetched = true;  // under this node's name
      edits_.merge_and_rename(node, *first);
    } else {
      edits_.merge(node, *first);
    }
  }

  uint64_t hash_of(const Node& node) {
    uint64_t hash = reinterpret_cast<uintptr_t>(node.op);
    for (const Output& input : reads(node).inputs)
      hash = mix(mix(hash, static_cast<uint64_t>(input.node)), static_cast<uint64_t>(input.index));
    for (int32_t id : reads(node).before) hash = mix(hash, static_cast<uint64_t>(id));
    for (const auto& [name, value] : node.attrs) hash = std::visit(AttrHash{hash}, value);
    return mix_bytes(hash, node.device.data(), node.device.size());
  }

  bool alike(const Node& a, const Node& b) {
    return a.op == b.op && a.frame == b.frame && a.device == b.device &&
           a.colocate_with == b.colocate_with && a.outputs == b.outputs && reads(a) == reads(b) &&
           same(a.attrs, b.attrs);
  }

  const Graph& graph_;
  std::vector<NodeRoles> roles_;
  std::vector<Reads> reads_;                          // by node
  std::unordered_multimap<uint64_t, int32_t> known_;  // hash -> node that stays
  Edits edits_;
};

}  // namespace

Edits merge_common(const CallGraph& call) { return Merging(call).run(); }

}  // namespace troupe
