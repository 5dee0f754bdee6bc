// Begins epochs, changes the rule and the rate scale, and hands events to the listener.
#include "training/group/parameter_group.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <tuple>

#include "actors/master/gate.hpp"
#include "actors/async/guard.hpp"
#include "graph/base/fail_point.hpp"
#include "graph/base/mutant.hpp"
#include "training/control/control_actor.hpp"
#include "training/group/push_counts.hpp"
#include "training/group/session_parameters.hpp"
#include "training/input/input_service.hpp"
#include "training/rules/optimizer.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kMovedTimeout{5};  // to find a process, and for its answer

// Visitors of the cluster ask this actor.
void offer_control(Process& process, const std::shared_ptr<ParameterGroup>& group) {
  ControlPort port;
  port.ask = [group](TrainingRequests::Then then) { group->requests().ask(then); };
  port.ledger = [group](std::shared_ptr<std::vector<PushCount>> out, WhenDone done) {
    group->count_pushes(std::move(out), std::move(done));
  };
  port.change = [group](const TermChange& change, TrainingRequests::Taken taken) {
    change_terms(*group, change, std::move(taken));
  };
  port.number = [group] { return group->requests().number(); };
  const auto control = caf::actor_cast<caf::actor>(spawn_control(process.system(), port));
  process.track(control);
  process.services().offer(kControlService, control);
}

}  // namespace

ParameterGroup::ParameterGroup(Master& master, ParameterOwnerOptions options, Disk* disk)
    : master_(master),
      options_(std::move(options)),
      shards_(master, table_),
      maker_(master, table_, shards_, !options_.container.empty()),
      routes_(master, table_, shards_),
      checkpoints_(master, table_, shards_, disk),
      parameters_(master, options_, {table_, shards_, maker_, routes_, calls_}) {
  table_.container = shared() ? options_.container : own_container(master.session());
  if (shared()) master.runs().steps().share();
}

void ParameterGroup::begin() {
  Process& process = master_.process();
  using Actor = Asker::extend_with<ShardUser>;
  const Actor actor = process.system().spawn(
      [group = shared_from_this()](Actor::pointer self) -> Actor::behavior_type {
        self->set_exception_handler(to_error);
        group->shards_.attach(self);
        self->attach_functor([weak = group->weak_from_this()](const caf::error& reason) {
          if (auto g = weak.lock()) g->actor_ended(reason);
        });
        return {[group](const WithRequests& work) { group->shards_.run(work); },
                [group](const ShardLost& m) {
                  group->events_.tell(&Listener::lost,
                                      detail::concat("shard ", m.shard, " of ", m.container,
                                                     " died: ", m.reason, "; its service noticed"));
                }};
      });
  shards_.set_actor(actor);
  process.track(actor);
  offer_control(process, shared_from_this());
  master_.runs().set_when_stale([weak = weak_from_this()] {
    if (auto group = weak.lock()) group->follow([](Errc, const std::string&) {});
  });
  master_.calls().set_ensure([weak = weak_from_this()](std::vector<int32_t> nodes, Done done) {
    if (auto group = weak.lock())
      group->ensure(nodes, std::move(done));
    else
      done(Errc::cancelled, "the session is closing");
  });
  master_.members().add_listener(this);
}

void ParameterGroup::end() {
  const std::optional<Listener> listener = events_.end();
  if (!listener) return;
  master_.members().remove_listener(this);
  master_.calls().set_ensure(
      [](const std::vector<int32_t>&, const Done& done) { done(Errc::cancelled, kSessionClosed); });
  // Processes drop the session's own container when the master tells them that it has ended.
  shards_.end();
  if (listener->closed) listener->closed();
  calls_.end(Errc::cancelled, kSessionClosed);
}

// A failure of the actor, and not end(): its callers would wait for ever.
void ParameterGroup::actor_ended(const caf::error& reason) {
  if (events_.ended()) return;
  const auto [code, text] = from_caf(reason);
  master_.process().log()->error("parameters of the session failed: error={}", text);
  calls_.end(code, detail::concat("the parameters of this session cannot be used any more: ", text,
                                  "; close it, and begin anew from a checkpoint"));
}

