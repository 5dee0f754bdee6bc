// Losses of predictions and labels: one op, and functions composed of other ops.
#include "tests/support/op_cases.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

using Inputs = std::vector<Output>;

// A case of a function that is not an op; it is listed under SigmoidCrossEntropy, whose kernels
// have the dtypes of all losses: f32 and f64.
OpCase function_case(const char* name, std::vector<Tensor> inputs, std::vector<Tensor> expected,
                     Output (*f)(const Inputs&), bool smooth = true) {
  return {.name = name,
          .op = "SigmoidCrossEntropy",
          .inputs = std::move(inputs),
          .expected = std::move(expected),
          .build = [f](Graph&, const Inputs& in) { return Inputs{f(in)}; },
          .smooth = smooth};
}

OpError refused(std::vector<Tensor> inputs, const char* message, Output (*f)(const Inputs&)) {
  return Refused("SigmoidCrossEntropy", std::move(inputs), message)
      .made_by([f](Graph&, const Inputs& in) { return Inputs{f(in)}; });
}

const Table table("SigmoidCrossEntropy is finite for all finite logits", [] {
  const Tensor x = vector({0, 0, 2, -1.5, 3}), z = vector({0, 1, 1, 0.25, 0});
  const Tensor loss = vector({0.69314718055994531, 0.69314718055994531, 0.1269280110429725,
                              0.57641327798275241, 3.0485873515737421});
  return table_of(
      "SigmoidCrossEntropy",
      {Case("logits and labels", {x, z}, {loss}),
       Case("one label for all", {matrix({{0, 3}, {3, 0}}), scalar(0)},
            {matrix({{0.69314718055994531, 3.0485873515737421},
                     {3.0485873515737421, 0.69314718055994531}})}),
       Case("a column and a row", {matrix({{0}, {2}}), vector({1, 1, 1})},
            {matrix({{0.69314718055994531, 0.69314718055994531, 0.69314718055994531},
                     {0.1269280110429725, 0.1269280110429725, 0.1269280110429725}})}),
       Case("size one", {vector({2}), vector({1})}, {vector({0.1269280110429725})}),
       Case("large logits", {vector({800, -800, 1e30, -1e30}), vector({0, 0.5, 1, 1})},
            {vector({800, 400, 0, 1e30})})
           .rough(),
       Case("NaN and infinity", {vector({NAN, 1, INFINITY, -INFINITY}), vector({0, NAN, -1, 1})},
            {vector({NAN, NAN, INFINITY, INFINITY})})
           .rough(),
       Case("empty", {zeros({0, 2}), zeros({0, 2})}, {zeros({0, 2})})},
      {Refused({zeros({2}), zeros({3})}, "shapes do not broadcast: [2] and [3]"),
       Refused({i32(zeros({2})), i32(zeros({2}))},
               "has no kernel for i32; cast to one of f32, f64"),
       Refused({zeros({2}), f32(zeros({2}))}, "inputs must have one dtype, got f64 and f32")});
});

}  // namespace

TEST_CASE("what SigmoidCrossEntropy makes of certain labels is small, not 0") {
  Graph graph;
  const Output x = constant(graph, vector({40, -40})), z = constant(graph, vector({1, 0}));
  const Tensor loss = evaluate(sigmoid_cross_entropy(x, z));
  for (const double v : loss.values<double>()) CHECK(std::abs(v - 4.248354255291589e-18) < 1e-32);
}

TEST_CASE("mean errors are over all elements") {
  const auto squared = [](const Inputs& in) { return mean_squared_error(in[0], in[1]); };
  const auto absolute = [](const Inputs& in) { return mean_absolute_error(in[0], in[1]); };
  const Tensor x = matrix({{1, 2}, {3, -4}}), z = matrix({{0, 4}, {3.5, -3}});
  check({.values = {function_case("squared", {x, z}, {scalar((1 + 4 + 0.25 + 1) / 4)}, squared),
                    function_case("squared, one label", {x, scalar(1)},
                                  {scalar((0. + 1 + 4 + 25) / 4)}, squared),
                    function_case("absolute", {x, z}, {scalar((1 + 2 + 0.5 + 1) / 4)}, absolute),
                    function_case("infinite", {vector({INFINITY, 0}), vector({0, 0})},
                                  {scalar(INFINITY)}, absolute, false),
                    function_case("of nothing", {zeros({0}), zeros({0})}, {scalar(NAN)}, absolute,
                                  false)},
         .errors = {
             refused({i32(zeros({2})), i32(zeros({2}))}, "mean_squared_error made at", squared),
             refused({i32(zeros({2})), i32(zeros({2}))}, "is of f32 or f64, got i32; cast it",
                     absolute),
             refused({x, vector({1, 2, 3})}, "shapes do not broadcast", squared)}});
}

