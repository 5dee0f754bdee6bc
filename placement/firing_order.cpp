// The order of a partition's nodes (placement/partition.hpp): firing_order() of the nodes outside
// loops, and of the nodes of each loop, which stand right before the loop's driver.
#include <algorithm>
#include <set>

#include "placement/partition.hpp"

namespace troupe {
namespace {

using Readers = std::vector<std::vector<int32_t>>;  // by node

// By node, the number of nodes on the longest way from it to the end. Arbitrary for nodes in a
// cycle.
std::vector<int32_t> ways_to_end(const Readers& readers, std::vector<int32_t> missing) {
  std::vector<int32_t> order, way(readers.size());
  for (size_t i = 0; i < readers.size(); ++i)
    if (missing[i] == 0) order.push_back(static_cast<int32_t>(i));
  for (size_t at = 0; at < order.size(); ++at)
    for (int32_t to : readers[static_cast<size_t>(order[at])])
      if (--missing[static_cast<size_t>(to)] == 0) order.push_back(to);
  for (auto i = order.rbegin(); i != order.rend(); ++i)
    for (int32_t to : readers[static_cast<size_t>(*i)])
      way[static_cast<size_t>(*i)] =
          std::max(way[static_cast<size_t>(*i)], way[static_cast<size_t>(to)] + 1);
  return way;
}

}  // namespace

std::vector<int32_t> firing_order(const std::vector<PartNode>& nodes, FireFirst first,
                                  const std::vector<bool>& late) {
  const size_t count = nodes.size();
  Readers readers(count);  // each once, in the order in which they should fire
  std::vector<int32_t> missing(count);
  for (size_t i = 0; i < count; ++i) {
    std::set<int32_t> from(nodes[i].controls.begin(), nodes[i].controls.end());
    for (const PartInput& input : nodes[i].inputs) from.insert(input.node);
    missing[i] = static_cast<int32_t>(from.size());
    for (int32_t j : from) readers.at(static_cast<size_t>(j)).push_back(static_cast<int32_t>(i));
  }
  if (first == FireFirst::shortest) {
    const std::vector<int32_t> way = ways_to_end(readers, missing);
    for (auto& list : readers)
      std::stable_sort(list.begin(), list.end(), [&](int32_t a, int32_t b) {
        return way[static_cast<size_t>(a)] < way[static_cast<size_t>(b)];
      });
  }
  if (!late.empty())
    for (auto& list : readers)
      std::stable_partition(list.begin(), list.end(),
                            [&](int32_t i) { return !late[static_cast<size_t>(i)]; });
  // Values that other devices wait for are sent first.
  for (auto& list : readers)
    std::stable_partition(list.begin(), list.end(), [&](int32_t i) {
      return nodes[static_cast<size_t>(i)].kind == PartKind::send;
    });
  std::vector<int32_t> order, fetches, ready;
  for (size_t i = count; i-- > 0;)
    if (missing[i] == 0) ready.push_back(static_cast<int32_t>(i));
  while (!ready.empty()) {
    const int32_t i = ready.back();
    ready.pop_back();
    (nodes[static_cast<size_t>(i)].kind == PartKind::fetch ? fetches : order).push_back(i);
    const auto& list = readers[static_cast<size_t>(i)];
    for (auto to = list.rbegin(); to != list.rend(); ++to)
      if (--missing[static_cast<size_t>(*to)] == 0) ready.push_back(*to);
  }
  TROUPE_CHECK(order.size() + fetches.size() == count, "the partition has a cycle");
  std::sort(fetches.begin(), fetches.end());
  order.insert(order.end(), fetches.begin(), fetches.end());
  return order;
}

namespace {

class Ordering {
 public:
  Ordering(Partition& partition, FireFirst first, const std::vector<bool>& late)
      : partition_(partition), first_(first), late_(late), levels_(partition.loops.size() + 1) {
    local_.resize(partition.nodes.size());
    for (size_t i = 0; i < partition.nodes.size(); ++i) {
      std::vector<size_t>& level = levels_[level_of(partition.nodes[i].loop)];
      local_[i] = static_cast<int32_t>(level.size());
      level.push_back(i);
    }
  }

  void run() {
    place(-1);
    std::vector<int32_t> number(partition_.nodes.size());
    for (size_t i = 0; i < order_.size(); ++i) number[order_[i]] = static_cast<int32_t>(i);
    const auto move = [&](int32_t& at) {
      if (at >= 0) at = number[static_cast<size_t>(at)];
    };
    std::vector<PartNode> ordered;
    for (size_t from : order_) {
      PartNode node = std::move(partition_.nodes[from]);
      for (PartInput& input : node.inputs) move(input.node);
      for (int32_t& control : node.controls) move(control);
      std::sort(node.controls.begin(), node.controls.end());
      node.controls.erase(std::unique(node.controls.begin(), node.controls.end()),
                          node.controls.end());
      move(node.save);
      ordered.push_back(std::move(node));
    }
    partition_.nodes = std::move(ordered);
    for (PartLoop& loop : partition_.loops) {
      for (int32_t* at : {&loop.driver, &loop.turn, &loop.again}) move(*at);
      for (auto* entering : {&loop.captured, &loop.variables})
        for (PartLoop::Entering& value : *entering) move(value.node);
      for (PartInput& next : loop.next) move(next.node);
      for (int32_t& ack : loop.acks) move(ack);
    }
  }

 private:
  // The index in levels_ for a loop's number; -1 stands for outside of loops.
  static size_t level_of(int32_t loop) { return loop < 0 ? 0 : static_cast<size_t>(loop) + 1; }

  // Gives the nodes of loop `number` (-1: outside of loops) the next places. Their inputs are in
  // the same loop.
  void place(int32_t number) {
    const std::vector<size_t>& level = levels_[level_of(number)];
    std::vector<PartNode> nodes;
    std::vector<bool> late;
    for (size_t i : level) {
      if (!late_.empty()) late.push_back(late_[i]);
      nodes.push_back(partition_.nodes[i]);
      for (PartInput& input : nodes.back().inputs) input.node = local(input.node, number);
      for (int32_t& control : nodes.back().controls) control = local(control, number);
    }
    for (int32_t at : firing_order(nodes, first_, late)) {
      const size_t i = level[static_cast<size_t>(at)];
      if (partition_.nodes[i].kind == PartKind::loop) {
        const auto inner = std::find_if(
            partition_.loops.begin(), partition_.loops.end(),
            [&](const PartLoop& loop) { return loop.driver == static_cast<int32_t>(i); });
        inner->begin = static_cast<int32_t>(order_.size());
        place(static_cast<int32_t>(inner - partition_.loops.begin()));
      }
      order_.push_back(i);
    }
  }

  int32_t local(int32_t at, int32_t number) const {
    TROUPE_CHECK(partition_.nodes[static_cast<size_t>(at)].loop == number,
                 "a node reads one of another loop");
    return local_[static_cast<size_t>(at)];
  }

  Partition& partition_;
  const FireFirst first_;
  const std::vector<bool>& late_;            // by node, or empty
  std::vector<std::vector<size_t>> levels_;  // by loop + 1: the indices of its nodes
  std::vector<int32_t> local_;               // by node: its index in its level
  std::vector<size_t> order_;
};

}  // namespace

void put_in_firing_order(Partition& partition, FireFirst first, const std::vector<bool>& late) {
  Ordering(partition, first, late).run();
}

}  // namespace troupe
