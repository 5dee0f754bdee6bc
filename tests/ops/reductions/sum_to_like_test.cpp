// SumToLike.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "rows",
                   .op = "SumToLike",
                   .inputs = {matrix({{1, 2}, {3, 4}}), zeros({2})},
                   .expected = {vector({4, 6})}},
                  {.name = "columns",
                   .op = "SumToLike",
                   .inputs = {matrix({{1, 2}, {3, 4}}), zeros({2, 1})},
                   .expected = {matrix({{3}, {7}})}},
                  {.name = "everything",
                   .op = "SumToLike",
                   .inputs = {matrix({{1, 2}, {3, 4}}), scalar(0)},
                   .expected = {scalar(10)}},
                  {.name = "outside and inside",
                   .op = "SumToLike",
                   .inputs = {iota({2, 2, 2}), zeros({2, 1})},
                   .expected = {matrix({{10}, {18}})}},
                  {.name = "size one",
                   .op = "SumToLike",
                   .inputs = {vector({1}), vector({0})},
                   .expected = {vector({1})}},
                  {.name = "nothing to do",
                   .op = "SumToLike",
                   .inputs = {vector({1, 2}), zeros({2})},
                   .expected = {vector({1, 2})}},
                  {.name = "a sum of nothing",
                   .op = "SumToLike",
                   .inputs = {zeros({0, 2}), zeros({2})},
                   .expected = {zeros({2})}},
              },
          .errors = {
              {.op = "SumToLike",
               .inputs = {zeros({2}), zeros({3})},
               .message = "[2] is not what [3] broadcasts to"},
              {.op = "SumToLike",
               .inputs = {zeros({1}), zeros({3})},
               .message = "[1] is not what [3] broadcasts to"},
              {.op = "SumToLike",
               .inputs = {booleans(zeros({2})), booleans(zeros({1}))},
               .message = "has no kernel for bool"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("SumToLike undoes a broadcast") { check(cases()); }

}  // namespace troupe
