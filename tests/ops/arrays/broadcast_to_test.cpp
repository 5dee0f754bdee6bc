// BroadcastTo and BroadcastLike.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return table_of(
      "BroadcastTo",
      {
          Case("a row", {vector({1, 0})}, {matrix({{1, 0}, {1, 0}, {1, 0}})},
               {{"shape", Shape{3, 2}}}),
          Case("a column", {matrix({{1}, {0}})}, {matrix({{1, 1, 1}, {0, 0, 0}})},
               {{"shape", Shape{2, 3}}}),
          Case("a scalar", {scalar(1)}, {full({2, 2}, 1)}, {{"shape", Shape{2, 2}}}),
          Case("outside and inside", {iota({2, 1})}, {values({2, 2, 2}, {0, 0, 1, 1, 0, 0, 1, 1})},
               {{"shape", Shape{2, 2, 2}}}),
          Case("the shape it has", {vector({1, 0})}, {vector({1, 0})}, {{"shape", Shape{2}}}),
          Case("size one", {vector({1})}, {vector({1})}, {{"shape", Shape{1}}}),
          Case("no times", {vector({1})}, {zeros({0})}, {{"shape", Shape{0}}}),
          Case("BroadcastLike", "a row", {vector({1, 0}), zeros({3, 2})},
               {matrix({{1, 0}, {1, 0}, {1, 0}})}),
          Case("BroadcastLike", "a scalar", {scalar(1), zeros({2, 2})}, {full({2, 2}, 1)}),
          Case("BroadcastLike", "size one", {vector({1}), zeros({1})}, {vector({1})}),
          Case("BroadcastLike", "no times", {vector({1}), zeros({0})}, {zeros({0})}),
      },
      {
          Refused({zeros({2})}, "[2] cannot be repeated up to [3]", {{"shape", Shape{3}}}),
          Refused({zeros({2, 1})}, "cannot be repeated up to [2]", {{"shape", Shape{2}}}),
          Refused({zeros({1})}, "wants a shape without -1", {{"shape", Shape{-1}}}),
          Refused("BroadcastLike", {zeros({2}), zeros({3})}, "[2] cannot be repeated up to [3]"),
          Refused("BroadcastLike", {zeros({2}), zeros({1})}, "[2] cannot be repeated up to [1]"),
      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("values are repeated up to a shape, or up to that of another value") { check(cases()); }

}  // namespace troupe
