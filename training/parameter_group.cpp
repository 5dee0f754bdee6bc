// Implements training/parameter_group.hpp.
#include "training/parameter_group.hpp"

#include <algorithm>
#include <set>

#include "actors/guard.hpp"
#include "training/shard_actor.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kOrderTimeout{30};  // a shard answers an order within this
constexpr std::chrono::seconds kRouteTimeout{
    2};  // a process that does not take routes by then is going
constexpr std::chrono::milliseconds kRoutePause{20};
constexpr int kRouteTries = 50;
constexpr std::chrono::seconds kFileTimeout{300};  // or, when it reads or writes files, within this
constexpr int64_t kPieceBytes = int64_t{4} << 20;  // of first values; CAF messages stay small
constexpr std::chrono::milliseconds kAttachPoll{
    100};  // until the owner of shared parameters has set them
constexpr int kAttachTries = 600;

}  // namespace

class ParameterGroup::Gather {
 public:
  Gather(size_t open, Done done) : open_(open), done_(std::move(done)) {
    if (open_ == 0) done_(Errc::ok, {});
  }
  void one(Errc code, const std::string& text) {
    if (code != Errc::ok && code_ == Errc::ok) code_ = code, text_ = text;
    if (--open_ == 0) done_(code_, text_);
  }

 private:
  size_t open_;
  Done done_;
  Errc code_ = Errc::ok;
  std::string text_;
};

ParameterGroup::ParameterGroup(Master& master, ParameterOwnerOptions options)
    : master_(master),
      process_(master.process()),
      options_(std::move(options)),
      container_(options_.container.empty() ? own_container(master.session())
                                            : options_.container) {}

void ParameterGroup::begin() {
  actor_ = process_.system().spawn(
      [group = shared_from_this()](caf::event_based_actor* self) -> caf::behavior {
        self->set_exception_handler(to_error);
        return {[self](const RemoteRequest& work) { work.go(self); },
                [group](const ShardLost& m) {
                  std::function<void(const std::string&)> lost;
                  {
                    std::lock_guard lock(group->mutex_);
                    lost = group->lost_;
                  }
                  if (lost)
                    lost(detail::concat("shard ", m.shard, " of ", m.container, " died: ", m.reason,
                                        "; its service noticed"));
                }};
      });
  process_.track(actor_);
  master_.set_ensure([weak = weak_from_this()](std::vector<int32_t> nodes, Done done) {
    if (auto group = weak.lock())
      group->ensure(nodes, std::move(done));
    else
      done(Errc::cancelled, "the session is closing");
  });
  master_.add_listener(this);
}

void ParameterGroup::end() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
    lost_ = nullptr;
    gone_ = nullptr;
  }
  master_.remove_listener(this);
  master_.set_ensure(nullptr);
  // Processes drop the session's own container when the master tells them that it has ended.
  caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
}

void ParameterGroup::post(std::function<void(caf::event_based_actor*)> work) {
  caf::anon_send(actor_, RemoteRequest{std::move(work)});
}

std::vector<ParameterSpec> ParameterGroup::parameters() const {
  std::lock_guard lock(mutex_);
  std::vector<ParameterSpec> out;
  for (const auto& [name, spec] : known_) out.push_back(spec);
  return out;
}
std::vector<int32_t> ParameterGroup::slots_in_graph() const {
  std::lock_guard lock(mutex_);
  return slots_;
}
bool ParameterGroup::owner() const {
  std::lock_guard lock(mutex_);
  return !attached_;
}
void ParameterGroup::on_gone(std::function<void(const std::string&)> gone) {
  std::lock_guard lock(mutex_);
  gone_ = std::move(gone);
}
void ParameterGroup::on_lost(std::function<void(const std::string&)> lost) {
  std::lock_guard lock(mutex_);
  lost_ = std::move(lost);
}

std::vector<std::string> ParameterGroup::shard_tasks() const {
  std::set<std::string> out;
  for (const auto& [id, shard] : shards_) out.insert(shard.task);
  return {out.begin(), out.end()};
}

