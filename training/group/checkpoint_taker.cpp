// The stages of a checkpoint: capture, names, files, commit; and the end of a failed attempt.
#include "training/group/checkpoint_taker.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "actors/async/guard.hpp"
#include "graph/base/fail_point.hpp"
#include "graph/base/mutant.hpp"

namespace troupe {
namespace {

// One spelling for all that name the same folder.
std::string folder_key(const std::string& dir) {
  std::error_code none;
  const std::filesystem::path real = std::filesystem::weakly_canonical(dir, none);
  return none ? dir : (real / "").parent_path().string();
}

}  // namespace

struct CheckpointTaker::Attempt {
  CheckpointRequest request;
  uint64_t epoch = 0, capture = 0;
  std::vector<int32_t> shards;
  Manifest manifest;
  std::map<int32_t, CheckpointFile> files;  // by shard
  bool committed = false;
  enum class State : uint8_t { waits_for_shards, has_files, given_up };
  State state = State::waits_for_shards;  // of the group's actor alone
  std::function<void()> captured;
  WhenDone done;

  void end(Errc code, const std::string& text) {
    request.lock.reset();  // the receiver of the end may use the directory
    done(code, text);
  }
};

void CheckpointTaker::take(CheckpointRequest request, std::vector<ParameterSpec> parameters,
                           std::function<void()> captured, WhenDone done) {
  auto attempt = std::make_shared<Attempt>();
  attempt->epoch = table_.epoch;
  attempt->capture = next_capture_++;
  attempt->shards = table_.numbers();
  attempt->manifest.step = request.step;
  attempt->manifest.epoch = table_.epoch;
  attempt->manifest.rule = request.rule;
  attempt->manifest.rate_scale = request.rate_scale;
  attempt->manifest.data_seed = request.data_seed;
  attempt->manifest.compute = request.compute;
  attempt->manifest.sources = request.sources;
  attempt->manifest.parameters = std::move(parameters);
  for (int32_t replica : request.replicas)
    attempt->manifest.next_steps.emplace_back(replica, request.step);
  attempt->request = std::move(request);
  attempt->captured = std::move(captured);
  attempt->done = std::move(done);
  newest_ = attempt;
  capture(attempt);
}

// Its files stay: once the lock is free, those of its generation may be another run's.
void CheckpointTaker::give_up(Errc code, const std::string& text) {
  const std::shared_ptr<Attempt> attempt = newest_.lock();
  if (!attempt || attempt->state != Attempt::State::waits_for_shards) return;
  attempt->state = Attempt::State::given_up;
  disk().post([attempt] { attempt->request.lock.reset(); });  // after name_files()
  attempt->done(code, text);
}

void CheckpointTaker::capture(const std::shared_ptr<Attempt>& attempt) {
  shards_.ask_all(
      attempt->shards,
      [&](int32_t shard) {
        return CaptureShard{table_.container, shard, attempt->epoch, attempt->request.step,
                            attempt->capture};
      },
      [this, attempt](Errc code, const std::string& text) {
        if (attempt->state == Attempt::State::given_up) return;
        if (code != Errc::ok) return attempt->end(code, text);
        attempt->captured();
        name_files(attempt);
      });
}

void CheckpointTaker::name_files(const std::shared_ptr<Attempt>& attempt) {
  on_disk(attempt, [this, attempt, post = shards_.poster()](Disk& disk) {
    const std::string& dir = attempt->request.directory;
    if (attempt->request.lock) attempt->request.lock->keep();
    if (attempt->request.own) want_own(disk, dir);
    int64_t& newest = generations_[dir];
    newest = std::max(next_generation(disk, dir), newest + 1);
    attempt->manifest.generation = newest;
    name_stayed(remove_leftovers(disk, dir));
    post([this, attempt] { write_files(attempt); });
  });
}

void CheckpointTaker::write_files(const std::shared_ptr<Attempt>& attempt) {
  if (attempt->state == Attempt::State::given_up) return;
  const auto write = [&](int32_t shard) {
    WriteShard m;
    m.container = table_.container;
    m.shard = shard;
    m.epoch = attempt->epoch;
    m.capture = attempt->capture;
    m.directory = attempt->request.directory;
    m.name = shard_file_name(attempt->manifest.generation, attempt->request.step, shard,
                             static_cast<int32_t>(attempt->shards.size()));
    return m;
  };
  shards_.ask_all<ShardFile>(
      attempt->shards, write,
      [attempt](int32_t shard, const ShardFile& file) {
        attempt->files[shard] = {file.name, file.bytes, file.sha256};
      },
      [this, attempt](Errc code, const std::string& text) {
        if (attempt->state == Attempt::State::given_up) return;
        attempt->state = Attempt::State::has_files;
        if (code != Errc::ok) return fail(attempt, code, text);
        commit(attempt);
      });
}

void CheckpointTaker::commit(const std::shared_ptr<Attempt>& attempt) {
  for (const auto& [shard, file] : attempt->files) attempt->manifest.files.push_back(file);
  if (mutant(Mutant::manifest_without_last_file)) attempt->manifest.files.pop_back();
  on_disk(attempt, [this, attempt](Disk& disk) {
    const std::string& dir = attempt->request.directory;
    want_readable(disk, dir, attempt->manifest);
    if (mutant(Mutant::prune_before_commit))
      for (int64_t old = 0; old < attempt->manifest.generation; ++old)
        discard_checkpoint(disk, dir, old);
    fail_point(FailPoint::checkpoint_before_manifest);
    commit_checkpoint(disk, dir, attempt->manifest);
    attempt->committed = true;
    own_[folder_key(dir)] = manifest_name(attempt->manifest.generation, attempt->manifest.step);
    try {
      fail_point(FailPoint::checkpoint_before_prune);
      name_stayed(prune_checkpoints(disk, dir, attempt->request.keep));
    } catch (const Error& e) {  // the new checkpoint is committed
      name_stayed({e.what()});
    }
    attempt->end(Errc::ok, detail::concat(dir, "/",
                                          manifest_name(attempt->manifest.generation,
                                                        attempt->manifest.step)));
  });
}

void CheckpointTaker::went_back_to(const std::string& directory, const std::string& manifest) {
  disk().post([this, directory, manifest] {
    std::optional<std::string> newest;
    try {
      newest = newest_manifest_name(disk().disk(), directory);
    } catch (const std::exception&) {  // a save there tells the same error
    }
    own_[folder_key(directory)] = newest.value_or(manifest);
  });
}

// Another run's checkpoints would be counted and removed as if they were this one's, and the newest
// of the folder, which is loaded, would be either's.
void CheckpointTaker::want_own(Disk& disk, const std::string& dir) const {
  const std::optional<std::string> newest = newest_manifest_name(disk, dir);
  const auto own = own_.find(folder_key(dir));
  if (newest && (own == own_.end() || own->second != *newest))
    throw Error(Errc::invalid_argument, dir, " has checkpoints of another run, the newest is ",
                *newest,
                "; go on from it by load_parameters() before the first step, choose another "
                "folder, or empty this one");
}

// Old checkpoints are removed only after this process, which restores, has read the new one.
void CheckpointTaker::want_readable(Disk& disk, const std::string& dir,
                                    const Manifest& manifest) const {
  try {
    check_files(disk, dir, manifest);
  } catch (const Error& e) {
    throw Error(e.code(), master_.process().task(),
                " does not find what the shards have written: ", e.what(),
                "; the folder is to be the same one for the program and for all "
                "processes with shards, under the same path");
  }
}

// Removes the files that some shards have written: without the others they are useless, and would
// fill a disk on which no checkpoint succeeds.
void CheckpointTaker::fail(const std::shared_ptr<Attempt>& attempt, Errc code,
                           const std::string& text) {
  on_disk(attempt, [this, attempt, code, text](Disk& disk) {
    discard(*attempt, disk);
    attempt->end(code, text);
  });
}

void CheckpointTaker::discard(const Attempt& attempt, Disk& disk) {
  try {
    name_stayed(discard_checkpoint(disk, attempt.request.directory, attempt.manifest.generation));
  } catch (const Error& e) {  // the next attempt removes it
    name_stayed({e.what()});
  }
}

// Warns once for each file: one that cannot be removed stays at the next checkpoint, too.
void CheckpointTaker::name_stayed(const std::vector<std::string>& stayed) {
  for (const std::string& line : stayed)
    if (warned_.insert(line).second)
      master_.process().log()->warn("a folder of checkpoints was not tidied: error={}", line);
}

DiskThread& CheckpointTaker::disk() {
  if (!disk_) disk_ = std::make_unique<DiskThread>(given_disk_, master_.process().simulated());
  return *disk_;
}

// Runs `work` on the disk thread; its failure ends the attempt.
void CheckpointTaker::on_disk(const std::shared_ptr<Attempt>& attempt,
                              std::function<void(Disk&)> work) {
  disk().post([this, attempt, work = std::move(work), &disk = disk_->disk()] {
    try {
      work(disk);
    } catch (const std::exception& e) {
      if (attempt->manifest.generation > 0 && !attempt->committed) discard(*attempt, disk);
      const auto [code, text] = from_caf(error_of(e));
      attempt->end(code, text);
    }
  });
}

}  // namespace troupe
