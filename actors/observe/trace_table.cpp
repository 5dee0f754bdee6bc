// describe_trace() of troupe/session.hpp: reads a Chrome trace as actors/observe/trace.cpp writes
// it, an event a line, and adds up the times. It is in this room because the JSON reader is.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>

#include "data/files/json.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

// Totals of several kernels.
struct Sum {
  int64_t count = 0, bytes = 0, flops = 0;
  double us = 0;
  bool has_flops = false;
  std::string op;

  void add(double took, int64_t moved, int64_t computed) {
    ++count;
    us += took;
    bytes += std::max<int64_t>(0, moved);
    if (computed >= 0) flops += computed, has_flops = true;
  }
};
struct Step {
  double begin_us = 0, end_us = 0;
  Sum kernels;
};
struct Sample {
  double at_us = 0;
  int64_t used = 0, reserved = 0;
  int64_t peak = 0;                // the highest use since the sample before
  int64_t begins = -1, ends = -1;  // the run that begins or ends here
};

using Rows = std::vector<std::vector<std::string>>;

std::string number(double value, int digits = 2) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}
std::string mib(double bytes) { return number(bytes / (1 << 20), 1); }

// Aligns the first `left` columns to the left (words), the others to the right (numbers).
std::string table(const std::string& title, const Rows& rows, size_t left) {
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out = title + "\n";
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      line += "  " + (i < left ? row[i] + space : space + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

class Trace {
 public:
  explicit Trace(const std::string& text) {
    constexpr std::string_view kHead = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    if (std::string_view(text).substr(0, kHead.size()) != kHead)
      throw Error(Errc::bad_data,
                  "this is no trace of Troupe: it does not begin as one; give a file that "
                  "Session::stop_trace() has returned, as train_digits --trace FILE writes it");
    int64_t line_number = 1;
    for (std::string_view rest = std::string_view(text).substr(kHead.size()); !rest.empty();) {
      ++line_number;
      const size_t end = rest.find('\n');
      std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
      if (line == "]}") return;
      if (line.ends_with(',')) line.remove_suffix(1);
      if (!line.empty()) read(line, line_number);
    }
    throw Error(Errc::bad_data, "the trace was cut off after line ", line_number,
                "; write it again");
  }

  std::map<std::string, Sum> ops, nodes, waits;
  std::map<int64_t, Step> steps;                      // by run
  std::map<std::string, std::vector<Sample>> memory;  // by device
  Sum kernels;
  double first_us = 0, last_us = 0;
  std::string note;

 private:
  void read(std::string_view line, int64_t line_number) {
    const std::string where = detail::concat("line ", line_number, " of the trace");
    const Json json = parse_json(line, where);
    const JsonReader event(json, where);
    const std::string phase = event.string("ph");
    if (phase == "M") {
      if (event.string("name") == "process_labels") note = event.member("args").string("labels");
      return;
    }
    const double at = event.member("ts").as_f64();
    first_us = seen_ ? std::min(first_us, at) : at;
    last_us = std::max(seen_ ? last_us : at, at);
    seen_ = true;
    if (phase == "C") return read_memory(event, at);
    const std::string category = event.string("cat"), name = event.string("name");
    if (phase == "X") {
      const double took = event.member("dur").as_f64();
      last_us = std::max(last_us, at + took);
      read_span(category, name, at, took, event.member("args"));
    } else if (phase == "b") {
      open_[id_of(event)] = {at, category, name, json};
    } else if (phase == "e") {
      const auto begun = open_.find(id_of(event));
      if (begun == open_.end()) throw event.error("it ends what has not begun");
      const JsonReader first(begun->second.json, where);
      read_span(category, name, begun->second.at, at - begun->second.at, first.member("args"));
      open_.erase(begun);
    }
  }

  void read_memory(const JsonReader& event, double at) {
    std::string device = event.string("name");
    constexpr std::string_view kHead = "memory of ";
    if (device.rfind(kHead, 0) == 0) device.erase(0, kHead.size());
    const JsonReader args = event.member("args");
    const int64_t used = args.i64("used");
    const auto optional = [&](const char* key, int64_t otherwise) {
      return event.json().find(key) ? event.i64(key) : otherwise;
    };
    memory[device].push_back({at, used, args.i64("reserved"),
                              std::max(used, optional("peak", used)), optional("begins", -1),
                              optional("ends", -1)});
  }

  void read_span(const std::string& category, const std::string& name, double at, double took,
                 const JsonReader& args) {
    const auto optional = [&](const char* key) {
      return args.json().find(key) ? args.i64(key) : int64_t{-1};
    };
    const int64_t run = optional("run"), bytes = optional("bytes"), flops = optional("flops");
    if (category == "kernel" || category == "launch") {
      const std::string op = args.json().find("op") ? args.string("op") : name;
      for (Sum* sum : {&kernels, &ops[op], &nodes[name]}) sum->add(took, bytes, flops);
      nodes[name].op = op;
    } else if (category != "step") {
      waits[category].add(took, bytes, -1);
    }
    if (run < 0) return;
    const auto [it, fresh] = steps.try_emplace(run, Step{at, at + took, {}});
    it->second.begin_us = std::min(it->second.begin_us, at);
    it->second.end_us = std::max(it->second.end_us, at + took);
    if (category == "kernel" || category == "launch") it->second.kernels.add(took, bytes, flops);
  }

  struct Open {
    double at;
    std::string category, name;
    Json json;
  };
  static std::string id_of(const JsonReader& event) {
    return detail::concat(event.i64("pid"), "/", event.member("id2").string("local"));
  }
  std::map<std::string, Open> open_;
  bool seen_ = false;
};

std::vector<std::pair<std::string, Sum>> slowest(const std::map<std::string, Sum>& sums) {
  std::vector<std::pair<std::string, Sum>> out(sums.begin(), sums.end());
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.second.us > b.second.us; });
  return out;
}