// Members

void ParameterGroup::up(const Member& member, const caf::actor&) {
  post([self = shared_from_this(), task = member.name()](caf::event_based_actor* actor) {
    if (self->established_) self->route_patiently(actor, task, kRouteTries, [] {});
  });
}

void ParameterGroup::down(const Member& member, const std::string& reason) {
  post([self = shared_from_this(), task = member.name(), reason](caf::event_based_actor*) {
    std::vector<std::function<void(const std::string&)>> open;
    for (const auto& [id, request] : self->open_)
      if (request.first == task) open.push_back(request.second);
    for (const auto& fail : open) fail(detail::concat(task, " is gone: ", reason));
    const auto tasks = self->shard_tasks();
    if (std::find(tasks.begin(), tasks.end(), task) == tasks.end()) {
      std::function<void(const std::string&)> gone;
      {
        std::lock_guard lock(self->mutex_);
        gone = self->gone_;
      }
      if (gone)
        gone(detail::concat(
            task, " is gone (", reason, "); noticed by the master ", self->process_.task(),
            "; steps that ran there are done again with the same data when it is back"));
      return;
    }
    self->established_ = false;
    std::function<void(const std::string&)> lost;
    {
      std::lock_guard lock(self->mutex_);
      lost = self->lost_;
    }
    if (lost)
      lost(detail::concat(task, ", which holds parameters, is gone (", reason,
                          "); noticed by the master ", self->process_.task(),
                          "; all towers stop, and the shards are restored when it is back"));
  });
}

// Making shards

