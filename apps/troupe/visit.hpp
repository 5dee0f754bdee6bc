// The verbs that visit a running cluster: their common flags, and the choice of a program.
//
// Owner: the verb. Thread: the one that reads the command line.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/flags.hpp"
#include "troupe/cluster.hpp"
#include "troupe/training.hpp"

struct VisitFlags {
  std::optional<std::string> join, spec, cluster, secret_file, tls, listen, announce, job;
  std::vector<std::string> plugins;
  bool insecure = false;
  double timeout = 10;
};
// `one`: the verb wants one program, which --job chooses.
void add_visit_flags(Flags& flags, VisitFlags& to, bool one);

// Joins the cluster. Throws: Error(invalid_argument) for flags that do not fit; as Visitor().
std::unique_ptr<troupe::Visitor> visit(const VisitFlags& given);
// The program that --job names, by its task or the name of its executable; without it the only one
// that trains, or the only one. Throws: Error that names the programs that are there;
// Error(timeout) for one that does not answer.
troupe::RunningProgram choose_program(const std::vector<troupe::RunningProgram>& programs,
                                      const std::optional<std::string>& job);
std::string name_of(const troupe::RunningProgram& program);  // "/job:client/task:17 (train_digits)"