void ParameterGroup::Events::listen(Listener listener) {
  {
    std::lock_guard lock(mutex_);
    if (!ended_) {
      listener_ = std::move(listener);
      return;
    }
  }
  if (listener.closed) listener.closed();
}

void ParameterGroup::Events::tell(const Told Listener::*event, const std::string& text) const {
  Told told;
  {
    std::lock_guard lock(mutex_);
    told = listener_.*event;
  }
  if (told) told(text);
}

void ParameterGroup::Events::tell_of_members() const {
  std::function<void()> told;
  {
    std::lock_guard lock(mutex_);
    told = listener_.members;
  }
  if (told) told();
}

std::optional<ParameterGroup::Listener> ParameterGroup::Events::end() {
  std::lock_guard lock(mutex_);
  if (std::exchange(ended_, true)) return std::nullopt;
  return std::exchange(listener_, {});
}

bool ParameterGroup::Events::ended() const {
  std::lock_guard lock(mutex_);
  return ended_;
}

// Members

void ParameterGroup::up(const Member& member, const caf::actor&) {
  post([this, task = member.name()] {
    routes_.came(task);
    if (shared() && owner()) maker_.show_up(task, parameters_.replicas());
    events_.tell_of_members();
  });
}

void ParameterGroup::down(const Member& member, const std::string& reason) {
  post([this, task = member.name(), reason] { lost_member(task, reason); });
}

void ParameterGroup::lost_member(const std::string& task, const std::string& reason) {
  const std::string noticed =
      detail::concat(" is gone (", reason, "); noticed by the master ", master_.process().task());
  if (table_.lives_on(task)) {
    routes_.stop();
    events_.tell(&Listener::lost,
                 detail::concat(task, ", which holds parameters,", noticed,
                                "; all towers stop until it is back, and its shards are restored "
                                "unless they are as they were"));
  } else {
    events_.tell(
        master_.calls().trains_on(task) ? &Listener::worker_gone : &Listener::gone,
        detail::concat(task, noticed,
                       "; steps that ran there are done again with the same data when it is "
                       "back, or another process has its replicas"));
  }
  events_.tell_of_members();
}

// Epochs

void ParameterGroup::establish(Start start, Done done) {
  established_ = true;
  post([this, start = std::move(start), done = calls_.add(std::move(done))] {
    if (table_.numbers().empty())
      return done(Errc::invalid_argument,
                  "the graph has no parameters; make some with parameter()");
    const auto tell_all = [this, start, done](Errc code, const std::string& text) {
      if (code != Errc::ok) return done(code, text);
      table_.began = table_.epoch;
      rate_scale().begin_epoch(table_.rate_scale);
      fail_point(FailPoint::group_before_routes);
      if (owner() && !start.manifest.empty())
        checkpoints_.went_back_to(start.directory, start.manifest);
      routes_.send_all(done);
    };
    table_.compression = start.compression;
    // Another session decides: this one follows it to its epoch. No training is in the first one.
    if (!owner()) {  // shard 0 may be a new one, which does not know this session's replicas
      const auto claim = [this, tell_all](Errc code, const std::string& text) {
        if (code != Errc::ok) return tell_all(code, text);
        maker_.ask_owner(parameters_.replicas(), std::make_shared<ShardMaker::OwnerSeen>(),
                         tell_all);
      };
      return maker_.wait_serving(table_.numbers(), /*epoch=*/2, claim);
    }
    if (start.mode != BeginEpoch::keep) {
      table_.rule = start.rule.value_or(table_.rule);
      table_.rate_scale = start.rate_scale;
      table_.skips_bad = start.skips_bad;
    }
    if (!mutant(Mutant::epoch_not_drawn)) ++table_.epoch;
    fail_point(FailPoint::group_epoch_drawn);
    maker_.make_again(parameters_.replicas(),
                      [this, start, tell_all](Errc code, const std::string& text) {
                        if (code != Errc::ok)
                          tell_all(code, text);
                        else
                          begin_epoch(start, tell_all);
                      });
  });
}

