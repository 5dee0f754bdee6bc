// Pools of one to three dimensions, global pools and instance norm: values from the definition in
// NumPy, which agree with ONNX's reference evaluator.

#include <random>

#include "ops/gradients.hpp"
#include "ops/images/window.hpp"
#include "tests/support/op_cases.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

BuildCase maxima(const PoolWindow& window) {
  return
      [=](Graph&, const std::vector<Output>& in) { return std::vector{max_pool(in[0], window)}; };
}

BuildCase means(const PoolWindow& window) {
  return [=](Graph&, const std::vector<Output>& in) {
    return std::vector{average_pool(in[0], window)};
  };
}

std::vector<OpCase> values_by_definition() {
  return {
      Case("MaxPool", "1d", {waves({2, 5, 2}, 0.5)},
           {values({2, 2, 2}, {0.479425538604203, 0.8084964038195901, 0.8504366206285644,
                               0.4121184852417566, 0.8871575286923511, 0.3433149288198954,
                               0.5432756692322479, 0.7625584504796027})})
          .made_by(maxima({.size = {2}})),
      Case("MaxPool", "3d", {waves({1, 3, 2, 4, 1}, 0.5)},
           {values({1, 2, 2, 2, 1}, {0.9993093887479176, 0.3433149288198954, 0.8871575286923511,
                                     0.7625584504796027, 0.9993093887479176, 0.9826178773641395,
                                     0.8871575286923511, 0.9460125826269081})})
          .made_by(maxima({.size = {2, 1, 2}, .strides = {1, 1, 2}})),
      Case("MaxPool", "a window and a stride for each dimension", {waves({1, 4, 5, 2}, 0.5)},
           {values({1, 2, 2, 2}, {0.8871575286923511, 0.9460125826269081, 0.9993093887479176,
                                  0.9826178773641395, 0.9439891127251193, 0.9460125826269081,
                                  0.7665462903887128, 0.9826178773641395})})
          .made_by(maxima({.size = {3, 2}, .strides = {1, 3}})),
      Case("MaxPool", "same padding", {waves({1, 5, 4, 1}, 0.5)},
           {values({1, 3, 2, 1}, {0.8504366206285644, -0.1656041754483094, 0.9993093887479176,
                                  0.7625584504796027, 0.8871575286923511, 0.9826178773641395})})
          .made_by(maxima({.size = {3}, .strides = {2}, .padding = Padding::same})),
      Case("MaxPool", "padding that is given, uneven", {waves({1, 4, 3, 1}, 0.5)},
           {values({1, 4, 2, 1}, {0.8084964038195901, -0.6877661591839738, 0.8504366206285644,
                                  0.4121184852417566, 0.9993093887479176, 0.9993093887479176,
                                  0.9993093887479176, 0.9993093887479176})})
          .made_by(maxima({.size = {2, 3},
                           .strides = {1, 2},
                           .padding = Padding::given,
                           .before = {1, 0},
                           .after = {0, 2}})),
      Case("AveragePool", "1d", {waves({2, 5, 2}, 0.5)},
           {values({2, 2, 2}, {-0.10417031028988538, 0.08861488297363423, -0.05309919782081174,
                               0.12325715489672359, -0.044234238387903246, -0.11430536314483278,
                               -0.09825145792282275, -0.06999807886529136})})
          .made_by(means({.size = {2}})),
      Case("AveragePool", "3d", {waves({1, 3, 2, 4, 1}, 0.5)},
           {values({1, 2, 2, 2, 1}, {0.5488311202360077, -0.48783596842613947, 0.3944467448632778,
                                     -0.27486483157919694, 0.1370308998855751, 0.009902378905375403,
                                     -0.15617810394148346, 0.29208303831685123})})
          .made_by(means({.size = {2, 1, 2}, .strides = {1, 1, 2}})),
      Case(
          "AveragePool", "a window and a stride for each dimension", {waves({1, 4, 5, 2}, 0.5)},
          {values({1, 2, 2, 2}, {-0.006630319001977571, -0.017133357528189563, 0.017430715843636774,
                                 0.006000386060417205, 0.019263044644333444, -0.0038536392921830593,
                                 -0.0127908423985408, 0.01599713396000098})})
          .made_by(means({.size = {3, 2}, .strides = {1, 3}})),
      Case("AveragePool", "same padding", {waves({1, 5, 4, 1}, 0.5)},
           {values({1, 3, 2, 1}, {0.15101264547332544, -0.6103179971936982, -0.020761120982543332,
                                  -0.2886284004941751, -0.18242048926123608, 0.17367511441786831})})
          .made_by(means({.size = {3}, .strides = {2}, .padding = Padding::same})),
      Case("AveragePool", "padding that is given, uneven", {waves({1, 4, 3, 1}, 0.5)},
           {values({1, 4, 2, 1}, {0.20005192774660643, -0.6877661591839738, 0.20524070853963647,
                                  -0.1378238369711086, 0.0847264441712366, 0.7057139369948371,
                                  -0.14119128830775363, 0.6713121587839065})})
          .made_by(means({.size = {2, 3},
                          .strides = {1, 2},
                          .padding = Padding::given,
                          .before = {1, 0},
                          .after = {0, 2}})),
      Case("AveragePool", "same padding that counts", {waves({1, 5, 4, 1}, 0.5)},
           {values({1, 3, 2, 1}, {0.10067509698221695, -0.2712524431971992, -0.020761120982543332,
                                  -0.1924189336627834, -0.12161365950749072, 0.0771889397412748})})
          .made_by(means(
              {.size = {3}, .strides = {2}, .padding = Padding::same, .count_padding = true})),
      Case("AveragePool", "padding that is given and counts", {waves({1, 4, 3, 1}, 0.5)},
           {values({1, 4, 2, 1}, {0.10002596387330322, -0.11462769319732896, 0.20524070853963647,
                                  -0.04594127899036953, 0.0847264441712366, 0.23523797899827903,
                                  -0.14119128830775363, 0.2237707195946355})})
          .made_by(means({.size = {2, 3},
                          .strides = {1, 2},
                          .padding = Padding::given,
                          .before = {1, 0},
                          .after = {0, 2},
                          .count_padding = true})),
  };
}

