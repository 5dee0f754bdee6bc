// Logistic regression on lines of text: which of two files is a line from? Words are hashed to rows
// of one parameter, and FTRL updates only the rows of the words of a batch.
#pragma once

#include <string>
#include <vector>

#include "apps/program/program.hpp"

struct LineOptions {
  int64_t bits = 18, batch = 512, epochs = 2;
  double learning_rate = 0.5, l1 = 0, l2 = 0;
  std::string rule = "sync";
};
void add_line_flags(Flags& flags, LineOptions& to);

int run_lines(const ProgramOptions& given, const std::vector<std::string>& files,
              const LineOptions& lines);
