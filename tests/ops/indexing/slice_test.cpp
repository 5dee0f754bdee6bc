// Slice and SliceGradient.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return table_of(
      "Slice",
      {
          Case("rows", {matrix({{1, 2}, {3, 4}, {5, 6}})}, {matrix({{3, 4}, {5, 6}})},
               {{"begin", Ints{1, 0}}, {"size", Ints{2, -1}}}),
          Case("columns", {matrix({{1, 2, 3}, {4, 5, 6}})}, {matrix({{2, 3}, {5, 6}})},
               {{"begin", Ints{0, 1}}, {"size", Ints{-1, 2}}}),
          Case("a box", {iota({3, 3, 3})}, {values({2, 2, 1}, {10, 13, 19, 22})},
               {{"begin", Ints{1, 0, 1}}, {"size", Ints{2, 2, 1}}}),
          Case("everything", {vector({1, 0})}, {vector({1, 0})},
               {{"begin", Ints{0}}, {"size", Ints{-1}}}),
          Case("nothing", {vector({1, 0})}, {zeros({0})}, {{"begin", Ints{2}}, {"size", Ints{-1}}}),
          Case("size one", {vector({0, 1, 2})}, {vector({1})},
               {{"begin", Ints{1}}, {"size", Ints{1}}}),
          Case("a scalar", {scalar(1)}, {scalar(1)}, {{"begin", Ints{}}, {"size", Ints{}}}),
          Case("of an empty one", {zeros({0, 2})}, {zeros({0, 1})},
               {{"begin", Ints{0, 1}}, {"size", Ints{0, 1}}}),
          Case("SliceGradient", "rows", {matrix({{3, 4}}), zeros({3, 2})},
               {matrix({{0, 0}, {3, 4}, {0, 0}})}, {{"begin", Ints{1, 0}}, {"size", Ints{1, 2}}}),
          Case("SliceGradient", "columns", {matrix({{2}, {5}}), zeros({2, 3})},
               {matrix({{0, 0, 2}, {0, 0, 5}})}, {{"begin", Ints{0, 2}}, {"size", Ints{-1, 1}}}),
          Case("SliceGradient", "nothing", {zeros({0}), zeros({2})}, {zeros({2})},
               {{"begin", Ints{2}}, {"size", Ints{-1}}}),
          Case("SliceGradient", "into an empty one", {zeros({0}), zeros({0})}, {zeros({0})},
               {{"begin", Ints{0}}, {"size", Ints{-1}}}),
      },
      {
          Refused({zeros({2, 2})}, "begin 1 and size 2 are not within axis 1 of [2, 2]",
                  {{"begin", Ints{0, 1}}, {"size", Ints{-1, 2}}}),
          Refused({zeros({2, 3})}, "wants a begin and a size for each of 2 dimensions, got 1 and 1",
                  {{"begin", Ints{0}}, {"size", Ints{1}}}),
          Refused({zeros({2, 3})}, "begin 2 and size 2 are not within axis 1 of [2, 3]",
                  {{"begin", Ints{0, 2}}, {"size", Ints{1, 2}}}),
          Refused({zeros({2})}, "begin -1 and size 1 are not within axis 0",
                  {{"begin", Ints{-1}}, {"size", Ints{1}}}),
          Refused({zeros({2})}, "begin 3 and size -1 are not within axis 0 of [2]",
                  {{"begin", Ints{3}}, {"size", Ints{-1}}}),
          Refused("SliceGradient", {zeros({2}), zeros({2, 2})}, "wants as many dimensions",
                  {{"begin", Ints{0, 0}}, {"size", Ints{1, 1}}}),
          Refused("SliceGradient", {zeros({2}), zeros({3})},
                  "dy of shape [2] is not the slice of [3] from 2 with size -1 along axis 0",
                  {{"begin", Ints{2}}, {"size", Ints{-1}}}),
      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Slice cuts out a box, and its gradient puts one back among zeros") { check(cases()); }

}  // namespace troupe
