// SimWorld: all that the processes of a SimCluster share, and that its faults strike: one network,
// one disk and one record of the run.
#pragma once

#include <algorithm>
#include <utility>

#include "chaos/fault_plan.hpp"
#include "chaos/shard_ledger.hpp"
#include "chaos/sim_disk.hpp"
#include "chaos/sim_injuries.hpp"
#include "chaos/sim_net.hpp"

namespace troupe::sim {

// How far the training has come.
struct SimProgress {
  CalmRun calm = {};       // events, and messages that may be lost
  bool last_step = false;  // a replica has begun it
  TimePoint gets_on_at;    // the last time that a step began or ended well
};

struct SimWorld {
  // `golden`: the chain of values of a run without faults, which this run must equal; may be null.
  SimWorld(const SimClusterOptions& o, uint64_t seed, Faults faults, const HashChain* golden,
           History& h)
      : options(o),
        net(seed),
        history(h),
        ledger(o.rule, o.replicas, o.steps, golden, o.switches),
        injuries(std::move(faults)),
        progress{.gets_on_at = net.now()} {
    net.faults.one_machine = o.one_machine;
    disk.lie_on_sync = o.lying_disk;
    for (const auto& [name, bytes] : o.replay) disk.put(detail::concat("/replay/", name), bytes);
    const std::string& values = o.compression.values;
    ledger.expect({.values = values.empty() ? Codec::none : codec_from_string(values).kind,
                   .late_early = !o.replay.empty()});
    injuries.lasts_until(net.now());
  }
  TimePoint in_ms(int64_t ms) const { return net.now() + std::chrono::milliseconds(ms); }

  const SimClusterOptions options;
  SimNet net;
  History& history;
  ShardLedger ledger;
  SimInjuries injuries;
  SimProgress progress;
  SimDisk disk;
};

}  // namespace troupe::sim
