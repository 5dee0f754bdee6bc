// Graphs before and after fuse(), evaluated; and a fused node that is fired by hand, on any number
// of threads.
#pragma once

#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "devices/run_context.hpp"
#include "devices/threads/lanes.hpp"
#include "graph/op.hpp"
#include "tests/support/evaluate.hpp"
#include "tests/support/pass_text.hpp"

namespace troupe {

inline int64_t count_fused(const CallGraph& call) {
  int64_t count = 0;
  for (const auto& node : call.graph->nodes()) count += node->op->name == "Fused";
  return count;
}

// The fetches before and after the pass.
struct Both {
  std::vector<Tensor> plain, fused;
  int64_t nodes = 0;  // fused ones
};
inline Both evaluate_both(const Graph& graph, const std::vector<Output>& fetches,
                          const FedValues& feeds) {
  const std::vector<Output> names = names_of(feeds);
  const CallGraph call = rewrite(fuse, call_graph(graph, fetches, names)).call;
  FedValues moved;
  for (size_t i = 0; i < names.size(); ++i) moved[call.feeds[i]] = feeds.at(names[i]);
  return {evaluate(graph, fetches, feeds), evaluate(*call.graph, call.fetches, moved),
          count_fused(call)};
}

// But for the sign of a NaN that is made of two: it is that of the operand which the compiler put
// first, and each of its loops has its own order.
inline bool same_values(const Tensor& a, const Tensor& b) {
  if (same_bits(a, b)) return true;
  if (!is_floating(a.dtype()) || a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  bool same = true;
  with_type(a.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < a.size(); ++i) {
      const T x = a.data<T>()[i], y = b.data<T>()[i];
      same = same && (std::memcmp(&x, &y, sizeof x) == 0 || (x != x && y != y));
    }
  });
  return same;
}

// Threads that help when they are asked, until all is done.
class Threads {
 public:
  explicit Threads(int n)
      : lanes(n - 1, [this](int asked) {
          const std::lock_guard lock(mutex_);
          for (int i = 0; i < asked; ++i) threads_.emplace_back([this] { lanes.help(); });
        }) {}
  ~Threads() {
    for (std::thread& thread : threads_) thread.join();
  }
  Lanes lanes;

 private:
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

// The one fused node of a graph after the pass, fired by hand.
struct FusedNode {
  CallGraph call;
  const Node* node = nullptr;
  explicit FusedNode(const Output& y) : call(rewrite(fuse, call_graph(*y.graph, {y}, {})).call) {
    for (const auto& other : call.graph->nodes())
      if (other->op->name == "Fused") node = other.get();
    REQUIRE(count_fused(call) == 1);
  }
  std::vector<Tensor> fire(std::vector<Tensor>& inputs, bool reuse, Lanes* lanes = nullptr) const {
    HeapMemory memory;
    NodeView view = NodeView::make(*node, *find_kernel(*node, DeviceKind::cpu));
    view.lanes = lanes;
    std::vector<uint32_t> slots;
    for (size_t i = 0; i < inputs.size(); ++i) slots.push_back(static_cast<uint32_t>(i));
    std::vector<Tensor> outputs(node->outputs.size());
    const RunContext run;
    KernelCall firing;
    firing.bind(view, inputs.data(), slots.data(), static_cast<int32_t>(slots.size()),
                outputs.data(), memory, run, reuse);
    view.kernel->run(firing);
    return outputs;
  }
};

inline Tensor waves_f32(const Shape& shape, float seed) {
  Tensor out = Tensor::empty(DType::f32, shape);
  for (int64_t i = 0; i < out.size(); ++i)
    out.mutable_data<float>()[i] = std::sin(seed + 0.37F * static_cast<float>(i));
  return out;
}

}  // namespace troupe
