// run_all(): several calls of a session, some of them at a time.
//
// Owner: the program. Thread: its main one; results come in on others.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "apps/program/progress_line.hpp"
#include "troupe/session.hpp"

// The time that a program gives one run of the session which is hours of work on large data.
inline constexpr std::chrono::hours kWorkTimeout{24};

struct Call {
  troupe::Callable callable;
  std::vector<troupe::Tensor> feeds = {};
};

// Runs the calls, `at_once` of them at a time, with a line of progress in `unit`. Gives the values
// of each to `use`, in the order of the calls, from this thread. Throws: Error with the code of the
// first call that failed, and any exception of `use`. Then the other calls are cancelled, and none
// is under way any more.
void run_all(const std::vector<Call>& calls, int64_t at_once, ProgressLine& line, const char* unit,
             const std::function<void(size_t call, std::vector<troupe::Tensor> values)>& use);
