// Labels of buffers, and the text of an out-of-memory error. A label combines the number of a graph
// in a table of the process, the node, and the output; the table keeps no graph alive.
#include "devices/held.hpp"

#include <algorithm>
#include <map>
#include <mutex>

namespace troupe {
namespace {

constexpr size_t kLargest = 10;
constexpr int kGraphShift = 40;  // 32 bits for the node, 8 for the output

struct Labels {
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<const Graph>> graphs;
  uint64_t next = 1;

  std::shared_ptr<const Graph> graph(uint64_t label) {
    std::lock_guard guard(mutex);
    const auto it = graphs.find(label >> kGraphShift);
    return it == graphs.end() ? nullptr : it->second.lock();
  }
};

Labels& labels() {
  static Labels& all = *new Labels;  // never destroyed: steps of static objects may end later
  return all;
}

const Node* node_of(const Graph* graph, uint64_t label) {
  const uint64_t id = label / kLabelStep & 0xffffffffu;
  return graph && id < graph->nodes().size() ? graph->nodes()[id].get() : nullptr;
}

std::string what_of(const Node& node, int output) {
  const std::string where = detail::concat(" of the ", node.op->name, " node ", node.name);
  if (output == MemoryRequest::kScratch) return "scratch" + where;
  const auto i = static_cast<size_t>(output);
  if (i >= node.outputs.size()) return detail::concat("output ", output, where);
  return detail::concat("output ", output, where, ", ", node.outputs[i]);
}

// The holder of a buffer, in the order of the message.
enum Holder : uint8_t { this_step, other_steps, between_steps, unknown, kHolders };
constexpr const char* kHolderNames[] = {"this step", "another step, or a result of it",
                                        "kept between steps", "not of a node of a step"};
constexpr const char* kSums[] = {"this step", "other steps and results of them",
                                 "parameters and constants",
                                 "what no node has made (optimizers, feeds, what has arrived)"};

struct Line {
  Holder holder = unknown;
  std::string what;
};

Line describe(const HeldBuffer& held, const Graph* own, int64_t run) {
  if (held.label == 0) return {unknown, "a tensor"};
  const auto graph = labels().graph(held.label);
  const Node* node = node_of(graph.get(), held.label);
  Holder holder = other_steps;
  if (held.run == kBetweenSteps) holder = between_steps;
  if (own && graph.get() == own && held.run == run) holder = this_step;
  if (!node) return {holder, "a tensor of a call that is gone"};
  return {holder, what_of(*node, static_cast<int>(held.label % kLabelStep))};
}

std::string list_of(const Memory::Held& held, const Graph* own, int64_t run) {
  int64_t sums[kHolders] = {};
  std::string lines;
  for (size_t i = 0; i < held.largest.size(); ++i) {
    const HeldBuffer& buffer = held.largest[i];
    const Line line = describe(buffer, own, run);
    sums[line.holder] += buffer.bytes;
    if (i >= kLargest) continue;
    lines += detail::concat("\n  ", i + 1, ". ", buffer.bytes, " bytes: ", line.what, "; ",
                            kHolderNames[line.holder]);
  }
  std::string out = detail::concat("of tensors above ", Memory::kMarkedAbove, " bytes ", held.count,
                                   " are held, ", held.bytes, " bytes");
  const char* sign = ": ";
  for (int h = 0; h < kHolders; ++h)
    if (sums[h] > 0) {
      out += detail::concat(sign, sums[h], " of ", kSums[h]);
      sign = ", ";
    }
  if (held.count == 0) return out;
  return detail::concat(out, "; the largest are:", lines);
}

}  // namespace

uint64_t label_graph(const std::shared_ptr<const Graph>& graph) {
  Labels& all = labels();
  std::lock_guard guard(all.mutex);
  std::erase_if(all.graphs, [](const auto& entry) { return entry.second.expired(); });
  all.graphs[all.next] = graph;
  return all.next++ << kGraphShift;
}

void mark(Memory& memory, Buffer* buffer, int64_t bytes, const MemoryRequest& request) noexcept {
  if (request.view->label == 0 || bytes <= Memory::kMarkedAbove) return;
  const auto output = static_cast<uint64_t>(std::min(request.output, MemoryRequest::kScratch));
  memory.mark(buffer, {bytes, request.view->label + output, request.run});
}

void refuse(const Error& refused, const Memory& memory, const MemoryRequest& request) {
  const Node& node = *request.view->node;
  std::string asked =
      request.output == MemoryRequest::kScratch
          ? detail::concat("scratch of the ", troupe::describe(node))
          : detail::concat("output ", request.output, " of the ", troupe::describe(node));
  if (request.shape) asked += detail::concat(", ", request.dtype, *request.shape);
  const auto graph = labels().graph(request.view->label);
  throw Error(Errc::out_of_memory, refused.what(), "; it was asked for as ", asked, "; ",
              list_of(memory.held(SIZE_MAX), graph.get(), request.run));
}

}  // namespace troupe
