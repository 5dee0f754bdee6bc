// Reads, writes and compares the list of cases that do not pass; writes the table in Markdown.
#include "tests/conformance/expectations.hpp"

#include <set>
#include <sstream>

#include "tests/conformance/mapping.hpp"

namespace troupe {
namespace {

constexpr const char* kFailed = ": failed: ";
constexpr const char* kNotCovered = ": not covered: ";

const Expectation* expected(const Expectations& known, const std::string& name) {
  const auto it = known.cases.find(name);
  return it == known.cases.end() ? nullptr : &it->second;
}

// The reason of a known failure is the handwritten one; the difference itself is only printed.
std::string reason_of(const CaseResult& result, const Expectations& known) {
  const Expectation* before = expected(known, result.name);
  if (result.outcome == Outcome::failed && before && before->outcome == Outcome::failed)
    return before->reason;
  return result.text.substr(0, result.text.find('\n'));
}

struct Counts {
  int passed = 0, failed = 0, not_covered = 0;
  std::map<std::string, int> reasons;
};

void count(Counts& counts, const CaseResult& result, const Expectations& known) {
  if (result.outcome == Outcome::passed) {
    ++counts.passed;
    return;
  }
  const bool failed = result.outcome == Outcome::failed;
  ++(failed ? counts.failed : counts.not_covered);
  ++counts.reasons[(failed ? "failed: " : "") + reason_of(result, known)];
}

std::string reasons_text(const Counts& counts) {
  std::string text;
  for (const auto& [reason, number] : counts.reasons) {
    if (!text.empty()) text += "; ";
    text += reason;
    if (counts.reasons.size() > 1) text += " (" + std::to_string(number) + ")";
  }
  return text;
}

void put_row(std::ostream& out, const std::string& first, const std::string& by,
             const Counts& counts) {
  out << "| " << first << " | " << by << " | " << counts.passed << " | " << counts.failed << " | "
      << counts.not_covered << " | " << reasons_text(counts) << " |\n";
}

}  // namespace

Expectations parse_expectations(const std::string& text) {
  Expectations known;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    if (line.rfind("version ", 0) == 0) {
      known.version = line.substr(8);
      continue;
    }
    const bool failed = line.find(kFailed) != std::string::npos;
    const std::string mark = failed ? kFailed : kNotCovered;
    const size_t at = line.find(mark);
    if (at == std::string::npos || at + mark.size() == line.size())
      throw Error(Errc::bad_data, "line ", number, " of the expectations is \"", line,
                  "\"; wanted: NAME: failed: REASON, or NAME: not covered: REASON");
    known.cases[line.substr(0, at)] = {failed ? Outcome::failed : Outcome::not_covered,
                                       line.substr(at + mark.size())};
  }
  return known;
}

std::string expectations_text(const std::vector<CaseResult>& results, const Expectations& known,
                              const std::string& version) {
  std::ostringstream out;
  out << "# Cases of libonnx-testdata that do not pass, and why; all others do. Written by\n"
         "# test_conformance --expectations; the reason of a failure is written by hand, and "
         "stays.\n"
         "version "
      << version << "\n";
  for (const CaseResult& result : results)
    if (result.outcome != Outcome::passed)
      out << result.name << (result.outcome == Outcome::failed ? kFailed : kNotCovered)
          << reason_of(result, known) << "\n";
  return out.str();
}

std::vector<std::string> surprises(const std::vector<CaseResult>& results,
                                   const Expectations& known) {
  std::vector<std::string> lines;
  std::set<std::string> seen;
  for (const CaseResult& result : results) {
    seen.insert(result.name);
    const Expectation* want = expected(known, result.name);
    const Outcome outcome = want ? want->outcome : Outcome::passed;
    if (result.outcome == outcome &&
        (outcome != Outcome::not_covered || want->reason == result.text))
      continue;
    lines.push_back(detail::concat(
        result.name, ": ", to_string(result.outcome), result.text.empty() ? "" : ": ", result.text,
        "; expected: ", to_string(outcome), want ? ": " : "", want ? want->reason : ""));
  }
  for (const auto& [name, want] : known.cases)
    if (!seen.count(name)) lines.push_back(name + ": there is no such case");
  return lines;
}

std::string conformance_markdown(const std::vector<CaseResult>& results, const Expectations& known,
                                 const std::string& version) {
  std::map<std::string, Counts> by_op, by_model;
  Counts all;
  for (const CaseResult& result : results) {
    count(all, result, known);
    count(result.op.empty() ? by_model[result.name.substr(0, result.name.find('/'))]
                            : by_op[result.op],
          result, known);
  }
  std::ostringstream out;
  out << "# Conformance\n"
         "ONNX's test data, models with inputs and expected outputs, built out of Troupe's public\n"
         "functions, run in a local session and compared as ONNX does: |got - wanted| <= 1e-7 + "
         "1e-3\n"
         "|wanted|, integers and bool equal. `libonnx-testdata` "
      << version
      << "; the table is written by\n`build/tests/test_conformance --markdown "
         ">docs/conformance.md`, and `./dev test conformance` fails\nwhen a case turns out "
         "differently.\n\n";
  out << results.size() << " cases: " << all.passed << " passed, " << all.failed << " failed, "
      << all.not_covered << " not covered.\n\n"
      << "## Models of one op\n| ONNX op | by | passed | failed | not covered | reason |\n"
         "|---|---|---|---|---|---|\n";
  for (const auto& [op, counts] : by_op) {
    const MappedOp* row = find_mapped_op(op);
    put_row(out, op, row && row->map ? "`" + row->by + "`" : "", counts);
  }
  out << "\n## Models of several ops, by folder\n| folder | | passed | failed | not covered | "
         "reason |\n|---|---|---|---|---|---|\n";
  for (const auto& [folder, counts] : by_model) put_row(out, folder, "", counts);
  return out.str();
}

}  // namespace troupe
