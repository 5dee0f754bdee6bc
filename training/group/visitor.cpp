// Visitor, of include/troupe/training.hpp: a mesh without devices and services, whose agent only
// says so, and requests to the control actors of programs.
#include "troupe/training.hpp"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>

#include <caf/all.hpp>

#include "actors/async/ask.hpp"
#include "actors/async/guard.hpp"
#include "actors/async/joined.hpp"
#include "actors/async/option_range.hpp"
#include "actors/cluster/actor_host.hpp"
#include "actors/cluster/process.hpp"
#include "net/link/tls.hpp"
#include "net/mesh/mesh.hpp"
#include "net/wire/own_ops.hpp"
#include "training/control/control_actor.hpp"
#include "troupe/cluster.hpp"

namespace troupe {
namespace {

using Steady = std::chrono::steady_clock;

// Members that others name, and programs that dial by themselves, are waited for this long.
constexpr std::chrono::milliseconds kOthersWaitMax{2'000};
// Between two questions whether a change holds; before the first line that says it does not yet,
// and between two of them.
constexpr std::chrono::milliseconds kHoldsPoll{50}, kFirstWord{500}, kHoldsWord{5'000};

template <class Answer>
struct Told {
  Errc code = Errc::ok;
  std::string text;
  Answer answer;
};

// The agent of a member that computes nothing.
caf::behavior visit(caf::event_based_actor* self) {
  self->set_exception_handler(to_error);
  self->set_default_handler([](caf::scheduled_actor*, caf::message_view&) {
    return caf::result<caf::message>(
        to_caf(Errc::bad_configuration, "this member only visits, and computes nothing"));
  });
  return {[](const Describe&) { return Description{}; }};
}

std::vector<PushCount> rows_of(const LedgerTold& told) {
  const size_t rows = told.parameters.size(), width = kLedgerCounts + told.reasons.size();
  if (told.tasks.size() != rows || told.counts.size() != rows * width)
    throw Error(Errc::bad_data, "the ledger has ", rows, " rows, and ", told.counts.size(),
                " counts; run one version everywhere");
  std::vector<PushCount> out;
  for (size_t row = 0; row < rows; ++row) {
    const int64_t* const n = &told.counts[row * width];
    PushCount& one = out.emplace_back();
    one.parameter = told.parameters[row];
    one.task = told.tasks[row];
    one.offset = n[0], one.replica = n[1], one.received = n[2], one.applied = n[3];
    one.merged = n[4], one.late = n[5], one.duplicate = n[6], one.held = n[7];
    for (size_t i = 0; i < told.reasons.size(); ++i)
      if (n[kLedgerCounts + i] > 0) one.refused[told.reasons[i]] = n[kLedgerCounts + i];
  }
  return out;
}

RunningProgram program_of(const std::string& task, const TrainingTold& told) {
  RunningProgram out{.task = task, .name = told.program, .silent = {}, .phase = told.phase};
  out.progress.step = told.step;
  out.progress.steps = told.steps;
  out.progress.loss = told.loss;
  out.progress.examples_per_second = told.examples_per_second;
  out.progress.remaining = std::chrono::duration<double>(told.remaining_s);
  if (!told.rule.empty()) out.rule = aggregation_from_string(told.rule);
  out.rate_scale = told.rate_scale;
  out.recoveries = told.recoveries;
  for (size_t i = 0; i < std::min(told.replicas.size(), told.tasks.size()); ++i)
    out.replicas[told.replicas[i]] = told.tasks[i];
  return out;
}

// The newest change from `step` on, or from before, that the shards do not have yet.
template <class Term>
std::optional<Term> waiting(const std::vector<int64_t>& steps, const std::vector<Term>& terms,
                            int64_t step) {
  std::optional<Term> out;
  for (size_t i = 0; i < std::min(steps.size(), terms.size()) && steps[i] <= step; ++i)
    out = terms[i];
  return out;
}

enum class Change : uint8_t { waits, holds, replaced };

template <class Term>
Change judge(const std::optional<Term>& waiting, const Term& held, const Term& asked) {
  if (waiting) return *waiting == asked ? Change::waits : Change::replaced;
  return held == asked ? Change::holds : Change::replaced;
}

Change judge(const TrainingTold& now, const ChangeTerms& asked, int64_t from) {
  return asked.rule.empty()
             ? judge(waiting(now.scale_steps, now.scales, from), now.rate_scale, asked.rate_scale)
             : judge(waiting(now.rule_steps, now.rules, from), now.rule, asked.rule);
}

}  // namespace

struct Visitor::State final : MeshListener {
  State(const NodeOptions& node, std::chrono::milliseconds patience);
  ~State();
  State(const State&) = delete;

  void up(const Member& member, const caf::actor& agent) override;
  void down(const Member& member, const std::string& reason) override;
  void refused(Errc code, const std::string& reason) override;

  // Asks all of them at once, and waits for all answers.
  template <class Answer, class Handle, class Message>
  std::map<std::string, Told<Answer>> ask_all(const std::map<std::string, Handle>& whom,
                                              const Message& message);
  // Throws: the error of the answer, after the task.
  template <class Answer, class Message>
  Answer ask(const std::string& task, const Message& message);

  std::map<std::string, Agent> members();
  // The control actors of programs; an error for one that does not answer.
  std::map<std::string, Told<caf::actor>> controls();
  ControlActor control_of(const std::string& task);
  int64_t change(const std::string& task, const ChangeTerms& m);
  void wait_until_it_holds(const std::string& task, const ChangeTerms& m, const TermsTaken& taken);
  std::string seeds() const { return joined(seeds_, ","); }

  const std::vector<std::string> seeds_;
  const std::chrono::milliseconds patience_;
  const LogSink say_;
  ActorHost host_;
  Doors doors_;
  caf::actor agent_;
  Asker asker_;
  std::mutex mutex_;  // guards the rest but mesh_
  std::condition_variable changed_;
  std::map<std::string, Agent> members_;
  std::map<std::string, ControlActor> controls_;
  std::pair<Errc, std::string> refusal_{Errc::ok, ""};
  std::unique_ptr<Mesh> mesh_;
};

Visitor::State::State(const NodeOptions& node, std::chrono::milliseconds patience)
    : seeds_(node.seeds),
      patience_(patience),
      say_(node.process.log),
      host_(/*lanes=*/1, *node.process.services, {}) {
  check_job(node.job);
  want_least("the patience of a visitor", patience.count(), 1, "at least 1 ms");
  if (seeds_.empty())
    throw Error(Errc::invalid_argument,
                "no address to join by; give \"host:port\" of any member of the cluster");
  const auto ops = node.process.ops ? node.process.ops : builtin_ops();
  MeshOptions mesh;
  mesh.incarnation = Process::draw_incarnation();
  mesh.cluster = node.cluster;
  mesh.job = node.job;
  mesh.task = static_cast<int32_t>(mesh.incarnation % 1'000'000);  // as that of a program
  mesh.listen = node.listen;
  mesh.announce = node.announce;
  mesh.seeds = node.seeds;
  mesh.fingerprint = ops->fingerprint();
  mesh.ops = own_ops(*ops);
  mesh.insecure = node.insecure;
  mesh.kinds = host_.kinds();
  mesh.silence = read_silence(node.silence);
  if (std::string secret = read_secret(node.secret_file); !secret.empty())
    mesh.secret = std::make_shared<const Secret>(std::move(secret), host_.rng());
  mesh.tls = read_tls(node.tls_dir, node.cluster, node.job, mesh.task);
  agent_ = host_.system().spawn(visit);
  asker_ = spawn_asker(host_.system());
  mesh_ = std::make_unique<Mesh>(host_.system(), host_.transport(), host_.clock(), host_.rng(),
                                 doors_, std::move(mesh));
  mesh_->start(agent_, this);
}

// The constructor may throw before there is a mesh, or actors.
Visitor::State::~State() {
  if (mesh_) mesh_->stop();
  caf::anon_send_exit(agent_, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(asker_, caf::exit_reason::user_shutdown);
  agent_ = nullptr;
  asker_ = nullptr;
  members_.clear();
  controls_.clear();
  host_.system().await_all_actors_done();
  mesh_.reset();
  host_.end_network();
  doors_.close_all();
}

void Visitor::State::up(const Member& member, const caf::actor& agent) {
  std::lock_guard lock(mutex_);
  members_[member.name()] = caf::actor_cast<Agent>(agent);
  changed_.notify_all();
}

void Visitor::State::down(const Member& member, const std::string&) {
  std::lock_guard lock(mutex_);
  members_.erase(member.name());
  controls_.erase(member.name());
  changed_.notify_all();
}

void Visitor::State::refused(Errc code, const std::string& reason) {
  std::lock_guard lock(mutex_);
  refusal_ = {code, reason};
  changed_.notify_all();
}

template <class Answer, class Handle, class Message>
std::map<std::string, Told<Answer>> Visitor::State::ask_all(
    const std::map<std::string, Handle>& whom, const Message& message) {
  std::map<std::string, std::future<Told<Answer>>> open;
  for (const auto& [task, handle] : whom) {
    const auto promise = std::make_shared<std::promise<Told<Answer>>>();
    open[task] = promise->get_future();
    troupe::ask<Answer>(asker_, handle, patience_, message,
                        [promise](Errc code, const std::string& text, const Answer& answer) {
                          promise->set_value({code, text, answer});
                        });
  }
  std::map<std::string, Told<Answer>> out;
  for (auto& [task, future] : open) {
    Told<Answer> told = future.get();
    if (told.code == Errc::timeout)
      told.text = detail::concat("no answer within ", patience_.count(), " ms");
    out[task] = std::move(told);
  }
  return out;
}

template <class Answer, class Message>
Answer Visitor::State::ask(const std::string& task, const Message& message) {
  Told<Answer> told =
      ask_all<Answer>(std::map<std::string, ControlActor>{{task, control_of(task)}}, message)
          .at(task);
  if (told.code != Errc::ok) throw Error(told.code, task, ": ", told.text);
  return std::move(told.answer);
}

std::map<std::string, Agent> Visitor::State::members() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience_,
                      [&] { return !members_.empty() || refusal_.first != Errc::ok; });
    if (members_.empty() && refusal_.first != Errc::ok)
      throw Error(refusal_.first, "the cluster at ", seeds(), " refused us: ", refusal_.second);
    if (members_.empty())
      throw Error(Errc::peer_lost, "nobody answered at ", seeds(), " within ", patience_.count(),
                  " ms; give the address of a member that runs, and the name of its cluster");
  }
  for (const auto end = Steady::now() + kOthersWaitMax;
       !mesh_->heard_of().empty() && Steady::now() < end;) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kHoldsPoll);
  }
  std::lock_guard lock(mutex_);
  return members_;
}

