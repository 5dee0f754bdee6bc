// InvertPermutation.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  const auto of = [](std::string name, Tensor x, Tensor expected) {
    return Case("InvertPermutation", std::move(name), {i32(x)}, {i32(expected)});
  };
  const auto refused = [](Tensor x, std::string message, bool when_run) {
    return OpError{.op = "InvertPermutation",
                   .inputs = {x},
                   .message = std::move(message),
                   .when_run = when_run};
  };
  return {.values = {of("three", vector({2, 0, 1}), vector({1, 2, 0})),
                     of("in order", vector({0, 1, 2, 3}), vector({0, 1, 2, 3})),
                     of("size one", vector({0}), vector({0})), of("empty", zeros({0}), zeros({0}))},
          .errors = {refused(i32(zeros({1, 1})), "wants a vector, got [", false),
                     refused(zeros({2}), "wants indices of i32 or i64, got f64", false),
                     refused(i32(vector({0, 2})), "index 2 (number 1 of 2) is not in [0, 2)", true),
                     refused(i64(vector({-1})), "index -1 (number 0 of 1) is not in [0, 1)", true),
                     refused(i32(vector({0, 1, 1})),
                             "index 1 is there twice, as numbers 1 and 2; a permutation has each "
                             "once",
                             true)}};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("InvertPermutation says where each index is") { check(cases()); }

}  // namespace troupe
