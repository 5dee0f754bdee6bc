// CheckpointTaker: takes checkpoints of a session's shards while training continues. First every
// shard captures its state at the same step, which copies nothing; then each writes its file; then
// this process reads the files back, and the manifest, written last, commits them. A failed attempt
// removes the files that it has written; an attempt that begins removes leftovers of earlier ones.
// One that is given up removes none, as shards may write some later.
//
// Owner: the group. Thread: take(): the group's actor; all work on the directory: its own thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "training/checkpoints/checkpoint.hpp"
#include "training/checkpoints/disk_thread.hpp"
#include "training/group/shard_requests.hpp"

namespace troupe {

struct CheckpointRequest {
  std::string directory;
  bool own = false;  // refuses a folder whose newest checkpoint is of another run
  std::shared_ptr<const FolderLock> lock;  // held until the work in the directory is done
  int64_t step = 0;
  int keep = 3;
  uint64_t data_seed = 0;
  std::string compute;               // as in a manifest
  std::vector<std::string> sources;  // the same
  Aggregation rule = Aggregation::sync;
  double rate_scale = 1;
  std::vector<int32_t> replicas;
};

class CheckpointTaker {
 public:
  // `disk`: null for the real one.
  CheckpointTaker(Master& master, const ShardTable& table, ShardRequests& shards, Disk* disk)
      : master_(master), table_(table), shards_(shards), given_disk_(disk) {}

  // Requires: all replicas are at that step until `captured`. `done` gets the manifest's path as
  // text when the checkpoint is on disk, or the error, before or after `captured`; either is called
  // on any thread.
  void take(CheckpointRequest request, std::vector<ParameterSpec> parameters,
            std::function<void()> captured, WhenDone done);
  // Ends the newest attempt with that reason unless all its files are written; a disk that does not
  // answer would hold it. The group's actor.
  void give_up(Errc code, const std::string& text);
  // The shards have the values of this checkpoint: the folder's newest one, which is this one or a
  // damaged one behind it, is this session's own. The group's actor.
  void went_back_to(const std::string& directory, const std::string& manifest);

 private:
  struct Attempt;

  void capture(const std::shared_ptr<Attempt>& attempt);
  void name_files(const std::shared_ptr<Attempt>& attempt);
  void write_files(const std::shared_ptr<Attempt>& attempt);
  void commit(const std::shared_ptr<Attempt>& attempt);
  void want_own(Disk& disk, const std::string& dir) const;
  void want_readable(Disk& disk, const std::string& dir, const Manifest& manifest) const;
  void fail(const std::shared_ptr<Attempt>& attempt, Errc code, const std::string& text);
  void on_disk(const std::shared_ptr<Attempt>& attempt, std::function<void(Disk&)> work);
  DiskThread& disk();
  void discard(const Attempt& attempt, Disk& disk);
  void name_stayed(const std::vector<std::string>& stayed);

  Master& master_;
  const ShardTable& table_;
  ShardRequests& shards_;
  uint64_t next_capture_ = 1;
  std::weak_ptr<Attempt> newest_;
  // On the disk thread alone. The last generation by directory: a shard that was given up may still
  // write its file of it, so no other attempt uses it, even without a trace of it on disk.
  std::map<std::string, int64_t> generations_;
  // The file name of the newest manifest that this session wrote or found there, by directory.
  std::map<std::string, std::string> own_;
  std::set<std::string> warned_;  // of files that could not be removed
  Disk* const given_disk_;
  std::unique_ptr<DiskThread> disk_;  // from the first checkpoint on
};

}  // namespace troupe