void ParameterGroup::ask_owner(std::shared_ptr<ShardMaker::OwnerSeen> seen, Done done) {
  post([this, seen = std::move(seen), done = calls_.add(std::move(done))] {
    if (owner() || table_.numbers().empty()) return done(Errc::ok, {});
    maker_.ask_owner(parameters_.replicas(), seen, done);
  });
}

void ParameterGroup::take_over(Done done) {
  post([this, done = calls_.add(std::move(done))] {
    if (owner() || table_.numbers().empty()) return done(Errc::ok, {});
    maker_.take_over(parameters_.replicas(), [this, done](Errc code, const std::string& text) {
      if (code == Errc::ok && took_over())
        master_.process().log()->info("took over a container: container={} epoch={}",
                                      table_.container, table_.epoch);
      done(code, text);
    });
  });
}

// A training follows by itself, as its steps have to go back.
void ParameterGroup::follow(Done done) {
  post([this, done = calls_.add(std::move(done))] {
    if (owner() || table_.numbers().empty() || in_training()) return done(Errc::ok, {});
    auto found = std::make_shared<std::map<int32_t, ShardDescription>>();
    shards_.describe(
        table_.numbers(),
        [found](int32_t shard, const ShardDescription& d) { (*found)[shard] = d; },
        [this, found, done](Errc code, const std::string& text) {
          if (code != Errc::ok || in_training()) return done(code, text);
          if (!maker_.follow(*found, /*epoch=*/1))
            return done(Errc::stale, "the owner of the parameters is about to begin a new epoch");
          routes_.send_all(done);
        });
  });
}

bool ParameterGroup::in_training() {
  std::lock_guard lock(mutex_);
  return !training_.expired();
}

// How far a shard's slowest replica is says nothing of ours where others' replicas are in it.
void ParameterGroup::look_again(int64_t step, Done done) {
  post([this, step = shared() ? 0 : step, done = calls_.add(std::move(done))] {
    maker_.look_again(parameters_.replicas(), table_.began, step,
                      [this, done](Errc code, const std::string& text) {
                        if (code != Errc::ok)
                          done(code, text);
                        else
                          routes_.send_all(done);
                      });
  });
}

std::shared_ptr<const void> ParameterGroup::claim_training() {
  std::lock_guard lock(mutex_);
  if (!training_.expired()) return nullptr;
  TrainingSteps& steps = master_.runs().steps();
  steps.train(true);
  // training_ keeps the deleter alive, which must not keep this alive.
  std::shared_ptr<const void> out(&steps, [&steps, weak = weak_from_this()](const void*) {
    steps.train(false);
    if (const auto group = weak.lock()) group->train({});
  });
  training_ = out;
  return out;
}

void ParameterGroup::train(std::vector<int32_t> replicas, Done done) {
  post([this, replicas = std::move(replicas), done = calls_.add(std::move(done))] {
    maker_.train(replicas, parameters_.replicas());
    if (!replicas.empty() || !table_.compression.used()) return done(Errc::ok, {});
    table_.compression = {};
    routes_.send_all(done);
  });
}

void ParameterGroup::ask_epoch(std::function<void(bool is_new)> done) {
  auto is_new = std::make_shared<std::atomic<bool>>(false);
  post([this, is_new,
        answer = calls_.add(
            [is_new, done = std::move(done)](Errc, const std::string&) { done(*is_new); })] {
    maker_.ask_epoch(table_.numbers(), [is_new, answer](bool found) {
      *is_new = found;
      answer(Errc::ok, {});
    });
  });
}