TEST_CASE("a label may serve several predictions, a prediction not several labels") {
  using Loss = Output (*)(Output, Output);
  const std::vector<Loss> losses = {[](Output p, Output z) { return sigmoid_cross_entropy(p, z); },
                                    [](Output p, Output z) { return huber_loss(p, z); },
                                    [](Output p, Output z) { return hinge_loss(p, z); },
                                    [](Output p, Output z) { return log_loss(p, z); },
                                    [](Output p, Output z) { return mean_squared_error(p, z); },
                                    [](Output p, Output z) { return mean_absolute_error(p, z); }};
  struct Case {
    Shape predictions, labels;
    bool fits;
  };
  const std::vector<Case> cases = {
      {{5, 3}, {5, 3}, true},  {{5, 3}, {3}, true},    {{5, 3}, {5, 1}, true}, {{5, 3}, {}, true},
      {{-1, 3}, {5, 3}, true}, {{5}, {-1}, true},      {{5}, {1, 5}, true},    {{5, 1}, {5}, false},
      {{5}, {5, 1}, false},    {{-1, 1}, {-1}, false}, {{}, {5}, false},       {{1}, {-1}, false}};
  for (size_t k = 0; k < losses.size(); ++k)
    for (const Case& c : cases) {
      CAPTURE(k);
      CAPTURE(c.predictions);
      CAPTURE(c.labels);
      Graph graph;
      const Output p = placeholder(graph, DType::f32, c.predictions);
      const Output z = placeholder(graph, DType::f32, c.labels);
      const Refusal refusal = refusal_of([&] { losses[k](p, z); });
      CHECK((refusal.code == Errc::ok) == c.fits);
      if (!c.fits) has(refusal.text, "give both the same shape, as by squeeze()");
    }
}

TEST_CASE("the slope of an absolute error of 0 is 0") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {3});
  const Output dx = gradients({mean_absolute_error(x, x * 0 + 1)}, {x})[0];
  CHECK(!difference(evaluate(dx, {{x, vector({1, 2, 0})}}), vector({0, 1.0 / 3, -1.0 / 3})));
}

TEST_CASE("the Huber loss is a parabola in the middle and straight outside") {
  const auto one = [](const Inputs& in) { return huber_loss(in[0], in[1]); };
  const auto two = [](const Inputs& in) { return huber_loss(in[0], in[1], 2); };
  const Tensor x = vector({1, 2, 3, -4}), z = vector({0.5, 4, 3.25, -1});
  check({.values = {function_case("delta 1", {x, z}, {vector({0.125, 1.5, 0.03125, 2.5})}, one),
                    function_case("delta 2", {x, z}, {vector({0.125, 2, 0.03125, 4})}, two, false),
                    function_case("infinite", {vector({-INFINITY, NAN}), scalar(0)},
                                  {vector({INFINITY, NAN})}, one, false)},
         .errors = {refused({x, z}, "wants a delta above 0, got 0",
                            [](const Inputs& in) { return huber_loss(in[0], in[1], 0); })}});
}

TEST_CASE("the hinge loss counts what is on the wrong side, or too near") {
  const auto hinge = [](const Inputs& in) { return hinge_loss(in[0], in[1]); };
  check({.values = {function_case("both sides", {vector({2, 0.5, -1, -3}), vector({1, 1, 1, -1})},
                                  {vector({0, 0.5, 2, 0})}, hinge)}});
}

TEST_CASE("the log loss of probabilities") {
  const auto loss = [](const Inputs& in) { return log_loss(in[0], in[1]); };
  const auto half = [](const Inputs& in) { return log_loss(in[0], in[1], 0.5); };
  check({.values = {
             function_case("probabilities", {vector({0.9, 0.25, 0.5}), vector({1, 0, 0.3})},
                           {vector({0.10536040454672134, 0.28768193911845646, 0.6931469805599653})},
                           loss),
             function_case("certain and wrong", {vector({0}), vector({1})},
                           {vector({16.11809565095832})}, loss, false),
             function_case("another epsilon", {vector({0.25}), vector({1})},
                           {vector({0.2876820724517809})}, half)}});
}

