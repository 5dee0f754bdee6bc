// Strikes processes, links and the disk, each kind in its way.
#include "apps/troupe/chaos/injector.hpp"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "troupe/error.hpp"

using troupe::detail::concat;
using namespace std::chrono_literals;

namespace {

constexpr auto kLookEvery = 20ms;           // while a repair is awaited
constexpr auto kSlice = 20ms, kRuns = 2ms;  // of `slow`: a tenth of the time

std::string seconds(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f s", static_cast<double>(time.count()) / 1e3);
  return text;
}

}  // namespace

Injector::Injector(const std::vector<Fault>& faults, const FaultSizes& sizes, ChaosCluster& cluster,
                   Proxies& proxies, SmallDisk& disk, Say say)
    : sizes_(sizes), cluster_(cluster), proxies_(proxies), disk_(disk), say_(std::move(say)) {
  for (const Fault& fault : faults) records_.push_back({fault});
}

void Injector::tell(Time::time_point now, const std::string& text) const {
  char head[48];
  std::snprintf(head, sizeof head, "chaos %8.2f s  ",
                std::chrono::duration<double>(now - begun_at_).count());
  say_(head + text);
}

template <class... Parts>
void Injector::tell(Time::time_point now, const Record& record, const Parts&... parts) const {
  tell(now, concat(to_string(record.fault.kind), " ", record.fault.place(), parts...));
}

Injector::Millis Injector::tick(Time::time_point now) {
  if (!begun()) return kLookEvery;
  auto wait = Millis(1000);
  const StepsByWorker steps = cluster_.steps();
  bool waiting = false, lasting = false;
  for (Record& record : records_) {
    if (record.state == State::waiting) {
      const auto due = begun_at_ + record.fault.at;
      if (due <= now)
        start(record, now);
      else
        wait = std::min(wait, std::chrono::ceil<Millis>(due - now));
    }
    if (record.state == State::lasting && record.fault.lasts > 0ms) {
      const auto due = record.since + record.fault.lasts;
      if (due <= now) {
        end(record, now);
      } else {
        wait = std::min(wait, std::chrono::ceil<Millis>(due - now));
        if (record.fault.kind == FaultKind::slow) {
          keep_slow(record, now);
          wait = std::min<Millis>(wait, record.halted ? 5ms : 1ms);
        }
      }
    }
    if (record.state == State::repairing && goes_on(record, steps)) {
      record.state = State::repaired;
      record.repair = std::chrono::ceil<Millis>(now - record.ended);
      tell(now, record, ": training goes on after ", seconds(record.repair));
    }
    if (record.state == State::repairing) wait = std::min<Millis>(wait, kLookEvery);
    waiting |= record.state == State::waiting;
    lasting |= record.state == State::lasting && record.fault.lasts > 0ms;
  }
  if (!waiting && !lasting) heal(now);  // workers that left for no fixed time
  return wait;
}

void Injector::start(Record& record, Time::time_point now) {
  record.since = record.ended = now;
  record.at_end = cluster_.steps();
  record.state = has_end(record.fault.kind) ? State::lasting : State::repairing;
  if (!strike(record)) {
    record.state = State::none;
    return tell(now, record, ": no fault, as it is not there");
  }
  tell(now, record, record.pid ? concat(" (pid ", record.pid, ")") : "",
       record.fault.lasts > 0ms ? concat(" for ", seconds(record.fault.lasts)) : "");
}

// False if the fault has no effect.
bool Injector::strike(Record& record) {
  const Fault& fault = record.fault;
  if (is_of_link(fault.kind)) {
    if (fault.kind == FaultKind::reset) return proxies_.reset(fault.from, fault.to) > 0;
    if (fault.kind == FaultKind::corrupt)
      proxies_.corrupt(fault.from, fault.to);
    else
      set_links(fault.from, fault.to);
    return true;
  }
  if (fault.kind == FaultKind::disk_full) return disk_.fill();
  if (fault.kind == FaultKind::join) {
    bool away = false;
    for (Record& other : records_)
      if (other.fault.kind == FaultKind::leave && other.fault.from == fault.from &&
          other.state == State::lasting) {
        other.state = State::repaired;  // this fault sees the repair
        other.repair = Millis(-1);
        away = true;
      }
    if (away) cluster_.set_away(fault.from, false);
    return away;
  }
  record.pid = cluster_.pid_of(fault.from);
  if (record.pid == 0) return false;
  switch (fault.kind) {
    case FaultKind::kill:
      killed_program_ |= fault.from == "program";
      cluster_.signal(fault.from, record.pid, SIGKILL);
      break;
    case FaultKind::leave:
      cluster_.set_away(fault.from, true);
      cluster_.signal(fault.from, record.pid, SIGTERM);
      break;
    default:  // `slow` begins at the next tick
      if (fault.kind == FaultKind::stop) cluster_.signal(fault.from, record.pid, SIGSTOP);
  }
  return true;
}

