// What is known of the cases that do not pass, and the tables made of the results.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/conformance/run_case.hpp"

namespace troupe {

struct Expectation {
  Outcome outcome;
  std::string reason;
};
struct Expectations {
  std::string version;                       // of the package, as in "1.12.0-2"
  std::map<std::string, Expectation> cases;  // all others pass
};
// Throws: Error(bad_data) with the line of what cannot be read.
Expectations parse_expectations(const std::string& text);
// The file for these results. Reasons of failures that were known stay.
std::string expectations_text(const std::vector<CaseResult>& results, const Expectations& known,
                              const std::string& version);
// One line for each case that is not as expected, and for each expectation without a case.
std::vector<std::string> surprises(const std::vector<CaseResult>& results,
                                   const Expectations& known);

// docs/conformance.md.
std::string conformance_markdown(const std::vector<CaseResult>& results, const Expectations& known,
                                 const std::string& version);

}  // namespace troupe