std::vector<OpCase> small_means() {
  const Tensor line = values({1, 4, 1}, {1, 2, 4, 8});
  const Attrs overlapping = {{"strides", Ints{1}}};
  return {Case("AveragePool", "by hand", {line}, {values({1, 2, 1}, {1.5, 6})}),
          Case("AveragePool", "size one", {values({1, 1, 1}, {3})}, {values({1, 1, 1}, {3})},
               {{"window", Ints{1}}}),
          Case("AveragePool", "a window past everything", {line}, {values({1, 1, 1}, {3.75})})
              .made_by(means({.size = {INT64_MAX}, .padding = Padding::same})),
          Case("AveragePool", "NaN and infinities stay in their windows",
               {values({1, 4, 2}, {NAN, 1, 2, INFINITY, 3, -1, 4, 0})},
               {values({1, 2, 2}, {NAN, INFINITY, 3.5, -0.5})})
              .rough(),
          Case("AveragePool", "no images", {zeros({0, 4, 4, 2})}, {zeros({0, 2, 2, 2})}),
          Case("AveragePool", "no channels", {zeros({1, 4, 0})}, {zeros({1, 2, 0})}),
          Case("AveragePool", "no pixels", {zeros({1, 0, 3})}, {zeros({1, 0, 3})})
              .made_by(means({.padding = Padding::same})),
          Case("AveragePoolGradient", "shares that meet", {values({1, 3, 1}, {1, 10, 4}), line},
               {values({1, 4, 1}, {0.5, 5.5, 7, 2})}, overlapping),
          Case("AveragePoolGradient", "what no window saw",
               {values({1, 1, 1}, {2}), zeros({1, 3, 1})}, {values({1, 3, 1}, {1, 1, 0})}),
          Case("AveragePoolGradient", "no images", {zeros({0, 2, 1}), zeros({0, 4, 1})},
               {zeros({0, 4, 1})})};
}

OpError refused(const Shape& x, const PoolWindow& window, const std::string& message) {
  return Refused("AveragePool", {zeros(x)}, message).made_by(means(window));
}

const Table table("pools take the greatest or the mean of windows in one to three dimensions", [] {
  std::vector<OpCase> values = values_by_definition();
  for (OpCase& one : small_means()) values.push_back(std::move(one));
  const Shape x{1, 4, 3, 1};
  constexpr int64_t kHuge = int64_t{1} << 62;
  return table_of(
      "AveragePool", std::move(values),
      {
          refused(x, {.size = {}}, "wants one number or 2 for the window, one for each dimension"),
          refused(x, {.size = {1, 2, 3}}, "wants one number or 2 for the window"),
          refused(x, {.size = {2, 0}}, "wants a window of at least 1, got 0"),
          refused(x, {.strides = {0}}, "wants strides of at least 1, got 0"),
          refused(x, {.size = {2, 4}},
                  "the window 4 is larger than dimension 2 of images [1, 4, 3, 1]; use "),
          refused(x, {.padding = Padding::given, .before = {2}},
                  "wants padding smaller than the window, 2, which would else see nothing but"),
          refused(x, {.padding = Padding::given, .after = {0, -1}},
                  "wants padding after of at least 0, got -1"),
          refused(x, {.padding = Padding::same, .after = {1}},
                  "wants `before` and `after` with Padding::given alone"),
          refused(
              x,
              {.size = {INT64_MAX}, .padding = Padding::given, .before = {kHuge}, .after = {kHuge}},
              "is larger than dimension 1 of images [1, 4, 3, 1] with its padding"),
          refused({1, 0, 1}, {.padding = Padding::given, .before = {1}, .after = {1}},
                  "the window 2 is larger than dimension 1 of images [1, 0, 1]"),
          refused({4, 4}, {},
                  "wants images [batch, width, channels], with height and depth before"),
          refused({1, 2, 2, 2, 2, 1}, {}, "wants images [batch, width, channels], with "),
          Refused({i32(zeros({1, 4, 1}))}, "has no kernel for i32; cast to one of f32, f64"),
          Refused("AveragePoolGradient", {zeros({1, 3, 1}), zeros({1, 4, 1})},
                  "dy [1, 3, 1] does not fit: images [1, 4, 1] give [1, 2, 1]"),
          Refused("MaxPool", {zeros({1, 2, 1})}, "the window 3 is larger than dimension 1")
              .made_by(maxima({.size = {3}})),
      });
});

