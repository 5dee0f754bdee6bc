// Convolutions of one to three dimensions with strides, dilations, groups and padding: values from
// the definition in NumPy, which agree with ONNX's reference evaluator.

#include <random>

#include "ops/gradients.hpp"
#include "tests/support/op_cases.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

BuildCase convolved(const ConvolutionOptions& options) {
  return [=](Graph&, const std::vector<Output>& in) {
    return std::vector{convolution(in[0], in[1], options)};
  };
}

std::vector<OpCase> values_by_definition() {
  return {
      Case("Convolution", "1d, strides", {waves({2, 7, 2}, 0.5), waves({3, 2, 2}, 0.2)},
           {values(
               {2, 4, 2},
               {-0.37405076232326717, -0.2195254855056949, -0.3774082864815909, 0.04719054237309997,
                -0.6470997172476154, -0.24772396119576545, 0.7105549628484623, -0.363641747729769,
                0.2951529589524211, -0.7666733826118923, 0.5383605175038908, 0.579030355852968,
                0.2116058197243218, 0.4579761097273818, 0.1638021919246075, 0.4109506790402254})})
          .made_by(convolved({.strides = {2}})),
      Case("Convolution", "1d, dilations, valid", {waves({1, 7, 2}, 0.5), waves({3, 2, 1}, 0.2)},
           {values({1, 1, 1}, {1.625166379814341})})
          .made_by(convolved({.dilations = {3}, .padding = Padding::valid})),
      Case("Convolution", "a stride and a dilation for each dimension",
           {waves({1, 5, 6, 1}, 0.5), waves({2, 3, 1, 1}, 0.2)},
           {values({1, 3, 6, 1}, {0.7920460053834935, 0.8746974725618103, -0.12602258335752492,
                                  -0.3140624614274833, -0.8045356738328538, 0.5666188247591488,
                                  1.0008728711361023, -0.8943607949638436, -0.33557171513986817,
                                  0.16146096843491164, 0.45038045289086515, 0.7490570470536659,
                                  -0.710536851864537, -1.0801915950090688, 0.9008168932186899,
                                  0.6601173141756189, -0.6531873756314139, -0.2931710577394544})})
          .made_by(convolved({.strides = {2, 1}, .dilations = {1, 2}})),
      Case(
          "Convolution", "two groups", {waves({1, 2, 3, 4}, 0.5), waves({2, 2, 2, 4}, 0.2)},
          {values({1, 2, 3, 4}, {2.793474874474743,   1.0495732881835134,    2.946786997263361,
                                 1.0391819025167504,  2.0082713482015064,    2.428070316090527,
                                 2.146225312504561,   2.343312892601714,     -0.16680246934547288,
                                 1.8140093274421112,  -0.061355443649523334, 1.77956261576294,
                                 -0.5748391232434003, 0.846861553801556,     -0.8840022659555635,
                                 0.7851273457497192,  -1.4121631778504131,   0.2307891315777159,
                                 -1.7315568578917233, 0.33512647002722284,   -0.6438783055492415,
                                 -0.6068661653566383, -0.8714346548038251,   -0.5914425592972161})})
          .made_by(convolved({.groups = 2})),
      Case("Convolution", "a group for each channel, two channels from each",
           {waves({1, 3, 3, 3}, 0.5), waves({2, 2, 1, 6}, 0.2)},
           {values({1, 2, 2, 6}, {0.014874366462779731, 1.5495966027990078,  1.1281368030192087,
                                  -0.4644395854583846,  -0.5261307611324938, -1.4269676897135182,
                                  1.0988532097737207,   0.237119204219306,   0.17542802854519363,
                                  -1.5784680714172383,  -1.2036440542906581, -0.03479928154726841,
                                  -0.4821373578684707,  -1.2730390538837837, -0.9279976063934403,
                                  1.0275186333288877,   0.9135305911319437,  1.093636634066152,
                                  -1.1802841255530396,  0.40798418372466394, 0.29399614152772274,
                                  1.5055703589415728,   1.0743590256794875,  -0.5739203693538886})})
          .made_by(convolved({.groups = 3, .padding = Padding::valid})),
      Case("Convolution", "a group for each channel, one channel from each",
           {waves({1, 3, 3, 2}, 0.5), waves({2, 2, 1, 2}, 0.2)},
           {values({1, 2, 2, 2}, {-1.0561534118001257, 1.2219980973755933, -0.47201753665023327,
                                  0.6175949927573243, 0.5036181399438178, -1.17586586870774,
                                  0.10793221364360972, -0.8540875048919785})})
          .made_by(convolved({.strides = {2}, .groups = 2})),
      Case("Convolution", "padding that is given, uneven",
           {waves({1, 3, 4, 1}, 0.5), waves({2, 2, 1, 2}, 0.2)},
           {in_rows({1, 3, 5, 2}, {{-0.3543185692959205, -0.04569397785265744, 1.100522333535675,
                                    0.8452605480342625, 0.07072608224525123, -0.1721203578662076,
                                    -0.4147337213003821, -0.4185103568867815, 0.0, 0.0},
                                   {-0.044966163769929623, 0.15930047480160722, 1.5276581347531084,
                                    2.04085598439591, -0.348694515887488, -0.6852065892805796,
                                    -0.2342130444607568, -0.7071581474680777, 0.0, 0.0},
                                   {0.7192006192147158, 1.1656125093183953, 1.2524733174673202,
                                    1.563920282812943, -1.041949201630146, -1.568617545233491,
                                    0.19265283666158273, 0.07089598828730845, 0.0, 0.0}})})
          .made_by(convolved({.padding = Padding::given, .before = {1, 0}, .after = {0, 2}})),
      Case("Convolution", "padding wider than the filter",
           {waves({1, 2, 1}, 0.5), waves({2, 1, 1}, 0.2)},
           {values({1, 4, 1}, {0.0, 0.0, 0.8603273687499962, 0.0})})
          .made_by(
              convolved({.strides = {2}, .padding = Padding::given, .before = {4}, .after = {3}})),
      Case("Convolution", "3d", {waves({1, 2, 3, 2, 2}, 0.5), waves({2, 2, 1, 2, 2}, 0.2)},
           {values(
               {1, 2, 2, 2, 2},
               {2.7142597692269077, -0.33646755975909504, -3.0025495592827043, -0.1770732045665262,
                1.2877932666057652, 0.9837137455892242, -1.1005260904846874, -1.1200658546084798,
                1.5334232155330823, 2.081518792653402, -1.5019800604225222, -1.9825194881061625,
                0.45280494669415783, 0.8845303914631315, -0.378987487719734, -0.5985110318899385})})
          .made_by(convolved({.strides = {1, 2, 1}})),
      Case("Convolution", "3d, groups and dilations",
           {waves({1, 3, 2, 3, 2}, 0.5), waves({2, 1, 2, 1, 2}, 0.2)},
           {in_rows({1, 2, 3, 3, 2},
                    {{0.0, 0.0, 0.0, 0.0, 0.0, 0.0},
                     {-0.7344124845001426, 0.257164920722305, 1.1952589012935668,
                      -0.7220515850498217, -0.9357625954160003, 0.9113841799928555},
                     {0.2572034364741754, -0.4418316371631573, -0.2517136085815542,
                      1.0999380829028922, -0.12741574692114202, -1.0866387301242761},
                     {0.0, 0.0, 0.0, 0.0, 0.0, 0.0},
                     {0.1548337221164104, -0.29887982996728274, -0.43608039521246916,
                      0.44121848899417376, 0.6048063455790265, -0.2994472101904676},
                     {-0.3581286225712718, 0.04538017306150943, 0.8132371077456269,
                      0.03301395913024774, -0.8391013634937287, -0.20162722621006712}})})
          .made_by(convolved({.dilations = {2, 1, 1},
                              .groups = 2,
                              .padding = Padding::given,
                              .before = {1},
                              .after = {0}})),
  };
}

