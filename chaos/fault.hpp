// Fault: a fault of a simulated cluster, complete before the simulation begins: nothing of it is
// drawn when it happens, so a run without one of its faults is a run with all others. Faults have a
// text, such as "1203:cut:ps1>client0:2400", that replays them: at event 1203 of the history ps1
// and client0 lose their link for 2,400 ms.
#pragma once

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "chaos/sim_cluster_options.hpp"
#include "graph/base/fail_point.hpp"
#include "troupe/error.hpp"

namespace troupe::sim {

enum class FaultKind : uint8_t {
  power,          // all processes end, files keep what was synced, and all is started after `lasts`
  kill,           // the process ends, and is started again after `lasts`
  freeze,         // the process does nothing for `lasts`, and its links stay
  reset,          // all streams between `who` and `other` end
  cut,            // no bytes pass between `who` and `other` for `lasts`
  cut_from,       // no bytes pass from `who` to `other` for `lasts`
  drop,           // the next message from `who` to `other` that is sent again if lost is lost,
  twice,          // arrives two times,
  overtake,       // or arrives after the one behind it
  corrupt,        // the next frame from `who` to `other` has another bit at `lasts`, round its end
  corrupt_large,  // the same of a frame with elements of a large tensor
  late,           // the process is first started after `lasts`; only at event 0
  point,          // a fail point of `who` is armed, for as often as its text says
  blind,          // from the next restore on it finds the folder of checkpoints empty,
  refused,        // or may not read it, for `lasts`
  disk_full,      // the process, or any, can write no byte of a file for `lasts`
  disk_error,     // its call to the disk after its next `lasts` fails
};
inline constexpr std::array<const char*, 17> kFaultNames = {
    "power", "kill",  "freeze",   "reset",     "cut",           "cut_from",
    "drop",  "twice", "overtake", "corrupt",   "corrupt_large", "late",
    "point", "blind", "refused",  "disk_full", "disk_error"};

struct Fault {
  static constexpr int kAny = -1;  // as who or other: every process

  int64_t at = 0;  // the event of the history from which on it is due
  FaultKind kind = FaultKind::kill;
  int who = kAny, other = kAny;  // ps, workers and clients, counted on
  int64_t lasts = 0;             // ms
  std::string order = {};        // of a point: "NAME=ACTION", as fail_orders() takes it
  friend bool operator==(const Fault&, const Fault&) = default;

