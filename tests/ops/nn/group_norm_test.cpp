// group_norm.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

BuildCase in_groups(int64_t groups, double epsilon = 1e-5) {
  return [=](Graph&, const std::vector<Output>& in) {
    return std::vector{group_norm(in[0], in[1], in[2], groups, epsilon)};
  };
}

const Table table("group_norm normalises groups of channels", [] {
  const Tensor x = matrix({{1, 2, 4, -1}, {-3, 0.5, 0, 2}}), images = waves({2, 2, 1, 4}, 0.5);
  const Tensor gamma = vector({2, -1, 0.5, 1}), beta = vector({0.25, 0, -1, 3});
  return table_of(
      "BiasAdd",
      {Case("two groups of two channels", {x, gamma, beta},
            {matrix(
                {{-1.7499600011999599, -0.9999800005999799, -0.50000039999952, 2.00000079999904},
                 {-1.7499967347018741, -0.9999983673509371, -1.49999750001875, 3.9999950000375}})})
           .made_by(in_groups(2)),
       Case("images", {images, gamma, beta},
            {values(
                {2, 2, 1, 4},
                {-1.3816106941540658, -0.8812137603974393, -1.1360241584591455, 2.9264147490154624,
                 2.4449990840650955, 1.1629079553529555, -1.608245307175581, 4.56212418225399,
                 2.3488756577831356, 0.6014845433645842, -1.567330863964275, 3.683211525935876,
                 2.009522176332579, 1.327714373693273, -1.4047986737901146, 4.261047549572902})})
           .slopes_within(1e-5)
           .made_by(in_groups(2)),
       Case("all channels together", {images, gamma, beta},
            {values(
                {2, 2, 1, 4},
                {1.640743939705294, -1.1866536012534314, -1.5235850725577624, 2.0371800053761753,
                 2.7485352935548457, -0.5948868692982751, -1.724287025700473, 2.7323841039585193,
                 2.7750299801991307, 0.23062409147772395, -1.7199198038981192, 3.3649009971697725,
                 2.4681094646507944, 0.8874460960091173, -1.558561775995014, 3.938562627678373})})
           .made_by(in_groups(1)),
       Case("each channel by itself", {images, gamma, beta},
            {values({2, 2, 1, 4}, {-0.2575147364069653, -0.2698812777625782, -0.9066132651024269,
                                   2.6872452559507884, 0.7575147364069655, 0.26988127776257814,
                                   -1.0933867348975732, 3.3127547440492116, 0.40811028143047834,
                                   -0.3214142411804675, -1.0822487477393332, 2.7157762571363575,
                                   0.09188971856952197, 0.3214142411804675, -0.9177512522606668,
                                   3.2842237428636425})})
           .made_by(in_groups(4, 0.5)),
       Case("NaN spreads in its group", {matrix({{NAN, 1, 2, 2}}), full({4}, 1), full({4}, 3)},
            {matrix({{NAN, NAN, 3, 3}})})
           .rough()
           .made_by(in_groups(2)),
       Case("no rows", {zeros({0, 2, 4}), gamma, beta}, {zeros({0, 2, 4})}).made_by(in_groups(2))},
      {Refused({x, gamma, beta}, "a dimension of size 4 is no multiple of 3").made_by(in_groups(3)),
       Refused({x, gamma, beta}, "wants groups >= 1, got 0").made_by(in_groups(0)),
       Refused({vector({1}), vector({1}), vector({1})}, "wants x [n, ..., channels], got [")
           .made_by(in_groups(1))});
});

}  // namespace

TEST_CASE("group_norm wants a gamma and a beta for each channel") {
  Graph graph;
  const Output x = constant(graph, zeros({2, 4})), gamma = constant(graph, zeros({3}));
  CHECK_THROWS_WITH_AS(group_norm(x, gamma, gamma, 2),
                       doctest::Contains("wants one gamma and one beta for each channel of [2, 4]"),
                       Error);
}

}  // namespace troupe