std::vector<std::string> work(const Sum& sum, const Sum& all, double peak) {
  const double seconds = sum.us / 1e6;
  const bool rate = sum.has_flops && seconds > 0;
  std::vector<std::string> out = {
      std::to_string(sum.count),
      number(sum.us / 1e3, 3),
      number(all.us > 0 ? 100 * sum.us / all.us : 0, 1),
      number(sum.us / static_cast<double>(std::max<int64_t>(1, sum.count)), 1),
      mib(static_cast<double>(sum.bytes)),
      seconds > 0 ? number(static_cast<double>(sum.bytes) / seconds / 1e9, 1) : "-",
      rate ? number(static_cast<double>(sum.flops) / seconds / 1e9, 1) : "-"};
  if (peak > 0)
    out.push_back(rate ? number(100 * static_cast<double>(sum.flops) / seconds / peak, 0) : "-");
  return out;
}

std::vector<std::string> head_of_work(double peak) {
  std::vector<std::string> out = {"times", "ms", "%", "us each", "MiB", "GB/s", "GFLOP/s"};
  if (peak > 0) out.push_back("% of peak");
  return out;
}

template <class Row>
void append(std::vector<std::string>& to, const Row& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// The peak between the samples that mark the run's begin and end; -1 without them.
int64_t most_used_by(const std::vector<Sample>& samples, int64_t run) {
  int64_t most = -1;
  for (const Sample& s : samples) {
    if (most >= 0) most = std::max(most, s.peak);
    if (s.begins == run) most = s.used;
    if (s.ends == run) break;
  }
  return most;
}

int64_t most_used(const Trace& trace, int64_t run, const Step& step) {
  int64_t most = 0;
  for (const auto& [device, samples] : trace.memory) {
    int64_t here = most_used_by(samples, run);
    for (const Sample& s : samples)
      if (here < s.used && s.at_us >= step.begin_us && s.at_us <= step.end_us) here = s.used;
    most += std::max<int64_t>(0, here);
  }
  return most;
}

std::string table_of_ops(const Trace& trace, double peak) {
  Rows rows = {{"op"}};
  append(rows[0], head_of_work(peak));
  for (const auto& [op, sum] : slowest(trace.ops)) {
    rows.push_back({op});
    append(rows.back(), work(sum, trace.kernels, peak));
  }
  rows.push_back({"all"});
  append(rows.back(), work(trace.kernels, trace.kernels, peak));
  return table("Kernels, by op", rows, 1);
}

std::string table_of_nodes(const Trace& trace, double peak, size_t most) {
  Rows rows = {{"node", "op"}};
  append(rows[0], head_of_work(peak));
  const auto all = slowest(trace.nodes);
  for (size_t i = 0; i < std::min(most, all.size()); ++i) {
    rows.push_back({all[i].first, all[i].second.op});
    append(rows.back(), work(all[i].second, trace.kernels, peak));
  }
  return table(detail::concat("The slowest ", rows.size() - 1, " of ", all.size(), " nodes"), rows,
               2);
}

std::string table_of_waits(const Trace& trace) {
  Rows rows = {{"what", "times", "ms", "MiB"}};
  for (const auto& [category, sum] : trace.waits)
    rows.push_back({category, std::to_string(sum.count), number(sum.us / 1e3, 3),
                    mib(static_cast<double>(sum.bytes))});
  return table("Jobs on other threads, waits, copies and what crossed devices", rows, 1);
}

std::string table_of_steps(const Trace& trace, size_t most) {
  Rows rows = {{"run", "ms", "kernels", "ms in kernels", "MiB", "GFLOP", "memory MiB"}};
  for (const auto& [run, step] : trace.steps) {
    if (rows.size() > most) break;
    const int64_t memory = most_used(trace, run, step);
    rows.push_back(
        {std::to_string(run), number((step.end_us - step.begin_us) / 1e3, 3),
         std::to_string(step.kernels.count), number(step.kernels.us / 1e3, 3),
         mib(static_cast<double>(step.kernels.bytes)),
         step.kernels.has_flops ? number(static_cast<double>(step.kernels.flops) / 1e9, 3) : "-",
         memory > 0 ? mib(static_cast<double>(memory)) : "-"});
  }
  return table(detail::concat("The first ", rows.size() - 1, " of ", trace.steps.size(), " steps"),
               rows, 1);
}

std::string table_of_memory(const Trace& trace) {
  Rows rows = {{"device", "samples", "most used MiB", "most reserved MiB", "at the end MiB"}};
  for (const auto& [device, samples] : trace.memory) {
    const auto used = std::max_element(samples.begin(), samples.end(),
                                       [](auto& a, auto& b) { return a.peak < b.peak; });
    const auto reserved = std::max_element(
        samples.begin(), samples.end(), [](auto& a, auto& b) { return a.reserved < b.reserved; });
    rows.push_back({device, std::to_string(samples.size()), mib(static_cast<double>(used->peak)),
                    mib(static_cast<double>(reserved->reserved)),
                    mib(static_cast<double>(samples.back().used))});
  }
  return table("Memory", rows, 1);
}

}  // namespace

std::string describe_trace(const std::string& text, const TraceTables& tables) {
  const Trace trace(text);
  std::string out =
      detail::concat("trace of ", number((trace.last_us - trace.first_us) / 1e3, 3), " ms with ",
                     trace.kernels.count, " kernels in ", trace.steps.size(), " steps\n");
  if (!trace.note.empty()) out += trace.note + "\n";
  if (trace.kernels.count > 0) out.append("\n").append(table_of_ops(trace, tables.peak_flops));
  if (trace.kernels.count > 0 && tables.nodes > 0)
    out.append("\n").append(
        table_of_nodes(trace, tables.peak_flops, static_cast<size_t>(tables.nodes)));
  if (!trace.waits.empty()) out.append("\n").append(table_of_waits(trace));
  if (!trace.steps.empty() && tables.steps > 0)
    out.append("\n").append(table_of_steps(trace, static_cast<size_t>(tables.steps)));
  if (!trace.memory.empty()) out.append("\n").append(table_of_memory(trace));
  return out;
}

}  // namespace troupe