void ParameterGroup::ensure(const std::vector<int32_t>& nodes, Done done) {
  const Graph& graph = master_.graph();
  std::map<std::string, ParameterSpec> fresh;
  std::map<std::string, Output> initial;
  std::map<std::string, Optimizer> optimizers;
  std::set<int32_t> slots;
  for (const auto& node : graph.nodes()) {
    if (node->op->name != "PushGradient") continue;
    slots.insert(static_cast<int32_t>(node->attr<int64_t>("slot")));
    optimizers[node->attr<std::string>("parameter")] = {
        node->attr<std::string>("optimizer"), node->attr<double>("learning_rate"),
        node->attr<double>("momentum"),       node->attr<double>("beta1"),
        node->attr<double>("beta2"),          node->attr<double>("epsilon")};
  }
  if (slots.empty()) slots.insert(0);
  for (int32_t slot = 0; slot < options_.slots; ++slot) slots.insert(slot);
  for (int32_t id : nodes) {
    const Node& node = graph.node(id);
    if (node.op->name != "Parameter") continue;
    const auto& name = node.attr<std::string>("parameter");
    ParameterSpec spec{name, node.outputs[0].dtype, node.outputs[0].shape, {}};
    if (auto it = optimizers.find(name); it != optimizers.end()) spec.optimizer = it->second;
    fresh.emplace(name, std::move(spec));
    initial.emplace(name, graph.output(node.attr<std::string>("initial")));
  }
  {
    std::lock_guard lock(mutex_);
    slots_.assign(slots.begin(), slots.end());
    for (auto it = fresh.begin(); it != fresh.end();)
      it = known_.count(it->first) ? fresh.erase(it) : std::next(it);
    for (const auto& [name, spec] : fresh) known_[name] = spec;
  }
  if (fresh.empty()) {
    // Another call may be setting them up just now: wait for it.
    post([self = shared_from_this(), done](caf::event_based_actor*) {
      if (self->creating_ > 0)
        self->behind_.push_back(done);
      else
        done(Errc::ok, {});
    });
    return;
  }
  std::vector<ParameterSpec> specs;
  std::vector<std::string> names;
  std::vector<Output> fetches;
  for (const auto& [name, spec] : fresh) {
    specs.push_back(spec);
    names.push_back(name);
    fetches.push_back(initial.at(name));
  }
  int64_t call = 0;
  try {
    call = master_.prepare(fetches, {});
  } catch (const Error& e) {
    done(e.code(), e.what());
    return;
  }
  post([self = shared_from_this(), specs = std::move(specs), names = std::move(names), call,
        done](caf::event_based_actor* actor) {
    if (self->tasks_.empty()) {
      std::vector<std::string> workers;
      for (const auto& [task, agent] : self->master_.agents()) {
        if (task.rfind("/job:ps/", 0) == 0) self->tasks_.push_back(task);
        if (task.rfind("/job:worker/", 0) == 0) workers.push_back(task);
      }
      if (self->tasks_.empty()) self->tasks_ = workers;
      if (self->tasks_.empty()) self->tasks_ = {self->process_.task()};
    }
    const int32_t count = self->options_.shards > 0 ? self->options_.shards
                                                    : static_cast<int32_t>(self->tasks_.size());
    const int32_t base = self->shards_.empty() ? 0 : self->shards_.rbegin()->first + 1;
    std::vector<int32_t> made;
    for (Slice slice : split_parameters(specs, count, self->next_slice_)) {
      self->next_slice_ = std::max(self->next_slice_, slice.id + 1);
      slice.shard += base;
      ShardRef& shard = self->shards_[slice.shard];
      shard.shard = slice.shard;
      shard.task = self->tasks_[static_cast<size_t>(slice.shard) % self->tasks_.size()];
      shard.slices.push_back(slice);
      if (made.empty() || made.back() != slice.shard) made.push_back(slice.shard);
    }
    std::sort(made.begin(), made.end());
    made.erase(std::unique(made.begin(), made.end()), made.end());
    self->sources_.emplace_back(call, names);
    ++self->creating_;
    self->create(actor, made, true, [self, made, names, done](Errc code, const std::string& text) {
      if (code != Errc::ok) {  // a later call may try them again
        for (int32_t shard : made) self->shards_.erase(shard);
        std::erase_if(self->sources_, [&](const auto& source) { return source.second == names; });
        std::lock_guard lock(self->mutex_);
        for (const std::string& name : names) self->known_.erase(name);
      }
      done(code, text);
      if (--self->creating_ > 0) return;
      for (const Done& behind : std::exchange(self->behind_, {})) behind(code, text);
    });
  });
}

void ParameterGroup::with_service(caf::event_based_actor* self, const std::string& task,
                                  const std::string& name,
                                  std::function<void(Errc, const std::string&, caf::actor)> then) {
  if (task == process_.task()) {
    then(Errc::ok, {}, process_.services().actor(name));
    return;
  }
  const auto agents = master_.agents();
  auto it = agents.find(task);
  if (it == agents.end()) {
    then(Errc::peer_lost, task + " is not there", {});
    return;
  }
  self->request(it->second, kOrderTimeout, FindService{name})
      .then([then](const caf::actor& service) { then(Errc::ok, {}, service); },
            [then, task](const caf::error& e) {
              const auto [code, text] = from_caf(e);
              then(code, detail::concat(task, ": ", text), {});
            });
}

template <class Answer, class Message>
void ParameterGroup::ask_shard(caf::event_based_actor* self, int32_t shard, Message message,
                               std::function<void(Errc, const std::string&, const Answer&)> then) {
  const std::string task = shards_.at(shard).task;
  constexpr bool files = std::is_same_v<Message, WriteShard> || std::is_same_v<Message, BeginEpoch>;
  // CAF does not tell who asks that the process is gone: down() ends the request.
  const uint64_t id = next_open_++;
  const auto once = [group = shared_from_this(), id, answer = std::move(then)](
                        Errc code, const std::string& text, const Answer& value) {
    if (group->open_.erase(id)) answer(code, text, value);
  };
  open_[id] = {task, [once](const std::string& text) { once(Errc::peer_lost, text, Answer{}); }};
  with_service(self, task, "shards",
               [self, task, message = std::move(message), then = once](
                   Errc code, const std::string& text, const caf::actor& service) {
                 if (code != Errc::ok) {
                   then(code, text, Answer{});
                   return;
                 }
                 const auto failed = [then, task](const caf::error& e) {
                   const auto [error, why] = from_caf(e);
                   then(error, detail::concat(task, ": ", why), Answer{});
                 };
                 auto asked = self->request(service, files ? kFileTimeout : kOrderTimeout, message);
                 if constexpr (std::is_same_v<Answer, caf::unit_t>)
                   asked.then([then] { then(Errc::ok, {}, Answer{}); }, failed);
                 else
                   asked.then([then](const Answer& answer) { then(Errc::ok, {}, answer); }, failed);
               });
}