  bool is_of_message() const { return kind >= FaultKind::drop && kind <= FaultKind::corrupt_large; }
  bool is_of_frame() const {
    return kind == FaultKind::corrupt || kind == FaultKind::corrupt_large;
  }
  bool is_of_disk() const { return kind >= FaultKind::blind; }
};
using Faults = std::vector<Fault>;

inline std::string peer_name(int peer, const SimShape& in = {}) {
  if (peer < 0) return "any";
  if (peer < in.ps) return detail::concat("ps", peer);
  if (peer < in.servers()) return detail::concat("worker", peer - in.ps);
  return detail::concat("client", peer - in.servers());
}

inline std::string to_text(const Fault& f, const SimShape& in = {}) {
  std::string out = detail::concat(f.at, ":", kFaultNames[static_cast<size_t>(f.kind)], ":",
                                   peer_name(f.who, in));
  if (f.other != Fault::kAny) out += detail::concat(">", peer_name(f.other, in));
  if (f.lasts != 0) out += detail::concat(":", f.lasts);
  if (!f.order.empty()) out += ":" + f.order;
  return out;
}
// The faults with spaces between them.
inline std::string to_text(const Faults& faults, const SimShape& in = {}) {
  std::string out;
  for (const Fault& f : faults) out += detail::concat(out.empty() ? "" : " ", to_text(f, in));
  return out;
}

// In the order in which they are due.
inline Faults in_order(Faults faults) {
  std::stable_sort(faults.begin(), faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return faults;
}

// Throws: Error(invalid_argument).
inline int peer_of(const std::string& name, const SimShape& in = {}) {
  for (int peer = Fault::kAny; peer < in.servers() + 2; ++peer)
    if (peer_name(peer, in) == name) return peer;
  throw Error(Errc::invalid_argument, "no process is called ", name,
              "; say ps0, worker0, client0 or any");
}
inline Fault fault_of(const std::string& text, const SimShape& in = {}) {
  const auto bad = [&text](const auto&... why) {
    return Error(Errc::invalid_argument, "\"", text, "\" is no fault: ", why...,
                 "; say EVENT:KIND:PROCESS[>PROCESS][:MILLISECONDS], or "
                 "EVENT:point:PROCESS:NAME=ACTION");
  };
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == ':' && (parts.size() < 4 || parts[1] != "point"))
      parts.emplace_back();
    else
      parts.back() += c;
  const auto number = [&bad](const std::string& digits) {
    if (digits.empty() || digits.size() > 12 ||
        digits.find_first_not_of("0123456789") != std::string::npos)
      throw bad("\"", digits, "\" is no number");
    return static_cast<int64_t>(std::stoll(digits));
  };
  if (parts.size() < 3 || parts.size() > 4) throw bad("it has ", parts.size(), " parts");
  Fault out{.at = number(parts[0])};
  const auto* const kind = std::find(kFaultNames.begin(), kFaultNames.end(), parts[1]);
  if (kind == kFaultNames.end()) throw bad("no kind is called ", parts[1]);
  out.kind = static_cast<FaultKind>(kind - kFaultNames.begin());
  const size_t border = parts[2].find('>');
  out.who = peer_of(parts[2].substr(0, border), in);
  if (border != std::string::npos) out.other = peer_of(parts[2].substr(border + 1), in);
  if (out.kind == FaultKind::point) {
    out.order = parts.size() == 4 ? parts[3] : "";
    const auto orders = fail_orders(out.order);
    if (orders.size() != 1 || !orders[0].process.empty()) throw bad("it wants NAME=ACTION");
  } else if (parts.size() == 4) {
    out.lasts = number(parts[3]);
  }
  const bool of_link =
      out.kind == FaultKind::reset || out.kind == FaultKind::cut || out.kind == FaultKind::cut_from;
  const bool of_any = out.is_of_message() || out.is_of_disk() || out.kind == FaultKind::power;
  if (of_link && (out.who < 0 || out.other < 0 || out.who == out.other))
    throw bad("it wants two processes");
  if (!of_any && out.who < 0) throw bad("it wants a process");
  return out;
}
inline Faults faults_of(const std::string& text, const SimShape& in = {}) {
  Faults out;
  std::istringstream words(text);
  for (std::string word; words >> word;) out.push_back(fault_of(word, in));
  return in_order(std::move(out));
}

// A run without faults: where in its history faults are of use.
struct CalmRun {
  int64_t prepared = 0, begun = 0, ended = 0;  // events: the program prepares, trains, has trained
  int64_t messages = 0;                        // that may be lost
};

// Draws faults from a stream of its own.
class FaultPlan {
 public:
  FaultPlan(uint64_t seed, const SimClusterOptions& o, const CalmRun& calm)
      : draw(seed ^ 0xfa17), o_(o), calm_(calm) {}

  Faults take() { return in_order(std::exchange(faults_, {})); }

  void give(Faults faults) { faults_ = std::move(faults); }  // instead of those so far

  Draw draw;

