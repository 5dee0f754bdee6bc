// Regroup.
#include <doctest/doctest.h>

#include "ops/support/regroup.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs pattern(const std::string& text) { return {{"pattern", text}}; }

OpCases cases() {
  const Tensor x = iota({2, 3, 4});
  return {.values = {{.name = "joins",
                      .op = "Regroup",
                      .inputs = {x},
                      .attrs = pattern("a b c -> a (b c)"),
                      .expected = {iota({2, 12})}},
                     {.name = "splits by a number",
                      .op = "Regroup",
                      .inputs = {x},
                      .attrs = pattern("a b (2 d) -> a b 2 d"),
                      .expected = {iota({2, 3, 2, 2})}},
                     {.name = "splits by another value",
                      .op = "Regroup",
                      .inputs = {iota({6, 4}), i32(zeros({2, 3}))},
                      .attrs = pattern("(a b) c, a b -> a b c"),
                      .expected = {x},
                      .as_written = true},
                     {.name = "adds and drops dimensions of size 1",
                      .op = "Regroup",
                      .inputs = {iota({1, 3})},
                      .attrs = pattern("1 b -> b 1 1"),
                      .expected = {iota({3, 1, 1})}},
                     {.name = "a scalar",
                      .op = "Regroup",
                      .inputs = {scalar(7)},
                      .attrs = pattern("-> 1"),
                      .expected = {vector({7})}},
                     {.name = "all into one",
                      .op = "Regroup",
                      .inputs = {x},
                      .attrs = pattern("a b c->(a b c)"),
                      .expected = {iota({24})}},
                     {.name = "nothing in a shape",
                      .op = "Regroup",
                      .inputs = {zeros({0, 3, 2})},
                      .attrs = pattern("a b c -> (a b) c"),
                      .expected = {zeros({0, 2})}}},
          .errors = {
              {.op = "Regroup",
               .inputs = {x},
               .attrs = pattern("a (b c -> a"),
               .message = "cannot read the pattern \"a (b c -> a\""},
              {.op = "Regroup",
               .inputs = {x},
               .attrs = pattern("a b c, d -> a"),
               .message = "is one of 2 values, got 1"},
              {.op = "Regroup",
               .inputs = {iota({2, 3})},
               .attrs = pattern("a b c -> a (b c)"),
               .message = "value 0 has 3 dimensions in the pattern, but is ["},
              {.op = "Regroup",
               .inputs = {x},
               .attrs = pattern("a b b -> a b b"),
               .message = "the sizes of b differ: 3 and 4"},
              {.op = "Regroup",
               .inputs = {x},
               .attrs = pattern("a 2 c -> a c"),
               .message = "a dimension has size 3 where the pattern has 2"},
              {.op = "Regroup",
               .inputs = {x},
               .attrs = pattern("a (2 b) c -> a 2 b c"),
               .message = "a dimension of size 3 is no multiple of 2"},
              {.op = "Regroup",
               .inputs = {x},
               .attrs = pattern("a b c -> a b"),
               .message = "the 24 elements of [2, 3, 4] do not fit into [2, 3]"},
              {.op = "Regroup",
               .inputs = {zeros({1, 1, 1, 1, 1, 1, 1, 1})},
               .attrs = pattern("a b c d e f g h -> 1 a b c d e f g h"),
               .message = "the result would have 9 dimensions; at most 8"},
              {.op = "Regroup",
               .inputs = {x},
               .attrs = pattern("a b (c d) -> a b c d"),
               .message = "the sizes do not say what the result is"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Regroup gives elements a shape by names") { check(cases()); }

TEST_CASE("regroup adds no node where nothing changes, and a Reshape where that is enough") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {-1, 3, 4});
  CHECK(regroup(x, "a b c -> a b c") == x);
  CHECK(graph.node(regroup(x, "a b c -> a (b c)").node).op->name == "Reshape");
  CHECK(regroup(x, "a b c -> a (b c)").shape() == Shape{-1, 12});
  const Output y = placeholder(graph, DType::f32, {-1, -1});
  CHECK(graph.node(with_axis(y, 1).node).op->name == "Regroup");
  CHECK(with_axis(y, 1).shape() == Shape{-1, 1, -1});
  CHECK(with_axis(x, -1).shape() == Shape{-1, 3, 4, 1});
  // Only the step knows if x is square.
  CHECK(graph.node(regroup(y, "a a -> a a", {}, /*checked=*/true).node).op->name == "Regroup");
}

}  // namespace troupe
