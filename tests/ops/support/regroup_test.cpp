// Regroup.
#include "ops/support/regroup.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs pattern(const std::string& text) { return {{"pattern", text}}; }

const Table table("Regroup gives elements a shape by names", [] {
  const Tensor x = iota({2, 3, 4});
  return table_of(
      "Regroup",
      {Case("joins", {x}, {iota({2, 12})}, pattern("a b c -> a (b c)")),
       Case("splits by a number", {x}, {iota({2, 3, 2, 2})}, pattern("a b (2 d) -> a b 2 d")),
       Case("splits by another value", {iota({6, 4}), i32(zeros({2, 3}))}, {x},
            pattern("(a b) c, a b -> a b c"))
           .as_typed(),
       Case("adds and drops dimensions of size 1", {iota({1, 3})}, {iota({3, 1, 1})},
            pattern("1 b -> b 1 1")),
       Case("a scalar", {scalar(7)}, {vector({7})}, pattern("-> 1")),
       Case("all into one", {x}, {iota({24})}, pattern("a b c->(a b c)")),
       Case("nothing in a shape", {zeros({0, 3, 2})}, {zeros({0, 2})},
            pattern("a b c -> (a b) c"))},
      {
          Refused({x}, "cannot read the pattern \"a (b c -> a\"", pattern("a (b c -> a")),
          Refused({x}, "is one of 2 values, got 1", pattern("a b c, d -> a")),
          Refused({iota({2, 3})}, "value 0 has 3 dimensions in the pattern, but is [",
                  pattern("a b c -> a (b c)")),
          Refused({x}, "the sizes of b differ: 3 and 4", pattern("a b b -> a b b")),
          Refused({x}, "a dimension has size 3 where the pattern has 2", pattern("a 2 c -> a c")),
          Refused({x}, "a dimension of size 3 is no multiple of 2",
                  pattern("a (2 b) c -> a 2 b c")),
          Refused({x}, "the 24 elements of [2, 3, 4] do not fit into [2, 3]",
                  pattern("a b c -> a b")),
          Refused({zeros({1, 1, 1, 1, 1, 1, 1, 1})},
                  "the result would have 9 dimensions; at most 8",
                  pattern("a b c d e f g h -> 1 a b c d e f g h")),
          Refused({x}, "the sizes do not say what the result is", pattern("a b (c d) -> a b c d")),
      });
});

}  // namespace

TEST_CASE("regroup adds no node where nothing changes, and a Reshape where that is enough") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {-1, 3, 4});
  CHECK(regroup(x, "a b c -> a b c").is(x));
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
