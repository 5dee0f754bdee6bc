// Walks all ops and fails for one that nobody tests.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

// Ops that no table can hold, and where they are tested instead.
const std::map<std::string, std::string> kElsewhere = {
    {"Parameter", "pulls from a shard: tests/ops/parameter_test.cpp"},
    {"PushGradient", "pushes to a shard: tests/ops/parameter_test.cpp"},
    {"WithGradient", "holds a function, which no table can: tests/graph"},
};

struct Tested {
  bool value = false, refusal = false, gradient = false;
};

std::map<std::string, Tested> tested_ops() {
  std::map<std::string, Tested> tested;
  for (const auto& cases : listed_cases()) {
    const OpCases table = cases();
    for (const OpCase& c : table.values) {
      Tested& op = tested[c.op];
      op.value = true;
      const auto is_f64 = [](const Tensor& t) { return t.dtype() == DType::f64 && t.size() > 0; };
      if (c.smooth && std::any_of(c.inputs.begin(), c.inputs.end(), is_f64)) op.gradient = true;
    }
    for (const OpError& e : table.errors) tested[e.op].refusal = true;
  }
  return tested;
}

}  // namespace

TEST_CASE("every op has value cases, refusals, and a gradient check or a reason to have none") {
  const auto tested = tested_ops();
  for (const Op* op : builtin_ops()->all()) {
    if (kElsewhere.count(op->name)) continue;
    const auto it = tested.find(op->name);
    const Tested t = it == tested.end() ? Tested{} : it->second;
    CHECK_MESSAGE(t.value, op->name, " has no OpCase in a listed table of tests/ops");
    CHECK_MESSAGE(t.refusal, op->name, " has no OpError in a listed table of tests/ops");
    const bool excused = !op->no_gradient.empty();
    CHECK_MESSAGE((op->gradient || excused), op->name,
                  " has no gradient and no `no_gradient` that says why");
    CHECK_MESSAGE((t.gradient || excused), op->name,
                  " has no smooth case with an f64 input, so its gradient is not checked");
  }
}

TEST_CASE("tables and excuses name ops that exist") {
  for (const auto& entry : tested_ops())
    CHECK_MESSAGE(builtin_ops()->find(entry.first), entry.first);
  for (const auto& entry : kElsewhere) CHECK_MESSAGE(builtin_ops()->find(entry.first), entry.first);
}

}  // namespace troupe
