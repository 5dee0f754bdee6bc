// Optimizers as settings and as text, their refusals, and the rates of their schedules against
// values that NumPy computed.
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "graph/optimizer.hpp"
#include "tests/support/optimizers.hpp"

namespace troupe {
namespace {

TEST_CASE("an optimizer's text reads back with the same bits") {
  for (const Optimizer& optimizer : every_optimizer(0.1 + 0.2)) {
    const std::string text = describe(optimizer);
    CAPTURE(text);
    const Optimizer read = optimizer_from_text(text);
    CHECK(describe(read) == text);
    CHECK(read.learning_rate == 0.1 + 0.2);
  }
  const Optimizer exact = adamw(1e-300, 1.0 / 3, 0.1, 0.7, 5e-324)
                              .with({.kind = "polynomial",
                                     .warm_up = 7,
                                     .period = int64_t{1} << 53,
                                     .end = 0.1 + 0.7,
                                     .power = 1e9});
  CHECK(optimizer_from_text(describe(exact)) == exact);
}

TEST_CASE("an optimizer's text has what counts for its kind") {
  CHECK(describe(sgd(0.01)) == "sgd(learning rate 0.01)");
  CHECK(describe(adam()) == "adam(learning rate 0.001, beta1 0.9, beta2 0.999, epsilon 1e-08)");
  CHECK(describe(rmsprop(1, 0.5, 0, 0.25, true)) ==
        "rmsprop(learning rate 1, rho 0.5, momentum 0, epsilon 0.25, centered 1)");
  CHECK(describe(ftrl()) == "ftrl(learning rate 0.1, l1 0, l2 0, beta 1)");
  CHECK(describe(momentum(2).with(cosine_decay(100'000, 0.1, 50))) ==
        "momentum(learning rate 2, schedule cosine, period 100000, end 0.1, warm-up 50, momentum "
        "0.9)");
  CHECK(describe(sgd(2).with(piecewise_decay({32'000, 48'000}, 0.5, 400))) ==
        "sgd(learning rate 2, schedule piecewise, boundaries 32000;48000, factor 0.5, warm-up "
        "400)");
  CHECK(describe(sgd(2).with(constant_rate(3))) == "sgd(learning rate 2, warm-up 3)");
}

TEST_CASE("what a text leaves out has its default, so that older texts can be read") {
  CHECK(optimizer_from_text("adam") == Optimizer{.kind = "adam"});
  CHECK(optimizer_from_text("sgd()") == sgd(0.01));
  CHECK(optimizer_from_text("sgd(learning rate 1, schedule step)") ==
        sgd(1).with({.kind = "step"}));
}

TEST_CASE("a text that is no optimizer is refused with what is right") {
  const auto refused = [](const char* text, const char* message) {
    CHECK_THROWS_WITH_AS(optimizer_from_text(text), doctest::Contains(message), Error);
  };
  refused("", "there is no optimizer ''; known are sgd, momentum, nesterov, adagrad, adadelta, ");
  refused("lion(learning rate 1)", "there is no optimizer 'lion'");
  refused("sgd(learning rate 1", "the optimizer \"sgd(learning rate 1\" does not end with ')'");
  refused("sgd(", "does not end with ')'");
  refused("sgd(beta1 1)", "optimizer sgd has no setting 'beta1'; it has learning rate and warm-up");
  refused("sgd(period 2)", "no setting 'period'");
  refused("sgd(learning rate)", "optimizer sgd has no setting 'learning'");
  refused("sgd(learning rate x)", "has learning rate 'x'; wants a finite number from 0");
  refused("sgd(learning rate 1x)", "has learning rate '1x'");
  refused("sgd(learning rate 1,learning rate 2)", "has no setting 'learning rate 1,learning rate'");
  refused("sgd(learning rate 1, learning rate 1)", "has 'learning rate' twice");
  refused("sgd(learning rate 1, )", "has no setting ''");
  refused(
      "sgd(schedule linear)",
      "there is no schedule 'linear'; known are constant, step, piecewise, exponential, polynomial "
      "and cosine");
  refused("sgd(schedule piecewise)", "has boundaries ''; wants whole numbers from 1");
  refused("sgd(schedule piecewise, boundaries 1;)", "has boundaries '1;'; wants whole numbers");
  refused("sgd(schedule piecewise, boundaries 1, 2)", "has no setting '2'");
  refused("sgd(schedule piecewise, boundaries 1.5)", "has boundaries '1.5'");
  refused("sgd(schedule step, boundaries 1)", "has no setting 'boundaries'");
  refused("sgd(warm-up 1.5)", "has warm-up 1.5; wants a whole number from 0");
  refused("sgd(schedule step, period 1e300)", "wants a whole number from 1");
}

TEST_CASE("settings that cannot work are refused with what is right") {
  struct Case {
    Optimizer optimizer;
    const char* message;
  };
  const std::vector<Case> cases = {
      {{.kind = "lion"}, "there is no optimizer 'lion'"},
      {sgd(NAN), "optimizer sgd has learning rate nan; wants a finite number from 0"},
      {sgd(-1), "optimizer sgd has learning rate -1; wants a finite number from 0"},
      {momentum(1, 1), "optimizer momentum has momentum 1; wants a number in [0, 1)"},
      {nesterov(1, -0.5), "optimizer nesterov has momentum -0.5; wants a number in [0, 1)"},
      {adagrad(1, 0), "optimizer adagrad has epsilon 0; wants a positive number"},
      {adadelta(1, 1), "optimizer adadelta has rho 1; wants a number in [0, 1)"},
      {adadelta(1, 0.9, -1), "optimizer adadelta has epsilon -1; wants a positive number"},
      {rmsprop(1, 0.9, 2), "optimizer rmsprop has momentum 2; wants a number in [0, 1)"},
      {rmsprop(1, 0.9, 0, INFINITY), "optimizer rmsprop has epsilon inf; wants a positive number"},
      {adam(1, -0.1), "optimizer adam has beta1 -0.1; wants a number in [0, 1)"},
      {adam(1, 0.9, 1), "optimizer adam has beta2 1; wants a number in [0, 1)"},
      {adam(1, 0.9, 0.9, 0), "optimizer adam has epsilon 0; wants a positive number"},
      {adamw(1, -1), "optimizer adamw has weight decay -1; wants a finite number from 0"},
      {ftrl(0), "optimizer ftrl has learning rate 0; wants a positive number"},
      {ftrl(1, -1), "optimizer ftrl has l1 -1; wants a finite number from 0"},
      {ftrl(1, 0, 0, -1), "optimizer ftrl has beta -1; wants a finite number from 0"},
      {ftrl(1).with(step_decay(2)), "optimizer ftrl has a schedule; wants none: its rate falls"},
      {ftrl(1).with(constant_rate(2)), "optimizer ftrl has a schedule"},
      {sgd(1).with({.kind = "linear"}), "there is no schedule 'linear'"},
      {sgd(1).with(constant_rate(-1)), "has warm-up -1; wants a whole number from 0"},
      {sgd(1).with(step_decay(0)), "optimizer sgd has period 0; wants a whole number from 1"},
      {sgd(1).with(step_decay(5, 0)), "optimizer sgd has factor 0; wants a number in (0, 1]"},
      {sgd(1).with(piecewise_decay({})),
       "has boundaries ''; wants whole numbers from 1, each above"},
      {sgd(1).with(piecewise_decay({0, 1})), "has boundaries '0;1'; wants whole numbers from 1"},
      {sgd(1).with(piecewise_decay({3, 3})), "has boundaries '3;3'; wants whole numbers from 1"},
      {sgd(1).with(piecewise_decay({1}, 2)), "has factor 2; wants a number in (0, 1]"},
      {sgd(1).with(exponential_decay(5, 2)), "has factor 2; wants a number in (0, 1]"},
      {sgd(1).with(cosine_decay(5, 1.5)), "has end 1.5; wants a number in [0, 1]"},
      {sgd(1).with(polynomial_decay(5, 0, 0)), "has power 0; wants a positive number"},
  };
  for (const Case& c : cases) {
    CHECK_THROWS_WITH_AS(check_optimizer(c.optimizer), doctest::Contains(c.message), Error);
    CHECK_THROWS_WITH_AS(optimizer_from_text(describe(c.optimizer)), doctest::Contains(c.message),
                         Error);
  }
  for (const Optimizer& optimizer : every_optimizer()) CHECK_NOTHROW(check_optimizer(optimizer));
  CHECK_NOTHROW(check_optimizer(sgd(0)));
}

TEST_CASE("schedules have the rates of their formulas") {
  struct Case {
    Schedule schedule;
    std::vector<double> rates;  // from update 1, for a base rate of 2
  };
  const std::vector<Case> cases = {
      {constant_rate(4), {0.5, 1.0, 1.5, 2.0, 2.0, 2.0}},
      {step_decay(3, 0.5), {2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 0.5, 0.5}},
      {step_decay(2, 0.1, 2),
       {1.0, 2.0, 2.0, 2.0, 0.2, 0.2, 0.020000000000000004, 0.020000000000000004}},
      {piecewise_decay({2, 3}, 0.5, 1), {2.0, 2.0, 2.0, 1.0, 0.5, 0.5}},
      {exponential_decay(4, 0.5, 1),
       {2.0, 2.0, 1.681792830507429, 1.4142135623730951, 1.189207115002721, 1.0,
        0.8408964152537145}},
      {polynomial_decay(4), {2.0, 1.5, 1.0, 0.5, 0.0, 0.0}},
      {polynomial_decay(5, 0.1, 2, 1),
       {2.0, 2.0, 1.3520000000000003, 0.8480000000000001, 0.4880000000000001, 0.27199999999999996,
        0.2, 0.2}},
      {cosine_decay(4), {2.0, 1.7071067811865475, 1.0, 0.29289321881345254, 0.0, 0.0}},
      {cosine_decay(6, 0.2, 3),
       {0.6666666666666666, 1.3333333333333333, 2.0, 2.0, 1.8928203230275513, 1.6,
        1.2000000000000002, 0.8000000000000003, 0.507179676972449, 0.4, 0.4}},
  };
  for (const Case& c : cases) {
    const Optimizer optimizer = sgd(2).with(c.schedule);
    CAPTURE(describe(optimizer));
    for (size_t i = 0; i < c.rates.size(); ++i)
      CHECK(learning_rate_at(optimizer, static_cast<int64_t>(i) + 1) ==
            doctest::Approx(c.rates[i]).epsilon(1e-14));
  }
}

TEST_CASE("a schedule that has ended stays where it is, however long the training is") {
  const int64_t last = INT64_MAX;
  CHECK(learning_rate_at(sgd(2), last) == 2);
  CHECK(learning_rate_at(sgd(2).with(cosine_decay(10, 0.25)), last) == 0.5);
  CHECK(learning_rate_at(sgd(2).with(polynomial_decay(10, 0.25)), last) == 0.5);
  CHECK(learning_rate_at(sgd(2).with(polynomial_decay(10)), last) == 0);
  CHECK(learning_rate_at(sgd(2).with(step_decay(10)), last) == 0);
  CHECK(learning_rate_at(sgd(2).with(exponential_decay(10, 1)), last) == 2);
}

}  // namespace
}  // namespace troupe
