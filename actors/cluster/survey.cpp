// Asks all agents at once, and turns their answers into reports.
#include "actors/cluster/survey.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "actors/async/joined.hpp"

namespace troupe {
namespace {

constexpr size_t kClockSamples = 8;

// Asks one agent, on the asker's thread; calls `told` once, with its answer.
template <class Answer>
using Question = std::function<void(Requests&, const Agent& agent, Requests::Then<Answer>)>;

// Asks all agents at once and returns the answers by task; logs the tasks that gave none.
template <class Answer>
std::map<std::string, Answer> ask_all(Process& process, const Asker& asker, const Agents& agents,
                                      const char* what, Question<Answer> question) {
  struct Open {
    std::mutex mutex;                           // guards the rest
    std::map<std::string, std::string> silent;  // tasks without an answer, and why
    std::map<std::string, Answer> answers;
    size_t waiting = 0;
    std::condition_variable changed;
  };
  auto open = std::make_shared<Open>();
  open->waiting = agents.size();
  for (const auto& [task, agent] : agents) open->silent[task] = "no answer in time";
  with_requests(asker, [open, agents, question = std::move(question)](Requests& requests) {
    for (const auto& [task, agent] : agents)
      question(requests, agent,
               [open, task = task](Errc code, const std::string& text, const Answer& answer) {
                 std::lock_guard lock(open->mutex);
                 if (code == Errc::ok) {
                   open->answers[task] = answer;
                   open->silent.erase(task);
                 } else {
                   open->silent[task] = text;
                 }
                 --open->waiting;
                 open->changed.notify_all();
               });
  });
  std::unique_lock lock(open->mutex);
  open->changed.wait_for(lock, kSurveyTimeout, [&] { return open->waiting == 0; });
  const auto silent = open->silent;
  auto answers = open->answers;
  lock.unlock();  // late answers need not wait for the program's log
  for (const auto& [task, why] : silent)
    process.log()->warn("left out: of={} peer={} error={}", what, task, why);
  return answers;
}

template <class Answer, class Message>
Question<Answer> asking(Message message) {
  return [message](Requests& requests, const Agent& agent, Requests::Then<Answer> told) {
    requests.ask<Answer>(agent, kSurveyTimeout, message, std::move(told));
  };
}

// Reads the agent's clock until there are enough samples, then ends its trace.
void take_trace(Requests& requests, const Agent& agent, int64_t origin,
                std::vector<ClockSample> samples, Requests::Then<TraceEvents> told) {
  const auto end = [&requests, agent, origin, told](const std::vector<ClockSample>& read) {
    requests.ask<TraceEvents>(agent, kSurveyTimeout,
                              SetTracing{false, origin + clock_ahead_ns(read)}, told);
  };
  if (samples.size() == kClockSamples) return end(samples);
  requests.ask<ClockReading>(
      agent, kSurveyTimeout, ReadClock{},
      [&requests, agent, origin, samples = std::move(samples), told, end, asked = Tracer::now_ns()](
          Errc code, const std::string&, const ClockReading& m) mutable {
        if (code != Errc::ok) return end(samples);
        samples.push_back({asked, m.unix_ns, Tracer::now_ns()});
        take_trace(requests, agent, origin, samples, told);
      });
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

std::map<int32_t, EdgeCount> survey_edges(Process& process, const Asker& asker,
                                          const Agents& agents, uint64_t session,
                                          uint32_t executable) {
  std::map<int32_t, EdgeCount> out;
  for (const auto& [task, counts] : ask_all<EdgeCounts>(
           process, asker, agents, "edges", asking<EdgeCounts>(CountEdges{session, executable})))
    add(out, from_message(counts));
  return out;
}

std::map<std::string, std::vector<std::string>> survey_waits(Process& process, const Asker& asker,
                                                             const Agents& agents,
                                                             const AskWaits& question) {
  std::map<std::string, std::vector<std::string>> out;
  for (auto& [task, waits] :
       ask_all<Waits>(process, asker, agents, "waits", asking<Waits>(question)))
    out[task] = std::move(waits.lines);
  return out;
}

void begin_trace(Process& process, const Asker& asker, const Agents& agents) {
  process.tracer().start();
  ask_all<TraceEvents>(process, asker, agents, "trace", asking<TraceEvents>(SetTracing{true, 0}));
}

std::string end_trace(Process& process, const Asker& asker, const Agents& agents) {
  process.tracer().stop();
  const int64_t origin = process.tracer().started_ns();
  std::vector<std::string> parts = {process.tracer().take(origin)};
  const auto take = [origin](Requests& requests, const Agent& agent,
                             Requests::Then<TraceEvents> told) {
    take_trace(requests, agent, origin, {}, std::move(told));
  };
  for (auto& [task, events] : ask_all<TraceEvents>(process, asker, agents, "trace", take))
    parts.push_back(std::move(events.json));
  return chrome_trace(parts);
}

void gather_waits(Requests& requests, Process& process, const AskWaits& question,
                  std::vector<std::string> nodes,
                  std::function<void(std::vector<std::string>)> done) {
  if (std::string requests = process.services().waiting_for(); !requests.empty())
    nodes.push_back(std::move(requests));
  struct Gathered {
    std::vector<std::string> lines;
    std::function<void(std::vector<std::string>)> done;
  };
  auto all = std::make_shared<Gathered>(Gathered{std::move(nodes), std::move(done)});
  requests.ask<Waits>(process.services().actor("shards"), kStallAnswer / 2, question,
                      [all](Errc code, const std::string& text, const Waits& shards) {
                        if (code == Errc::ok)
                          all->lines.insert(all->lines.end(), shards.lines.begin(),
                                            shards.lines.end());
                        else
                          all->lines.push_back("its shards, which do not answer (" + text + ")");
                        all->done(std::move(all->lines));
                      });
}

void report_stall(Requests& requests, Process& process, uint64_t session, const Agents& agents,
                  const Stall& stall, std::function<void(const std::string&)> say) {
  struct Report {
    size_t open = 0;
    std::string head;
    std::map<std::string, std::string> waits;  // by task
    std::function<void(const std::string&)> say;
    ~Report() {
      std::string line = head;
      for (const auto& [task, text] : waits) line += detail::concat("; ", task, " ", text);
      say(line +
          "; follow the waits (the gradient of a replica comes from its worker), and if the "
          "process "
          "at their end is stuck, kill it: its supervisor starts it again and the step is done "
          "again; a step that is just long wants no help, and RunOptions::timeout bounds it");
    }
  };
  auto report = std::make_shared<Report>();
  report->say = std::move(say);
  const std::string open = joined(stall.open, ", ");
  report->head = stall.begun
                     ? detail::concat("still under way: run=", stall.run, " since=", stall.seconds,
                                      " s, not ended in ", open)
                     : detail::concat("a run has not begun: since=", stall.seconds, " s, ",
                                      open.empty() ? "the parameters of its call are not there"
                                                   : "its call is not installed in ",
                                      open);
  for (const std::string& task : stall.open)
    if (task != process.task() && !agents.count(task)) report->waits[task] = "is not there";
  const auto waits = [report](const std::string& task, const std::vector<std::string>& lines) {
    if (!lines.empty()) report->waits[task] = "waits: " + joined(lines, ", ");
  };
  const AskWaits question{session, stall.executable, stall.run};
  gather_waits(requests, process, question, stall.waits_for,
               [waits, here = process.task()](const auto& lines) { waits(here, lines); });
  for (const auto& [task, agent] : agents)
    requests.ask<Waits>(
        agent, kStallAnswer, question,
        [report, waits, task = task](Errc code, const std::string& text, const Waits& m) {
          if (code == Errc::ok)
            waits(task, m.lines);
          else
            report->waits[task] = "does not answer (" + text + ")";
        });
}

}  // namespace troupe
