// The explicit placer: groups of colocated nodes, their common device request, and the first device
// that fits.
#include "placement/placement.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "graph/device_name.hpp"
#include "graph/op.hpp"

namespace troupe {
namespace {

// Nodes that must share a device, and their common device request.
struct Group {
  std::vector<int32_t> nodes;  // the nodes to place
  DeviceName wish;
  int32_t wished_by = -1;  // the node that gave the last part of the request
};

class Placer {
 public:
  Placer(const Graph& graph, const std::vector<int32_t>& nodes, const PlacementOptions& options)
      : graph_(graph), options_(options), leader_(graph.nodes().size()) {
    std::iota(leader_.begin(), leader_.end(), 0);
    for (const std::string& device : options.devices) devices_.push_back(parse_device_name(device));
    default_ = parse_device_name(options.default_device);
    for (int32_t id : nodes) join_partners(id);
    for (int32_t id : nodes)  // most are groups of their own, in this order
      groups_.try_emplace(groups_.end(), leader(id))->second.nodes.push_back(id);
    for (int32_t id : touched_) add_wish(groups_[leader(id)], graph.node(id));
    for (int32_t id : nodes) add_wish(groups_[leader(id)], graph.node(id));
  }

  Placement run() {
    Placement placement;
    for (const auto& [leader, group] : groups_) {
      const auto [device, reason] = choose(group);
      for (int32_t id : group.nodes) {
        const std::string& partner = graph_.node(id).colocate_with;
        placement.devices.emplace_hint(placement.devices.end(), id, device);
        placement.reasons.emplace_hint(
            placement.reasons.end(), id,
            partner.empty() ? reason : detail::concat("with ", partner, ", ", reason));
      }
    }
    return placement;
  }

 private:
  int32_t leader(int32_t id) {
    int32_t& l = leader_[static_cast<size_t>(id)];
    return l == id ? id : l = leader(l);
  }

  // A partner that is not to be placed itself still contributes its request.
  void join_partners(int32_t id) {
    for (;;) {
      const Node& node = graph_.node(id);
      if (node.colocate_with.empty()) return;
      const Node* partner = graph_.find(node.colocate_with);
      if (!partner)
        throw Error(Errc::invalid_argument, describe(node), ": wants to be colocated with ",
                    node.colocate_with, ", but the graph has no such node");
      leader_[static_cast<size_t>(leader(id))] = leader(partner->id);
      touched_.push_back(partner->id);
      id = partner->id;
    }
  }

  void add_wish(Group& group, const Node& node) {
    if (node.device.empty()) return;
    const DeviceName& wish = wish_of(node);
    if (group.wished_by < 0) {
      group.wished_by = node.id;
      group.wish = wish;
      return;
    }
    const DeviceName both = merge(wish, group.wish);
    // The earlier request of the group must still hold.
    if (merge(group.wish, wish) != both)
      throw Error(Errc::invalid_argument, describe(node), ": wants ", to_string(wish),
                  ", but it is colocated with the ", describe(graph_.node(group.wished_by)),
                  ", which wants ", to_string(group.wish),
                  "; give both the same device, or do not colocate them");
    if (both != group.wish) group.wished_by = node.id;
    group.wish = both;
  }

  const DeviceName& wish_of(const Node& node) {
    const auto known = wishes_.find(node.device);
    if (known != wishes_.end()) return known->second;
    try {
      return wishes_.emplace(node.device, parse_device_name(node.device)).first->second;
    } catch (const Error& e) {  // the graph is from a file; the parser does not know the node
      throw Error(Errc::invalid_argument, describe(node), ": ", e.what());
    }
  }

  // The first node of the group without a kernel on `device`; nullptr if there is none.
  const Node* unable(const Group& group, const std::string& device) const {
    if (!options_.has_kernel) return nullptr;
    for (int32_t id : group.nodes)
      if (!options_.has_kernel(graph_.node(id), device)) return &graph_.node(id);
    return nullptr;
  }

  // Indices of the devices that fit, the default first.
  const std::vector<size_t>& matching(const DeviceName& wish) {
    const auto [known, is_new] = matching_.try_emplace(to_string(wish));
    std::vector<size_t>& found = known->second;
    if (!is_new) return found;
    for (size_t i = 0; i < devices_.size(); ++i)
      if (wish.matches(devices_[i])) found.push_back(i);
    std::stable_partition(found.begin(), found.end(),
                          [&](size_t i) { return devices_[i] == default_; });
    return found;
  }

  std::pair<std::string, std::string> choose(const Group& group) {
    const std::string wish = to_string(group.wish);
    const Node& speaker = graph_.node(group.wished_by >= 0 ? group.wished_by : group.nodes.front());
    const std::vector<size_t>& fitting = matching(group.wish);
    if (fitting.empty())
      throw Error(Errc::invalid_argument, describe(speaker), ": wants ",
                  wish.empty() ? "any device" : wish, ", but no device fits; there are ",
                  known_devices(), "; correct the name, or start its process first");
    const Node* first_unable = nullptr;
    for (size_t i : fitting) {
      const Node* without = unable(group, options_.devices[i]);
      if (!without)
        return {options_.devices[i],
                wish.empty() ? "no wish: the default device" : "asked for " + wish};
      if (!first_unable) first_unable = without;
    }
    if (options_.soft) {
      // A CPU of the requested task, so that the copy stays inside one process.
      const DeviceName& asked = devices_[fitting.front()];
      for (size_t i : matching({.job = asked.job, .task = asked.task, .kind = DeviceKind::cpu}))
        if (!unable(group, options_.devices[i]))
          return {options_.devices[i],
                  detail::concat("asked for ", wish.empty() ? "nothing" : wish, ", but ",
                                 first_unable->op->name, " has no kernel there")};
    }
    throw Error(
        Errc::invalid_argument, describe(*first_unable), ": ", first_unable->op->name,
        " has no kernel for ", dispatch_dtype(*first_unable), " on ",
        wish.empty() ? "the default device" : wish,
        options_.soft ? ", nor has a cpu device of that task" : ", and soft placement is off",
        "; there are ", known_devices());
  }

  std::string known_devices() const {
    constexpr size_t kShown = 12;
    if (options_.devices.empty()) return "no devices at all";
    std::string text;
    for (size_t i = 0; i < std::min(kShown, options_.devices.size()); ++i)
      text += (i ? ", " : "") + options_.devices[i];
    if (options_.devices.size() > kShown)
      text += detail::concat(" and ", options_.devices.size() - kShown, " more");
    return text;
  }

  const Graph& graph_;
  const PlacementOptions& options_;
  std::vector<DeviceName> devices_;
  DeviceName default_;
  std::vector<int32_t> leader_;   // union-find over node ids
  std::vector<int32_t> touched_;  // nodes named as partners
  std::map<int32_t, Group> groups_;
  // Graphs have many nodes and few different requests.
  std::unordered_map<std::string, DeviceName> wishes_;             // by their texts
  std::unordered_map<std::string, std::vector<size_t>> matching_;  // by the text of a whole request
};

}  // namespace

Placement place(const Graph& graph, const std::vector<int32_t>& nodes,
                const PlacementOptions& options) {
  return Placer(graph, nodes, options).run();
}

}  // namespace troupe