std::map<std::string, Told<caf::actor>> Visitor::State::controls() {
  std::map<std::string, Told<caf::actor>> out;
  for (const auto end = Steady::now() + kOthersWaitMax;;) {
    for (const auto& [task, told] : ask_all<caf::actor>(members(), FindService{kControlService})) {
      const bool node = task.starts_with("/job:ps/") || task.starts_with("/job:worker/");
      if (told.code == Errc::ok || (!node && told.code != Errc::bad_configuration))
        out[task] = told;
    }
    if (!out.empty()) return out;
    if (Steady::now() >= end) break;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kHoldsPoll);
  }
  for (const std::string& task : mesh_->heard_of())
    if (task.starts_with("/job:client/"))
      out[task] = {Errc::peer_lost, "other members know it, and there is no link to it", {}};
  return out;
}

ControlActor Visitor::State::control_of(const std::string& task) {
  {
    std::lock_guard lock(mutex_);
    const auto known = controls_.find(task);
    if (known != controls_.end()) return known->second;
  }
  const auto there = members();
  const auto member = there.find(task);
  if (member == there.end())
    throw Error(Errc::peer_lost, task, " is not there; troupe jobs lists the programs that are");
  const Told<caf::actor> told =
      ask_all<caf::actor>(std::map<std::string, Agent>{*member}, FindService{kControlService})
          .at(task);
  if (told.code != Errc::ok) throw Error(told.code, task, ": ", told.text);
  std::lock_guard lock(mutex_);
  return controls_[task] = caf::actor_cast<ControlActor>(told.answer);
}

