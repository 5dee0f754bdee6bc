// ConvolutionTranspose: values from the definition in NumPy. They agree with ONNX's reference
// evaluator, which has none for groups.

#include "ops/gradients.hpp"
#include "tests/support/op_cases.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

BuildCase transposed(const ConvolutionOptions& options, Ints output_padding = {}) {
  return [=](Graph&, const std::vector<Output>& in) {
    return std::vector{convolution_transpose(in[0], in[1], options, output_padding)};
  };
}

std::vector<OpCase> values_by_definition() {
  return {
      Case("ConvolutionTranspose", "1d, strides", {waves({2, 3, 2}, 0.5), waves({3, 1, 2}, 0.2)},
           {values({2, 6, 1}, {0.8603273687499962, -0.8850408359241579, 0.1169786749496996,
                               0.829733255708569, -0.3114200734971768, -0.7193283879600739,
                               -0.3467652842456579, 0.5611575149932246, -0.6267261911597617,
                               -0.36572375453559025, 0.726653444280571, 0.14600461474354018})})
          .made_by(transposed({.strides = {2}})),
      Case("ConvolutionTranspose", "2d, valid",
           {waves({1, 2, 3, 1}, 0.5), waves({3, 2, 2, 1}, 0.2)},
           {values({1, 5, 4, 2}, {0.0952471509205588,   0.4536804292207432,   -0.05153216237295377,
                                  0.3660699510785011,   -0.49441422960910864, -1.3237184107983833,
                                  0.30435058564529016,  0.5724053821522024,   0.31497615394649886,
                                  0.31784438021016453,  0.13429015160960045,  0.32043576049797207,
                                  -1.1211478728785835,  -0.8195061590936015,  0.56935103111387,
                                  0.3092523096697749,   0.3270184841023512,   -0.49838189104043473,
                                  0.7333392706815223,   1.521253059648726,    -1.7494923510577374,
                                  -0.4190377375882161,  0.5032632747324931,   -0.3776718159339685,
                                  -0.4147337213003821,  -0.4185103568867815,  1.0813046946940772,
                                  0.847660754776385,    -0.4332576229479581,  -0.10917479534964569,
                                  -0.34116259048261105, -0.18530803197679643, -0.5957235924246495,
                                  -0.13033603315283823, 1.4318631090086287,   0.14375734700457896,
                                  -0.45888589344829794, 0.12797036612931884,  -0.41084094515446967,
                                  0.02078012172076103})})
          .made_by(transposed({.strides = {2, 1}, .padding = Padding::valid})),
      Case(
          "ConvolutionTranspose", "strides wider than the filter, valid",
          {waves({1, 3, 1}, 0.5), waves({2, 1, 1}, 0.2)},
          {values({1, 8, 1}, {0.0952471509205588, 0.4536804292207432, 0.0, 0.16062343949705155,
                              0.7650802178294374, 0.0, -0.13663804258856962, -0.6508331767442307})})
          .made_by(transposed({.strides = {3}, .padding = Padding::valid})),
      Case("ConvolutionTranspose", "groups", {waves({1, 2, 2, 4}, 0.5), waves({2, 2, 1, 4}, 0.2)},
           {values({1, 4, 4, 2}, {0.8603273687499962,   0.829733255708569,   0.8509843923109865,
                                  0.8531984742784418,   0.558943433025769,   0.5611575149932246,
                                  0.8319473376760247,   0.8663912853293212,  0.6193600212540897,
                                  0.6538039689073869,   0.22595570389165412, 0.28363258521923135,
                                  0.88764242193174,     0.9453193032593191,  0.7114808502349669,
                                  0.7773251743364727,   0.11156066709024294, 0.14600461474354015,
                                  0.5956014626465231,   0.6532783439741014,  -0.3649623050457498,
                                  -0.30728542371817236, 0.2036814960711203,  0.2695258201726249,
                                  0.9240681666569013,   0.9899124907584081,  1.0111636273608258,
                                  1.0679765262885075,   0.7191226680756085,  0.7759355670032891,
                                  1.0467253896860893,   1.0796670490790323})})
          .made_by(transposed({.strides = {2}, .groups = 2})),
      Case("ConvolutionTranspose", "padding and output_padding",
           {waves({1, 2, 2, 1}, 0.5), waves({3, 3, 1, 1}, 0.2)},
           {values({1, 4, 3, 1}, {-0.39901026675093626, 0.31497615394649886, -0.35504085384398815,
                                  -0.5335191934007742, -0.8664056546107463, -0.037925653494778,
                                  0.5724053821522024, -0.4518531496361642, 0.06941486903249944,
                                  0.56935103111387, 0.3092523096697749, -0.1264627141307051})})
          .made_by(transposed(
              {.strides = {2}, .padding = Padding::given, .before = {1, 0}, .after = {1, 2}},
              {1, 0})),
      Case("ConvolutionTranspose", "dilations",
           {waves({1, 3, 2, 1}, 0.5), waves({2, 2, 1, 1}, 0.2)},
           {values({1, 5, 3, 1}, {0.0952471509205588, 0.6143038687177947, 0.7650802178294374,
                                  -0.13663804258856962, -0.7762464972435731, -0.5973676747727172,
                                  -0.04319992756611507, 0.12985709857317776, -0.282897475332274,
                                  0.30435058564529016, 0.8517537745807132, 0.5253826700632789,
                                  -0.3763355903547286, -0.8901615658032588, -0.34299279760534535})})
          .made_by(transposed({.dilations = {2, 1}, .padding = Padding::valid})),
      Case("ConvolutionTranspose", "3d", {waves({1, 2, 1, 2, 2}, 0.5), waves({2, 1, 2, 1, 2}, 0.2)},
           {values(
               {1, 4, 1, 4, 1},
               {0.8603273687499962, -0.8850408359241579, -0.7340057173612868, 0.829733255708569,
                0.8509843923109865, -0.7604195088750266, -0.8703635065229457, 0.8531984742784418,
                0.558943433025769, -0.7193283879600739, -0.3467652842456579, 0.5611575149932246,
                0.8319473376760247, -0.8893219768128757, -0.7382868582500046, 0.8663912853293212})})
          .made_by(transposed({.strides = {2, 1, 2}, .padding = Padding::valid})),
  };
}

