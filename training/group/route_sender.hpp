// RouteSender: tells every process of a session where the slices of its parameters live, when that
// changes and when a process has come.
//
// Owner: the group, whose actor alone uses it.
#pragma once

#include "training/group/shard_orders.hpp"

namespace troupe {

class RouteSender {
 public:
  using Done = Gather::Done;
  RouteSender(Master& master, const ShardTable& table, ShardOrders& orders)
      : master_(master), table_(table), orders_(orders) {}

  // Done when this process and all others that are up have the routes. One that does not take them
  // for a while, as it has no link to a shard yet, is not waited for, and asked on until it does.
  void send_all(Done done);
  void came(const std::string& task);
  void stop() { current_ = false, ++round_; }  // a task with shards is gone: the routes are wrong

 private:
  void send_patiently(const std::string& task, int64_t round, int tries,
                      std::function<void()> done);
  void send(const std::string& task, Done done);

  Master& master_;
  const ShardTable& table_;
  ShardOrders& orders_;
  bool current_ = false;
  int64_t round_ = 0;  // of routes; those of an earlier one are not sent any more
};

}  // namespace troupe