OpError refused(const Shape& x, const Shape& filter, const ConvolutionOptions& options,
                const std::string& message) {
  return Refused("Convolution", {zeros(x), zeros(filter)}, message).made_by(convolved(options));
}

std::vector<OpError> refusals() {
  const Shape x{1, 3, 4, 6}, f{2, 2, 6, 4};
  constexpr int64_t kHuge = int64_t{1} << 62;
  return {
      refused(x, f, {.strides = {1, 0}}, "wants strides of at least 1, got 0"),
      refused(x, f, {.strides = {-2}}, "wants strides of at least 1, got -2"),
      refused(x, f, {.dilations = {0}}, "wants dilations of at least 1, got 0"),
      refused(x, f, {.dilations = {1, 2, 3}},
              "wants one number or 2 for dilations, one for each dimension of the images, got 3"),
      refused(x, f, {.groups = 0}, "wants groups of at least 1, got 0"),
      refused(x, f, {.groups = 4}, "cannot cut the 6 channels of images [1, 3, 4, 6] into 4 "),
      refused(x, {2, 2, 2, 4}, {.groups = 3},
              "cannot cut the 4 channels out of the filter [2, 2, 2, 4] into 3 groups"),
      refused(x, f, {.groups = 2},
              "the images have 6 channels in 2 groups, but the filter takes 6 of a group"),
      // Images, a filter, or both in the dimension order of other programs.
      refused({2, 3, 8, 9}, {5, 5, 3, 4}, {},
              "[5, 5, 3, 4]; channels are the last dimension of images here, and in and out "
              "channels the last two of filters: if these images have their channels second, give "
              "transpose(x, {0, 2, 3, 1}), and if this filter has its out channels first, "
              "transpose(filter, {2, 3, 1, 0})"),
      refused({2, 3, 8, 9}, {4, 3, 5, 5}, {},
              "has its out channels first, transpose(filter, {2, 3, 1, 0})"),
      refused({2, 8, 9, 3}, {4, 3, 5, 5}, {},
              "has its out channels first, transpose(filter, {2, 3, 1, 0})"),
      refused({2, 6, 9}, {5, 3, 4}, {.groups = 2}, "cannot cut the 9 channels of images"),
      refused({2, 6, 8}, {5, 3, 4}, {.groups = 2}, "second, give transpose(x, {0, 2, 1}), and"),
      refused(x, f, {.padding = Padding::given, .before = {-1}},
              "wants padding before of at least 0, got -1"),
      refused(x, f, {.padding = Padding::valid, .after = {1}},
              "wants `before` and `after` with Padding::given alone"),
      refused(x, f, {.dilations = {3}, .padding = Padding::valid},
              "the filter [2, 2, 6, 4], with its dilations, is larger than the images"),
      refused(x, {5, 7, 6, 4}, {.padding = Padding::given, .before = {1}, .after = {1}},
              "is larger than the images [1, 3, 4, 6] with their padding"),
      // Sizes past 2^63.
      refused(x, {3, 3, 6, 4}, {.dilations = {kHuge}}, "is larger than the images"),
      refused(x, f, {.padding = Padding::given, .before = {kHuge}, .after = {kHuge}},
              "is larger than the images"),
      refused(x, f, {.padding = Padding::given, .before = {kHuge}}, "more than 2^59 elements"),
      refused(x, {2, 6, 4}, {}, "wants a filter [height, width, in channels of a group, "),
      refused({1, 2, 2, 2, 2, 1}, {1, 1, 1, 1, 1, 1}, {}, "wants images [batch, width, ")};
}

