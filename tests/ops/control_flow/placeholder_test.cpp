// Placeholder: fed, or an error that says that it was not.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs attrs(DType dtype, Shape shape) { return {{"dtype", dtype}, {"shape", shape}}; }

OpCases cases() {
  return table_of(
      "Placeholder",
      {Case("fed", {vector({1, 2})}, {vector({1, 2})})
           .as_typed()
           .made_by([](Graph&, const std::vector<Output>& in) { return in; })},
      {Refused({}, "was not fed; pass a f32[2, -1] tensor for it", attrs(DType::f32, {2, -1}))
           .made_by([](Graph& graph, const std::vector<Output>&) {
             const Output x = placeholder(graph, DType::f32, {2, -1});
             evaluate(x);
             return std::vector{x};
           }),
       Refused({}, "needs attribute dtype, a dtype", {{"shape", Shape{2}}})});
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Placeholder is what it is fed") { check(cases()); }

}  // namespace troupe
