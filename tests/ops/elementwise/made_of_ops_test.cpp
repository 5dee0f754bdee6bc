// Functions that are made of ops: log_add_exp2, nan_to_num, zeros_like and ones_like. Expected
// values are those of numpy 2.4.6.

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases log_add_exp2_cases() {
  OpCases all =
      binary_cases("LogAddExp", {},
                   {
                       Case("same shape", {vector({0, 1, -3, 0.1}), vector({0, 2, 0.5, 0.1})},
                            {vector({1, 2.584962500721156, 0.6221934162022744, 1.1})}),
                       Case("size one", {vector({0}), vector({0})}, {vector({1})}),
                       Case("rows with a row", {matrix({{1, 2}, {-3, 0.5}}), vector({2, 1})},
                            {matrix({{2.584962500721156, 2.584962500721156},
                                     {2.0443941193584534, 1.771553303163612}})}),
                       Case("every element with a scalar", {scalar(1), vector({2, 0.5})},
                            {vector({2.584962500721156, 1.771553303163612})}),
                       Case("powers that no dtype holds",
                            {vector({5000, -5000, 50}), vector({5000, -5001, -50})},
                            {vector({5001, -4999.415037499279, 50})}),
                       Case("the greatest numbers",
                            {vector({1e300, 1e308, -1e308}), vector({1e300, -1e308, -1e308})},
                            {vector({1e300, 1e308, -1e308})})
                           .within(0)
                           .as_typed()
                           .rough(),
                       Case("infinities and NaN",
                            {vector({INFINITY, INFINITY, -INFINITY, -INFINITY, 1, NAN, -INFINITY}),
                             vector({INFINITY, -INFINITY, -INFINITY, 2, INFINITY, 1, NAN})},
                            {vector({INFINITY, INFINITY, -INFINITY, 2, INFINITY, NAN, NAN})})
                           .rough(),
                   });
  const BuildCase build = [](Graph&, const std::vector<Output>& x) {
    return std::vector{log_add_exp2(x[0], x[1])};
  };
  for (OpCase& c : all.values) c.build = build;
  for (OpError& e : all.errors) e.build = build;
  return all;
}

BuildCase replacing(const NanToNum& numbers) {
  return
      [=](Graph&, const std::vector<Output>& x) { return std::vector{nan_to_num(x[0], numbers)}; };
}

OpCases nan_to_num_cases() {
  const Tensor x = vector({1.5, NAN, INFINITY, -INFINITY});
  const auto to_ends = [&](DType dtype, double most) {
    return Case(detail::concat("the ends of ", dtype), {converted(x, dtype)},
                {converted(vector({1.5, 0, most, -most}), dtype)})
        .within(0)
        .as_typed()
        .rough()
        .made_by(replacing({}));
  };
  OpCases all = {
      .values = {to_ends(DType::f64, 1.7976931348623157e308),
                 to_ends(DType::f32, 3.4028234663852886e38), to_ends(DType::f16, 65504),
                 to_ends(DType::bf16, 0x1.FEp127),  // of its format: numpy has no bf16
                 Case("numbers of its own", {x}, {vector({1.5, 7, 100, -3})})
                     .as_typed()
                     .rough()
                     .made_by(replacing({.nan = 7, .positive = 100, .negative = -3})),
                 Case("some of its own", {f32(x)},
                      {f32(vector({1.5, -1, 3.4028234663852886e38, -INFINITY}))})
                     .as_typed()
                     .rough()
                     .made_by(replacing({.nan = -1, .negative = -INFINITY})),
                 Case("numbers stay", {matrix({{1.5, 0}, {-2, 1e3}})},
                      {matrix({{1.5, 0}, {-2, 1e3}})})
                     .as_typed()
                     .made_by(replacing({})),
                 Case("empty", {zeros({3, 0})}, {zeros({3, 0})}).as_typed().made_by(replacing({}))},
      .errors = {Refused({i32(zeros({2}))}, "nan_to_num made at ").made_by(replacing({})),
                 Refused({i32(zeros({2}))}, "wants floats, got i32").made_by(replacing({}))}};
  for (OpCase& c : all.values) c.op = "Where";
  for (OpError& e : all.errors) e.op = "Where";
  return all;
}