int64_t Visitor::State::change(const std::string& task, const ChangeTerms& m) {
  TermsTaken taken;
  try {
    taken = ask<TermsTaken>(task, m);
  } catch (const Error& e) {
    if (e.code() != Errc::timeout) throw;
    const std::string phase = ask<TrainingTold>(task, AskTraining{}).phase;
    throw Error(Errc::timeout, e.what(), "; the training is alive (", phase,
                "), and takes the change when its thread is free; it stays asked for");
  }
  wait_until_it_holds(task, m, taken);
  return taken.from;
}

void Visitor::State::wait_until_it_holds(const std::string& task, const ChangeTerms& m,
                                         const TermsTaken& taken) {
  for (auto word = Steady::now() + kFirstWord;;) {
    const TrainingTold now = ask<TrainingTold>(task, AskTraining{});
    const bool ended = now.phase.empty() || now.training != taken.training;
    const Change change = judge(now, m, taken.from);
    if (change == Change::holds && now.training == taken.training) return;
    if (ended)
      throw Error(Errc::stale, task, ": the training has ended, at step ", now.step,
                  ", before the change from step ", taken.from, " on");
    if (change == Change::replaced)
      throw Error(Errc::stale, task, ": a later change has taken the place of this one, from step ",
                  taken.from, " on; the rule is ", now.rule, ", the rate scale ", now.rate_scale);
    if (say_ && Steady::now() >= word) {
      say_(LogLevel::info,
           detail::concat("the change is for step ", taken.from, "; the training is at step ",
                          now.step, " and ", now.phase));
      word = Steady::now() + kHoldsWord;
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kHoldsPoll);
  }
}

