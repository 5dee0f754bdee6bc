// The options of a ShardWorld (sim_shards.hpp), drawn from a seed, and the faults that can be
// planted.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>

#include "tests/support/simulation/simulation.hpp"
#include "troupe/training.hpp"

namespace troupe::sim {

// Deliberate faults, which show that the checks detect them.
enum class Planted {
  none,
  fresh_step,      // after a lost acknowledgement a worker uses a fresh sequence and step
  doubled_apply,   // the log records some updates twice
  same_epoch,      // a lost shard is restored from its snapshot without a new epoch
  swapped_sum,     // the log records the replicas in another order
  torn_gradient,   // a restarted worker computes another bit
  no_resend,       // lost requests are not sent again
  outside_random,  // a choice that the seed does not decide
};

struct ShardWorldOptions {
  Aggregation rule = Aggregation::sync;
  int32_t replicas = 2;
  size_t shards = 1;
  uint32_t slices_per_shard = 1;
  int64_t slice_size = 3;
  int64_t steps = 4;
  int64_t checkpoint_every = 2;
  std::string optimizer = "sgd";
  double drop = 0, duplicate = 0;
  int worker_kills = 0, shard_losses = 0;
  int64_t faults_until = 0;  // in events; later no message is lost
  Planted planted = Planted::none;
  bool bad = false;  // some gradients are not finite, and shards skip them

  // `name`: of a scenario, "shards-" and the name of a rule, with "-bad" behind it if some
  // gradients are not finite.
  static ShardWorldOptions draw(Draw& draw, const std::string& name) {
    if (name.ends_with("-bad")) {
      ShardWorldOptions o = ShardWorldOptions::draw(draw, name.substr(0, name.size() - 4));
      o.bad = true;
      return o;
    }
    if (name == "shards-sync-backup") return ShardWorldOptions::draw(draw, backups(1));
    if (name == "shards-ssp") return ShardWorldOptions::draw(draw, ahead(0));
    return ShardWorldOptions::draw(draw,
                                   name == "shards-sync" ? Aggregation::sync : Aggregation::async);
  }
  static Aggregation backups(int64_t count) { return {Aggregation::Kind::sync_backup, count}; }
  static Aggregation ahead(int64_t steps) { return {Aggregation::Kind::ssp, steps}; }
  // Draws the bound of a rule that has one.
  static ShardWorldOptions draw(Draw& draw, const Aggregation& rule) {
    ShardWorldOptions o;
    o.rule = rule;
    o.replicas = static_cast<int32_t>(draw.between(2, 4));
    o.shards = static_cast<size_t>(draw.between(1, 3));
    o.slices_per_shard = static_cast<uint32_t>(draw.between(1, 2));
    o.slice_size = draw.between(1, 5);
    o.steps = draw.between(3, 7);
    o.checkpoint_every = draw.between(1, 3);
    const char* const optimizers[] = {"sgd",     "momentum", "nesterov", "adagrad", "adadelta",
                                      "rmsprop", "adam",     "adamw",    "ftrl"};
    o.optimizer = optimizers[draw.below(std::size(optimizers))];
    o.drop = draw.chance(0.3) ? 0 : 0.3 * static_cast<double>(draw.below(100)) / 100;
    o.duplicate = draw.chance(0.3) ? 0 : 0.3 * static_cast<double>(draw.below(100)) / 100;
    o.worker_kills = static_cast<int>(draw.below(4));
    o.shard_losses = static_cast<int>(draw.below(3));
    o.faults_until = draw.between(200, 600);
    if (rule.kind == Aggregation::Kind::sync_backup) o.rule.bound = draw.between(1, o.replicas - 1);
    if (rule.kind == Aggregation::Kind::ssp) o.rule.bound = draw.between(0, 2);
    o.optimizer = rule.damped && o.optimizer == "ftrl" ? "sgd" : o.optimizer;
    return o;
  }
  ShardWorldOptions without_faults() const {
    ShardWorldOptions o = *this;
    o.drop = o.duplicate = 0;
    o.worker_kills = o.shard_losses = 0;
    o.planted = Planted::none;
    return o;
  }
  // True if all gradients of the step of the replica are NaN: of each step some, of every third one
  // all.
  bool is_bad(int32_t replica, int64_t step) const {
    return bad && (step % 3 == 2 || (step + replica) % 3 == 0);
  }
  size_t slice_count() const { return shards * slices_per_shard; }
  size_t shard_of(uint32_t slice) const { return slice / slices_per_shard; }
  std::string describe() const {
    return detail::concat("options rule=", to_string(rule), " replicas=", replicas,
                          " shards=", shards, " slices=", slices_per_shard, " size=", slice_size,
                          " steps=", steps, " checkpoint_every=", checkpoint_every,
                          " optimizer=", optimizer, " drop=", drop, " duplicate=", duplicate,
                          " worker_kills=", worker_kills, " shard_losses=", shard_losses,
                          " faults_until=", faults_until, bad ? " bad=1" : "");
  }
};

}  // namespace troupe::sim
