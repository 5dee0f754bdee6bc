// run_chaos(): checks a training and its options, runs each seed in a SimCluster, and makes a
// failure as small as it can.
#include "troupe/chaos.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <set>

#include "chaos/sim_report.hpp"
#include "chaos/sim_training.hpp"
#include "graph/base/words.hpp"
#include "graph/device_name.hpp"
#include "graph/prune.hpp"
#include "training/group/pushed_parameters.hpp"
#include "training/loop/sources.hpp"

namespace troupe {
namespace {

using sim::Faults;
using sim::History;
using sim::kError;
using sim::Violation;

constexpr int kProcessesMax = 64;          // each of them runs in this thread
constexpr int64_t kStepsMax = 10'000;      // all of them are kept in mind
constexpr int64_t kPaceMaxMs = 10'000;     // the next step is expected within 30 s
constexpr int kDrawsMax = 200;             // tries to draw faults of the wanted kinds
constexpr uint64_t kTwiceEvery = 8;        // seeds; the first one, too
constexpr int64_t kEventsOfStep = 20'000;  // at most, over all processes and all that fails
constexpr int64_t kHeartbeats = 10;        // a second, of each link, both ways
constexpr int64_t kFaultsSeconds = 300;    // of virtual time, the faults and the waits after them

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Error(Errc::invalid_argument, parts...);
}

// Calls a function of the program's.
template <class F>
auto call(const std::string& name, const std::string& what, const F& function) {
  try {
    return function();
  } catch (const Violation&) {
    throw;
  } catch (const std::exception& e) {
    throw Violation{name, detail::concat(what, " threw: ", e.what())};
  } catch (...) {
    throw Violation{name, what + " threw"};
  }
}

// Checks

void check_place(const ChaosTraining& t, const Node& node) {
  const DeviceName at = parse_device_name(node.device);
  const auto bad = [&node](const auto&... why) {
    refuse("ChaosTraining::build places ", node.name, " on ", node.device, ", and ", why...);
  };
  if (at.job && at.job != "ps" && at.job != "worker" && at.job != "client")
    bad("there are the jobs ps, worker and client");
  const int tasks = at.job == "ps" ? t.ps : at.job == "worker" ? t.workers : 1;
  if (at.task && *at.task >= tasks)
    bad("there ", tasks == 1 ? "is " : "are ", tasks,
        " of that job; ChaosTraining::", at.job == "ps" ? "ps" : "workers", " says so");
  if (at.kind.value_or(DeviceKind::cpu) != DeviceKind::cpu || at.index.value_or(0) != 0)
    bad("each process has one CPU");
}

void check_tower(const ChaosTraining& t, const Graph& graph, const Tower& tower, int64_t number) {
  if (tower.replica != number)
    refuse("ChaosTraining::build gives replica ", tower.replica, " as tower ", number,
           "; wants the replicas 0, 1, ... in this order");
  for (const auto& [output, what] : {std::pair(tower.loss, "loss"), {tower.update, "update"}})
    if (!output.defined() || output.graph != &graph)
      refuse("Tower::", what, " of replica ", number, " is ",
             output.defined() ? "of another graph than build was given" : "empty");
  if (!is_wide_float(tower.loss.dtype()) || tower.loss.shape().ndim() != 0)
    refuse("Tower::loss of replica ", number, " is ", tower.loss.dtype(), tower.loss.shape(),
           "; wants one f32 or f64, as reduce_mean() makes it");
  if (!tower.feeds.empty() && !tower.batch)
    refuse("Tower::batch of replica ", number, " is empty, and it has ", tower.feeds.size(),
           " feeds");
  for (const int32_t id : prune(graph, {tower.loss, tower.update}, tower.feeds))
    check_place(t, graph.node(id));
  if (!sources_of({&tower}).texts.empty())
    refuse("the tower of replica ", number,
           " reads a source, which a simulation does not have; "
           "feed it with Tower::batch");
}

// Returns the number of towers.
int32_t check(const ChaosTraining& t) {
  const auto least = [](const char* field, int64_t value, int64_t from) {
    if (value < from) refuse("ChaosTraining::", field, " is ", value, "; wants at least ", from);
  };
  const auto range = [](const char* field, int64_t value, int64_t from, int64_t to) {
    if (value < from || value > to)
      refuse("ChaosTraining::", field, " is ", value, "; wants ", from, " to ", to);
  };
  if (!t.build) refuse("ChaosTraining::build is empty; give a function that makes the towers");
  if (!t.ops) refuse("ChaosTraining::ops is null; builtin_ops() are the usual ones");
  range("steps", t.steps, 1, kStepsMax);
  least("ps", t.ps, 1);
  least("workers", t.workers, 1);
  least("checkpoint_every", t.checkpoint_every, 0);
  least("pause_every", t.pause_every, 0);
  range("pace", t.pace.count(), 0, kPaceMaxMs);
  if (t.ps > kProcessesMax || t.workers > kProcessesMax || t.ps + t.workers > kProcessesMax)
    refuse("ChaosTraining has ", t.ps, " ps and ", t.workers, " workers; wants at most ",
           kProcessesMax, " processes");
  Graph graph(t.ops);
  const std::vector<Tower> towers = t.build(graph);
  if (towers.empty()) refuse("ChaosTraining::build made no tower");
  for (size_t i = 0; i < towers.size(); ++i)
    check_tower(t, graph, towers[i], static_cast<int64_t>(i));
  const Pushed pushed = pushed_in(graph);
  if (pushed.replicas.empty()) refuse("the towers of ChaosTraining::build train no parameter");
  for (size_t i = 0; i < towers.size(); ++i)
    if (pushed.replicas.count(static_cast<int32_t>(i)) == 0)
      refuse("tower ", i, " of ChaosTraining::build pushes no gradient as replica ", i,
             "; build it in a scope with .replica = ", i);
  return static_cast<int32_t>(towers.size());
}

void check(const ChaosOptions& o, const sim::SimShape& shape) {
  if (o.seeds < 1) refuse("ChaosOptions::seeds is 0; wants at least 1");
  if (o.first_seed + (o.seeds - 1) < o.first_seed)
    refuse("ChaosOptions::first_seed is ", o.first_seed, ", and there are no ", o.seeds,
           " seeds from there on");
  if (o.faults_a_seed < 0)
    refuse("ChaosOptions::faults_a_seed is ", o.faults_a_seed, "; wants 0 (drawn) or more");
  for (const std::string& kind : o.kinds) {
    if (std::find(sim::kFaultNames.begin(), sim::kFaultNames.end(), kind) == sim::kFaultNames.end())
      refuse("ChaosOptions::kinds: no fault is called \"", kind, "\"",
             did_you_mean(kind, sim::kFaultNames));
    if (kind == "late" || kind == "point" || kind == "gone" || kind == "leave")
      refuse("ChaosOptions::kinds: ", kind, " is not drawn; name it in ChaosOptions::faults");
  }
  if (o.faults && (!o.kinds.empty() || o.faults_a_seed > 0))
    refuse("ChaosOptions::faults are the faults of each seed; leave kinds and faults_a_seed out");
  for (const sim::Fault& fault : o.faults ? sim::faults_of(*o.faults, shape) : Faults())
    if (std::max(fault.who, fault.other) > shape.servers())
      refuse("ChaosOptions::faults: ", sim::to_text(fault, shape),
             " names a second program; there is one, client0");
  if (o.report_dir.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(o.report_dir, failed);
  if (failed)
    throw Error(Errc::io, "ChaosOptions::report_dir: cannot make ", o.report_dir, ": ",
                failed.message());
}

// Draws

bool is_one_of(const std::vector<std::string>& kinds, const sim::Fault& fault) {
  return kinds.empty() ||
         std::find(kinds.begin(), kinds.end(), sim::kFaultNames[static_cast<size_t>(fault.kind)]) !=
             kinds.end();
}

void check(const std::vector<Invariant>& invariants) {
  std::set<std::string> names;
  for (const auto& [name, broken] : invariants) {
    if (name.empty()) refuse("an invariant has no name");
    if (!broken) refuse("the function of the invariant \"", name, "\" is empty");
    const bool taken = name[0] == 'I' && name.find_first_not_of("0123456789", 1) == name.npos;
    if (taken || name == kError || name == "kill")
      refuse("the name \"", name, "\" of an invariant is one of docs/simulation.md; take another");
    if (!names.insert(name).second) refuse("two invariants are called \"", name, "\"");
  }
}

// Draws faults until there are as many as are wanted. Files are written for checkpoints alone.
void draw_faults(const ChaosOptions& o, bool checkpoints, sim::FaultPlan& plan) {
  Faults out;
  const auto wanted = static_cast<size_t>(std::max(1, o.faults_a_seed));
  for (int i = 0; i < kDrawsMax && out.size() < wanted; ++i) {
    plan.swarm();
    for (const sim::Fault& fault : plan.take())
      if (is_one_of(o.kinds, fault) && (checkpoints || !fault.is_of_disk())) out.push_back(fault);
  }
  while (o.faults_a_seed > 0 && out.size() > wanted)
    out.erase(out.begin() + static_cast<ptrdiff_t>(plan.draw.below(out.size())));
  plan.give(std::move(out));
}

// The invariants of the program, in one run after the other.
class Promises final : public sim::SimWatch {
 public:
  Promises(const std::vector<Invariant>& invariants, uint64_t seed)
      : invariants_(invariants), seed_(seed) {}
  void begins() override { steps_.clear(); }
  void ended_well(int64_t us, int64_t replica, int64_t step, double loss) override {
    steps_.push_back({replica, step, loss});
    ask(ChaosView::step, us, {});
  }
  void looked(int64_t us, int64_t, const Weights& seen, bool end) override {
    ask(end ? ChaosView::end : ChaosView::pause, us, seen);
  }

 private:
  void ask(ChaosView::Moment moment, int64_t us, const Weights& parameters) {
    const ChaosView view{moment, seed_, std::chrono::microseconds(us), steps_, parameters};
    for (const Invariant& one : invariants_) {
      const std::string why = call(one.name, "the invariant", [&] { return one.broken(view); });
      if (!why.empty()) throw Violation{one.name, why};
    }
  }

  const std::vector<Invariant>& invariants_;
  const uint64_t seed_;
  std::vector<ChaosStep> steps_;
};

// The runs of one seed.
class Seed {
 public:
  Seed(const ChaosTraining& training, const ChaosOptions& options, int32_t replicas,
       const std::vector<Invariant>& invariants, uint64_t seed)
      : options_(options), seed_(seed), promises_(invariants, seed) {
    const auto own = [&](sim::Draw&, sim::SimClusterOptions& o) {
      o.shape = {training.ps, training.workers};
      shape_ = o.shape;
      o.replicas = replicas;
      o.build = [&training](Graph& graph, const auto&, const auto&) {
        return towers(training, graph);
      };
      o.ops = training.ops;
      o.watch = &promises_;
      o.rule = training.rule;
      o.steps = training.steps;
      o.checkpoint_every = training.checkpoint_every;
      o.pause_every = training.pause_every;
      o.rate_scales = false;
      o.pace_ms = training.pace.count();
      const int64_t n = training.ps + training.workers + 1;
      const int64_t seconds = kFaultsSeconds + training.steps * training.pace.count() / 1000;
      o.events_max += kEventsOfStep * training.steps + kHeartbeats * n * n * seconds;
    };
    training_.emplace(
        seed, own,
        [this, files = training.checkpoint_every > 0](sim::FaultPlan& plan) {
          draw_faults(options_, files, plan);
        },
        options_.faults ? options_.faults->c_str() : nullptr);
  }

  // Adds to the report; its failure, if there is one.
  void run(bool twice, ChaosReport& report) {
    std::vector<sim::SimOutcome> outcomes;  // of each run
    const auto world = [this, &outcomes](History& history) {
      training_->run(training_->faults(), history, &outcomes.emplace_back());
    };
    if (std::optional<Violation> broken = sim::SeedRun().run(world, twice)) {
      // Bits that differ from a run without faults although there are none.
      const bool differs = broken->invariant == "I5" && training_->broken_by({}) == "I5";
      if (differs || broken->invariant == "I23") broken = impure();
      report.failure = failure(broken->invariant, broken->text);
    }
    const sim::SimOutcome& outcome = outcomes.front();
    report.acknowledged += outcome.acknowledged;
    report.lost += outcome.lost;
    for (const auto& [kind, n] : outcome.faults) report.faults[kind] += n;
    int64_t us = training_->calm_us();
    for (const sim::SimOutcome& one : outcomes) us += one.us;
    report.simulated_seconds += static_cast<double>(us) * 1e-6;
  }

 private:
  static Violation impure() {
    return {"I23",
            "two runs of this seed differ, and their faults do not: a kernel or a batch "
            "is no pure function of its inputs and the step"};
  }
  static std::vector<Tower> towers(const ChaosTraining& training, Graph& graph) {
    std::vector<Tower> out =
        call(kError, "ChaosTraining::build", [&] { return training.build(graph); });
    for (Tower& tower : out) {
      if (!tower.batch) continue;
      tower.batch = [batch = tower.batch, replica = tower.replica](int64_t step) {
        const std::string what =
            detail::concat("Tower::batch of replica ", replica, " in step ", step);
        return call(kError, what, [&] { return batch(step); });
      };
    }
    return out;
  }

  ChaosFailure failure(const std::string& invariant, const std::string& reason) const {
    ChaosFailure out{.seed = seed_, .invariant = invariant, .reason = reason};
    const Faults all = training_->faults();
    out.faults = sim::to_text(all, shape_);
    Faults least = all;
    if (options_.shrink && invariant != "I23") {
      least = training_->least(invariant).faults;
      out.shrunk = sim::to_text(least, shape_);
    }
    out.replay = detail::concat("ChaosOptions{.first_seed = ", seed_, ", .seeds = 1, .faults = \"",
                                sim::to_text(least, shape_), "\"}");
    if (options_.report_dir.empty()) return out;
    try {
      out.report = write(least, invariant + ": " + reason);
    } catch (const std::exception& e) {  // the failure is worth more than its report
      out.reason += detail::concat("; no report: ", e.what());
    }
    return out;
  }
  // Writes the history of these faults, as `replay` gives it. Throws: std::ios_base::failure,
  // std::filesystem::filesystem_error.
  std::string write(const Faults& faults, const std::string& outcome) const {
    History history(true);
    sim::broken_in([&] { training_->run(faults, history); });  // the same as before
    const std::string folder = detail::concat(options_.report_dir, "/seed-", seed_);
    sim::write_report(folder, detail::concat("seed ", seed_), outcome, history);
    return folder + "/index.html";
  }

  const ChaosOptions& options_;
  const uint64_t seed_;
  sim::SimShape shape_;
  Promises promises_;
  std::optional<sim::SeedTraining> training_;
};

}  // namespace

ChaosReport run_chaos(const ChaosTraining& training, const ChaosOptions& options,
                      const std::vector<Invariant>& invariants) {
  const int32_t replicas = check(training);
  check(options, {training.ps, training.workers});
  check(invariants);
  ChaosReport report;
  const std::clock_t began = std::clock();
  for (uint64_t i = 0; i < options.seeds && !report.failure; ++i) {
    const uint64_t seed = options.first_seed + i;
    ++report.seeds;
    Seed(training, options, replicas, invariants, seed)
        .run(i == 0 || seed % kTwiceEvery == 0, report);
  }
  report.cpu_seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  return report;
}

std::string to_string(const ChaosReport& report) {
  std::string kinds;
  int64_t faults = 0;
  for (const auto& [kind, n] : report.faults) {
    faults += n;
    kinds += detail::concat(kinds.empty() ? ": " : ", ", n, " ", kind);
  }
  const double speed = report.cpu_seconds > 0 ? report.simulated_seconds / report.cpu_seconds : 0;
  std::string out = detail::concat(
      report.seeds, " seeds, ", faults, " faults", kinds, "\n", report.acknowledged,
      " gradients were acknowledged, ", report.lost, " of them lost by a restore and made again\n",
      std::llround(report.simulated_seconds), " s simulated in ", std::llround(report.cpu_seconds),
      " s of CPU time, ", std::llround(speed), " times real time\n");
  if (!report.failure) return out + "no invariant is broken\n";
  const ChaosFailure& f = *report.failure;
  out += detail::concat("seed ", f.seed, " breaks \"", f.invariant, "\": ", f.reason,
                        "\n  faults: ", f.faults.empty() ? "none" : f.faults, "\n");
  if (f.shrunk && *f.shrunk != f.faults)
    out += detail::concat("  the fewest: ", f.shrunk->empty() ? "none" : *f.shrunk, "\n");
  out += "  replay: " + f.replay + "\n";
  return f.report.empty() ? out : out + "  report: " + f.report + "\n";
}

}  // namespace troupe
