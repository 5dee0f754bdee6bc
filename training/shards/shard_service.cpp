// The actor that makes the shards of a process, passes orders on to them and reports their deaths.
#include "training/shards/shard_service.hpp"

#include <functional>
#include <map>
#include <set>

#include "actors/async/guard.hpp"
#include "actors/cluster/process.hpp"
#include "graph/base/fail_point.hpp"
#include "training/checkpoints/disk_thread.hpp"
#include "training/parameters/give_initial.hpp"
#include "training/parameters/messages.hpp"
#include "training/shards/shard_actor.hpp"

namespace troupe {
namespace {

// A shard that does not report its waits within this time is reported as busy.
constexpr std::chrono::milliseconds kShardAnswer{300};

struct ShardServiceState {
  const char* name = "shards";
  Process* process = nullptr;
  std::shared_ptr<DiskThread> disk;
  std::function<void(const std::string&, Shard&)> on_shard;
  struct Entry {
    ShardHandle actor;
    std::set<ShardUser> users;  // sessions that asked for it; they are told when it dies
  };
  std::map<std::pair<std::string, int32_t>, Entry> shards;
};

template <class Message>
using AnswerTo = caf::detail::tl_head_t<caf::response_type_t<ShardOrders::signatures, Message>>;

// Orders to a shard go to its service, so that the sender need not know the shard's actor.
template <class Message>
caf::result<AnswerTo<Message>> pass_on(ShardService::stateful_pointer<ShardServiceState> self,
                                       const Message& m) {
  auto it = self->state.shards.find({m.container, m.shard});
  if (it == self->state.shards.end())
    return to_caf(Errc::stale, detail::concat(self->state.process->task(), " has no shard ",
                                              m.shard, " of ", m.container));
  return self->delegate(it->second.actor, m);
}

ShardService::behavior_type run_shard_service(
    ShardService::stateful_pointer<ShardServiceState> self, Process* process,
    const ShardSeams& seams) {
  ShardServiceState& s = self->state;
  s.process = process;
  s.disk = std::make_shared<DiskThread>(seams.disk, process->simulated());
  s.on_shard = seams.on_shard;
  self->set_exception_handler(to_error);
  self->set_down_handler([self](const caf::down_msg& m) {
    for (auto it = self->state.shards.begin(); it != self->state.shards.end(); ++it) {
      std::erase_if(it->second.users,
                    [&](const ShardUser& user) { return user.address() == m.source; });
      if (it->second.actor.address() != m.source) continue;
      const std::string reason = from_caf(m.reason).second;
      self->state.process->log()->error("shard died: container={} shard={} reason={}",
                                        it->first.first, it->first.second, reason);
      self->state.process->close_door(it->second.actor.id());
      for (const ShardUser& user : it->second.users)
        self->send(user, ShardLost{it->first.first, it->first.second, reason});
      self->state.shards.erase(it);
      return;
    }
  });
  self->set_exit_handler([self](const caf::exit_msg& m) {
    for (auto& [key, entry] : self->state.shards) {
      self->demonitor(entry.actor.address());
      self->state.process->close_door(entry.actor.id());
      self->send_exit(entry.actor, m.reason);
    }
    self->state.shards.clear();
    self->quit(m.reason);
  });
  return {
      [self](const CreateShard& m) -> caf::result<ShardDescription> {
        ShardServiceState& state = self->state;
        if (!self->current_sender()) return error_of(without_sender());
        if (!m.makes && !state.shards.count({m.container, m.shard})) return pass_on(self, m);
        if (m.session != 0) try {
            state.process->hold(m.session, self->current_sender()->node(),
                                /*values=*/m.container == own_container(m.session));
          } catch (const Error& e) {
            return error_of(e);
          }
        auto [it, fresh] = state.shards.try_emplace({m.container, m.shard});
        if (fresh) {
          try {
            std::function<void(Shard&)> on_shard;
            if (state.on_shard) on_shard = std::bind_front(state.on_shard, m.container);
            it->second.actor = spawn_shard(*state.process, state.disk, m, on_shard);
          } catch (const std::exception& e) {
            state.shards.erase(it);
            return error_of(e);
          }
          fail_point(FailPoint::shard_created);
          self->monitor(it->second.actor);
          state.process->track(it->second.actor);
          state.process->open_door(caf::actor_cast<caf::strong_actor_ptr>(it->second.actor));
        }
        auto user = caf::actor_cast<ShardUser>(self->current_sender());
        if (user && it->second.users.insert(user).second) self->monitor(user);
        return pass_on(self, m);
      },
      [self](const DescribeShard& m) { return pass_on(self, m); },
      [self](const CountPushes& m) { return pass_on(self, m); },
      [self](const AskWaits& m) {
        struct Gathered {
          caf::typed_response_promise<Waits> promise;
          Waits all;
          ~Gathered() { promise.deliver(std::move(all)); }
        };
        auto gathered = std::make_shared<Gathered>();
        gathered->promise = self->make_response_promise<Waits>();
        auto promise = gathered->promise;
        for (const auto& [key, entry] : self->state.shards)
          self->request(entry.actor, kShardAnswer, m)
              .then(
                  [gathered](const Waits& one) {
                    auto& all = gathered->all.lines;
                    all.insert(all.end(), one.lines.begin(), one.lines.end());
                  },
                  [gathered, shard = key.second](const caf::error&) {
                    gathered->all.lines.push_back(
                        detail::concat("shard ", shard, ", which is busy"));
                  });
        return promise;
      },
      [self](const SetInitial& m) { return pass_on(self, m); },
      [self](const GiveInitial& m) { return pass_on(self, m); },
      [self](const BeginEpoch& m) { return pass_on(self, m); },
      [self](const SetRateScale& m) { return pass_on(self, m); },
      [self](const ChangeRule& m) { return pass_on(self, m); },
      [self](const CaptureShard& m) { return pass_on(self, m); },
      [self](const WriteShard& m) { return pass_on(self, m); },
      [self](const DropContainer& m) {
        auto& shards = self->state.shards;
        const caf::strong_actor_ptr& asker = self->current_sender();
        if (!asker || asker->node() != self->node()) return;  // a process ends its sessions itself
        for (auto it = shards.begin(); it != shards.end();) {
          if (it->first.first != m.container) {
            ++it;
            continue;
          }
          self->demonitor(it->second.actor.address());
          self->state.process->close_door(it->second.actor.id());
          self->send_exit(it->second.actor, caf::exit_reason::user_shutdown);
          it = shards.erase(it);
        }
      },
  };
}

}  // namespace

ShardService spawn_shard_service(Process& process, ShardSeams seams) {
  return process.system().spawn(run_shard_service, &process, std::move(seams));
}

}  // namespace troupe
