// The flag --failpoints of nodes and programs: failures on purpose.
//
// Owner: the function that reads a command line. Thread: its own.
#pragma once

#include <iostream>
#include <optional>
#include <string>

#include "apps/flags.hpp"
#include "troupe/cluster.hpp"

inline void add_failpoints(Flags& flags, std::optional<std::string>& to) {
  flags.add("failpoints", &to,
            "fail at these places, as ps1/shard.apply.before_ack=die@3; list: prints the places. "
            "Without it: those of TROUPE_FAILPOINTS");
}
// Prints the fail points if that is the wish.
inline bool list_failpoints(const std::optional<std::string>& given) {
  if (given != "list") return false;
  std::cout << troupe::describe_fail_points();
  return true;
}