  // Each: so many faults, in mid-training.
  void kill_workers(int64_t n) {
    for (; n > 0; --n) add(FaultKind::kill, worker(), Fault::kAny, draw.between(20, 800));
  }
  void kill_ps(int64_t n) {
    for (; n > 0; --n) add(FaultKind::kill, ps(), Fault::kAny, draw.between(20, 800));
  }
  void kill_programs(int64_t n) {
    for (; n > 0; --n) add(FaultKind::kill, client(), Fault::kAny, draw.between(20, 800));
  }
  void cut_workers(int64_t n) {
    for (; n > 0; --n) {
      const int a = worker(), b = next_worker(a);
      add(draw.chance(0.3) ? FaultKind::cut_from : FaultKind::cut, a, b, draw.between(500, 5000));
    }
  }
  // Nobody dies: a link of a ps ends or is silent for a while, to a worker or a client, or that
  // client does nothing for a while, so that all others take it for lost.
  void lose_ps_links(int64_t n) {
    for (; n > 0; --n) {
      const int other = draw.chance(0.3) ? worker() : client();
      const bool may_freeze = other >= in_.servers();
      const int64_t lasts = draw.between(200, 4000);
      switch (draw.below(may_freeze ? 3 : 2)) {
        case 0:
          add(FaultKind::reset, ps(), other, 0);
          break;
        case 1:
          add(any_cut(), ps(), other, lasts);
          break;
        default:
          add(FaultKind::freeze, other, Fault::kAny, lasts);
      }
    }
  }
  // Shares of the messages, in percent.
  void lose_messages(int64_t dropped, int64_t doubled, int64_t overtaken) {
    const auto some = [this](FaultKind kind, int64_t percent) {
      for (int64_t n = calm_.messages * percent / 100 + 1; n > 0 && percent > 0; --n)
        add(kind, Fault::kAny, Fault::kAny, 0);
    };
    some(FaultKind::drop, dropped);
    some(FaultKind::twice, doubled);
    some(FaultKind::overtake, overtaken);
  }
  void lose_messages() {
    const int64_t dropped = draw.between(1, 15), doubled = draw.between(1, 15);
    lose_messages(dropped, doubled, draw.between(0, 15));
  }
  // Each kill of a ps so far takes the folder of checkpoints along, for all or for one that reads.
  void lose_folders() {
    for (size_t i = 0; i < faults_.size(); ++i) {
      if (faults_[i].kind != FaultKind::kill || faults_[i].who >= in_.ps) continue;
      const int64_t reader = draw.between(-1, in_.ps);
      const int who = reader == in_.ps ? in_.servers() : static_cast<int>(reader);
      faults_.push_back({faults_[i].at, draw.chance(0.5) ? FaultKind::blind : FaultKind::refused,
                         who, Fault::kAny, draw.between(100, 3000)});
    }
  }
  void lose_disk(int64_t n) {
    for (; n > 0; --n)
      if (draw.chance(0.5))
        add(FaultKind::disk_full, writer(), Fault::kAny, draw.between(50, 3000));
      else
        add(FaultKind::disk_error, writer(), Fault::kAny, draw.between(0, 30));
  }
  void fail_power(int64_t n) {
    for (; n > 0; --n) add(FaultKind::power, Fault::kAny, Fault::kAny, draw.between(20, 800));
  }
  void corrupt_frames(int64_t n) {
    for (; n > 0; --n) add(damage(), Fault::kAny, Fault::kAny, draw.between(0, 1 << 20));
  }
  // Processes die, stand still, meet errors or lose messages at their fail points.
  void reach_points(int64_t n) {
    for (; n > 0; --n) {
      const auto row = static_cast<size_t>(draw.below(kFailPoints.size()));
      const std::string name = kFailPoints[row].name;
      const auto is = [&name](const char* begin) { return name.starts_with(begin); };
      std::string action = draw.chance(0.3) ? "sleep:" : "die";
      if (action == "sleep:") action += std::to_string(draw.between(100, 3000));
      if (kFailPoints[row].drops && draw.chance(0.5)) action = "drop";
      if (kFailPoints[row].error == Errc::io && draw.chance(0.5)) action = "error";
      const int who = is("agent.") ? worker()
                      : is("shard.") || name == "checkpoint.before_read" || is("checkpoint.shard")
                          ? ps()
                      : is("master.") || is("group.") || is("checkpoint.") ? client()
                                                                           : anybody();
      const int64_t from = draw.chance(0.2) ? 0 : calm_.begun;
      Fault fault{draw.between(from, calm_.ended), FaultKind::point, who};
      fault.order = detail::concat(name, "=", action, "@", draw.between(1, 4), "x1");
      faults_.push_back(std::move(fault));
    }
  }
  // Any process but the program dies between its first call and its first step.
  void kill_at_start() {
    faults_.push_back({draw.between(calm_.prepared, calm_.begun), FaultKind::kill,
                       static_cast<int>(draw.below(size(in_.servers()))), Fault::kAny,
                       draw.between(20, 800)});
  }
  // A worker and a ps have no link to each other at first.
  void cut_at_start() {
    const int a = ps();
    faults_.push_back({0, FaultKind::cut, a, worker(), 5000});
  }

