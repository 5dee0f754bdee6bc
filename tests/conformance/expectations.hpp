// The list of cases that are known not to pass, and the tables made from results.
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
  std::string version;                       // version of the package, like "1.12.0-2"
  std::map<std::string, Expectation> cases;  // all others pass
};
// Throws: Error(bad_data) that names the unreadable line.
Expectations parse_expectations(const std::string& text);
// The file's text for these results. Keeps the reasons of known failures.
std::string expectations_text(const std::vector<CaseResult>& results, const Expectations& known,
                              const std::string& version);
// One line for each case with an unexpected result, and for each expectation without a case.
std::vector<std::string> surprises(const std::vector<CaseResult>& results,
                                   const Expectations& known);

// The text of docs/conformance.md.
std::string conformance_markdown(const std::vector<CaseResult>& results, const Expectations& known,
                                 const std::string& version);

}  // namespace troupe
