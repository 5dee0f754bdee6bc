// ReduceMean.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "everything",
                   .op = "ReduceMean",
                   .inputs = {matrix({{1, 2, 3}, {4, 5, 6}})},
                   .expected = {scalar(3.5)}},
                  {.name = "rows",
                   .op = "ReduceMean",
                   .inputs = {matrix({{1, 2, 3}, {4, 5, 6}})},
                   .attrs = {{"axes", std::vector<int64_t>{1}}, {"keep_dims", false}},
                   .expected = {vector({2, 5})}},
                  {.name = "columns",
                   .op = "ReduceMean",
                   .inputs = {matrix({{1, 2, 3}, {4, 5, 6}})},
                   .attrs = {{"axes", std::vector<int64_t>{0}}, {"keep_dims", false}},
                   .expected = {vector({2.5, 3.5, 4.5})}},
                  {.name = "keeping dimensions",
                   .op = "ReduceMean",
                   .inputs = {matrix({{1, 2, 3}, {4, 5, 6}})},
                   .attrs = {{"axes", std::vector<int64_t>{-1}}, {"keep_dims", true}},
                   .expected = {matrix({{2}, {5}})}},
                  {.name = "first and last",
                   .op = "ReduceMean",
                   .inputs = {values({2, 3, 2}, {1, 5, 2, 6, 3, 4, 9, 0, 7, 8, 11, 10})},
                   .attrs = {{"axes", std::vector<int64_t>{0, 2}}, {"keep_dims", false}},
                   .expected = {vector({3.75, 5.75, 7})}},
                  {.name = "size one",
                   .op = "ReduceMean",
                   .inputs = {vector({1.5})},
                   .attrs = {{"axes", std::vector<int64_t>{0}}, {"keep_dims", false}},
                   .expected = {scalar(1.5)}},
                  {.name = "nothing",
                   .op = "ReduceMean",
                   .inputs = {zeros({0})},
                   .expected = {scalar(NAN)}},
                  {.name = "no rows",
                   .op = "ReduceMean",
                   .inputs = {zeros({0, 2})},
                   .attrs = {{"axes", std::vector<int64_t>{1}}, {"keep_dims", false}},
                   .expected = {zeros({0})}},
              },
          .errors = {
              {.op = "ReduceMean",
               .inputs = {zeros({2, 3})},
               .attrs = {{"axes", std::vector<int64_t>{2}}, {"keep_dims", false}},
               .message = "axis 2 is not there: with 2 dimensions, axes go from -2 to 1"},
              {.op = "ReduceMean",
               .inputs = {zeros({2, 3})},
               .attrs = {{"axes", std::vector<int64_t>{1, -1}}, {"keep_dims", false}},
               .message = "names axis -1 twice"},
              {.op = "ReduceMean",
               .inputs = {booleans(zeros({2}))},
               .attrs = {{"axes", std::vector<int64_t>{}}, {"keep_dims", false}},
               .message = "has no kernel for bool"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("ReduceMean divides the sum by the number of elements") { check(cases()); }

}  // namespace troupe
