// Implements actors/survey.hpp.
#include "actors/survey.hpp"
#include "actors/joined.hpp"

#include <algorithm>

namespace troupe {
namespace {

constexpr int kClockSamples = 8;

// Asks each agent in turn and hands its answer to `take`; who does not answer is named in the log.
template <class Answer, class Question>
void ask_each(Process& process, const Agents& agents, const char* what, const Question& question,
              const std::function<void(const std::string& task, const Answer&)>& take) {
  caf::scoped_actor self(process.system());
  for (const auto& [task, agent] : agents)
    self->request(agent, kSurveyTimeout, question)
        .receive([&, task = task](const Answer& answer) { take(task, answer); },
                 [&, task = task](const caf::error& e) {
                   process.log()->warn("{}: no answer: peer={} error={}", what, task,
                                       from_caf(e).second);
                 });
}

int64_t clock_ahead(Process& process, const caf::actor& agent) {
  caf::scoped_actor self(process.system());
  std::vector<ClockSample> samples;
  for (int i = 0; i < kClockSamples; ++i) {
    const int64_t asked = Tracer::now_ns();
    bool answered = false;
    self->request(agent, kSurveyTimeout, ReadClock{})
        .receive(
            [&](const ClockReading& m) {
              samples.push_back({asked, m.unix_ns, Tracer::now_ns()});
              answered = true;
            },
            [](const caf::error&) {});  // it will not answer SetTracing either, which is logged
    if (!answered) break;
  }
  return clock_ahead_ns(samples);
}

}  // namespace

void add(std::map<int32_t, EdgeCount>& sum, const std::map<int32_t, EdgeCount>& counts) {
  for (const auto& [edge, count] : counts) {
    sum[edge].transfers += count.transfers;
    sum[edge].bytes += count.bytes;
  }
}

std::map<int32_t, EdgeCount> from_message(const EdgeCounts& message) {
  std::map<int32_t, EdgeCount> out;
  for (size_t i = 0; i < message.edges.size(); ++i)
    out[message.edges[i]] = {message.transfers.at(i), message.bytes.at(i)};
  return out;
}

EdgeCounts to_message(const std::map<int32_t, EdgeCount>& counts) {
  EdgeCounts out;
  for (const auto& [edge, count] : counts) {
    out.edges.push_back(edge);
    out.transfers.push_back(count.transfers);
    out.bytes.push_back(count.bytes);
  }
  return out;
}

std::map<int32_t, EdgeCount> survey_edges(Process& process, const Agents& agents, uint64_t session,
                                          uint32_t executable) {
  std::map<int32_t, EdgeCount> out;
  ask_each<EdgeCounts>(process, agents, "edges", CountEdges{session, executable},
                       [&](const std::string&, const EdgeCounts& m) { add(out, from_message(m)); });
  return out;
}

void begin_trace(Process& process, const Agents& agents) {
  process.tracer().start();
  ask_each<TraceEvents>(process, agents, "trace", SetTracing{true, 0},
                        [](const std::string&, const TraceEvents&) {});
}

std::string end_trace(Process& process, const Agents& agents) {
  process.tracer().stop();
  const int64_t origin = process.tracer().started_ns();
  std::vector<std::string> parts = {process.tracer().take(origin)};
  for (const auto& agent : agents)
    ask_each<TraceEvents>(
        process, {agent}, "trace", SetTracing{false, origin + clock_ahead(process, agent.second)},
        [&](const std::string&, const TraceEvents& m) { parts.push_back(m.json); });
  return chrome_trace(parts);
}

void gather_waits(caf::event_based_actor* self, Process& process, const AskWaits& question,
                  std::vector<std::string> nodes,
                  std::function<void(std::vector<std::string>)> done) {
  if (std::string requests = process.services().waiting_for(); !requests.empty())
    nodes.push_back(std::move(requests));
  struct Gathered {
    std::vector<std::string> lines;
    std::function<void(std::vector<std::string>)> done;
  };
  auto all = std::make_shared<Gathered>(Gathered{std::move(nodes), std::move(done)});
  self->request(process.services().actor("shards"), kStallAnswer / 2, question)
      .then(
          [all](const Waits& shards) {
            all->lines.insert(all->lines.end(), shards.lines.begin(), shards.lines.end());
            all->done(std::move(all->lines));
          },
          [all](const caf::error& e) {
            all->lines.push_back("its shards, which do not answer (" + from_caf(e).second + ")");
            all->done(std::move(all->lines));
          });
}

void report_stall(caf::event_based_actor* self, Process& process, uint64_t session,
                  const Agents& agents, const Stall& stall,
                  std::function<void(const std::string&)> say) {
  struct Report {
    size_t open = 0;
    std::string head;
    std::map<std::string, std::string> waits;  // by task
    std::function<void(const std::string&)> say;
    ~Report() {
      std::string line = head;
      for (const auto& [task, text] : waits) line += detail::concat("; ", task, " ", text);
      say(line +
          "; if a process named here is stuck, kill it: its supervisor starts it again and the "
          "step is done again; a step that is just long wants no help, and RunOptions::timeout "
          "bounds it");
    }
  };
  auto report = std::make_shared<Report>();
  report->say = std::move(say);
  report->head = detail::concat("no progress: run=", stall.run, " since=", stall.seconds,
                                " s, not ended in ", joined(stall.open, ", "));
  for (const std::string& task : stall.open)
    if (task != process.task() && !agents.count(task)) report->waits[task] = "is not there";
  const auto waits = [report](const std::string& task, const std::vector<std::string>& lines) {
    if (!lines.empty()) report->waits[task] = "waits: " + joined(lines, ", ");
  };
  const AskWaits question{session, stall.executable, stall.run};
  gather_waits(self, process, question, stall.waits_for,
               [waits, here = process.task()](const auto& lines) { waits(here, lines); });
  for (const auto& [task, agent] : agents)
    self->request(agent, kStallAnswer, question)
        .then([waits, task = task](const Waits& m) { waits(task, m.lines); },
              [report, task = task](const caf::error& e) {
                report->waits[task] = "does not answer (" + from_caf(e).second + ")";
              });
}

}  // namespace troupe