Output known_or_not(Graph& graph, const Tensor& tensor, bool known) {
  return placeholder(graph, tensor.dtype(),
                     known ? tensor.shape() : Shape(Ints(tensor.ndim(), -1)));
}

}  // namespace

TEST_CASE("log_add_exp2 adds in the domain of binary logarithms") { check(log_add_exp2_cases()); }

TEST_CASE("nan_to_num puts numbers where there are none") { check(nan_to_num_cases()); }

TEST_CASE("zeros and NaN have the signs that C and numpy give them") {
  Graph graph;
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    CAPTURE(dtype);
    const Output a = placeholder(graph, dtype, {4}), b = placeholder(graph, dtype, {4});
    const auto signs = [&](Output y, const Tensor& of_a, const Tensor& of_b) {
      return evaluate(signbit(y), {{a, converted(of_a, dtype)}, {b, converted(of_b, dtype)}});
    };
    const Tensor none = vector({0.0, -0.0, 6, -6});
    CHECK(!difference(signs(fmod(a, b), none, vector({-2, 2, -3, 3})),
                      booleans(vector({0, 1, 0, 1}))));
    CHECK(!difference(
        signs(copysign(a, b), vector({0.0, -0.0, NAN, -NAN}), vector({-0.0, 0.0, -1, 1})),
        booleans(vector({1, 0, 1, 0}))));
    CHECK(!difference(
        signs(heaviside(a, b), vector({0.0, -0.0, -0.0, -1}), vector({-0.0, -0.0, 0.0, -1})),
        booleans(vector({1, 1, 0, 0}))));
    CHECK(!difference(signs(nan_to_num(a), vector({-0.0, 0.0, -INFINITY, -NAN}), none),
                      booleans(vector({1, 0, 1, 0}))));
  }
}

TEST_CASE("what nan_to_num replaces gets no gradient, not even a NaN") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {5}), dy = placeholder(graph, DType::f64, {5});
  const auto slopes = gradients({nan_to_num(x)}, {x}, {dy});
  const FedValues feeds = {{x, vector({2, NAN, INFINITY, -INFINITY, -0.0})},
                           {dy, vector({3, NAN, INFINITY, 4, 5})}};
  CHECK(!difference(evaluate(slopes[0], feeds), vector({3, 0, 0, 0, 5})));
}

TEST_CASE("zeros_like and ones_like have the shape and dtype of a value") {
  for (const Tensor& x :
       {matrix({{NAN, 2, 3}, {4, INFINITY, 6}}), f32(vector({1, 2})),
        converted(vector({1, 2}), DType::bf16), i32(vector({7, -8})), i64(scalar(9)),
        u8(vector({255, 3})), converted(vector({-128, 3}), DType::i8), booleans(vector({1, 0, 1})),
        zeros({3, 0})})
    for (const bool known : {true, false}) {
      CAPTURE(x);
      CAPTURE(known);
      Graph graph;
      const Output in = known_or_not(graph, x, known);
      const Output none = zeros_like(in), one = ones_like(in);
      CHECK(none.dtype() == x.dtype());
      CHECK(none.shape() == in.shape());
      CHECK(!difference(evaluate(none, {{in, x}}), zeros(x.shape(), x.dtype())));
      CHECK(!difference(evaluate(one, {{in, x}}), converted(full(x.shape(), 1), x.dtype())));
    }
}

TEST_CASE("zeros_like and ones_like are constant, and refuse what is no value") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {-1});
  const auto slopes = gradients({ones_like(x) * x + zeros_like(x)}, {x});
  CHECK(!difference(evaluate(slopes[0], {{x, vector({2, 5})}}), vector({1, 1})));
  CHECK_THROWS_WITH_AS(zeros_like(Output{}), doctest::Contains("its inputs are undefined Outputs"),
                       Error);
  CHECK_THROWS_WITH_AS(ones_like(Output{}), doctest::Contains("ones_like made at "), Error);
  CHECK_THROWS_WITH_AS(nan_to_num(Output{}), doctest::Contains("nan_to_num made at "), Error);
}

}  // namespace troupe
