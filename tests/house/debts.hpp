// Debts: the tree does not keep all rules of the house yet; tests/house/debts.txt says where. They
// may only shrink.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/house/source.hpp"

namespace troupe {

struct Debt {
  int size;
  int line;  // of tests/house/debts.txt
};
// By rule, then by place. A rule that owes nothing any more keeps its heading.
using Debts = std::map<std::string, std::map<std::string, Debt>>;

// Reads lines `[rule] text` and, below, `SIZE PLACE`. Lines that begin with # say nothing.
// Throws std::runtime_error for any other line.
Debts read_debts(std::string_view text);

// Takes the debts off `found`, the findings of `rule`. Left are the findings of each place that
// exceeds its debt, and one finding for each debt that is larger than its place needs today.
std::vector<Violation> settle(const std::string& rule, const std::vector<Violation>& found,
                              const Debts& debts);

// The text of a list of debts with those of `rule` lowered to what `found` needs.
std::string lowered(std::string_view text, const std::string& rule,
                    const std::vector<Violation>& found);

// Rules whose debts add up to more than they did in `before`.
std::vector<Violation> check_shrinks(const Debts& before, const Debts& now);

// Exceptions that stay: lines `PLACE: reason` of tests/house/exceptions.txt, below `[rule]`.
struct Exception {
  std::string reason;
  int line;
};
using Exceptions = std::map<std::string, std::map<std::string, Exception>>;
Exceptions read_exceptions(std::string_view text);

// `found` without the places that have an exception, and one finding for each exception that
// nothing needs.
std::vector<Violation> excuse(const std::string& rule, const std::vector<Violation>& found,
                              const Exceptions& exceptions);

}  // namespace troupe
