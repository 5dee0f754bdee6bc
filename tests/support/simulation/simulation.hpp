// Simulations: a scenario is a world in one thread, which draws every choice from a seed. It notes
// each event in a History and throws a Violation if an invariant does not hold. Scenario runs it
// for many seeds, each twice, since one seed must give one history (I23).
//
// A failure prints its history and `./dev sim NAME SEED`. That command sets variables of the
// environment, SimRequest, which also ask for other seeds, for a stop at an event, for other faults
// and for as few faults as break the same invariant.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "chaos/seed_run.hpp"
#include "chaos/sim_report.hpp"

namespace troupe::sim {

// The wishes of `./dev sim`, from the environment.
struct SimRequest {
  static const char* text(const char* name) {
    const char* value = std::getenv(name);
    return value && *value ? value : nullptr;
  }
  // "" for none; null: those of the seed.
  static const char* faults() { return std::getenv("TROUPE_SIM_FAULTS"); }
  static uint64_t number(const char* digits) { return std::strtoull(digits, nullptr, 10); }

  const char* name = text("TROUPE_SIM_NAME");    // of a scenario; null: all
  const char* seed = text("TROUPE_SIM_SEED");    // this one
  const char* seeds = text("TROUPE_SIM_SEEDS");  // A-B
  const char* hours = text("TROUPE_SIM_HOURS");  // for so long
  const char* until = text("TROUPE_SIM_UNTIL");  // an event
  const char* out = text("TROUPE_SIM_OUT");      // a folder for reports (sim_report.hpp)
  bool verbose = text("TROUPE_SIM_VERBOSE") != nullptr;
  bool shrink = text("TROUPE_SIM_SHRINK") != nullptr;
  bool quick = text("TROUPE_TEST_QUICK") != nullptr;

  bool is_of(const std::string& scenario) const { return !name || scenario == name; }
};

inline std::vector<std::string>& scenario_names() {
  static std::vector<std::string> names;
  return names;
}

class Scenario {
 public:
  using Body = std::function<void(uint64_t seed, History&)>;
  // The least that breaks this invariant, as text for a person.
  using Shrink = std::function<std::string(uint64_t seed, const std::string& invariant)>;
  // Seeds 1 to `seeds`, and the selected seeds `also`.
  Scenario(std::string name, uint64_t seeds, Body body, std::vector<uint64_t> also = {},
           Shrink shrink = nullptr)
      : name_(std::move(name)),
        seeds_(seeds),
        body_(std::move(body)),
        also_(std::move(also)),
        shrink_(std::move(shrink)) {
    scenario_names().push_back(name_);
  }

  // Runs all seeds, or those that the environment asks for. Stops at the first seed of its own that
  // fails, and after kFailuresMax of others.
  void run() const {
    const SimRequest request;
    if (!request.is_of(name_))
      for (const std::string& name : scenario_names())
        if (name == request.name) return;  // the environment names another scenario
    const bool mine = request.name && request.is_of(name_);
    if (mine && request.seed) {
      run_seed(SimRequest::number(request.seed), true, true);
    } else if (mine && (request.seeds || request.hours)) {
      run_many(request);
    } else {
      const uint64_t seeds = request.quick ? (seeds_ + 4) / 5 : seeds_;
      for (uint64_t s = 1; s <= seeds; ++s)
        if (!run_seed(s, false, true)) return;
      for (uint64_t s : also_)
        if (!run_seed(s, false, true)) return;
    }
  }

  // The invariant that a run of this seed breaks, or "".
  std::string broken_by(uint64_t seed) const {
    const auto broken = SeedRun().run([&](History& history) { body_(seed, history); }, true);
    return broken ? broken->invariant : "";
  }

 private:
  // Runs of seeds, other than those without faults.
  struct Total {
    int64_t us = 0;  // of virtual time
    int64_t faults = 0;
  };
  static constexpr int kFailuresMax = 10;
  static constexpr uint64_t kTwiceEvery = 8;  // seeds of a long run