// Shard 0 first: whoever made it owns the container's values and recovery.
void ParameterGroup::create(caf::event_based_actor* self, std::vector<int32_t> shards, bool fresh,
                            Done done) {
  const auto group = shared_from_this();
  const auto rest = [group, self, shards, fresh, done](Errc code, const std::string& text) {
    if (code != Errc::ok) {
      done(code, text);
      return;
    }
    const auto finish = [group, self, done](Errc c, const std::string& t) {
      if (c != Errc::ok)
        done(c, t);
      else
        group->route(self, done);
    };
    const auto created = [group, self, shards, fresh, finish](Errc c, const std::string& t) {
      if (c != Errc::ok || !fresh) {
        finish(c, t);
      } else if (group->owner()) {
        group->set_initial(shards, finish);
      } else {
        group->wait_serving(self, shards, kAttachTries, finish);
      }
    };
    auto gather = std::make_shared<Gather>(shards.size() - 1, created);
    for (size_t i = 1; i < shards.size(); ++i)
      group->create_one(self, shards[i],
                        [gather](Errc c, const std::string& t) { gather->one(c, t); });
  };
  create_one(self, shards.at(0), rest);
}

void ParameterGroup::create_one(caf::event_based_actor* self, int32_t id, Done done) {
  CreateShard m;
  m.container = container_;
  m.shard = id;
  m.epoch = epoch_;
  m.rule = static_cast<uint8_t>(rule_);
  m.slots = slots_in_graph();
  for (const Slice& slice : shards_.at(id).slices) m.slices.push_back(to_spec(slice));
  ask_shard<ShardDescription>(self, id, std::move(m),
                              [group = shared_from_this(), id, done](
                                  Errc code, const std::string& text, const ShardDescription& d) {
                                if (code == Errc::ok) {
                                  group->shards_.at(id).door = d.door;
                                  if (id == 0 && !std::exchange(group->decided_, true) &&
                                      !d.created && !group->options_.container.empty()) {
                                    std::lock_guard lock(group->mutex_);
                                    group->attached_ = true;
                                  }
                                  if (!group->owner()) group->epoch_ = d.epoch;
                                }
                                done(code, text);
                              });
}

void ParameterGroup::set_initial(std::vector<int32_t> shards, Done done) {
  struct Values {
    std::mutex mutex;
    std::map<std::string, Tensor> by_name;
  };
  auto values = std::make_shared<Values>();
  const auto group = shared_from_this();
  const auto computed = [group, shards, values, done](Errc code, const std::string& text) {
    group->post([=](caf::event_based_actor* self) {
      if (code != Errc::ok)
        done(code, "first values of the parameters: " + text);
      else
        group->send_initial(self, shards, values->by_name, done);
    });
  };
  auto mutex = std::make_shared<std::mutex>();
  auto gather = std::make_shared<Gather>(sources_.size(), computed);
  for (const auto& [call, names] : sources_) {
    RunOptions options;
    master_.start(call, {}, options,
                  [values, names = names, gather, mutex](const RunResult& result) {
                    if (result.code == Errc::ok) {
                      std::lock_guard lock(values->mutex);
                      for (size_t i = 0; i < names.size(); ++i)
                        values->by_name[names[i]] = result.values[i];
                    }
                    std::lock_guard lock(*mutex);
                    gather->one(result.code, result.text);
                  });
  }
}