Tensor small_numbers(const Shape& shape, std::mt19937& random) {
  Tensor out = zeros(shape);
  for (int64_t i = 0; i < out.size(); ++i)
    out.mutable_data<double>()[i] = static_cast<double>(random() % 40) - 20;
  return out;
}

}  // namespace

TEST_CASE("pools of many channels and images have the bits of those in f64, where both are exact") {
  std::mt19937 random(5);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random()) % n; };
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const int dims = static_cast<int>(1 + below(3));
    // Windows of 1, 2, 4 or 8 pixels, all inside the image or counted, so that means are exact.
    PoolWindow window{.size = {1 + below(2)}, .count_padding = true};
    for (int d = 0; d < dims; ++d) window.strides.push_back(1 + below(3));
    window.padding = static_cast<Padding>(below(3));
    if (window.padding == Padding::given) window.after = {below(window.size[0])};
    Shape shape(Ints(static_cast<size_t>(dims) + 2, 1));
    shape.set(0, 1 + below(12));
    for (int d = 0; d < dims; ++d) shape.set(d + 1, 2 + below(6));
    shape.set(dims + 1, 1 + below(70));
    const Tensor x = small_numbers(shape, random);
    const auto pooled = [&](DType dtype) {
      Graph g;
      const Output images = constant(g, converted(x, dtype));
      const Output greatest = max_pool(images, window), mean = average_pool(images, window);
      std::mt19937 again(6);
      const Output dy = constant(g, converted(small_numbers(greatest.shape(), again), dtype));
      return evaluate(
          g, {greatest, mean, max_pool_gradient(dy, images, window),
              average_pool_gradient(dy, images, window), max_pool_select(images, images, window)});
    };
    const auto narrow = pooled(DType::f32), wide = pooled(DType::f64);
    for (size_t i = 0; i < narrow.size(); ++i) {
      CAPTURE(i);
      CHECK(same_bits(narrow[i], f32(wide[i])));
    }
    CHECK(same_bits(wide[0], wide[4]));  // selected from x itself
  }
}

// By the definition: each dy goes to the first maximum of its window, or to its first NaN.
Tensor slopes_of_maxima(const Tensor& dy, const Tensor& x, const PoolWindow& window) {
  const int64_t channels = x.dim(x.ndim() - 1);
  Tensor dx = zeros(x.shape());
  Slidings at;
  const WindowSpec spec{.strides = window.strides, .padding = window.padding};
  for (int d = 0; d < x.ndim() - 2; ++d)
    at[static_cast<size_t>(kSpatialMax - x.ndim() + 2 + d)] =
        slide(x.dim(d + 1), WindowSpec::of(window.size, static_cast<size_t>(d), 1), spec, d);
  const double* const values = x.data<double>();
  for_each_place(at, 0, x.dim(0), [&](int64_t out, const Place& place) {
    for (int64_t c = 0; c < channels; ++c) {
      int64_t first = -1;
      place.for_each([&](int64_t pixel, auto...) {
        const int64_t i = pixel * channels + c;
        if (first < 0 || values[i] > values[first] ||
            (std::isnan(values[i]) && !std::isnan(values[first])))
          first = i;
      });
      dx.mutable_data<double>()[first] += dy.data<double>()[out * channels + c];
    }
  });
  return dx;
}

