// The verbs of actor-node, and the flags they share. They return an exit code and throw what
// actor-node.cpp turns into one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/flags.hpp"

int join(const std::vector<std::string>& arguments);
int up(const std::vector<std::string>& arguments);
int certs(const std::vector<std::string>& arguments);

struct NodeFlags {
  std::string cluster = "troupe";
  int threads = 0;
  int64_t memory_mib = 8192;
  double lease = 600, drain = 10;
  std::optional<double> silence;
  std::vector<std::string> plugins, data_dirs;
  std::string log_format = "text", log_level = "info";
  bool insecure = false;
  std::optional<std::string> secret_file, failpoints;
};
void add_node_flags(Flags& flags, NodeFlags& to);
// Throws: Error(invalid_argument) for a value that no node can use.
void check_node_flags(const NodeFlags& given);