void ParameterGroup::ask_moved(std::function<void(int64_t ms)> done) {
  auto least = std::make_shared<std::atomic<int64_t>>(-1);
  post([this, least, answer = calls_.add([least, done = std::move(done)](Errc, const std::string&) {
    done(*least);
  })] {
    std::vector<std::string> tasks = {master_.process().task()};
    for (const auto& [task, agent] : master_.members().agents()) tasks.push_back(task);
    const Done ended = when_all(tasks.size(), answer);
    for (const std::string& task : tasks)
      shards_.ask_service<InputService, SourceMoved>(
          task, "input", kMovedTimeout, AskMoved{master_.session()},
          [least, ended](Errc code, const std::string& text, const SourceMoved& m) {
            if (m.ms >= 0) *least = *least < 0 ? m.ms : std::min<int64_t>(*least, m.ms);
            ended(code, text);
          });
  });
}

void ParameterGroup::begin_epoch(const Start& start, Done done) {
  const std::vector<int32_t> all = table_.numbers();
  const auto begin = [&](int32_t shard) {
    BeginEpoch m;
    m.container = table_.container;
    m.shard = shard;
    m.epoch = table_.epoch;
    m.mode = start.mode;
    m.directory = start.directory;
    m.manifest = start.manifest;
    m.rule = to_string(table_.rule);
    m.replicas = start.replicas;
    m.next_step = start.next_step;
    m.rate_scale = start.rate_scale;
    m.skips_bad = start.skips_bad;
    m.record = start.record;
    m.replay = start.replay;
    m.part = start.part;
    m.shards = static_cast<int32_t>(all.size());
    return m;
  };
  shards_.ask_all(all, begin, [this, all, start, done](Errc code, const std::string& text) {
    if (code != Errc::ok || start.mode != BeginEpoch::reset)
      done(code, text);
    else
      maker_.set_initial(all, start.values, done);
  });
}

// Shards that are made meanwhile get it by scale_rates().
void ParameterGroup::set_rate_scale(double scale, int64_t step, Done done) {
  rate_scale().begin_telling();
  post([this, scale, step, done = calls_.add(std::move(done))] {
    const double before = std::exchange(table_.rate_scale, scale);
    shards_.scale_rates(table_.numbers(), scale, step,
                        [this, before, scale, step, done](Errc code, const std::string& text) {
                          if (code == Errc::ok) {
                            rate_scale().told(scale);
                            master_.process().log()->info(
                                "learning rates change: rate_scale={} before={} step={}", scale,
                                before, step);
                          }
                          done(code, text);
                        });
  });
}

// A shard that was not told is told again, or gets the rule with the next epoch.
void ParameterGroup::change_rule(const Aggregation& rule, int64_t step, Done done) {
  post([this, rule, step, done = calls_.add(std::move(done))] {
    const Aggregation before = std::exchange(table_.rule, rule);
    shards_.change_rule(table_.numbers(), rule, step,
                        [this, before, rule, step, done](Errc code, const std::string& text) {
                          if (code == Errc::ok)
                            master_.process().log()->info(
                                "the aggregation rule changes: rule={} before={} step={}",
                                to_string(rule), to_string(before), step);
                          done(code, text);
                        });
  });
}

void ParameterGroup::ask_rate_scale(std::shared_ptr<double> out, Done done) {
  post([this, out = std::move(out), done = calls_.add(std::move(done))] {
    shards_.describe(
        table_.numbers(), [out](int32_t, const ShardDescription& d) { *out = d.rate_scale; }, done);
  });
}

void ParameterGroup::take_checkpoint(CheckpointRequest request, std::function<void()> captured,
                                     Done done) {
  post([this, request = std::move(request), captured = std::move(captured),
        done = calls_.add(std::move(done))]() mutable {
    request.rule = table_.rule;
    request.rate_scale = table_.rate_scale;
    checkpoints_.take(std::move(request), in_graph().made(), captured, done);
  });
}

void ParameterGroup::give_up_checkpoint(Errc code, const std::string& text) {
  post([this, code, text] { checkpoints_.give_up(code, text); });
}

std::string ParameterGroup::save(CheckpointRequest request,
                                 std::optional<std::chrono::seconds> limit) {
  const auto path = std::make_shared<std::string>();
  wait(
      [&](Done done) {
        take_checkpoint(
            std::move(request), [] {},
            [path, done = std::move(done)](Errc code, const std::string& text) {
              *path = text;
              done(code, text);
            });
      },
      limit);
  return *path;
}

