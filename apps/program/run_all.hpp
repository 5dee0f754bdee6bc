// run_all(): several calls of a session, some of them at a time.
//
// Owner: the program. Thread: its main one; results come in on others.
#pragma once

#include <functional>
#include <vector>

#include "apps/program/progress_line.hpp"
#include "troupe/session.hpp"

struct Call {
  troupe::Callable callable;
  std::vector<troupe::Tensor> feeds = {};
};

// Runs the calls, `at_once` of them at a time, with a line of progress in `unit`. Gives the values
// of each to `use`, in the order of the calls, from this thread. Throws: Error with the code of the
// first call that failed, when none is under way any more.
void run_all(const std::vector<Call>& calls, int64_t at_once, ProgressLine& line, const char* unit,
             const std::function<void(size_t call, std::vector<troupe::Tensor> values)>& use);
