// Graphs for tests of executors: random ones, one that waits for a kernel, one that waits for a
// value.
#pragma once

#include <random>

#include "tests/support/engine/executor_rig.hpp"

namespace troupe {

using SteadyClock = std::chrono::steady_clock;

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A graph of `nodes` ops, each reading random earlier values; some on other devices if there are
// any.
inline std::vector<Output> random_graph(ExecutorRig& rig, std::vector<Output> values, int nodes,
                                        std::mt19937& random,
                                        const std::vector<const char*>& devices = {
                                            ExecutorRig::kClient}) {
  const auto pick = [&] { return values[random() % values.size()]; };
  for (int i = 0; i < nodes; ++i) {
    const auto scope = rig.on(devices[random() % devices.size()]);
    switch (random() % 7) {
      case 0:
        values.push_back(rig.op("AddOne", {pick()}));
        break;
      case 1:
        values.push_back(rig.op("Mul", {pick(), pick()}));
        break;
      case 2:
        values.push_back(rig.constant({static_cast<int32_t>(random()), 3}));
        break;
      case 3: {
        const Output y = rig.op("Pair", {pick()});
        values.push_back(y);
        values.push_back({y.graph, y.node, 1});
        break;
      }
      case 4:
        values.push_back(rig.op("Join", {pick(), pick(), pick(), pick(), pick(), pick()}));
        break;
      case 5:
        values.push_back(rig.op("Slow", {pick()}));
        break;
      default:
        values.push_back(rig.op("Add", {pick(), pick()}));
        break;
    }
  }
  std::vector<Output> fetches;
  for (int i = 0; i < 5; ++i) fetches.push_back(pick());
  fetches.push_back(values.back());
  return fetches;
}

// Waits for the test to answer its kernel.
struct LaterRig : ExecutorRig {
  Output x = input(), later = op("Later", {x}, "fc1/pull"), y = op("AddOne", {later});
  LaterRig() { build({y}, {x}); }
};

// Executor 0, the client's, receives `from_other` = AddOne(x) on edge 1; executor 1 makes it from
// edge 0. Edges may be named by what they carry: tests deliver by hand what the other executor
// would send, and do not run it.
struct ReceiveRig : ExecutorRig {
  Output x = input(), y;
  int32_t edge = -1;
  uint32_t receiver = 0;
  ReceiveRig() {
    const Output sent = [&] {
      const auto scope = on(kOther);
      return op("AddOne", {x}, "sent");
    }();
    y = op("Mul", {sent, x});
    build({y}, {x});
    edge = client().receivers().begin()->first;
    while (client().program().nodes.names[receiver].rfind("Receive", 0) != 0) ++receiver;
  }
  StepPtr arm(int64_t run) {
    StepPtr step = client().begin({.run = run});
    step->set_source(client().program().source_slot(x.node, 0), ints({2, 3}));
    return step;
  }
  bool ends(const StepPtr& step) { return step->wait(SteadyClock::now() + kSoon); }
  Tensor fetched(const StepPtr& step) { return step->value(client().program().slot_of(y.node, 0)); }
};

}  // namespace troupe
