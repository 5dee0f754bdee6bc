// Simulations: a scenario is a world in one thread, which draws every choice from a seed. It notes
// each event in a History and throws a Violation if an invariant does not hold. Scenario runs it
// for many seeds, each twice, since one seed must give one history (I23).
//
// A failure prints its history and `./dev sim NAME SEED`, which sets TROUPE_SIM_NAME and
// TROUPE_SIM_SEED to run that seed only. TROUPE_SIM_VERBOSE prints the whole history.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace troupe::sim {

// A broken invariant and how it was broken: "I1" says that a gradient is applied once, and so on.
struct Violation {
  std::string invariant, text;
};

// The random choices of one seed.
class Draw {
 public:
  explicit Draw(uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  uint64_t below(uint64_t n) { return engine_() % n; }  // [0, n)
  int64_t between(int64_t least, int64_t most) {        // both included
    return least + static_cast<int64_t>(below(static_cast<uint64_t>(most - least + 1)));
  }
  bool chance(double p) { return static_cast<double>(engine_() >> 11) * 0x1p-53 < p; }

 private:
  std::mt19937_64 engine_;
};

inline constexpr uint64_t kFnvStart = 1469598103934665603ull;
inline uint64_t fnv(uint64_t hash, const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 1099511628211ull;
  return hash;
}

// The events of one run: a hash of all of them, and as text the first, which lists the drawn
// options, and the newest.
class History {
 public:
  static constexpr size_t kKept = 200;
  explicit History(bool keep_all = false) : keep_all_(keep_all) {}
  void note(std::string line) {
    ++events_;
    hash_ = fnv(hash_, line.data(), line.size() + 1);
    if (events_ == 1) first_ = line;
    lines_.push_back(std::move(line));
    if (!keep_all_ && lines_.size() > kKept) lines_.pop_front();
  }
  uint64_t hash() const { return hash_; }
  int64_t events() const { return events_; }
  void print(std::ostream& out) const {
    int64_t number = events_ - static_cast<int64_t>(lines_.size());
    if (number > 0) out << "  0  " << first_ << "\n  ...\n";
    for (const std::string& line : lines_) out << "  " << number++ << "  " << line << '\n';
  }

 private:
  const bool keep_all_;
  uint64_t hash_ = kFnvStart;
  int64_t events_ = 0;
  std::string first_;
  std::deque<std::string> lines_;
};

inline std::vector<std::string>& scenario_names() {
  static std::vector<std::string> names;
  return names;
}

class Scenario {
 public:
  using Body = std::function<void(uint64_t seed, History&)>;
  // Seeds 1 to `seeds`, and the selected seeds `also`.
  Scenario(std::string name, uint64_t seeds, Body body, std::vector<uint64_t> also = {})
      : name_(std::move(name)), seeds_(seeds), body_(std::move(body)), also_(std::move(also)) {
    scenario_names().push_back(name_);
  }

  // Runs all seeds, or the one in the environment. Stops at the first seed that fails.
  void run() const {
    const char* wanted = std::getenv("TROUPE_SIM_NAME");
    if (wanted && name_ != wanted)
      for (const std::string& name : scenario_names())
        if (name == wanted) return;  // the environment names another scenario
    const char* seed = wanted ? std::getenv("TROUPE_SIM_SEED") : nullptr;
    if (seed) {
      run_seed(std::strtoull(seed, nullptr, 10), true);
      return;
    }
    const uint64_t seeds = std::getenv("TROUPE_TEST_QUICK") ? (seeds_ + 4) / 5 : seeds_;
    for (uint64_t s = 1; s <= seeds; ++s)
      if (!run_seed(s, false)) return;
    for (uint64_t s : also_)
      if (!run_seed(s, false)) return;
  }

  // The invariant that a run of this seed breaks, or "".
  std::string broken_by(uint64_t seed) const {
    History history, again;
    try {
      body_(seed, history);
      body_(seed, again);
    } catch (const Violation& v) {
      return v.invariant;
    }
    return history.hash() == again.hash() ? "" : "I23";
  }

 private:
  bool run_seed(uint64_t seed, bool print) const {
    const bool all = print && std::getenv("TROUPE_SIM_VERBOSE");
    History history(all), again;
    History* current = &history;
    try {
      body_(seed, history);
      current = &again;
      body_(seed, again);
      current = &history;
      if (history.hash() != again.hash()) throw Violation{"I23", "two runs of this seed differ"};
    } catch (const Violation& v) {
      return failed(seed, *current, v.invariant + ": " + v.text);
    } catch (const std::exception& e) {
      return failed(seed, *current, e.what());
    }
    if (print) {
      if (all) history.print(std::cout);
      std::cout << name_ << " seed " << seed << ": " << history.events() << " events, history hash "
                << history.hash() << ", no invariant broken\n";
    }
    CHECK(history.events() > 0);
    return true;
  }
  bool failed(uint64_t seed, const History& history, const std::string& text) const {
    history.print(std::cout);
    FAIL_CHECK(text << "\n  replay: ./dev sim " << name_ << " " << seed);
    return false;
  }

  const std::string name_;
  const uint64_t seeds_;
  const Body body_;
  const std::vector<uint64_t> also_;
};

}  // namespace troupe::sim
