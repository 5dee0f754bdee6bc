// RouteSender: sends every process of a session the places of its parameters' slices, when these
// change and when a process joins.
//
// Owner: the group. Thread: the group's actor only.
#pragma once

#include "training/group/shard_requests.hpp"

namespace troupe {

class RouteSender {
 public:
  using Done = WhenDone;
  RouteSender(Master& master, const ShardTable& table, ShardRequests& shards)
      : master_(master), table_(table), shards_(shards) {}

  // Calls `done` when this process and all others that are up have the routes. `done` does not wait
  // for a process that refuses them for a while, as it has no link to a shard yet; that process
  // gets them again until it takes them.
  void send_all(Done done);
  void came(const std::string& task);
  void stop() { current_ = false, ++round_; }  // a task with shards is gone: the routes are wrong

 private:
  void send_patiently(const std::string& task, int64_t round, int tries,
                      std::function<void()> done);
  void send(const std::string& task, Done done);

  Master& master_;
  const ShardTable& table_;
  ShardRequests& shards_;
  bool current_ = false;
  int64_t round_ = 0;  // the number of the current routes; earlier ones are no longer sent
};

}  // namespace troupe
