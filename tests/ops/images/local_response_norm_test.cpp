// WindowSum and local_response_norm.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs radius(int64_t value) { return {{"radius", value}}; }

BuildCase norm(LocalResponseNormOptions options) {
  return [=](Graph&, const std::vector<Output>& in) {
    return std::vector{local_response_norm(in[0], options)};
  };
}

const Table table("local_response_norm divides by sums over neighbouring channels", [] {
  const Tensor x = matrix({{1, 2, 4, -1, 3}, {-3, 0.5, 0, 2, 1}});
  const Tensor images = waves({2, 1, 2, 7}, 0.5);
  return table_of(
      "WindowSum",
      {Case("a window of three", {iota({2, 4}, 1)}, {matrix({{3, 6, 9, 7}, {11, 18, 21, 15}})},
            radius(1)),
       Case("a window of one", {x}, {x}, radius(0)),
       Case("a window beyond all channels", {iota({2, 3}, 1)}, {matrix({{6, 6, 6}, {15, 15, 15}})},
            radius(INT64_MAX)),
       Case("more than a vector register", {iota({37})},
            {vector({3,   6,   10,  15,  20,  25,  30,  35,  40,  45,  50,  55,  60,
                     65,  70,  75,  80,  85,  90,  95,  100, 105, 110, 115, 120, 125,
                     130, 135, 140, 145, 150, 155, 160, 165, 170, 138, 105})},
            radius(2)),
       Case("integers wrap around", {i32(vector({2147483647, 1}))},
            {i32(vector({-2147483648.0, -2147483648.0}))}, radius(1))
           .as_typed(),
       Case("NaN spreads in its window", {vector({NAN, 1, 2, INFINITY, 3})},
            {vector({NAN, NAN, INFINITY, INFINITY, INFINITY})}, radius(1))
           .rough(),
       Case("no channels", {zeros({2, 0})}, {zeros({2, 0})}, radius(1)),
       Case("Exp", "TensorFlow's parameters", {x},
            {matrix({{0.17677669529663687, 0.35355339059327373, 0.7071067811865475,
                      -0.17677669529663687, 0.5303300858899106},
                     {-0.7682212795973759, 0.12803687993289598, 0, 0.5121475197315839,
                      0.25607375986579195}})})
           .made_by(norm({})),
       Case(
           "Exp", "those of AlexNet", {images},
           {values({2, 1, 2, 7}, {0.28505363021052815,   0.480703201372312,    -0.4089102033312545,
                                  -0.3753193532373313,   0.505621830566965,    0.24502684114307668,
                                  -0.5687800160505772,   -0.09846501209000302, 0.5941486614140066,
                                  -0.054643828348618625, -0.5800484013469616,  0.20411949728807066,
                                  0.5274638267220685,    -0.3400533186517197,  -0.43985149197224443,
                                  0.4533819090553571,    0.3230053622332244,   -0.5366067774657917,
                                  -0.1847266435690045,   0.5842268984637511,   0.03418089342131393,
                                  -0.593033565322632,    0.11863755965106385,  0.5624430118475103,
                                  -0.2635754105954162,   -0.4945269951834535,  0.3910187512722858,
                                  0.3937852654335484})})
           .made_by(norm({.radius = 2, .bias = 2, .alpha = 1e-4, .beta = 0.75})),
       Case("Exp", "of strong neighbours", {images},
            {values({2, 1, 2, 7}, {0.25949448562579497,  0.3368894653768556,   -0.2659104190306607,
                                   -0.2371291962687449,  0.3655060375576515,   0.14260292541057815,
                                   -0.4579992117742713,  -0.08201618218437981, 0.49246934917221585,
                                   -0.03016070865708415, -0.4688927706389028,  0.1167371098110767,
                                   0.3927257058796625,   -0.2694145821428121,  -0.3457091881880319,
                                   0.3081061430894864,   0.19642053125071784,  -0.40482373573143937,
                                   -0.10490327292189802, 0.4756909090167315,   0.02946727758307513,
                                   -0.4914879774690905,  0.06614093653185796,  0.44148077591690676,
                                   -0.15480590608204414, -0.3524713701667511,  0.2502802577290589,
                                   0.3614388311175056})})
           .made_by(norm({.radius = 1, .bias = 0.5, .alpha = 2, .beta = 0.75})),
       Case("Exp", "empty", {zeros({0, 3})}, {zeros({0, 3})}).made_by(norm({}))},
      {Refused({scalar(1)}, "wants x [..., channels], got a scalar", radius(1)),
       Refused({x}, "wants radius >= 0, got -1", radius(-1)),
       Refused({u8(vector({1}))}, "has no kernel for u8; cast to one of f32, f64, i32, i64",
               radius(1)),
       Refused("Exp", {x}, "wants bias > 0 and alpha >= 0, got 0 and 1")
           .made_by(norm({.bias = 0}))});
});

}  // namespace
}  // namespace troupe
