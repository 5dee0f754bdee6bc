// ShardMaker: makes the shards of a session and sets their first values, or follows the session
// that has made them first, when their container is shared.
//
// Owner: the group. Thread: the group's actor, except owner() and followed().
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "training/group/shard_requests.hpp"

namespace troupe {

class ShardMaker {
 public:
  using Done = WhenDone;
  ShardMaker(Master& master, ShardTable& table, ShardRequests& shards, bool shared)
      : master_(master), table_(table), shards_(shards), shared_(shared) {}

  // A call that computes the first values of these parameters.
  void add_source(int64_t call, std::vector<std::string> parameters);

  // Makes these shards and sets their first values, or waits until their owner, another session,
  // has (bad_configuration if that one has laid them out otherwise). It may be called again after a
  // failure: shards that are there stay.
  void make(const std::vector<int32_t>& shards, const std::vector<int32_t>& replicas, Done done);
  // Makes all shards that are gone; the epoch that follows sets their values.
  void make_again(const std::vector<int32_t>& replicas, Done done);
  // Tells the shards that a task still has that their owner is back.
  void show_up(const std::string& task, const std::vector<int32_t>& replicas);
  // Looks if all shards are as they were: the actors that make_again() has found, serving in
  // `epoch`, and no replica behind `step`. Done gets stale, naming one that is not; peer_lost,
  // naming it, while a task is not there. The owner's request also makes shards report their end to
  // this session again, which a lost link has ended.
  void look_again(const std::vector<int32_t>& replicas, uint64_t epoch, int64_t step, Done done);
  // Sends the shards first values: those of `given`, which may be null, and computed ones of the
  // parameters that are not among them.
  using FirstValues = std::shared_ptr<const std::map<std::string, Tensor>>;  // by parameter
  void set_initial(const std::vector<int32_t>& shards, const FirstValues& given, Done done);
  // Waits until all of them have values in one epoch, `epoch` or a later one, which is then the
  // table's. Done gets peer_lost if the container's owner takes too long.
  void wait_serving(const std::vector<int32_t>& shards, uint64_t epoch, Done done);
  // True if one of them is in a later epoch than the table; false if none answers.
  void ask_epoch(const std::vector<int32_t>& shards, std::function<void(bool is_new)> done);
  // This session trains these replicas of a shared container from now on, which it tells shard 0
  // when it asks for the container next; none: at once.
  void train(std::vector<int32_t> trains, const std::vector<int32_t>& replicas);
  // The owner of the container, as far as shard 0 knows. Done gets stale while another session
  // trains one of this session's replicas, or there is no shard 0.
  struct OwnerSeen {
    bool away = false, trains = true;
  };
  void ask_owner(const std::vector<int32_t>& replicas, std::shared_ptr<OwnerSeen> seen, Done done);
  // Asks for the shards of another session that has gone, as they are. Done gets ok: owner() says
  // whether they are this session's; stale: as ask_owner(), or their owner is away, and may come
  // back for some seconds more; invalid_argument: some values went with it.
  void take_over(const std::vector<int32_t>& replicas, Done done);
  // They were another session's, which has gone: the next epoch keeps their values. Any thread.
  bool took_over() const { return took_over_; }
  void went_on() { took_over_ = false; }  // the next epoch is the session's own
  // The steps at which replicas continued, and the rule, when the last wait_serving() ended. Any
  // thread.
  struct Followed {
    std::map<int32_t, int64_t> next_steps;
    Aggregation rule;  // of shards that another session has made
  };
  Followed followed() const {
    std::lock_guard lock(mutex_);
    return followed_;
  }

  // Takes over the epoch, rule and doors of shards. False: they are not all in one epoch yet, or it
  // is below `epoch`.
  bool follow(const std::map<int32_t, ShardDescription>& shards, uint64_t epoch);

  // False: another session set the values, and recovers them. Any thread.
  bool owner() const { return !attached_; }

 private:
  std::string owned_by_other(const ShardDescription& d) const;
  CreateShard order_of(int32_t shard, const std::vector<int32_t>& replicas) const;
  void create(int32_t shard, const std::vector<int32_t>& replicas, int tries, Done done);
  void catch_up(int32_t shard, const std::vector<int32_t>& replicas, Done done);
  // Sends the values from byte `at` of the shard's `index`-th slice on.
  void send_initial(const std::vector<int32_t>& shards, const FirstValues& values, Done done);
  void send_pieces(int32_t shard, size_t index, int64_t at, FirstValues values, Done done);
  // To shard 0, if it is there.
  void ask_first(CreateShard order,
                 std::function<void(Errc, const std::string&, const ShardDescription&)> done);
  void take_over_rest(const std::vector<int32_t>& replicas, Done done);
  void poll_serving(const std::vector<int32_t>& shards, uint64_t epoch, int tries, Done done);

  Master& master_;
  ShardTable& table_;
  ShardRequests& shards_;
  const bool shared_;
  std::vector<std::pair<int64_t, std::vector<std::string>>> sources_;
  std::vector<int32_t> trains_;        // replicas
  bool decided_ = false;               // true once attached_ is known
  std::atomic<bool> attached_{false};  // to the shards of another session
  std::atomic<bool> took_over_{false};
  mutable std::mutex mutex_;  // guards the rest
  Followed followed_;
};

}  // namespace troupe
