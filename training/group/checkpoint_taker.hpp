// CheckpointTaker: takes checkpoints of a session's shards, while training goes on. First every
// shard captures its state at the same step, which copies nothing; then each writes its file; then
// this process reads the files back, and the manifest, written last, commits them. An attempt that
// fails removes what it has written, and one that begins what earlier ones have left.
//
// Owner: the group, whose actor alone calls take(). Its own thread does what touches the directory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "training/checkpoints/checkpoint.hpp"
#include "training/checkpoints/disk_thread.hpp"
#include "training/group/shard_orders.hpp"

namespace troupe {

class CheckpointTaker {
 public:
  struct Wanted {
    std::string directory;
    std::shared_ptr<const FolderLock> lock;  // held until nothing more is done in the directory
    int64_t step = 0;
    int keep = 3;
    uint64_t data_seed = 0;
    std::string compute;  // as in a manifest
    Aggregation rule = Aggregation::sync;
    std::vector<int32_t> replicas;
  };

  // `disk`: null for the real one.
  CheckpointTaker(Master& master, const ShardTable& table, ShardOrders& orders, Disk* disk)
      : master_(master), table_(table), orders_(orders), given_disk_(disk) {}

  // Requires: all replicas are at that step until `captured`. `done` gets the manifest's path as
  // text when the checkpoint is on disk, or what went wrong, before or after `captured`; either is
  // called on any thread.
  void take(Wanted wanted, std::vector<ParameterSpec> parameters, std::function<void()> captured,
            Gather::Done done);

 private:
  struct Order;  // one checkpoint on its way

  void capture(const std::shared_ptr<Order>& order);
  void name_files(const std::shared_ptr<Order>& order);
  void write_files(const std::shared_ptr<Order>& order);
  void commit(const std::shared_ptr<Order>& order);
  void want_readable(Disk& disk, const std::string& dir, const Manifest& manifest) const;
  void give_up(const std::shared_ptr<Order>& order, Errc code, const std::string& text);
  void on_disk(const std::shared_ptr<Order>& order, std::function<void(Disk&)> work);
  void discard(const Order& order, Disk& disk);
  void name_stayed(const std::vector<std::string>& stayed);

  Master& master_;
  const ShardTable& table_;
  ShardOrders& orders_;
  uint64_t next_capture_ = 1;
  // On the disk thread alone. By directory, the last generation: a shard that was given up may
  // still write its file of it, so it is not used again, even if no trace of it is left.
  std::map<std::string, int64_t> generations_;
  std::set<std::string> warned_;  // of files that could not be removed
  Disk* const given_disk_;
  std::unique_ptr<DiskThread> disk_;  // from the first checkpoint on
};

}  // namespace troupe
