// Joins the master's members, calls and runs: passes events between them, and ends them in order.
#include "actors/master/master.hpp"

#include <condition_variable>

#include "actors/async/guard.hpp"
#include "actors/async/messages.hpp"
#include "actors/cluster/survey.hpp"

namespace troupe {
// Receives FinishStep of this session's steps. Stores it, and notifies the run's waiters.
class Master::Door final : public caf::monitorable_actor {
 public:
  Door(caf::actor_config& config, Master* master) : monitorable_actor(config), master_(master) {}
  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit* unit) override {
    auto& content = message->content();
    if (content.match_elements<FinishStep>()) {
      master_->finished(content.get_as<FinishStep>(0));
    } else if (!handle_system_message(*message, unit, false)) {
      bounce(message, make_error(caf::sec::unexpected_message));
    }
  }
  const char* name() const override { return "master door"; }
  void retire() { cleanup(caf::error{}, nullptr); }

 private:
  Master* const master_;
};

Master::Master(Process& process, Graph& graph, uint64_t session)
    : process_(process),
      graph_(graph),
      session_(session),
      asker_(spawn_asker(process.system())),
      members_(
          process, asker_,
          {.up = [this](
                     const Member& member) { later([this, member] { calls_.member_up(member); }); },
           .down =
               [this](const Member& member, const std::string& reason) {
                 later([this, member, reason] {
                   calls_.member_down(member, reason);
                   runs_->member_down(member.name(), reason);
                 });
               }}),
      calls_(process, members_, asker_, graph, session,
             [this](int64_t call) {
               runs_->forget(call);
               runs_->settled(call);
             }),
      runs_(std::make_shared<RunTable>(process, calls_, session, door_)) {
  caf::actor_config config;
  door_ = caf::make_actor<Door, MasterDoor>(
      process.system().next_actor_id(), process.system().node(), &process.system(), config, this);
  process.open_door(caf::actor_cast<caf::strong_actor_ptr>(door_));
  clock_ = process.system().spawn([this](Ticker::stateful_pointer<Requests> self) {
    self->set_exception_handler(to_error);
    self->state.attach(self);
    self->delayed_send(self, kMasterTick, caf::tick_atom_v);
    return Ticker::behavior_type{[this, self](caf::tick_atom) {
      tick(self->state);
      self->delayed_send(self, kMasterTick, caf::tick_atom_v);
    }};
  });
  process.track(asker_);
  process.track(clock_);
}

Master::~Master() { stop(); }

void Master::finished(const FinishStep& m) {
  if (m.session != session_) return;
  if (m.code == Errc::ok) {
    counts_.finished(m.task);
    return runs_->finish_part(m.run, m.task, Errc::ok, {}, {});
  }
  later([this, m] { failed(m); });
}

void Master::later(std::function<void()> work) {
  with_requests(asker_, [work = std::move(work)](Requests&) { work(); });
}

void Master::failed(const FinishStep& m) {
  // The worker has restarted before the mesh reported it, or has lost a link.
  const bool missing = m.not_installed;
  if (missing) {
    calls_.missing(m.task, m.executable);  // first: a caller that runs it again must wait for the
                                           // new installation
    runs_->installation_lost(m.executable, m.text);
  }
  runs_->finish_part(m.run, m.task, missing ? Errc::peer_lost : m.code, m.text, {});
}

void Master::tick(Requests& requests) {
  if (const auto now = process_.system().clock().now(); now >= retry_at_) {
    retry_at_ = now + kInstallRetry;
    calls_.retry();
  }
  for (const Stall& stall : runs_->tick())
    report_stall(requests, process_, session_, members_.agents(), stall,
                 [log = process_.log()](const std::string& line) { log->warn(line); });
}

void Master::stop() {
  if (stopped_.exchange(true)) return;
  gate_->shut();
  calls_.stop();
  runs_->stop(kCloseTimeout);
  gate_->wait_until_empty();
  runs_->forget();
  take_back_parts();
  members_.stop();
  calls_.drop();
  process_.close_door(door_.id());
  static_cast<Door*>(caf::actor_cast<caf::abstract_actor*>(door_))->retire();
  caf::anon_send_exit(clock_, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(asker_, caf::exit_reason::user_shutdown);
}

void Master::take_back_parts() {
  struct Open {
    std::mutex mutex;                          // guards the rest
    size_t unanswered = 0;                     // tasks
    std::map<std::string, std::string> tasks;  // tasks that have not dropped their parts, and why
    std::condition_variable changed;
  };
  auto open = std::make_shared<Open>();
  const auto present = members_.present();
  open->unanswered = present.size();
  for (const auto& [task, member] : present) open->tasks[task] = "no answer";
  for (const auto& [task, member] : present)
    calls_.remote().uninstall(
        member, -1, [open, task = task](Errc code, const std::string& text, const EdgeCounts&) {
          std::lock_guard lock(open->mutex);
          if (code == Errc::ok || code == Errc::peer_lost)  // a lost process keeps nothing
            open->tasks.erase(task);
          else
            open->tasks[task] = text;
          --open->unanswered;
          open->changed.notify_all();
        });
  if (process_.simulated()) return;  // messages arrive when the simulation's scheduler runs
  std::unique_lock lock(open->mutex);
  open->changed.wait_for(lock, kCloseTimeout, [&] { return open->unanswered == 0; });
  for (const auto& [task, why] : open->tasks)
    process_.log()->warn(
        "session closed, but a peer may keep its parts until it ends: peer={} error={}", task, why);
}

std::vector<std::string> Master::devices() const {
  std::vector<std::string> out;
  for (const auto& device : process_.devices()) out.push_back(device->name());
  for (const auto& [task, devices] : members_.devices())
    out.insert(out.end(), devices.begin(), devices.end());
  return out;
}

std::vector<RunUnderWay> Master::under_way(std::chrono::milliseconds at_least) {
  std::vector<RunUnderWay> out;
  for (Stall& run : runs_->under_way(at_least)) {
    RunUnderWay one{run.run, run.seconds, {}};
    for (const std::string& task : run.open) one.waits_for[task];
    if (one.waits_for.count(process_.task()))
      one.waits_for[process_.task()] = std::move(run.waits_for);
    if (one.waits_for.size() > 1 || !one.waits_for.count(process_.task()))
      for (auto& [task, lines] :
           survey_waits(process_, asker_, members_.agents(), {session_, run.executable, run.run}))
        one.waits_for[task] = std::move(lines);
    out.push_back(std::move(one));
  }
  return out;
}

void Master::start_trace() { begin_trace(process_, asker_, members_.agents()); }
std::string Master::stop_trace() { return end_trace(process_, asker_, members_.agents()); }

}  // namespace troupe
