// CheckFinite: passes finite values on.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return table_of(
      "CheckFinite",
      {Case("finite", {matrix({{1, -2}, {0, 1e30}})}, {matrix({{1, -2}, {0, 1e30}})}).rough(),
       Case("size one", {scalar(2)}, {scalar(2)}),
       Case("the greatest numbers",
            {vector({3.4028234663852886e38, -3.4028234663852886e38, 1e-45})},
            {vector({3.4028234663852886e38, -3.4028234663852886e38, 1e-45})})
           .rough(),
       Case("empty", {zeros({0})}, {zeros({0})})},
      {Refused({i32(vector({1}))}, "has no kernel for i32; cast to one of f32, f64")});
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("CheckFinite passes finite numbers on") { check(cases()); }

TEST_CASE("CheckFinite says what is not finite, how much of it, and where") {
  for (DType dtype : {DType::f32, DType::f64}) {
    Graph graph;
    const Output y = check_finite(
        constant(graph, converted(values({2, 3}, {1, 2, 3, 4, NAN, -INFINITY}), dtype)),
        "the loss");
    try {
      evaluate(y, {}, {.step = 12});
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      CHECK((error.code() == Errc::bad_data));
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(text.find("CheckFinite node CheckFinite made at ") == 0);
      CHECK(text.find("the loss: 2 of 6 elements are not finite, the first is nan at [1, 1] in "
                      "step 12") != text.npos);
    }
    // Outside a training there is no step to name.
    CHECK_THROWS_WITH_AS(evaluate(y), doctest::Contains("nan at [1, 1]; try"), Error);
  }
}

}  // namespace troupe
