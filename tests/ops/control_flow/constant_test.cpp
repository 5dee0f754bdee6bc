// Constant: a tensor stored in the graph.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCase of(std::string name, Tensor value) {
  return Case("Constant", std::move(name), {}, {value}, {{"value", value}});
}

OpCases cases() {
  return table_of(
      "Constant",
      {of("f64", matrix({{1, -2}, {3, 4}})), of("f32", f32(vector({0.5}))),
       of("i64", i64(vector({1, 2}))), of("bool", booleans(scalar(1))), of("u8", u8(vector({255}))),
       of("not finite", vector({NAN, INFINITY})), of("empty", zeros({0, 3}))},
      {Refused({}, "needs attribute value, a tensor"),
       Refused({}, "attribute value is an undefined tensor", {{"value", Tensor()}})});
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Constant gives its tensor") { check(cases()); }

TEST_CASE("a constant is not copied") {
  Graph graph;
  const Tensor value = vector({1, 2});
  CHECK(evaluate(constant(graph, value)).raw() == value.raw());
}

}  // namespace troupe
