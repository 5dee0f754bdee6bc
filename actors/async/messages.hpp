// Every control message between the actors of one cluster. They travel as ordinary CAF messages,
// inside a link. Messages that are frequent or carry tensors are in actors/async/step_messages.hpp
// and travel on the data plane. docs/protocol.md lists the sender and the receiver of each. Owner:
// values. Thread: any.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <caf/all.hpp>

#include "net/wire/bounded_list.hpp"
#include "troupe/error.hpp"

CAF_ERROR_CODE_ENUM(troupe::Errc, "troupe")

namespace troupe {

struct Op;

inline caf::error to_caf(Errc code, const std::string& text) { return caf::make_error(code, text); }
// The code and text of an error reply; CAF's own codes become timeout or peer_lost.
std::pair<Errc, std::string> from_caf(const caf::error& error);

// master -> worker: the graph of a call, after the passes.
struct InstallGraph {
  uint64_t session = 0;
  int64_t call = 0;
  int64_t version = 0;  // grows when the call is prepared again
  std::string bytes;    // net/wire/graph_proto.hpp
};
// master -> worker: run these parts of the graph from now on. The worker cuts the graph itself, as
// cutting is deterministic.
struct InstallParts {
  uint64_t session = 0;
  uint32_t executable = 0;
  int64_t call = 0;
  int64_t version = 0;               // of its graph
  std::vector<std::string> fetches;  // "node:index"
  std::vector<std::string> feeds;
  std::vector<std::string> devices;  // of placed nodes: placement[i] indexes it
  std::vector<int32_t> placed_nodes;
  std::vector<int32_t> placement;
  std::string client_device;
};
// worker -> master: its receiving op actors, by edge.
struct PartsInstalled {
  std::vector<int32_t> edges;
  std::vector<uint64_t> actors;
};
// master -> worker: the addresses of the op actors that this worker's Sends reach.
struct ConnectParts {
  uint64_t session = 0;
  uint32_t executable = 0;
  std::vector<int32_t> edges;
  std::vector<std::string> tasks;  // "/job:ps/task:1", one per edge
  std::vector<uint64_t> actors;
};
// master -> worker: the session ends (-1), or an executable is no longer needed. Answered by
// EdgeCounts with all that it has sent.
struct Uninstall {
  uint64_t session = 0;
  int64_t executable = -1;
};
// master -> worker: from now on that node uses that op's kernel, in all executables of the session,
// later ones included. Answered by Became.
struct Become {
  uint64_t session = 0;
  std::string node, op;
};
struct Became {
  int64_t executors = 0;  // the number of executors in which it uses that kernel now
};
// any -> op actor: from now on the node of that name, which is the actor's own or one whose work it
// does, uses that op's kernel. Steps that begin afterwards fire it, and steps that run may.
// Answered by Became.
struct BecomeOp {
  std::string node, op;
  std::shared_ptr<const Op> here = nullptr;  // the op itself; it does not leave the process
};
// any -> op actor: the code that it owns. Answered by OpDescription.
struct DescribeOp {};
struct OpDescription {
  std::string node, op, device;
  std::string dtype;    // that its kernel is for; empty for a node without a kernel
  int64_t cost_ns = 0;  // of one firing, as measured; 0: not measured
};
// any -> worker: the actor of that name in the process: a service of it ("shards", "parameters",
// "input"), or a device by its name.
struct FindService {
  std::string name;
};
// any -> worker: the state of the process over all sessions.
struct Describe {};
struct Description {
  std::vector<std::string> devices;
  int64_t executors = 0;
  int64_t running_steps = 0;
};
// any -> device actor: the memory of the device. Answered by DeviceDescription.
struct DescribeDevice {};
struct DeviceDescription {
  std::string name, kind;
  int64_t used_bytes = 0, reserved_bytes = 0, peak_bytes = 0, budget_bytes = 0;
};
// master -> worker: the transfers of this executable so far over edges that leave the executors of
// the process, by edge. Answered by EdgeCounts, without edges if the executable is not here.
struct CountEdges {
  uint64_t session = 0;
  uint32_t executable = 0;
};
struct EdgeCounts {
  std::vector<int32_t> edges;
  std::vector<int64_t> transfers;  // one per edge
  std::vector<int64_t> bytes;      // one per edge
};
// master -> worker: list the waits of a run in this process. Answered by Waits: nodes of the run,
// requests for parameters, and the waits of the process's shards.
struct AskWaits {
  uint64_t session = 0;
  uint32_t executable = 0;
  int64_t run = 0;
};
struct Waits {
  std::vector<std::string> lines;
};
// master -> worker: read the clock. Answered by ClockReading.
struct ReadClock {};
struct ClockReading {
  int64_t unix_ns = 0;
};
// worker -> program: the sender is about to end. Answered by Left: whether it is to wait, and to
// ask again, as work is still to be taken from it.
struct Leave {};
struct Left {
  bool waits = false;
};
// master -> worker: start a Chrome trace / stop and hand it over. Answered by TraceEvents.
struct SetTracing {
  bool on = false;
  int64_t origin_ns = 0;  // off: the worker's clock at the beginning of the time line
};
struct TraceEvents {
  std::string json;  // comma-separated Chrome trace events, without the brackets
};

template <class I>
auto inspect(I& f, InstallGraph& x) {
  return f(x.session, x.call, x.version, x.bytes);
}
template <class I>
auto inspect(I& f, InstallParts& x) {
  BoundedList fetches{x.fetches}, feeds{x.feeds}, devices{x.devices};
  return f(x.session, x.executable, x.call, x.version, fetches, feeds, devices, x.placed_nodes,
           x.placement, x.client_device);
}
template <class I>
auto inspect(I& f, PartsInstalled& x) {
  return f(x.edges, x.actors);
}
template <class I>
auto inspect(I& f, ConnectParts& x) {
  BoundedList tasks{x.tasks};
  return f(x.session, x.executable, x.edges, tasks, x.actors);
}
template <class I>
auto inspect(I& f, Uninstall& x) {
  return f(x.session, x.executable);
}
template <class I>
auto inspect(I& f, Become& x) {
  return f(x.session, x.node, x.op);
}
template <class I>
auto inspect(I& f, Became& x) {
  return f(x.executors);
}
template <class I>
auto inspect(I& f, BecomeOp& x) {
  return f(x.node, x.op);
}
template <class I>
auto inspect(I&, DescribeOp&) -> caf::error {
  return caf::none;
}
template <class I>
auto inspect(I& f, OpDescription& x) {
  return f(x.node, x.op, x.device, x.dtype, x.cost_ns);
}
template <class I>
auto inspect(I& f, FindService& x) {
  return f(x.name);
}
template <class I>
auto inspect(I&, Describe&) -> caf::error {
  return caf::none;
}
template <class I>
auto inspect(I& f, Description& x) {
  BoundedList devices{x.devices};
  return f(devices, x.executors, x.running_steps);
}
template <class I>
auto inspect(I&, DescribeDevice&) -> caf::error {
  return caf::none;
}
template <class I>
auto inspect(I& f, DeviceDescription& x) {
  return f(x.name, x.kind, x.used_bytes, x.reserved_bytes, x.peak_bytes, x.budget_bytes);
}
template <class I>
auto inspect(I& f, CountEdges& x) {
  return f(x.session, x.executable);
}
template <class I>
auto inspect(I& f, EdgeCounts& x) {
  return f(x.edges, x.transfers, x.bytes);
}
template <class I>
auto inspect(I& f, AskWaits& x) {
  return f(x.session, x.executable, x.run);
}
template <class I>
auto inspect(I& f, Waits& x) {
  BoundedList lines{x.lines};
  return f(lines);
}
template <class I>
auto inspect(I&, ReadClock&) -> caf::error {
  return caf::none;
}
template <class I>
auto inspect(I& f, ClockReading& x) {
  return f(x.unix_ns);
}
template <class I>
auto inspect(I&, Leave&) -> caf::error {
  return caf::none;
}
template <class I>
auto inspect(I& f, Left& x) {
  return f(x.waits);
}
template <class I>
auto inspect(I& f, SetTracing& x) {
  return f(x.on, x.origin_ns);
}
template <class I>
auto inspect(I& f, TraceEvents& x) {
  return f(x.json);
}

// Within one process: the link to that task has ended; messages under way on it are lost.
struct LinkLost {
  std::string task, reason;
};

// Registers the control messages with a CAF system, under their wire names.
void add_control_messages(caf::actor_system_config& config);

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::LinkLost)
