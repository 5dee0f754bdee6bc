// Where.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Table table("Where chooses between two values", [] {
  return table_of(
      "Where",
      {
          Case("same shape", {booleans(vector({1, 0, 1})), vector({1, 0, 1}), vector({0, 1, 0})},
               {vector({1, 1, 1})}),
          Case("other numbers",
               {booleans(vector({1, 0, 1})), vector({1.5, 2, 3}), vector({-1, -2, -3})},
               {vector({1.5, -2, 3})}),
          Case("a scalar on one side", {booleans(vector({1, 0, 1})), vector({1, 2, 3}), scalar(0)},
               {vector({1, 0, 3})}),
          Case("a scalar on the other side",
               {booleans(vector({1, 0, 1})), scalar(7), vector({1, 2, 3})}, {vector({7, 2, 7})}),
          Case("scalars on both sides", {booleans(vector({1, 0, 1})), scalar(7), scalar(8)},
               {vector({7, 8, 7})}),
          Case("one condition for all", {booleans(scalar(0)), vector({1, 2, 3}), vector({4, 5, 6})},
               {vector({4, 5, 6})}),
          Case("all three repeated", {booleans(matrix({{1}, {0}})), vector({1, 2, 3}), scalar(9)},
               {matrix({{1, 2, 3}, {9, 9, 9}})}),
          Case("a row of conditions",
               {booleans(vector({1, 0})), matrix({{1, 2}, {3, 4}}), matrix({{5}, {6}})},
               {matrix({{1, 5}, {3, 6}})}),
          Case("size one", {booleans(vector({1})), vector({1}), vector({2})}, {vector({1})}),
          Case("empty", {booleans(zeros({0})), zeros({0}), scalar(1)}, {zeros({0})}),
          Case("what is not chosen may be NaN",
               {booleans(vector({1, 0})), vector({1, NAN}), vector({NAN, 2})}, {vector({1, 2})})
              .rough(),
      },
      {
          Refused({zeros({2}), zeros({2}), zeros({2})},
                  "wants a bool condition, got f64; compare it with something"),
          Refused({booleans(zeros({2})), zeros({2}), i32(zeros({2}))},
                  "chooses between values of one dtype, got f64 and i32; cast one of them"),
          Refused({booleans(zeros({2})), zeros({3}), zeros({1})},
                  "shapes do not broadcast: [2] and [3]"),
      });
});

}  // namespace
}  // namespace troupe
