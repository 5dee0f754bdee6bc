// SumToLike.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return table_of(
      "SumToLike",
      {
          Case("rows", {matrix({{1, 2}, {3, 4}}), zeros({2})}, {vector({4, 6})}),
          Case("columns", {matrix({{1, 2}, {3, 4}}), zeros({2, 1})}, {matrix({{3}, {7}})}),
          Case("everything", {matrix({{1, 2}, {3, 4}}), scalar(0)}, {scalar(10)}),
          Case("outside and inside", {iota({2, 2, 2}), zeros({2, 1})}, {matrix({{10}, {18}})}),
          Case("size one", {vector({1}), vector({0})}, {vector({1})}),
          Case("nothing to do", {vector({1, 2}), zeros({2})}, {vector({1, 2})}),
          Case("a sum of nothing", {zeros({0, 2}), zeros({2})}, {zeros({2})}),
      },
      {
          Refused({zeros({2}), zeros({3})}, "[2] is not what [3] broadcasts to"),
          Refused({zeros({1}), zeros({3})}, "[1] is not what [3] broadcasts to"),
          Refused({booleans(zeros({2})), booleans(zeros({1}))}, "has no kernel for bool"),
      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("SumToLike undoes a broadcast") { check(cases()); }

}  // namespace troupe