  void run_many(const SimRequest& request) const {
    using Clock = std::chrono::steady_clock;
    uint64_t first = 1, last = UINT64_MAX;
    const auto until = request.hours
                           ? Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                std::chrono::duration<double, std::ratio<3600>>(
                                                    std::strtod(request.hours, nullptr)))
                           : Clock::time_point::max();
    if (request.seeds) {
      first = SimRequest::number(request.seeds);
      if (const char* to = std::strchr(request.seeds, '-')) last = SimRequest::number(to + 1);
    } else {
      first = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) /
              1'000'000 % 1'000'000'000'000;
    }
    std::cout << name_ << ": seeds from " << first << " on" << std::endl;
    total_ = {};
    const std::clock_t began = std::clock();
    std::string failed;
    int failures = 0;
    uint64_t seed = first;
    for (; seed <= last && Clock::now() < until && failures < kFailuresMax; ++seed)
      if (!run_seed(seed, false, !request.hours || seed % kTwiceEvery == 0)) {
        ++failures;
        failed += detail::concat(" ", seed);
      }
    const double cpu_seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC,
                 seconds = static_cast<double>(total_.us) * 1e-6;
    std::cout << name_ << ": " << seed - first << " seeds, " << seconds << " s simulated, "
              << total_.faults << " faults, " << seconds / cpu_seconds
              << " times real time on a core, " << failures << " failed:" << failed << std::endl;
  }

  // Returns whether no invariant is broken. `twice`: checks I23.
  bool run_seed(uint64_t seed, bool asked_for, bool twice) const {
    const SimRequest request;
    const bool all = asked_for && (request.verbose || request.out);
    SeedRun run(all);
    History& history = run.first;
    if (asked_for && request.until) history.stop_at(std::strtoll(request.until, nullptr, 10));
    const auto broken = run.run([&](History& of) { body_(seed, of); }, twice);
    if (broken && broken->invariant == History::kStopped)
      return stopped(seed, history, broken->text);
    if (broken) return failed(seed, run.history(), *broken);
    total_.us += history.us() + run.second.us();
    total_.faults += history.faults() + run.second.faults();
    if (asked_for) {
      if (request.verbose) history.print(std::cout);
      std::cout << name_ << " seed " << seed << ": " << history.events() << " events, history hash "
                << history.hash() << ", no invariant broken\n";
      report(seed, history, "no invariant broken");
    }
    CHECK(history.events() > 0);
    return true;
  }
  bool stopped(uint64_t seed, const History& history, const std::string& state) const {
    history.print(std::cout);
    std::cout << name_ << " seed " << seed << " stopped at event " << history.events() << ":"
              << state << '\n';
    report(seed, history, "stopped:" + state);
    return true;
  }
  bool failed(uint64_t seed, const History& history, const Violation& broken) const {
    const std::string text = detail::concat(broken.invariant, ": ", broken.text);
    const SimRequest request;
    history.print(std::cout, request.verbose ? SIZE_MAX : kNewest);
    const char* const faults = SimRequest::faults();
    FAIL_CHECK(text << "\n  replay: ./dev sim " << name_ << " " << seed
                    << (faults ? detail::concat(" --faults \"", faults, "\"") : ""));
    if (request.out && request.is_of(name_)) {
      History all(true);
      broken_in([&] { body_(seed, all); });  // the same again, which has been told
      report(seed, all, text);
    }
    if (request.shrink && shrink_) std::cout << shrink_(seed, broken.invariant) << std::endl;
    return false;
  }
  void report(uint64_t seed, const History& history, const std::string& outcome) const {
    const SimRequest request;
    if (!request.out) return;
    const std::string folder = detail::concat(request.out, "/", name_, "-", seed);
    write_report(folder, detail::concat(name_, " seed ", seed), outcome, history);
    std::cout << "report: " << folder << "/index.html\n";
  }

  static constexpr size_t kNewest = 100;  // events of a failed seed that are printed

  const std::string name_;
  const uint64_t seeds_;
  const Body body_;
  const std::vector<uint64_t> also_;
  const Shrink shrink_;
  mutable Total total_;  // of the last runs
};

}  // namespace troupe::sim