OpError refused(const Shape& x, const Shape& filter, const BuildCase& build,
                const std::string& message) {
  return Refused("ConvolutionTranspose", {zeros(x), zeros(filter)}, message).made_by(build);
}

const Table table("ConvolutionTranspose goes back to the size of a convolution's images", [] {
  std::vector<OpCase> values = values_by_definition();
  const auto zero = [&](const std::string& name, const Shape& x, const Shape& filter,
                        const Shape& y) {
    values.push_back(Case("ConvolutionTranspose", name, {zeros(x), zeros(filter)}, {zeros(y)}));
  };
  zero("no images", {0, 2, 3}, {2, 4, 3}, {0, 2, 4});
  zero("no channels in", {1, 2, 0}, {2, 4, 0}, {1, 2, 4});
  zero("no channels out", {1, 2, 3}, {2, 0, 3}, {1, 2, 0});
  zero("no pixels", {1, 0, 3}, {2, 4, 3}, {1, 0, 4});
  const Shape x{1, 2, 2, 3}, f{2, 2, 4, 3};
  constexpr int64_t kHuge = int64_t{1} << 62;
  return OpCases{
      .values = std::move(values),
      .errors = {
          refused(x, {2, 2, 4, 2}, transposed({}),
                  "the images have 3 channels, but the filter takes 2: [1, 2, 2, 3] with"),
          refused({1, 2}, {2, 2}, transposed({}),
                  "wants images [batch, ..., in] with one to three"),
          refused(x, {2, 4, 3}, transposed({}), "a filter [..., out channels of a group, in]"),
          refused(x, f, transposed({.groups = 2}), "cannot cut the 3 channels out of the filter"),
          refused(x, f, transposed({.strides = {0}}), "wants strides of at least 1, got 0"),
          refused(x, f, transposed({.strides = {kHuge + 1}}), "would grow past 2^63"),
          refused(x, f, transposed({.strides = {kHuge / 2}}), "more than 2^59 elements"),
          refused(x, f,
                  transposed({.strides = {kHuge}, .dilations = {kHuge}, .padding = Padding::valid}),
                  "would grow past 2^63"),
          refused(x, f, transposed({.strides = {2}, .padding = Padding::valid}, {2}),
                  "wants output_padding of at least 0 and below the stride 2, got 2"),
          refused(x, f, transposed({.strides = {2}, .padding = Padding::valid}, {1, 1, 1}),
                  "wants one number or 2 for output_padding, got 3"),
          refused(x, f, transposed({.strides = {2}}, {1}),
                  "wants output_padding with Padding::valid or given alone"),
          refused(x, f, transposed({.padding = Padding::given, .before = {2}, .after = {1}}),
                  "dimension 1 of images [1, 2, 2, 3] grows to 3, which the padding 2 and 1 takes"),
          refused({1, 0, 3}, {2, 4, 3}, transposed({.padding = Padding::valid}),
                  "wants images of at least one pixel, got [1, 0, 3]"),
      }};
});

}  // namespace

TEST_CASE("a transpose of a convolution is its input gradient") {
  const ConvolutionOptions options{
      .strides = {2, 3}, .groups = 2, .padding = Padding::given, .before = {1}, .after = {0, 1}};
  for (const DType dtype : {DType::f32, DType::f64}) {
    Graph g;
    const Output x = constant(g, converted(waves({3, 5, 6, 4}, 0.1), dtype));
    const Output filter = constant(g, converted(waves({3, 3, 2, 6}, 0.2), dtype));
    const Output y = convolution(x, filter, options);
    const Output dx = convolution_input_gradient(y, filter, x, options);
    const Output same = convolution_transpose(y, filter, options, {1, 2});
    CHECK(same.shape() == x.shape());
    const auto got = evaluate(g, {dx, same});
    CHECK(same_bits(got[0], got[1]));
  }
}

TEST_CASE("a transpose to more channels than can be counted is refused") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {-1, -1, -1});
  const Output filter = placeholder(g, DType::f32, {-1, int64_t{1} << 62, -1});
  CHECK_THROWS_WITH_AS(convolution_transpose(x, filter, {.groups = 3}),
                       doctest::Contains("3 groups of 4611686018427387904 channels are past 2^63"),
                       Error);
}

}  // namespace troupe