  // Faults of kinds with drawn weights. Half of all weights are 0, so that each kind meets few
  // others in one seed and many in another.
  void swarm() {
    enum Kind {
      worker_dies,
      ps_dies,
      program_dies,
      freezes,
      link_ends,
      link_cut,
      corrupted,
      disk,
      power_fails,
      messages,
      kKinds
    };
    std::array<int64_t, kKinds> weights{};
    int64_t sum = 0;
    for (int64_t& weight : weights) sum += weight = draw.chance(0.5) ? 0 : draw.between(1, 4);
    if (sum == 0) weights[draw.below(kKinds)] = sum = 1;
    for (int64_t n = draw.between(1, 12); n > 0; --n) {
      if (!faults_.empty() && draw.chance(0.2)) {  // several at a time
        const Fault& last = faults_.back();
        faults_.push_back(
            {last.at + draw.between(0, 50), last.kind, last.who, last.other, last.lasts});
        elsewhere(faults_.back());
        continue;
      }
      int64_t left = draw.between(1, sum);
      int kind = -1;
      while (left > 0) left -= weights[static_cast<size_t>(++kind)];
      const int64_t at = anywhere(), lasts = draw.between(50, 5000);
      const int a = anybody(), b = anybody_but(a);
      switch (kind) {
        case worker_dies:
          put(at, FaultKind::kill, worker(), Fault::kAny, 20 + lasts / 3);
          break;
        case ps_dies:
          put(at, FaultKind::kill, ps(), Fault::kAny, 20 + lasts / 3);
          break;
        case program_dies:
          put(at, FaultKind::kill, client(), Fault::kAny, 20 + lasts / 3);
          break;
        case freezes:
          put(at, FaultKind::freeze, a, Fault::kAny, lasts);
          break;
        case link_ends:
          put(at, FaultKind::reset, a, b, 0);
          break;
        case power_fails:
          put(at, FaultKind::power, Fault::kAny, Fault::kAny, 20 + lasts / 3);
          break;
        case corrupted:
          put(at, damage(), Fault::kAny, Fault::kAny, draw.between(0, 1 << 20));
          break;
        case disk:
          put(at, FaultKind::disk_full, writer(), Fault::kAny, lasts);
          put(anywhere(), FaultKind::disk_error, writer(), Fault::kAny, draw.between(0, 30));
          break;
        case link_cut:
          put(at, any_cut(), a, b, lasts);
          break;
        default:
          for (int64_t m = draw.between(1, 10); m > 0; --m)
            put(anywhere(), message_fault(), Fault::kAny, Fault::kAny, 0);
      }
    }
    if (draw.chance(0.2)) lose_folders();
    if (o_.late_program)
      put(0, FaultKind::late, in_.servers() + 1, Fault::kAny, draw.between(100, 5000));
  }

 private:
  void put(int64_t at, FaultKind kind, int who, int other, int64_t lasts) {
    faults_.push_back({at, kind, who, other, lasts});
  }
  // Mostly in mid-training.
  int64_t anywhere() {
    if (draw.chance(0.1)) return draw.between(1, calm_.begun);
    return draw.between(calm_.begun, calm_.ended + (calm_.ended - calm_.begun) / 5);
  }
  int anybody() { return static_cast<int>(draw.below(size(in_.servers() + o_.clients))); }
  int anybody_but(int one) {
    for (;;)
      if (const int out = anybody(); out != one) return out;
  }
  FaultKind message_fault() {
    return static_cast<FaultKind>(static_cast<int>(FaultKind::drop) +
                                  static_cast<int>(draw.below(3)));
  }
  // The same happens to other processes.
  void elsewhere(Fault& fault) {
    if (fault.who == Fault::kAny || fault.kind == FaultKind::late) return;
    fault.who = fault.kind == FaultKind::kill ? static_cast<int>(draw.below(size(in_.servers())))
                                              : anybody();
    if (fault.other != Fault::kAny) fault.other = anybody_but(fault.who);
  }
  int ps() { return static_cast<int>(draw.below(size(in_.ps))); }
  int worker() { return in_.ps + static_cast<int>(draw.below(size(in_.workers))); }
  int client() { return in_.servers() + static_cast<int>(draw.below(size(o_.clients))); }
  int next_worker(int worker) const { return in_.ps + (worker - in_.ps + 1) % in_.workers; }
  // The process whose disk has a fault: a ps, a program, or any.
  int writer() { return draw.chance(0.3) ? Fault::kAny : draw.chance(0.5) ? ps() : client(); }
  // Tensors are large enough for chunks if the network is wide.
  FaultKind damage() {
    return o_.hidden > 1000 && draw.chance(0.5) ? FaultKind::corrupt_large : FaultKind::corrupt;
  }
  FaultKind any_cut() { return draw.chance(0.3) ? FaultKind::cut_from : FaultKind::cut; }
  void add(FaultKind kind, int who, int other, int64_t lasts) {
    if (kind == FaultKind::cut_from && draw.chance(0.5)) std::swap(who, other);
    faults_.push_back({draw.between(calm_.begun, calm_.ended), kind, who, other, lasts});
  }

  static uint64_t size(int n) { return static_cast<uint64_t>(n); }

  const SimClusterOptions& o_;
  const SimShape& in_ = o_.shape;
  const CalmRun calm_;
  Faults faults_;
};

}  // namespace troupe::sim
