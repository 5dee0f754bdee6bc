// CheckpointTaker: takes checkpoints of a session's shards, while training goes on. First every
// shard captures its state at the same step, which copies nothing; then each writes its file; then
// the manifest, written last, commits them.
//
// Owner: the group, whose actor alone calls take(). Its own thread does what touches the directory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "training/checkpoint.hpp"
#include "training/disk_thread.hpp"
#include "training/shard_orders.hpp"

namespace troupe {

class CheckpointTaker {
 public:
  struct Wanted {
    std::string directory;
    std::shared_ptr<const FolderLock> lock;  // held until nothing more is done in the directory
    int64_t step = 0;
    int keep = 3;
    uint64_t data_seed = 0;
    Aggregation rule = Aggregation::sync;
    std::vector<int32_t> slots;
  };

  CheckpointTaker(Master& master, const ShardTable& table, ShardOrders& orders)
      : master_(master), table_(table), orders_(orders) {}

  // Requires: all slots are at that step until `captured`. `done` gets the manifest's path as text
  // when the checkpoint is on disk, or what went wrong, before or after `captured`; either is
  // called on any thread.
  void take(Wanted wanted, std::vector<ParameterSpec> parameters, std::function<void()> captured,
            Gather::Done done);

 private:
  struct Order;  // one checkpoint on its way

  void capture(const std::shared_ptr<Order>& order);
  void name_files(const std::shared_ptr<Order>& order);
  void write_files(const std::shared_ptr<Order>& order);
  void commit(const std::shared_ptr<Order>& order);
  void on_disk(const std::shared_ptr<Order>& order, std::function<void(Disk&)> work);

  Master& master_;
  const ShardTable& table_;
  ShardOrders& orders_;
  uint64_t next_capture_ = 1;
  std::unique_ptr<DiskThread> disk_;  // from the first checkpoint on
};

}  // namespace troupe