const Table table("Convolution has strides, dilations, groups and padding in each dimension", [] {
  std::vector<OpCase> values = values_by_definition();
  const auto add = [&](const std::string& name, const Shape& x, const Shape& filter,
                       const ConvolutionOptions& options, const Tensor& expected) {
    values.push_back(Case("Convolution", name, {waves(x, 0.5), waves(filter, 0.2)}, {expected})
                         .made_by(convolved(options)));
  };
  add("no images, groups", {0, 3, 4}, {2, 2, 6}, {.groups = 2}, zeros({0, 3, 6}));
  add("no channels, groups", {1, 3, 0}, {2, 0, 6}, {.groups = 2}, zeros({1, 3, 6}));
  add("images of no pixels but padding", {1, 0, 1}, {2, 1, 1},
      {.padding = Padding::given, .before = {1}, .after = {2}}, zeros({1, 2, 1}));
  values.push_back(Case("Convolution", "a stride past everything",
                        {full({1, 2, 1}, 3), full({1, 1, 1}, 2)}, {full({1, 1, 1}, 6)})
                       .made_by(convolved({.strides = {INT64_MAX}})));
  return OpCases{.values = std::move(values), .errors = refusals()};
});

}  // namespace

TEST_CASE("conv1d and conv3d are convolutions of their images and refuse others") {
  Graph g;
  const Output line = constant(g, waves({1, 5, 2}, 0.1)),
               volume = constant(g, waves({1, 2, 3, 2, 1}, 0.1));
  const Output f1 = constant(g, waves({3, 2, 2}, 0.3)),
               f3 = constant(g, waves({2, 2, 1, 1, 2}, 0.3));
  const auto got = evaluate(g, {conv1d(line, f1, {.strides = {2}}), conv3d(volume, f3),
                                convolution(line, f1, {.strides = {2}}), convolution(volume, f3)});
  CHECK(got[0].shape() == Shape{1, 3, 2});
  CHECK(same_bits(got[0], got[2]));
  CHECK(got[1].shape() == Shape{1, 2, 3, 2, 2});
  CHECK(same_bits(got[1], got[3]));
  CHECK_THROWS_WITH_AS(conv1d(volume, f3), doctest::Contains("conv1d made at"), Error);
  CHECK_THROWS_WITH_AS(
      conv3d(line, f1),
      doctest::Contains("wants images [batch, depth, height, width, channels], got [1, 5, 2]"),
      Error);
}