void ParameterGroup::send_initial(caf::event_based_actor* self, const std::vector<int32_t>& shards,
                                  const std::map<std::string, Tensor>& values, Done done) {
  std::vector<std::pair<int32_t, SetInitial>> pieces;
  for (int32_t id : shards)
    for (const Slice& slice : shards_.at(id).slices) {
      const Tensor& whole = values.at(slice.parameter);
      const char* bytes =
          static_cast<const char*>(whole.raw()) + slice.offset * size_of(slice.dtype);
      const int64_t total = slice.bytes();
      int64_t at = 0;
      do {
        const int64_t n = std::min(kPieceBytes, total - at);
        SetInitial m;
        m.container = container_;
        m.shard = id;
        m.slice = slice.id;
        m.epoch = epoch_;
        m.byte_offset = at;
        m.bytes.assign(bytes + at, bytes + at + n);
        pieces.emplace_back(id, std::move(m));
        at += n;
      } while (at < total);
    }
  auto gather = std::make_shared<Gather>(pieces.size(), std::move(done));
  for (auto& [id, m] : pieces)
    ask_shard<caf::unit_t>(self, id, std::move(m),
                           [gather](Errc code, const std::string& text, const caf::unit_t&) {
                             gather->one(code, text);
                           });
}

void ParameterGroup::wait_serving(caf::event_based_actor* self, std::vector<int32_t> shards,
                                  int tries, Done done) {
  const auto group = shared_from_this();
  auto serving = std::make_shared<bool>(true);
  const auto asked = [group, self, shards, tries, done, serving](Errc code,
                                                                 const std::string& text) {
    if (code == Errc::ok && *serving) {
      done(Errc::ok, {});
    } else if (tries <= 0) {
      done(Errc::peer_lost,
           text.empty()
               ? "the session that owns the shared parameters has not set their first values"
               : text);
    } else {
      self->delayed_send(self, kAttachPoll,
                         RemoteRequest{[group, shards, tries, done](caf::event_based_actor* actor) {
                           group->wait_serving(actor, shards, tries - 1, done);
                         }});
    }
  };
  auto gather = std::make_shared<Gather>(shards.size(), asked);
  for (int32_t id : shards)
    ask_shard<ShardDescription>(self, id, DescribeShard{container_, id},
                                [group, id, gather, serving](Errc code, const std::string& text,
                                                             const ShardDescription& d) {
                                  if (code == Errc::ok) {
                                    *serving = *serving && d.serving;
                                    group->shards_.at(id).door = d.door;
                                    group->epoch_ = std::max(group->epoch_, d.epoch);
                                  }
                                  gather->one(code, text);
                                });
}

// Telling processes

void ParameterGroup::route(caf::event_based_actor* self, Done done) {
  established_ = true;
  const auto agents = master_.agents();
  auto gather = std::make_shared<Gather>(1 + agents.size(), std::move(done));
  for (const auto& [task, agent] : agents)
    route_patiently(self, task, kRouteTries, [gather] { gather->one(Errc::ok, {}); });
  route_to(self, process_.task(),
           [gather](Errc code, const std::string& text) { gather->one(code, text); });
}

// A process that is on its way in may not have all its links yet; one that is going hears of the
// routes when it is back.
void ParameterGroup::route_patiently(caf::event_based_actor* self, const std::string& task,
                                     int tries, std::function<void()> done) {
  route_to(
      self, task,
      [group = shared_from_this(), self, task, tries, done](Errc code, const std::string& text) {
        if (code == Errc::ok || tries <= 0 || !group->master_.agents().count(task)) {
          if (code != Errc::ok)
            group->process_.log()->debug("routes not taken: peer={} error={}", task, text);
          done();
          return;
        }
        self->delayed_send(self, kRoutePause,
                           RemoteRequest{[group, task, tries, done](caf::event_based_actor* actor) {
                             group->route_patiently(actor, task, tries - 1, done);
                           }});
      });
}

