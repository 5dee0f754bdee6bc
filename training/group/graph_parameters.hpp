// GraphParameters: the parameters of a session's graph, by name. A call that needs some for the
// first time has them made together, as a batch; a batch that could not be made is tried again by
// the next call that needs it.
//
// Owner: the group, whose actor makes the batches. Thread: any, for public functions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/async/open_calls.hpp"
#include "training/group/route_sender.hpp"
#include "training/group/shard_maker.hpp"
#include "training/group/shard_requests.hpp"
#include "training/group/shard_table.hpp"

namespace troupe {

// The parts that make the shards of a group's parameters; they live as long as the group.
struct ShardTools {
  ShardTable& table;
  ShardRequests& shards;
  ShardMaker& maker;
  RouteSender& routes;
  OpenCalls& calls;  // of other threads
};

class GraphParameters {
 public:
  using Done = WhenDone;  // called once, any thread
  GraphParameters(Master& master, const ParameterOwnerOptions& options, const ShardTools& tools)
      : master_(master),
        options_(options),
        table_(tools.table),
        shards_(tools.shards),
        maker_(tools.maker),
        routes_(tools.routes),
        calls_(tools.calls) {}

  // Creates the shards of those parameters among `nodes` that have none yet, and sets their first
  // values; also those whose last try has failed. The master's thread or a caller's: the one that
  // grows the graph.
  void ensure(const std::vector<int32_t>& nodes, Done done);
  std::vector<ParameterSpec> made() const;  // so far, by name
  std::vector<int32_t> replicas() const;    // of the graph, at the last ensure()

 private:
  struct Batch;
  using Batches = std::vector<std::shared_ptr<Batch>>;
  struct Known {
    ParameterSpec spec;
    std::shared_ptr<Batch> batch;
    bool made = false;
  };

  Batches batches_of(const std::vector<int32_t>& nodes);
  bool made(const Batch& batch) const;
  void choose_tasks();
  void make(const std::shared_ptr<Batch>& batch, int64_t call);
  bool began_without(const std::shared_ptr<Batch>& batch, int64_t call, uint64_t epoch);
  void scale_rates(const std::shared_ptr<Batch>& batch, int64_t call,
                   const std::function<void()>& ready);
  void made(const std::shared_ptr<Batch>& batch, Errc code, const std::string& text);

  Master& master_;
  const ParameterOwnerOptions& options_;
  ShardTable& table_;
  ShardRequests& shards_;
  ShardMaker& maker_;
  RouteSender& routes_;
  OpenCalls& calls_;
  mutable std::mutex mutex_;  // guards the rest
  std::map<std::string, Known> known_;
  std::vector<int32_t> replicas_;
};

}  // namespace troupe
