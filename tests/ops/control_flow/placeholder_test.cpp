// Placeholder: fed, or an error that says that it was not.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs attrs(DType dtype, Shape shape) { return {{"dtype", dtype}, {"shape", shape}}; }

OpCases cases() {
  return {.values = {{.name = "fed",
                      .op = "Placeholder",
                      .inputs = {vector({1, 2})},
                      .expected = {vector({1, 2})},
                      .build = [](Graph&, const std::vector<Output>& in) { return in; },
                      .as_written = true}},
          .errors = {{.op = "Placeholder",
                      .attrs = attrs(DType::f32, {2, -1}),
                      .message = "was not fed; pass a f32[2, -1] tensor for it",
                      .build =
                          [](Graph& graph, const std::vector<Output>&) {
                            const Output x = placeholder(graph, DType::f32, {2, -1});
                            evaluate(x);
                            return std::vector{x};
                          }},
                     {.op = "Placeholder",
                      .attrs = {{"shape", Shape{2}}},
                      .message = "needs attribute dtype, a dtype"}}};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Placeholder is what it is fed") { check(cases()); }

}  // namespace troupe
