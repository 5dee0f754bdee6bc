// Draws, reads and prints schedules.
#include "apps/troupe/chaos/faults.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <utility>

#include "apps/words.hpp"
#include "troupe/error.hpp"

using troupe::Errc;
using troupe::Error;
using Millis = std::chrono::milliseconds;

namespace {

constexpr Millis kLongest{86'400'000};  // of all times
constexpr int kWeightMax = 1000;
constexpr size_t kFaultsMax = 100'000;

struct KindRow {
  const char* name;
  int weight;                // of the usual ones
  Millis shortest, longest;  // of the drawn ones; 0: it has no end
};
constexpr Millis kNone{0};
// In the order of FaultKind. A node that stands still for longer than `actor-node up
// --frozen-after` is killed by its supervisor, so a drawn stop is shorter than the 3 s that are
// usual there.
constexpr KindRow kRows[kFaultKinds] = {
    {"kill", 3, kNone, kNone},
    {"stop", 2, Millis(300), Millis(2'500)},
    {"slow", 1, Millis(2'000), Millis(5'000)},
    {"leave", 1, Millis(1'000), Millis(4'000)},
    {"join", 1, kNone, kNone},
    {"cut", 2, Millis(500), Millis(3'000)},
    {"cut_from", 1, Millis(500), Millis(3'000)},
    {"delay", 1, Millis(2'000), Millis(6'000)},
    {"throttle", 1, Millis(2'000), Millis(6'000)},
    {"reset", 2, kNone, kNone},
    {"corrupt", 1, kNone, kNone},
    {"disk_full", 1, Millis(2'000), Millis(5'000)},
};
const KindRow& row_of(FaultKind kind) { return kRows[static_cast<int>(kind)]; }

std::string all_kinds() {
  std::string out;
  for (const KindRow& row : kRows) out += troupe::detail::concat(out.empty() ? "" : ", ", row.name);
  return out;
}

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Error(Errc::invalid_argument, parts...);
}

FaultKind kind_of(std::string_view name, const std::string& word) {
  for (int i = 0; i < kFaultKinds; ++i)
    if (name == kRows[i].name) return static_cast<FaultKind>(i);
  refuse("\"", word, "\": there is no fault \"", name, "\"; the kinds are ", all_kinds());
}

template <class T>
bool read_number(std::string_view text, T& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size();
}

void check_process(const std::string& name, const Processes& processes, const std::string& word) {
  const std::vector<std::string> nodes = processes.nodes();
  if (name == "program" || std::count(nodes.begin(), nodes.end(), name)) return;
  std::string all;
  for (const std::string& node : nodes) all += node + ", ";
  refuse("\"", word, "\": there is no process \"", name, "\"; there are ", all, "program");
}

void check_place(const Fault& fault, const Processes& processes, const std::string& word) {
  if (fault.kind == FaultKind::disk_full) {
    if (fault.from != "disk" || !fault.to.empty()) refuse("\"", word, "\": its place is `disk`");
    return;
  }
  check_process(fault.from, processes, word);
  if (is_of_link(fault.kind) != !fault.to.empty())
    refuse("\"", word, "\": ", to_string(fault.kind),
           fault.to.empty() ? " wants a link, as worker/0>ps/0" : " wants one process");
  if (!fault.to.empty()) check_process(fault.to, processes, word);
  if (fault.from == fault.to) refuse("\"", word, "\": a link has two ends");
  if ((fault.kind == FaultKind::leave || fault.kind == FaultKind::join) &&
      fault.from.rfind("worker/", 0) != 0)
    refuse("\"", word, "\": only workers leave and join");
}

Fault read_fault(const std::string& word, const Processes& processes) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= word.size();) {
    const size_t end = std::min(word.find(':', begin), word.size());
    parts.push_back(word.substr(begin, end - begin));
    begin = end + 1;
  }
  if (parts.size() < 3 || parts.size() > 4)
    refuse("\"", word,
           "\" is no fault; one is SECONDS:KIND:PROCESS[>PROCESS][:MILLISECONDS], as "
           "12.5:stop:worker/1:800 or 20:reset:worker/0>ps/0");
  Fault out;
  double seconds = -1;
  if (!read_number(parts[0], seconds) || !(seconds >= 0) || seconds > kLongest.count() / 1e3)
    refuse("\"", word, "\": the time is seconds from 0 to ", kLongest.count() / 1000, ", got \"",
           parts[0], "\"");
  out.at = std::chrono::round<Millis>(std::chrono::duration<double>(seconds));
  out.kind = kind_of(parts[1], word);
  const size_t arrow = parts[2].find('>');
  out.from = parts[2].substr(0, arrow);
  if (arrow != parts[2].npos) out.to = parts[2].substr(arrow + 1);
  check_place(out, processes, word);
  if (parts.size() == 4) {
    int64_t lasts = 0;
    if (!has_end(out.kind)) refuse("\"", word, "\": ", parts[1], " lasts for no time");
    if (!read_number(parts[3], lasts) || lasts < 1 || lasts > kLongest.count())
      refuse("\"", word, "\": it lasts for milliseconds from 1 to ", kLongest.count(), ", got \"",
             parts[3], "\"");
    out.lasts = Millis(lasts);
  } else if (has_end(out.kind) && out.kind != FaultKind::leave) {
    refuse("\"", word, "\": ", parts[1], " wants a time in milliseconds at its end");
  }
  return out;
}

// SplitMix64, whose numbers do not depend on a library.
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  Millis between(Millis low, Millis high) { return low + Millis(below((high - low).count() + 1)); }

 private:
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  uint64_t state_;
};

FaultKind draw_kind(Draw& draw, const Weights& weights) {
  int64_t sum = 0;
  for (int w : weights.of) sum += w;
  int64_t left = draw.below(sum);
  int kind = 0;
  while (left >= weights.of[kind]) left -= weights.of[kind++];
  return static_cast<FaultKind>(kind);
}

// Two ends of a link that carries something: no values pass between two ps.
void draw_link(Draw& draw, Fault& fault, std::vector<std::string> all) {
  all.emplace_back("program");
  const auto is_ps = [](const std::string& name) { return name.rfind("ps/", 0) == 0; };
  const auto one = [&] { return all[static_cast<size_t>(draw.below(std::ssize(all)))]; };
  do {
    fault.from = one();
    fault.to = one();
  } while (fault.from == fault.to || (is_ps(fault.from) && is_ps(fault.to)));
}

void draw_place(Draw& draw, Fault& fault, const ScheduleOptions& options) {
  std::vector<std::string> nodes = options.processes.nodes();
  switch (fault.kind) {
    case FaultKind::disk_full:
      fault.from = "disk";
      return;
    case FaultKind::leave:
    case FaultKind::join:
      fault.from = troupe::detail::concat("worker/", draw.below(options.processes.workers));
      return;
    case FaultKind::kill:
      if (options.kill_program) nodes.emplace_back("program");
      break;
    case FaultKind::stop:
    case FaultKind::slow:
      nodes.emplace_back("program");
      break;
    default:
      return draw_link(draw, fault, std::move(nodes));
  }
  fault.from = nodes[static_cast<size_t>(draw.below(std::ssize(nodes)))];
}

}  // namespace

const char* to_string(FaultKind kind) { return row_of(kind).name; }

bool is_of_link(FaultKind kind) { return kind >= FaultKind::cut && kind <= FaultKind::corrupt; }

bool has_end(FaultKind kind) { return row_of(kind).longest > kNone; }

std::string Fault::place() const {
  return to.empty() ? from : troupe::detail::concat(from, ">", to);
}

std::string to_string(const Fault& fault) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%lld.%03lld",
                static_cast<long long>(fault.at.count() / 1000),
                static_cast<long long>(fault.at.count() % 1000));
  std::string out = troupe::detail::concat(seconds, ":", to_string(fault.kind), ":", fault.place());
  if (fault.lasts > kNone) out += troupe::detail::concat(":", fault.lasts.count());
  return out;
}