void ParameterGroup::route_to(caf::event_based_actor* self, const std::string& task, Done done) {
  RouteParameters m;
  m.session = master_.session();
  m.epoch = epoch_;
  std::vector<std::pair<Slice, const ShardRef*>> slices;
  for (const auto& [id, shard] : shards_)
    for (const Slice& slice : shard.slices) slices.emplace_back(slice, &shard);
  std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.parameter, a.first.offset) <
           std::tie(b.first.parameter, b.first.offset);
  });
  for (const auto& [slice, shard] : slices) {
    m.slices.push_back(to_spec(slice));
    m.tasks.push_back(shard->task);
    m.doors.push_back(shard->door);
  }
  with_service(self, task, "parameters",
               [self, m = std::move(m), done, task](Errc code, const std::string& text,
                                                    const caf::actor& service) {
                 if (code != Errc::ok) {
                   done(code, text);
                   return;
                 }
                 self->request(service, kOrderTimeout, m)
                     .then([done] { done(Errc::ok, {}); },
                           [done, task](const caf::error& e) {
                             const auto [error, why] = from_caf(e);
                             done(error, detail::concat(task, ": ", why));
                           });
               });
}

// Epochs

void ParameterGroup::establish(Start start, Done done) {
  post([group = shared_from_this(), start = std::move(start), done](caf::event_based_actor* self) {
    if (group->shards_.empty()) {
      done(Errc::invalid_argument, "the graph has no parameters; make some with parameter()");
      return;
    }
    group->rule_ = start.rule;
    std::vector<int32_t> all;
    for (const auto& [id, shard] : group->shards_) all.push_back(id);
    if (!group->owner()) {
      // Another session decides: follow it to its epoch.
      group->wait_serving(self, all, kAttachTries,
                          [group, self, done](Errc code, const std::string& text) {
                            if (code != Errc::ok)
                              done(code, text);
                            else
                              group->route(self, done);
                          });
      return;
    }
    ++group->epoch_;
    auto gather = std::make_shared<Gather>(
        all.size(), [group, self, start, done](Errc code, const std::string& text) {
          if (code != Errc::ok)
            done(code, text);
          else
            group->begin_epoch(self, start, done);
        });
    for (int32_t id : all)
      group->create_one(self, id,
                        [gather](Errc code, const std::string& text) { gather->one(code, text); });
  });
}

void ParameterGroup::begin_epoch(caf::event_based_actor* self, const Start& start, Done done) {
  const auto group = shared_from_this();
  std::vector<int32_t> all;
  for (const auto& [id, shard] : shards_) all.push_back(id);
  const auto begun = [group, self, start, all, done](Errc code, const std::string& text) {
    const auto finish = [group, self, done](Errc c, const std::string& t) {
      if (c != Errc::ok)
        done(c, t);
      else
        group->route(self, done);
    };
    if (code == Errc::ok && start.mode == BeginEpoch::reset)
      group->set_initial(all, finish);
    else
      finish(code, text);
  };
  auto gather = std::make_shared<Gather>(all.size(), begun);
  for (int32_t id : all) {
    BeginEpoch m;
    m.container = container_;
    m.shard = id;
    m.epoch = epoch_;
    m.mode = start.mode;
    m.directory = start.directory;
    m.manifest = start.manifest;
    m.rule = static_cast<uint8_t>(start.rule);
    m.slots = start.slots;
    m.next_step = start.next_step;
    ask_shard<caf::unit_t>(self, id, std::move(m),
                           [gather](Errc code, const std::string& text, const caf::unit_t&) {
                             gather->one(code, text);
                           });
  }
}

// Checkpoints