TEST_CASE("a depthwise convolution is one of as many groups as channels") {
  Graph g;
  const Output x = constant(g, waves({1, 3, 3, 2}, 0.5));
  const Output filter = constant(g, waves({2, 2, 2, 2}, 0.2));
  const Output y = depthwise_convolution(x, filter);
  const Tensor expected = values(
      {1, 3, 3, 4},
      {-0.2761511232240579, -0.5035560821848306,   0.4131227131884305,   -0.44677158774148745,
       0.4052064045961974,  0.41586080513717505,   -0.2810908238855926,  0.5199111739957326,
       -0.75173836205346,   0.6033332040113557,    -0.5246215299928048,  -0.32568193613004215,
       0.575812453431804,   0.16528326554203326,   0.028962447269605174, 0.5600541867005207,
       -0.6060343625388301, -0.019040257421647555, -0.18639517112396287, -0.5243919719968566,
       0.31885993075620234, -0.811066215100185,    0.74783287403976,     -0.33123906692459604,
       -0.3097736238802138, 0.34906680821374386,   -0.37817727510117427, 0.13311262830267562,
       0.20995351766162607, -0.33987748777519566,  0.4097108909271529,   -0.22882117994114998,
       0.10793221364360972, 0.514101813432915,     0.39939886532298313,  0.7511668152424863});
  CHECK(difference(evaluate(y), expected).value_or("") == "");
  const Output grouped = convolution(x, reshape(filter, {2, 2, 1, 4}), {.groups = 2});
  const auto slopes = gradients({reduce_sum(square(y))}, {x, filter});
  const auto same = gradients({reduce_sum(square(grouped))}, {x, filter});
  for (size_t i = 0; i < 2; ++i) CHECK(same_bits(evaluate(slopes[i]), evaluate(same[i])));

  const auto refused = [&](Output images, Output f, const ConvolutionOptions& options,
                           const std::string& text) {
    CHECK_THROWS_WITH_AS(depthwise_convolution(images, f, options), doctest::Contains(text.c_str()),
                         Error);
  };
  const Output unknown = placeholder(g, DType::f64, {-1, 3, 3, -1});
  const Output any = placeholder(g, DType::f64, {2, 2, -1, 2});
  refused(unknown, any, {}, "wants the number of channels, the same in images and filter, known");
  refused(x, constant(g, zeros({2, 2, 3, 1})), {}, "wants the number of channels, the same in ");
  refused(x, constant(g, zeros({2, 2, 2})), {}, "and a filter [..., c, m] with as many");
  refused(x, filter, {.groups = 2}, "has a group for each channel; leave groups 1, not 2");
  CHECK(depthwise_convolution(unknown, filter).shape() == Shape{-1, 3, 3, 4});
}