void ParameterGroup::describe(std::shared_ptr<std::vector<ParameterSlice>> out, Done done) {
  post([this, out, done = calls_.add(std::move(done))] {
    shards_.describe(
        table_.numbers(),
        [this, out](int32_t shard, const ShardDescription& d) {
          for (size_t i = 0; i < d.slices.size(); ++i) {
            const Slice slice = from_spec(d.slices[i]);
            const auto updates = static_cast<double>(std::max<int64_t>(d.stale_updates.at(i), 1));
            const double mean = static_cast<double>(d.staleness_sum.at(i)) / updates;
            out->push_back({slice.parameter, table_.shards.at(shard).task, slice.offset, slice.size,
                            slice.bytes() + d.table_bytes.at(i), d.versions.at(i),
                            d.pulled_bytes.at(i), d.pushed_bytes.at(i), mean, d.staleness_max.at(i),
                            d.table_rows.at(i), d.table_made.at(i), d.table_forgotten.at(i)});
          }
        },
        [out, done](Errc, const std::string&) {
          std::sort(out->begin(), out->end(), [](const ParameterSlice& a, const ParameterSlice& b) {
            return std::tie(a.parameter, a.offset) < std::tie(b.parameter, b.offset);
          });
          done(Errc::ok, {});
        });
  });
}

void ParameterGroup::count_pushes(std::shared_ptr<std::vector<PushCount>> out, Done done) {
  post([this, out, done = calls_.add(std::move(done))] {
    shards_.count_pushes(
        table_.numbers(),
        [this, out](int32_t shard, const PushesCounted& counted) {
          add_counts(counted, table_.shards.at(shard), *out);
        },
        [out, done](Errc, const std::string& missing) {
          std::sort(out->begin(), out->end(), [](const PushCount& a, const PushCount& b) {
            return std::tie(a.parameter, a.offset, a.replica) <
                   std::tie(b.parameter, b.offset, b.replica);
          });
          done(Errc::ok, missing);
        });
  });
}

void ParameterGroup::wait(const std::function<void(Done)>& ask,
                          std::optional<std::chrono::seconds> limit) {
  const auto answer = std::make_shared<std::promise<std::pair<Errc, std::string>>>();
  auto future = answer->get_future();
  ask(calls_.add([answer](Errc code, const std::string& text) {
    answer->set_value({code, text});
  }));
  if (limit && future.wait_for(*limit) != std::future_status::ready)
    throw Error(Errc::timeout, "no answer within ", limit->count(), " s");
  const auto [code, text] = future.get();
  if (code != Errc::ok) throw Error(code, text);
}

// The session's end of it

namespace {

class OwnedGroup final : public ParameterOwner {
 public:
  explicit OwnedGroup(std::shared_ptr<ParameterGroup> group) : group(std::move(group)) {
    this->group->begin();
  }
  ~OwnedGroup() override { group->end(); }
  void end() override { group->end(); }
  const std::shared_ptr<ParameterGroup> group;
};

// Processes drop the own container of a session with it, by its name.
void check_container(const std::string& name) {
  constexpr std::string_view kOwn = "session-";
  if (name.starts_with(kOwn) && name.size() > kOwn.size() &&
      name.find_first_not_of("0123456789", kOwn.size()) == name.npos)
    throw Error(Errc::invalid_argument, "ConnectOptions::container is \"", name,
                "\", as a session's own container is called; choose another name");
}

}  // namespace

std::unique_ptr<ParameterOwner> own_parameters(Master& master, ParameterOwnerOptions options,
                                               Disk* disk) {
  check_container(options.container);
  return std::make_unique<OwnedGroup>(
      std::make_shared<ParameterGroup>(master, std::move(options), disk));
}

ParameterVisit::ParameterVisit(Session& session)
    : visit_(session.state().open()),
      group_(static_cast<OwnedGroup*>(session.state().parameters.get())->group.get()) {}

}  // namespace troupe