void ParameterGroup::snapshot(Snapshot what, Done done) {
  post([group = shared_from_this(), what = std::move(what), done](caf::event_based_actor* self) {
    Manifest manifest;
    try {
      manifest.generation = next_generation(disk_of(group->process_), what.directory);
    } catch (const Error& e) {
      done(e.code(), e.what());
      return;
    }
    manifest.step = what.step;
    manifest.epoch = group->epoch_;
    manifest.rule = what.rule;
    manifest.data_seed = what.data_seed;
    manifest.parameters = group->parameters();
    for (int32_t slot : what.slots) manifest.next_steps.emplace_back(slot, what.step);
    const auto count = static_cast<int32_t>(group->shards_.size());
    auto files = std::make_shared<std::map<int32_t, CheckpointFile>>();
    auto gather = std::make_shared<Gather>(
        group->shards_.size(), [=](Errc code, const std::string& text) mutable {
          if (code != Errc::ok) {
            done(code, text);
            return;
          }
          for (const auto& [id, file] : *files) manifest.files.push_back(file);
          try {
            commit_checkpoint(disk_of(group->process_), what.directory, manifest);
            prune_checkpoints(disk_of(group->process_), what.directory, what.keep);
            done(Errc::ok,
                 what.directory + "/" + manifest_name(manifest.generation, manifest.step));
          } catch (const Error& e) {
            done(e.code(), e.what());
          }
        });
    for (const auto& [id, shard] : group->shards_) {
      WriteShard m;
      m.container = group->container_;
      m.shard = id;
      m.epoch = group->epoch_;
      m.step = what.step;
      m.directory = what.directory;
      m.name = shard_file_name(manifest.generation, what.step, id, count);
      group->ask_shard<ShardFile>(
          self, id, std::move(m),
          [gather, files, id = id](Errc code, const std::string& text, const ShardFile& file) {
            if (code == Errc::ok) (*files)[id] = {file.name, file.bytes, file.sha256};
            gather->one(code, text);
          });
    }
  });
}

void ParameterGroup::describe(std::function<void(std::vector<ParameterSlice>)> done) {
  post([group = shared_from_this(), done](caf::event_based_actor* self) {
    auto out = std::make_shared<std::vector<ParameterSlice>>();
    auto gather =
        std::make_shared<Gather>(group->shards_.size(), [out, done](Errc, const std::string&) {
          std::sort(out->begin(), out->end(), [](const ParameterSlice& a, const ParameterSlice& b) {
            return std::tie(a.parameter, a.offset) < std::tie(b.parameter, b.offset);
          });
          done(*out);
        });
    for (const auto& [id, shard] : group->shards_)
      group->ask_shard<ShardDescription>(
          self, id, DescribeShard{group->container_, id},
          [group, gather, out, id = id](Errc code, const std::string& text,
                                        const ShardDescription& d) {
            for (size_t i = 0; i < d.slices.size(); ++i) {
              const Slice slice = from_spec(d.slices[i]);
              out->push_back({slice.parameter, group->shards_.at(id).task, slice.offset, slice.size,
                              slice.bytes(), d.versions.at(i)});
            }
            gather->one(code, text);
          });
  });
}

// The session's end of it

namespace {

class OwnedGroup final : public ParameterOwner {
 public:
  explicit OwnedGroup(std::shared_ptr<ParameterGroup> group) : group(std::move(group)) {
    this->group->begin();
  }
  ~OwnedGroup() override { group->end(); }
  const std::shared_ptr<ParameterGroup> group;
};

}  // namespace

std::unique_ptr<ParameterOwner> make_parameter_owner(Master& master,
                                                     ParameterOwnerOptions options) {
  return std::make_unique<OwnedGroup>(std::make_shared<ParameterGroup>(master, std::move(options)));
}

ParameterGroup& parameter_group(Session& session) {
  auto* owned = static_cast<OwnedGroup*>(session.state().parameters.get());
  if (!owned) throw Error(Errc::cancelled, "the session is closed");
  return *owned->group;
}

}  // namespace troupe