TEST_CASE("a convolution of single pixels is a product of matrices, and so are its gradients") {
  Graph g;
  const Tensor x = f32(waves({9, 5, 7, 48}, 0.3)), filter = f32(waves({1, 1, 48, 20}, 0.4));
  const Tensor dy = f32(waves({9, 5, 7, 20}, 0.5));
  const Output images = constant(g, x), weights = constant(g, filter), slopes = constant(g, dy);
  const Output rows = reshape(images, {315, 48}), matrix = reshape(weights, {48, 20}),
               slope_rows = reshape(slopes, {315, 20});
  const std::vector<Tensor> got = evaluate(
      g, {convolution(images, weights), convolution_input_gradient(slopes, weights, images),
          convolution_filter_gradient(slopes, images, weights),
          reshape(matmul(rows, matrix), {9, 5, 7, 20}),
          reshape(matmul(slope_rows, matrix, {.transpose_b = true}), {9, 5, 7, 48}),
          reshape(matmul(rows, slope_rows, {.transpose_a = true}), {1, 1, 48, 20})});
  for (size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK(difference(got[i], got[i + 3], 2e-5).value_or("") == "");
  }
}

TEST_CASE("oneDNN's passes give what the loops give, for any options") {
  std::mt19937 random(11);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random()) % n; };
  for (int round = 0; round < 150; ++round) {
    const int dims = static_cast<int>(1 + below(3));
    ConvolutionOptions o{.groups = 1 + below(3) * below(2),
                         .padding = static_cast<Padding>(below(3))};
    const bool depthwise = below(4) == 0;
    const int64_t in = depthwise ? 1 : 1 + below(below(2) == 0 ? 4 : 20);
    const int64_t out = depthwise ? 1 : 1 + below(below(2) == 0 ? 4 : 20);
    if (depthwise) o.groups = 1 + below(40);
    Shape x = Shape(Ints(static_cast<size_t>(dims) + 2, 1)), filter = x;
    x.set(0, 1 + below(6));
    x.set(dims + 1, in * o.groups);
    filter.set(dims, in);
    filter.set(dims + 1, out * o.groups);
    for (int d = 0; d < dims; ++d) {
      filter.set(d, 1 + below(4));
      o.strides.push_back(1 + below(3));
      o.dilations.push_back(1 + below(2) * below(3));
      if (o.padding == Padding::given) {
        o.before.push_back(below(4));
        o.after.push_back(below(4));
      }
      const int64_t span = (filter[d] - 1) * o.dilations.back() + 1;
      x.set(d + 1, below(dims == 3 ? 4 : 9) + (o.padding == Padding::same ? 1 : span));
    }
    CAPTURE(round);
    CAPTURE(x);
    CAPTURE(filter);
    const auto run = [&](DType dtype) {
      Graph g;
      const Output images = constant(g, converted(waves(x, 0.1), dtype));
      const Output weights = constant(g, converted(waves(filter, 0.7), dtype));
      const Output y = convolution(images, weights, o);
      const Output dy = constant(g, converted(waves(y.shape(), 0.3), dtype));
      return evaluate(g, {y, convolution_input_gradient(dy, weights, images, o),
                          convolution_filter_gradient(dy, images, weights, o)});
    };
    const auto fast = run(DType::f32), slow = run(DType::f64);
    for (size_t i = 0; i < 3; ++i) {
      CAPTURE(i);
      CHECK(difference(fast[i], f32(slow[i]), 1e-4).value_or("") == "");
    }
  }
}

}  // namespace troupe