// Sets the rules of both directions, which are the sum of all faults that last there.
void Injector::set_links(const std::string& one, const std::string& other) {
  for (const auto& [from, to] : {std::pair(one, other), std::pair(other, one)}) {
    LinkRule rule;
    for (const Record& record : records_) {
      const Fault& f = record.fault;
      const bool here = (f.from == from && f.to == to) ||
                        (f.kind != FaultKind::cut_from && f.from == to && f.to == from);
      if (record.state != State::lasting || !here) continue;
      rule.cut |= f.kind == FaultKind::cut || f.kind == FaultKind::cut_from;
      if (f.kind == FaultKind::delay) rule.delay = sizes_.delay;
      if (f.kind == FaultKind::throttle) rule.bytes_per_second = sizes_.bytes_per_second;
    }
    proxies_.set(from, to, rule);
  }
}

// True if another fault keeps up the effect of this one.
bool Injector::outlasted(const Record& record) const {
  return std::any_of(records_.begin(), records_.end(), [&](const Record& other) {
    const bool halts = other.fault.kind == FaultKind::stop && other.pid == record.pid;
    const bool fills = other.fault.kind == FaultKind::disk_full;
    return &other != &record && other.state == State::lasting &&
           (record.fault.kind == FaultKind::disk_full ? fills : halts);
  });
}

void Injector::end(Record& record, Time::time_point now) {
  const Fault& fault = record.fault;
  record.state = State::repairing;
  record.halted = false;
  if (is_of_link(fault.kind)) set_links(fault.from, fault.to);
  if (fault.kind == FaultKind::leave) cluster_.set_away(fault.from, false);
  if (fault.kind == FaultKind::disk_full && !outlasted(record)) disk_.free();
  if ((fault.kind == FaultKind::stop || fault.kind == FaultKind::slow) && !outlasted(record))
    cluster_.signal(fault.from, record.pid, SIGCONT);
  record.ended = now;
  record.at_end = cluster_.steps();
}

void Injector::keep_slow(Record& record, Time::time_point now) {
  const bool halt = (now - record.since) % kSlice >= kRuns;
  if (halt == std::exchange(record.halted, halt) || outlasted(record)) return;
  cluster_.signal(record.fault.from, record.pid, halt ? SIGSTOP : SIGCONT);
}

bool Injector::goes_on(const Record& record, const StepsByWorker& steps) const {
  return std::all_of(record.at_end.begin(), record.at_end.end(), [&](const auto& before) {
    const auto now = steps.find(before.first);
    return now != steps.end() && now->second >= before.second + kStepsAfter;
  });
}

bool Injector::has_killed_program() { return std::exchange(killed_program_, false); }

void Injector::heal(Time::time_point now) {
  for (Record& record : records_)
    if (record.state == State::lasting) end(record, now);
}

bool Injector::calm() const {
  return std::none_of(records_.begin(), records_.end(), [](const Record& r) {
    return r.state == State::lasting || r.state == State::repairing;
  });
}

bool Injector::done() const {
  return std::none_of(records_.begin(), records_.end(),
                      [](const Record& r) { return r.state == State::waiting; });
}

std::vector<Fault> Injector::happened() const {
  std::vector<Fault> out;
  for (const Record& record : records_)
    if (record.state != State::waiting) out.push_back(record.fault);
  return out;
}

size_t Injector::struck() const {
  return static_cast<size_t>(std::count_if(records_.begin(), records_.end(), [](const Record& r) {
    return r.state != State::waiting && r.state != State::none;
  }));
}

std::vector<std::string> Injector::table() const {
  std::vector<std::string> out = {"kind        faults  repaired  no fault     median    longest"};
  char line[160];
  size_t faults = 0, repaired = 0, none = 0, waiting = 0;
  for (int i = 0; i < kFaultKinds; ++i) {
    std::vector<Millis> repairs;
    size_t all = 0, good = 0, without = 0;
    for (const Record& record : records_) {
      if (record.fault.kind != static_cast<FaultKind>(i)) continue;
      if (record.state == State::waiting) {
        ++waiting;
        continue;
      }
      ++all;
      without += record.state == State::none;
      good += record.state == State::repaired;
      if (record.state == State::repaired && record.repair >= 0ms) repairs.push_back(record.repair);
    }
    if (all == 0) continue;
    faults += all, repaired += good, none += without;
    std::sort(repairs.begin(), repairs.end());
    const std::string median = repairs.empty() ? "-" : seconds(repairs[repairs.size() / 2]);
    const std::string longest = repairs.empty() ? "-" : seconds(repairs.back());
    std::snprintf(line, sizeof line, "%-10s  %6zu  %8zu  %8zu  %9s  %9s",
                  to_string(static_cast<FaultKind>(i)), all, good, without, median.c_str(),
                  longest.c_str());
    out.emplace_back(line);
  }
  const size_t open = faults - repaired - none;
  out.push_back(concat(faults, " faults, ", repaired, " repaired, ", none, " without an effect, ",
                       open, " before whose repair the program ended, ", waiting,
                       " that were not due"));
  return out;
}
