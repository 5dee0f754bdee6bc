// ONNX's test data against the list of expected results, if the package is installed; and tests of
// the runner itself. `--markdown` prints docs/conformance.md, `--expectations` the list of cases
// that do not pass, `--case NAME` one result.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <sstream>

#include "tests/conformance/expectations.hpp"
#include "tests/support/paths.hpp"

namespace troupe {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(source_dir() + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Expectations expectations() {
  return parse_expectations(text_of("tests/conformance/expectations.txt"));
}

std::vector<CaseResult> run_all() {
  CaseRunner runner;
  std::vector<CaseResult> results;
  for (const OnnxCase& test : onnx_cases()) results.push_back(runner.run(test));
  return results;
}

const std::vector<CaseResult>& all_results() {
  static const std::vector<CaseResult> results = run_all();
  return results;
}

// True if the data is installed and has the version that the list was made from. Otherwise prints
// the reason.
bool has_known_cases() {
  const std::string version = onnx_package_version(), wanted = expectations().version;
  if (has_onnx_cases() && version == wanted) return true;
  std::cout << "skipped: ONNX's test data; apt-get install libonnx-testdata (" << wanted
            << ") to compare with it";
  if (has_onnx_cases()) std::cout << ", here is version \"" << version << "\"";
  std::cout << "\n";
  return false;
}

int print_case(const std::string& name) {
  for (const OnnxCase& test : onnx_cases()) {
    if (test.name != name) continue;
    const CaseResult result = CaseRunner().run(test);
    std::cout << to_string(result.outcome) << ": " << result.text << "\n";
    return result.outcome == Outcome::failed;
  }
  std::cerr << "there is no case " << name << "\n";
  return 64;
}

}  // namespace

TEST_CASE("ONNX's cases turn out as the list of expectations says") {
  if (!has_known_cases()) return;
  for (const std::string& line : surprises(all_results(), expectations())) FAIL_CHECK(line);
}

TEST_CASE("docs/conformance.md says what the runner found") {
  if (!has_known_cases()) return;
  INFO("write it anew: build/tests/test_conformance --markdown >docs/conformance.md");
  CHECK(conformance_markdown(all_results(), expectations(), expectations().version) ==
        text_of("docs/conformance.md"));
}

TEST_CASE("A value that differs, and one of another type, are told from what is expected") {
  const Tensor want = Tensor::of<float>({1, 0, NAN, INFINITY}, {4});
  CHECK(onnx_difference(Tensor::of<float>({1.0009f, 9e-8f, NAN, INFINITY}, {4}), want) == "");
  CHECK(onnx_difference(Tensor::of<float>({1.0011f, 0, NAN, INFINITY}, {4}), want) ==
        "1 of 4 elements differ; element 0 is 1.0011, not 1");
  CHECK(onnx_difference(Tensor::of<float>({1, 2e-7f, 0, 1}, {4}), want) ==
        "3 of 4 elements differ; element 1 is 2e-07, not 0");
  CHECK(onnx_difference(Tensor::of<float>({1, 0, NAN, -INFINITY}, {4}), want) != "");
  CHECK(onnx_difference(Tensor::of<double>({1}, {1}), want) == "it is f64[1], not f32[4]");
  CHECK(onnx_difference(Tensor::of<int64_t>({1000}, {1}), Tensor::of<int64_t>({1001}, {1})) ==
        "1 of 1 elements differ; element 0 is 1000, not 1001");
  CHECK(onnx_difference(Tensor::of<int8_t>({65}, {1}), Tensor::of<int8_t>({66}, {1})) ==
        "1 of 1 elements differ; element 0 is 65, not 66");
  const auto half = [](float x) { return Tensor::of<Float16>({Float16(x)}, {1}); };
  CHECK(onnx_difference(half(NAN), half(NAN)) == "");
  CHECK(onnx_difference(half(1000), half(1001)) == "");
  CHECK(onnx_difference(half(1.5f), half(2)) == "1 of 1 elements differ; element 0 is 1.5, not 2");
}

TEST_CASE("A regression, a case that passes unexpectedly and one that is gone are surprises") {
  const Expectations known = parse_expectations(
      "# why\nversion 1\nnode/a: failed: rounds\nnode/b: not covered: no b\nnode/gone: failed: "
      "x\n");
  const std::vector<CaseResult> results = {
      {"node/a", "A", Outcome::failed, "1 of 2 elements differ"},
      {"node/b", "B", Outcome::passed, ""},
      {"node/c", "C", Outcome::failed, "wrong"},
      {"node/d", "D", Outcome::not_covered, "no d"},
      {"node/e", "E", Outcome::passed, ""},
  };
  CHECK(surprises(results, known) ==
        std::vector<std::string>{"node/b: passed; expected: not covered: no b",
                                 "node/c: failed: wrong; expected: passed",
                                 "node/d: not covered: no d; expected: passed",
                                 "node/gone: there is no such case"});
  CHECK(expectations_text(results, known, "1").find("node/a: failed: rounds\n") !=
        std::string::npos);
  CHECK(surprises(results, parse_expectations(expectations_text(results, known, "1"))).empty());
  CHECK_THROWS_AS(parse_expectations("node/a: passes\n"), Error);
}

}  // namespace troupe

int main(int argc, char** argv) {
  using namespace troupe;
  const std::string word = argc > 1 ? argv[1] : "";
  if (word == "--markdown" || word == "--expectations") {
    const bool markdown = word == "--markdown";
    if (!has_onnx_cases()) {
      std::cerr << "libonnx-testdata is not installed\n";
      return 69;
    }
    std::cout << (markdown ? conformance_markdown : expectations_text)(
        all_results(), expectations(), onnx_package_version());
    return 0;
  }
  if (word == "--case" && argc > 2) return print_case(argv[2]);
  return doctest::Context(argc, argv).run();
}
