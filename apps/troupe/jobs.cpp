// troupe jobs: the programs of a running cluster, and how far their trainings are.
#include <cmath>
#include <cstdio>
#include <iostream>

#include "apps/troupe/table.hpp"
#include "apps/troupe/verbs.hpp"
#include "apps/troupe/visit.hpp"

using namespace troupe;

namespace {

std::string digits(double number, int count) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*g", count, number);
  return text;
}

std::vector<std::string> row_of(const RunningProgram& p) {
  if (!p.silent.empty()) return {p.task, "?", "does not answer", "", "", "", "", "", ""};
  if (p.phase.empty()) return {p.task, p.name, "trains nothing", "", "", "", "", "", ""};
  const TrainProgress& at = p.progress;
  return {p.task,
          p.name,
          p.phase,
          at.steps > 0 ? detail::concat(at.step, "/", at.steps) : detail::concat(at.step),
          digits(at.loss, 4),
          at.examples_per_second > 0 ? detail::concat(std::llround(at.examples_per_second)) : "-",
          to_string(p.rule),
          digits(p.rate_scale, 6),
          detail::concat(p.recoveries)};
}

void print_replicas(const RunningProgram& p) {
  std::map<std::string, std::string> by_task;
  for (const auto& [replica, task] : p.replicas) {
    std::string& list = by_task[task];
    list += detail::concat(list.empty() ? "" : ", ", replica);
  }
  for (const auto& [task, replicas] : by_task)
    std::cout << "  " << (task.empty() ? "a worker that the program does not name" : task)
              << " computes replica " << replicas << "\n";
}

}  // namespace

int jobs(const std::vector<std::string>& arguments) {
  VisitFlags given;
  Flags flags("troupe jobs",
              "troupe jobs --join HOST:PORT: the programs of a running cluster, and how far their "
              "trainings are. The exit code is 69 if one does not answer");
  add_visit_flags(flags, given, /*one=*/false);
  if (!flags.parse(arguments)) return 0;
  const std::vector<RunningProgram> programs = visit(given)->programs();
  if (programs.empty()) {
    std::cout << "no training is running: no program has joined the cluster, or one is frozen and "
                 "counts as "
                 "lost\n";
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {{"program", "executable", "state", "step", "loss",
                                                 "examples/s", "rule", "rate scale", "recoveries"}};
  for (const RunningProgram& p : programs) rows.push_back(row_of(p));
  print_table(rows);
  bool all_answer = true;
  for (const RunningProgram& p : programs) {
    all_answer &= p.silent.empty();
    if (!p.replicas.empty()) std::cout << "\n" << name_of(p) << "\n";
    print_replicas(p);
    if (!p.silent.empty())
      std::cerr << "troupe jobs: " << p.task << " does not answer: " << p.silent << "\n";
  }
  return all_answer ? 0 : exit_code(Errc::timeout);
}
