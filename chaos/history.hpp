// Random choices of a simulation, the record of its events, and the invariant that it breaks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <utility>

#include "troupe/error.hpp"

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
  struct Line {
    int64_t us;  // virtual time since the first line; 0 in a world without a clock
    std::string text;
  };

  explicit History(bool keep_all = false) : keep_all_(keep_all) {}
  // Virtual time, for the lines from here on; it is no part of the hash.
  void set_clock(std::function<int64_t()> us) {
    clock_ = std::move(us);
    if (clock_) began_us_ = clock_();
  }
  // The world is to stop there, with Violation{kStopped, its state}.
  static constexpr const char* kStopped = "until";
  void stop_at(int64_t event) { stop_at_ = event; }
  bool is_over() const { return stop_at_ >= 0 && events_ >= stop_at_; }

  void note(std::string text) {
    ++events_;
    hash_ = fnv(hash_, text.data(), text.size() + 1);
    Line line{clock_ ? clock_() - began_us_ : 0, std::move(text)};
    if (events_ == 1) first_ = line.text;
    lines_.push_back(std::move(line));
    if (!keep_all_ && lines_.size() > kKept) lines_.pop_front();
  }
  void struck(int64_t faults) { faults_ += faults; }  // by the world, when its run is over
  int64_t faults() const { return faults_; }
  uint64_t hash() const { return hash_; }
  int64_t events() const { return events_; }
  int64_t us() const { return lines_.empty() ? 0 : lines_.back().us; }  // virtual time of the last
  const std::string& first() const { return first_; }
  const std::deque<Line>& lines() const { return lines_; }  // the newest, or all
  void print(std::ostream& out, size_t newest = SIZE_MAX) const {
    newest = std::min(newest, lines_.size());
    int64_t number = events_ - static_cast<int64_t>(newest);
    if (number > 0) out << "  0  " << first_ << "\n  ...\n";
    for (size_t i = lines_.size() - newest; i < lines_.size(); ++i) {
      const Line& line = lines_[i];
      out << "  " << number++ << "  ";
      if (line.us > 0) out << line.us / 1000 << " ms  ";
      out << line.text << '\n';
    }
  }

 private:
  const bool keep_all_;
  uint64_t hash_ = kFnvStart;
  int64_t events_ = 0, faults_ = 0, began_us_ = 0, stop_at_ = -1;
  std::function<int64_t()> clock_;
  std::string first_;
  std::deque<Line> lines_;
};

}  // namespace troupe::sim
