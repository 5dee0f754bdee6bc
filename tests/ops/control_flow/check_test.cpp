// Check passes its first input on where the second one is true, CheckFinite finite values.
#include "troupe/ops/control_flow.hpp"

#include "tests/support/op_cases.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

const Table table("Check passes on what its condition holds for", [] {
  return table_of("Check",
                  {Case("all of a matrix holds",
                        {matrix({{1, -2}, {0, 3}}), booleans(matrix({{1, 1}, {1, 1}}))},
                        {matrix({{1, -2}, {0, 3}})}),
                   Case("one condition for many elements", {vector({1, 2, 3}), booleans(scalar(1))},
                        {vector({1, 2, 3})}),
                   Case("many conditions for one element", {scalar(2), booleans(vector({1, 1, 1}))},
                        {scalar(2)}),
                   Case("no condition at all", {vector({5}), booleans(zeros({0}))}, {vector({5})}),
                   Case("empty", {zeros({0, 2}), booleans(scalar(1))}, {zeros({0, 2})}),
                   Case("extreme", {vector({INFINITY, -INFINITY, 1e300}), booleans(scalar(1))},
                        {vector({INFINITY, -INFINITY, 1e300})})
                       .rough()},
                  {Refused({scalar(1), f32(scalar(1))},
                           "wants a bool condition, got f32; compare it with something"),
                   Refused({scalar(1)}, "wants 2 inputs (x, condition), got 1")});
});

const Table finite_table("CheckFinite passes finite numbers on", [] {
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
});

std::string failure(const std::function<void()>& run) { return error_text(Errc::bad_data, run); }

}  // namespace

TEST_CASE("Check says what does not hold, how much of it, and where") {
  Graph graph;
  const Output x = constant(graph, i32(values({2, 3}, {1, 2, 3, 4, 9, 9})));
  const Output y = check(x, less(x, constant(graph, i32(scalar(9)))), "ids are below 9");
  const std::string text = failure([&] { evaluate(y, {}, {.step = 12}); });
  CAPTURE(text);
  CHECK(text.find("Check node Check made at ") == 0);
  CHECK(text.find("ids are below 9: 2 of 6 elements do not hold, the first is at [1, 1] in step "
                  "12") != text.npos);
  // Outside a training there is no step to name.
  CHECK(failure([&] { evaluate(y); }).find("at [1, 1]") != text.npos);
  CHECK(failure([&] { evaluate(y); }).find("step") == text.npos);
}

TEST_CASE("what comes after a Check that did not hold does not run") {
  Graph graph;
  const Output x = constant(graph, f32(vector({1, -1, 2})));
  const Output positive = check(x, greater(x, fill(graph, {}, 0)), "x is positive");
  const std::string text = failure([&] { evaluate(sqrt(positive)); });
  CHECK(text.find("x is positive: 1 of 3 elements do not hold, the first is at [1]") !=
        std::string::npos);
  const Output one = check(x, greater(reduce_sum(x), fill(graph, {}, 3)), "the sum is large");
  CHECK(failure([&] { evaluate(one); }).find("1 of 1 element does not hold, the first is at []") !=
        std::string::npos);
}

TEST_CASE("CheckFinite says what is not finite, how much of it, and where") {
  for (DType dtype : {DType::f32, DType::f64}) {
    Graph graph;
    const Output y = check_finite(
        constant(graph, converted(values({2, 3}, {1, 2, 3, 4, NAN, -INFINITY}), dtype)),
        "the loss");
    const std::string text = failure([&] { evaluate(y, {}, {.step = 12}); });
    CAPTURE(text);
    CHECK(text.find("CheckFinite node CheckFinite made at ") == 0);
    CHECK(text.find("the loss: 2 of 6 elements are not finite, the first is nan at [1, 1] in "
                    "step 12") != text.npos);
    // Outside a training there is no step to name.
    CHECK_THROWS_WITH_AS(evaluate(y), doctest::Contains("nan at [1, 1]; try"), Error);
  }
}

}  // namespace troupe
