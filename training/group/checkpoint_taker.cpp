// Implements training/group/checkpoint_taker.hpp.
#include "training/group/checkpoint_taker.hpp"

#include <algorithm>
#include <utility>

#include "actors/async/guard.hpp"

namespace troupe {

struct CheckpointTaker::Order {
  Wanted wanted;
  uint64_t epoch = 0, capture = 0;
  std::vector<int32_t> shards;
  Manifest manifest;
  std::map<int32_t, CheckpointFile> files;  // by shard
  bool committed = false;
  std::function<void()> captured;
  Gather::Done done;

  void end(Errc code, const std::string& text) {
    wanted.lock.reset();  // whoever hears of the end may use the directory
    done(code, text);
  }
};

void CheckpointTaker::take(Wanted wanted, std::vector<ParameterSpec> parameters,
                           std::function<void()> captured, Gather::Done done) {
  auto order = std::make_shared<Order>();
  order->epoch = table_.epoch;
  order->capture = next_capture_++;
  order->shards = table_.numbers();
  order->manifest.step = wanted.step;
  order->manifest.epoch = table_.epoch;
  order->manifest.rule = wanted.rule;
  order->manifest.data_seed = wanted.data_seed;
  order->manifest.compute = wanted.compute;
  order->manifest.parameters = std::move(parameters);
  for (int32_t replica : wanted.replicas)
    order->manifest.next_steps.emplace_back(replica, wanted.step);
  order->wanted = std::move(wanted);
  order->captured = std::move(captured);
  order->done = std::move(done);
  capture(order);
}

void CheckpointTaker::capture(const std::shared_ptr<Order>& order) {
  auto gather = std::make_shared<Gather>(order->shards.size(),
                                         [this, order](Errc code, const std::string& text) {
                                           if (code != Errc::ok) return order->end(code, text);
                                           order->captured();
                                           name_files(order);
                                         });
  for (int32_t shard : order->shards)
    orders_.order(
        shard,
        CaptureShard{table_.container, shard, order->epoch, order->wanted.step, order->capture},
        [gather](Errc code, const std::string& text) { gather->one(code, text); });
}

void CheckpointTaker::name_files(const std::shared_ptr<Order>& order) {
  on_disk(order, [this, order, post = orders_.poster()](Disk& disk) {
    const std::string& dir = order->wanted.directory;
    int64_t& newest = generations_[dir];
    newest = std::max(next_generation(disk, dir), newest + 1);
    order->manifest.generation = newest;
    name_stayed(remove_leftovers(disk, dir));
    post([this, order] { write_files(order); });
  });
}

void CheckpointTaker::write_files(const std::shared_ptr<Order>& order) {
  auto gather = std::make_shared<Gather>(order->shards.size(),
                                         [this, order](Errc code, const std::string& text) {
                                           if (code != Errc::ok) return give_up(order, code, text);
                                           commit(order);
                                         });
  for (int32_t shard : order->shards) {
    WriteShard m;
    m.container = table_.container;
    m.shard = shard;
    m.epoch = order->epoch;
    m.capture = order->capture;
    m.directory = order->wanted.directory;
    m.name = shard_file_name(order->manifest.generation, order->wanted.step, shard,
                             static_cast<int32_t>(order->shards.size()));
    orders_.ask<ShardFile>(
        shard, std::move(m),
        [gather, order, shard](Errc code, const std::string& text, const ShardFile& file) {
          if (code == Errc::ok) order->files[shard] = {file.name, file.bytes, file.sha256};
          gather->one(code, text);
        });
  }
}

void CheckpointTaker::commit(const std::shared_ptr<Order>& order) {
  for (const auto& [shard, file] : order->files) order->manifest.files.push_back(file);
  on_disk(order, [this, order](Disk& disk) {
    const std::string& dir = order->wanted.directory;
    want_readable(disk, dir, order->manifest);
    commit_checkpoint(disk, dir, order->manifest);
    order->committed = true;
    try {
      name_stayed(prune_checkpoints(disk, dir, order->wanted.keep));
    } catch (const Error& e) {  // the new checkpoint is there, whatever becomes of the old ones
      name_stayed({e.what()});
    }
    order->end(
        Errc::ok,
        detail::concat(dir, "/", manifest_name(order->manifest.generation, order->manifest.step)));
  });
}

// Old checkpoints go for one that this process has read: it is who will look for it.
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
void CheckpointTaker::give_up(const std::shared_ptr<Order>& order, Errc code,
                              const std::string& text) {
  on_disk(order, [this, order, code, text](Disk& disk) {
    discard(*order, disk);
    order->end(code, text);
  });
}

void CheckpointTaker::discard(const Order& order, Disk& disk) {
  try {
    name_stayed(discard_checkpoint(disk, order.wanted.directory, order.manifest.generation));
  } catch (const Error& e) {  // the next attempt removes it
    name_stayed({e.what()});
  }
}

// Once for each file: what stays, stays at the next checkpoint, too.
void CheckpointTaker::name_stayed(const std::vector<std::string>& stayed) {
  for (const std::string& line : stayed)
    if (warned_.insert(line).second)
      master_.process().log()->warn("a folder of checkpoints was not tidied: error={}", line);
}

// Does it on the disk thread; its failure ends the order.
void CheckpointTaker::on_disk(const std::shared_ptr<Order>& order,
                              std::function<void(Disk&)> work) {
  if (!disk_) disk_ = std::make_unique<DiskThread>(given_disk_, master_.process().simulated());
  disk_->post([this, order, work = std::move(work), &disk = disk_->disk()] {
    try {
      work(disk);
    } catch (const std::exception& e) {
      if (order->manifest.generation > 0 && !order->committed) discard(*order, disk);
      const auto [code, text] = from_caf(error_of(e));
      order->end(code, text);
    }
  });
}

}  // namespace troupe
