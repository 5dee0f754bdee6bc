// One case of ONNX's test data: its model is built with Troupe's functions, run in a session, and
// compared with ONNX's expected results.
#pragma once

#include <string>
#include <vector>

#include "ops/check/op_check.hpp"
#include "tests/conformance/model.hpp"
#include "troupe/session.hpp"

namespace troupe {

enum class Outcome : uint8_t { passed, failed, not_covered };
const char* to_string(Outcome outcome);

struct CaseResult {
  std::string name;
  std::string op;  // of its only node; "" if there are several
  Outcome outcome = Outcome::passed;
  std::string text;  // the difference, or the reason why it is not covered
};

// Runs cases in one growing graph and one session.
class CaseRunner {
 public:
  // No model can make it throw.
  CaseResult run(const OnnxCase& test);

 private:
  void check(const OnnxCase& test, CaseResult& result);
  std::string check_set(const onnx::Model& model, const std::string& set);
  std::vector<Tensor> run_model(const onnx::Model& model, const std::vector<Tensor>& inputs);

  Graph graph_;
  Session session_ = Session::local(graph_, {.threads = 1, .cuda = false});
};

// The rule of ONNX's own runner: |got - want| <= atol + rtol * |want|; integers and bool must be
// equal; NaN equals NaN. Returns the difference, or "".
std::string onnx_difference(const Tensor& got, const Tensor& want, double rtol = 1e-3,
                            double atol = 1e-7);

}  // namespace troupe
