// LogicalAnd, LogicalOr and LogicalXor.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Tensor a = booleans(vector({0, 0, 1, 1})), b = booleans(vector({0, 1, 0, 1}));

// `c`: of a and b; `rows`: of the matrix and the row below; `one`: of true and true.
OpCases logical(const std::string& op, const Tensor& c, const Tensor& rows, const Tensor& one) {
  return binary_cases(op, zeros({2}),
                      {
                          {.name = "all four", .inputs = {a, b}, .expected = {booleans(c)}},
                          {.name = "rows with a row",
                           .inputs = {booleans(matrix({{1, 0}, {0, 1}})), booleans(vector({1, 0}))},
                           .expected = {booleans(rows)}},
                          {.name = "with a scalar",
                           .inputs = {b, booleans(scalar(1))},
                           .expected = {[&] {
                             // b is vector({0, 1, 0, 1}): of `true`, its elements are the last two
                             // of c in turn.
                             const double of_false = c.data<double>()[2],
                                          of_true = c.data<double>()[3];
                             return booleans(vector({of_false, of_true, of_false, of_true}));
                           }()}},
                          {.name = "size one",
                           .inputs = {booleans(vector({1})), booleans(vector({1}))},
                           .expected = {booleans(one)}},
                      });
}

OpCases and_cases() {
  return logical("LogicalAnd", vector({0, 0, 0, 1}), matrix({{1, 0}, {0, 0}}), vector({1}));
}
const ListedCases listed_and(and_cases);

OpCases or_cases() {
  return logical("LogicalOr", vector({0, 1, 1, 1}), matrix({{1, 0}, {1, 1}}), vector({1}));
}
const ListedCases listed_or(or_cases);

OpCases xor_cases() {
  return logical("LogicalXor", vector({0, 1, 1, 0}), matrix({{0, 0}, {1, 1}}), vector({0}));
}
const ListedCases listed_xor(xor_cases);

}  // namespace

TEST_CASE("LogicalAnd is true of true and true") { check(and_cases()); }
TEST_CASE("LogicalOr is false of false and false") { check(or_cases()); }
TEST_CASE("LogicalXor is true where one is") { check(xor_cases()); }

}  // namespace troupe
