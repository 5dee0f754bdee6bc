// Commits, and the rules about their messages.
#pragma once

#include <string>
#include <vector>

#include "tests/house/source.hpp"

namespace troupe {

struct Commit {
  std::string id, subject, body;
  int lines = 0;  // added and removed
};

// The format for `git log --no-merges --shortstat`, and what it prints.
extern const char* const kLogFormat;
std::vector<Commit> read_log(const std::string& log);

// Subjects that are long or begin with a clause, and large changes without a body.
std::vector<Violation> check_commit(const Commit& commit);

}  // namespace troupe
