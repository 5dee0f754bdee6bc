// BroadcastTo and BroadcastLike.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "a row",
                   .op = "BroadcastTo",
                   .inputs = {vector({1, 0})},
                   .attrs = {{"shape", Shape{3, 2}}},
                   .expected = {matrix({{1, 0}, {1, 0}, {1, 0}})}},
                  {.name = "a column",
                   .op = "BroadcastTo",
                   .inputs = {matrix({{1}, {0}})},
                   .attrs = {{"shape", Shape{2, 3}}},
                   .expected = {matrix({{1, 1, 1}, {0, 0, 0}})}},
                  {.name = "a scalar",
                   .op = "BroadcastTo",
                   .inputs = {scalar(1)},
                   .attrs = {{"shape", Shape{2, 2}}},
                   .expected = {full({2, 2}, 1)}},
                  {.name = "outside and inside",
                   .op = "BroadcastTo",
                   .inputs = {iota({2, 1})},
                   .attrs = {{"shape", Shape{2, 2, 2}}},
                   .expected = {values({2, 2, 2}, {0, 0, 1, 1, 0, 0, 1, 1})}},
                  {.name = "the shape it has",
                   .op = "BroadcastTo",
                   .inputs = {vector({1, 0})},
                   .attrs = {{"shape", Shape{2}}},
                   .expected = {vector({1, 0})}},
                  {.name = "size one",
                   .op = "BroadcastTo",
                   .inputs = {vector({1})},
                   .attrs = {{"shape", Shape{1}}},
                   .expected = {vector({1})}},
                  {.name = "no times",
                   .op = "BroadcastTo",
                   .inputs = {vector({1})},
                   .attrs = {{"shape", Shape{0}}},
                   .expected = {zeros({0})}},
                  {.name = "a row",
                   .op = "BroadcastLike",
                   .inputs = {vector({1, 0}), zeros({3, 2})},
                   .expected = {matrix({{1, 0}, {1, 0}, {1, 0}})}},
                  {.name = "a scalar",
                   .op = "BroadcastLike",
                   .inputs = {scalar(1), zeros({2, 2})},
                   .expected = {full({2, 2}, 1)}},
                  {.name = "size one",
                   .op = "BroadcastLike",
                   .inputs = {vector({1}), zeros({1})},
                   .expected = {vector({1})}},
                  {.name = "no times",
                   .op = "BroadcastLike",
                   .inputs = {vector({1}), zeros({0})},
                   .expected = {zeros({0})}},
              },
          .errors = {
              {.op = "BroadcastTo",
               .inputs = {zeros({2})},
               .attrs = {{"shape", Shape{3}}},
               .message = "[2] cannot be repeated up to [3]"},
              {.op = "BroadcastTo",
               .inputs = {zeros({2, 1})},
               .attrs = {{"shape", Shape{2}}},
               .message = "cannot be repeated up to [2]"},
              {.op = "BroadcastTo",
               .inputs = {zeros({1})},
               .attrs = {{"shape", Shape{-1}}},
               .message = "wants a shape without -1"},
              {.op = "BroadcastLike",
               .inputs = {zeros({2}), zeros({3})},
               .message = "[2] cannot be repeated up to [3]"},
              {.op = "BroadcastLike",
               .inputs = {zeros({2}), zeros({1})},
               .message = "[2] cannot be repeated up to [1]"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("values are repeated up to a shape, or up to that of another value") { check(cases()); }

}  // namespace troupe