TEST_CASE(
    "a slope goes to the first maximum, of windows that share pixels and of those that do not") {
  std::mt19937 random(8);
  const std::vector<std::pair<Shape, PoolWindow>> pools = {
      {{5, 7, 9, 40}, {.size = {3}, .strides = {1}, .padding = Padding::same}},
      {{2, 9, 8, 3}, {.size = {3}, .strides = {2}, .padding = Padding::same}},
      {{2, 8, 9, 17}, {.size = {2, 3}, .strides = {1}}},
      {{1, 14, 3, 2}, {.size = {11, 5}, .strides = {1}, .padding = Padding::same}},
      {{2, 12, 5}, {.size = {4}, .strides = {3}}},
      {{1, 4, 5, 6, 3}, {.size = {3}, .strides = {1, 2, 1}, .padding = Padding::same}},
      {{2, 7, 5, 4}, {.size = {2}, .strides = {3}}},
      {{2, 6, 6, 300}, {.size = {2}, .strides = {2}}},
      {{5, 6, 8, 32}, {.size = {2}, .strides = {2}}},
      {{3, 7, 9, 48}, {.size = {2}, .strides = {2}}},
      {{2, 3, 5, 4, 16}, {.size = {1, 2, 2}, .strides = {1, 2, 2}}},
      {{1, 5, 5, 2}, {.size = {INT64_MAX}, .strides = {1}, .padding = Padding::same}}};
  for (const auto& pool : pools) {
    CAPTURE(pool.first);
    const auto& [shape, window] = pool;
    Tensor x = small_numbers(shape, random);  // some are equal
    for (const double special : {NAN, -INFINITY, INFINITY, NAN})
      x.mutable_data<double>()[random() % static_cast<uint64_t>(x.size())] = special;
    for (const DType dtype : {DType::f64, DType::f32}) {
      Graph g;
      const Output images = constant(g, converted(x, dtype));
      const Output y = max_pool(images, window);
      std::mt19937 again(9);
      const Tensor dy = small_numbers(y.shape(), again);
      const Tensor got =
          evaluate(max_pool_gradient(constant(g, converted(dy, dtype)), images, window));
      CHECK(same_bits(got, converted(slopes_of_maxima(dy, x, window), dtype)));
      CHECK(same_bits(evaluate(y), evaluate(max_pool_select(images, images, window))));
    }
  }
}

TEST_CASE("global pools and instance norm look at whole images") {
  Graph g;
  const Output x = constant(g, waves({2, 3, 2, 2}, 0.5));
  const Output gamma = constant(g, vector({2, -1})), beta = constant(g, vector({0.25, 3}));
  const auto got =
      evaluate(g, {global_average_pool(x), global_max_pool(x), instance_norm(x, gamma, beta)});
  CHECK(difference(got[0], values({2, 2}, {-0.0484759388236057, 0.11252535905548855,
                                           0.10616408518267366, 0.03654614661620925}))
            .value_or("") == "");
  CHECK(difference(got[1], values({2, 2}, {0.9993093887479176, 0.8084964038195901,
                                           0.8871575286923511, 0.9826178773641395}))
            .value_or("") == "");
  CHECK(difference(got[2], values({2, 3, 2, 2},
                                  {1.5004140485153503,  1.5047169583166582,  -1.264255039618438,
                                   4.598025618900445,   2.3792095983565305,  2.356328795053442,
                                   -1.9011113669524407, 3.597557009682456,   2.731837140913966,
                                   3.439219444565532,   -1.9460943812149685, 2.5041521734814673,
                                   3.183118540981129,   3.697155718132819,   -2.9270434839989905,
                                   2.1681724154881077,  1.8916272150657951,  4.075973379987675,
                                   -1.3155750049369808, 1.9160396340733197,  0.0671889150692595,
                                   4.184678752856521,   0.600683817819788,   1.957980099461557}))
            .value_or("") == "");
  for (const auto& build :
       std::vector<BuildCase>{[](Graph&, const std::vector<Output>& in) {
                                return std::vector{global_average_pool(in[0])};
                              },
                              [](Graph&, const std::vector<Output>& in) {
                                return std::vector{global_max_pool(in[0])};
                              },
                              [](Graph&, const std::vector<Output>& in) {
                                return std::vector{instance_norm(in[0], in[1], in[2])};
                              }})
    check_gradient(Case("AveragePool", "of images",
                        {waves({2, 3, 2, 2}, 0.5), vector({2, -1}), vector({0.25, 3})}, {})
                       .slopes_within(1e-5)
                       .made_by(build));
  CHECK(evaluate(global_average_pool(constant(g, zeros({0, 3, 4})))).shape() == Shape{0, 4});
  const Output flat = constant(g, zeros({3, 2}));
  CHECK_THROWS_WITH_AS(global_average_pool(flat), doctest::Contains("global_average_pool made at"),
                       Error);
  CHECK_THROWS_WITH_AS(global_max_pool(flat),
                       doctest::Contains("wants images [batch, ..., channels]"), Error);
  CHECK_THROWS_WITH_AS(instance_norm(x, gamma, constant(g, vector({1}))),
                       doctest::Contains("wants one gamma and one beta for each channel"), Error);
}

}  // namespace troupe