TEST_CASE("the divergence of two distributions, where p may be 0") {
  const auto divergence = [](const Inputs& in) { return kl_divergence(in[0], in[1]); };
  const Tensor q = matrix({{0.25, 0.25, 0.5}, {0.5, 0.375, 0.125}});
  check({.values = {
             function_case("of each row", {matrix({{0.5, 0.25, 0.25}, {0, 0.5, 0.5}}), q},
                           {vector({0.17328679513998632, 0.8369882167858358})}, divergence, false),
             function_case("of themselves", {q, q}, {vector({0, 0})}, divergence),
             function_case(
                 "both 0; q 0 alone; not a number",
                 {matrix({{0, 1}, {0.5, 0.5}, {NAN, 1}}), matrix({{0, 1}, {0, 1}, {0.5, 0.5}})},
                 {vector({0, INFINITY, NAN})}, divergence, false)}});
  Graph graph;
  const Output p = constant(graph, vector({0, 1})), r = constant(graph, vector({0, 0.5}));
  const auto slopes = gradients({kl_divergence(p, r)}, {p, r});
  CHECK(!difference(evaluate(slopes[1]), vector({0, -2})));  // no NaN next to the 0
  CHECK(!difference(evaluate(slopes[0]), vector({0, 1 + std::log(2)})));
}

TEST_CASE("the cosine of rows, of columns, and of nothing") {
  const auto rows = [](const Inputs& in) { return cosine_similarity(in[0], in[1]); };
  const auto columns = [](const Inputs& in) { return cosine_similarity(in[0], in[1], 0); };
  const Tensor a = matrix({{1, 2, 3}, {0.5, -1, 2}}), b = matrix({{2, -1, 0.5}, {1, 1, -3}});
  check({.values = {function_case(
                        "rows", {a, b},
                        {vector({1.5 / std::sqrt(14 * 5.25), -6.5 / std::sqrt(5.25 * 11)})}, rows),
                    function_case("columns", {a, b},
                                  {vector({2.5 / std::sqrt(1.25 * 5), -3 / std::sqrt(5.0 * 2),
                                           -4.5 / std::sqrt(13 * 9.25)})},
                                  columns),
                    function_case("a zero", {vector({0, 0}), vector({1, 2})}, {scalar(0)}, rows,
                                  false)},
         .errors = {refused({a, b}, "axis 2 is not there",
                            [](const Inputs& in) { return cosine_similarity(in[0], in[1], 2); })}});
  Graph graph;
  const Output x = constant(graph, vector({0, 0})), y = constant(graph, vector({3, 4}));
  const Output dx = gradients({cosine_similarity(x, y)}, {x})[0];
  CHECK(!difference(evaluate(dx), vector({0.6e8, 0.8e8})));  // steep, but finite
}

TEST_CASE("the softmax cross entropy of labels that are probabilities") {
  const auto loss = [](const Inputs& in) {
    return softmax_cross_entropy_with_probabilities(in[0], in[1]);
  };
  const auto smooth = [](const Inputs& in) {
    return softmax_cross_entropy_with_probabilities(in[0], in[1], 0.1);
  };
  const Tensor x = matrix({{1, 2, 3}, {0.5, -1, 3}}), z = matrix({{0.2, 0.3, 0.5}, {1, 0, 0}});
  check({.values = {function_case("probabilities", {x, z},
                                  {vector({1.1076059644443803, 2.5956743294143823})}, loss),
                    function_case("with smoothing", {x, z},
                                  {vector({1.1376059644443803, 2.562340996081049})}, smooth),
                    function_case("labels that do not add up to 1",
                                  {vector({1, 2, 3}), vector({1, 2, 0.5})},
                                  {scalar(5.426620875555331)}, loss),
                    function_case("smoothing of labels that do not add up to 1",
                                  {vector({1, 2, 3}), vector({1, 2, 0.5})},
                                  {scalar(5.024719384444236)}, smooth),
                    function_case("large logits", {vector({1000, 0}), vector({0.5, 0.5})},
                                  {scalar(500)}, loss),
                    function_case("no rows", {zeros({0, 2}), zeros({0, 2})}, {zeros({0})}, loss)},
         .errors = {refused({x, z}, "wants a label_smoothing in [0, 1], got 1.5",
                            [](const Inputs& in) {
                              return softmax_cross_entropy_with_probabilities(in[0], in[1], 1.5);
                            }),
                    refused({x, zeros({3, 3})}, "shapes do not broadcast", loss)}});
}

TEST_CASE("a loss names its caller's line") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {2}), z = placeholder(graph, DType::f32, {3});
  const std::string here = "losses_test.cpp:" + std::to_string(__LINE__ + 1);
  CHECK_THROWS_WITH_AS(huber_loss(x, z), doctest::Contains(here.c_str()), Error);
  CHECK_THROWS_WITH_AS(hinge_loss({}, z), doctest::Contains("its first argument is undefined"),
                       Error);
}

}  // namespace troupe