Visitor::Visitor(const NodeOptions& node, std::chrono::milliseconds patience)
    : state_(std::make_unique<State>(node, patience)) {}
Visitor::~Visitor() = default;

std::vector<RunningProgram> Visitor::programs() {
  std::vector<RunningProgram> out;
  std::map<std::string, ControlActor> answer;
  for (const auto& [task, told] : state_->controls()) {
    if (told.code == Errc::ok)
      answer[task] = caf::actor_cast<ControlActor>(told.answer);
    else
      out.push_back({.task = task, .name = {}, .silent = told.text, .phase = {}});
  }
  for (const auto& [task, told] : state_->ask_all<TrainingTold>(answer, AskTraining{})) {
    if (told.code == Errc::ok)
      out.push_back(program_of(task, told.answer));
    else
      out.push_back({.task = task, .name = {}, .silent = told.text, .phase = {}});
  }
  return out;
}

std::vector<PushCount> Visitor::ledger(const std::string& task, const std::string& parameters,
                                       std::string& left_out) {
  const LedgerTold told = state_->ask<LedgerTold>(task, AskLedger{parameters});
  left_out = told.left_out;
  return rows_of(told);
}

int64_t Visitor::set_rule(const std::string& task, const Aggregation& rule, int64_t step) {
  return state_->change(task, {.rule = to_string(rule), .rate_scale = 0, .step = step});
}

int64_t Visitor::set_rate_scale(const std::string& task, double scale, int64_t step) {
  return state_->change(task, {.rule = {}, .rate_scale = scale, .step = step});
}

}  // namespace troupe