std::string to_string(const std::vector<Fault>& faults) {
  std::string out;
  for (const Fault& fault : faults)
    out += troupe::detail::concat(out.empty() ? "" : " ", to_string(fault));
  return out;
}

std::vector<std::string> Processes::nodes() const {
  std::vector<std::string> out;
  for (int i = 0; i < ps; ++i) out.push_back(troupe::detail::concat("ps/", i));
  for (int i = 0; i < workers; ++i) out.push_back(troupe::detail::concat("worker/", i));
  return out;
}

std::vector<Fault> read_faults(const std::string& text, const Processes& processes) {
  std::vector<Fault> out;
  for (const std::string& word : words_of(text, ", \t\n")) {
    if (out.size() >= kFaultsMax) refuse("more than ", kFaultsMax, " faults");
    out.push_back(read_fault(word, processes));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return out;
}

Weights usual_weights() {
  Weights out;
  for (int i = 0; i < kFaultKinds; ++i) out.of[i] = kRows[i].weight;
  return out;
}

Weights read_weights(const std::string& text) {
  Weights out;
  for (const std::string& word : words_of(text, ", ")) {
    const size_t sign = word.find('=');
    int weight = 1;
    const FaultKind kind = kind_of(word.substr(0, sign), word);
    if (sign != word.npos && (!read_number(std::string_view(word).substr(sign + 1), weight) ||
                              weight < 1 || weight > kWeightMax))
      refuse("\"", word, "\": a weight is a whole number from 1 to ", kWeightMax);
    out[kind] = weight;
  }
  if (std::all_of(std::begin(out.of), std::end(out.of), [](int w) { return w == 0; }))
    refuse("no kind of fault is named; the kinds are ", all_kinds());
  return out;
}

std::vector<Fault> draw_faults(const ScheduleOptions& options) {
  Draw draw(options.seed);
  std::vector<Fault> out;
  Weights weights = options.weights;
  const bool joins = weights[FaultKind::join] > 0;
  if (joins && weights[FaultKind::leave] == 0) weights[FaultKind::leave] = 1;
  weights[FaultKind::join] = 0;  // one follows each leave
  if (options.processes.workers == 0) weights[FaultKind::leave] = 0;
  if (std::all_of(std::begin(weights.of), std::end(weights.of), [](int w) { return w == 0; }))
    return out;
  const Millis quarter = options.every / 4;
  for (Millis at = options.every; at - quarter < options.lasts; at += options.every) {
    if (out.size() >= kFaultsMax)
      refuse("--every and --for give more than ", kFaultsMax, " faults; shorten --for");
    Fault fault;
    fault.at = at + draw.between(-quarter, quarter);
    fault.kind = draw_kind(draw, weights);
    draw_place(draw, fault, options);
    const KindRow& row = row_of(fault.kind);
    if (has_end(fault.kind)) fault.lasts = draw.between(row.shortest, row.longest);
    if (fault.at >= options.lasts) continue;
    if (fault.kind == FaultKind::leave && joins) {
      Fault back{fault.at + std::exchange(fault.lasts, kNone), FaultKind::join, fault.from};
      out.push_back(fault);
      out.push_back(back);
    } else {
      out.push_back(fault);
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return out;
}
