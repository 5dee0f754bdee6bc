// Posts work to the group's actor, and finds services.
#include "training/group/shard_requests.hpp"

namespace troupe {

ShardRequests::Poster ShardRequests::poster() const {
  return [actor = actor_](std::function<void()> work) {
    with_requests(actor, [work = std::move(work)](Requests&) { work(); });
  };
}

void ShardRequests::later(std::chrono::milliseconds pause, std::function<void()> work) const {
  caf::delayed_anon_send(actor_, pause,
                         WithRequests{[work = std::move(work)](Requests&) { work(); }});
}

void ShardRequests::describe(const std::vector<int32_t>& shards,
                             std::function<void(int32_t shard, const ShardDescription&)> each,
                             Done done) {
  ask_all<ShardDescription>(
      shards,
      [this](int32_t shard) {
        return DescribeShard{table_.container, shard};
      },
      std::move(each), std::move(done));
}

void ShardRequests::count_pushes(const std::vector<int32_t>& shards,
                                 std::function<void(int32_t shard, const PushesCounted&)> each,
                                 Done done) {
  ask_all<PushesCounted>(
      shards,
      [this](int32_t shard) {
        return CountPushes{table_.container, shard};
      },
      std::move(each), std::move(done));
}

void ShardRequests::scale_rates(const std::vector<int32_t>& shards, double scale, int64_t step,
                                Done done) {
  ask_all(
      shards,
      [&](int32_t shard) {
        return SetRateScale{table_.container, shard, table_.epoch, step, scale};
      },
      std::move(done));
}

void ShardRequests::change_rule(const std::vector<int32_t>& shards, const Aggregation& rule,
                                int64_t step, Done done) {
  ask_all(
      shards,
      [&](int32_t shard) {
        return ChangeRule{table_.container, shard, table_.epoch, step, to_string(rule)};
      },
      std::move(done));
}

void ShardRequests::find_service(const std::string& task, const std::string& name,
                                 std::chrono::seconds timeout, Then<caf::actor> then) {
  if (task == master_.process().task()) {
    then(Errc::ok, {}, master_.process().services().actor(name));
    return;
  }
  const auto agents = master_.members().agents();
  auto it = agents.find(task);
  if (it == agents.end())
    then(Errc::peer_lost, "it is not there", {});
  else
    requests_.ask<caf::actor>(it->second, timeout, FindService{name}, std::move(then));
}

}  // namespace troupe
