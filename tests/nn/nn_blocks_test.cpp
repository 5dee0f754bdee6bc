// Attention, residual and inception blocks against NumPy, from the formulas of their papers, and
// their gradients in a training step.

#include "tests/support/parameters.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

using Parameters = std::map<std::string, Tensor>;

Parameters attention_parameters(int64_t in, int64_t memory, int64_t all, int64_t out) {
  return {{"attention/query/w", sines({in, all}, 0.3, 0.1)},
          {"attention/query/b", sines({all}, 1.1, 0.2)},
          {"attention/key/w", sines({memory, all}, 0.5, 0.3)},
          {"attention/key/b", sines({all}, 1.2, 0.4)},
          {"attention/value/w", sines({memory, all}, 0.9, 0.5)},
          {"attention/value/b", sines({all}, 1.3, 0.6)},
          {"attention/output/w", sines({all, out}, 0.8, 0.7)},
          {"attention/output/b", sines({out}, 1.4, 0.8)}};
}

// Queries and memory whose sizes are known only in a step.
struct Sequences {
  explicit Sequences(bool training = false) : model(graph, {.training = training}) {}
  Graph graph;
  nn::Model model;
  Output x = placeholder(graph, DType::f64, {-1, -1, 4}, "x");
  Output memory = placeholder(graph, DType::f64, {-1, -1, 6}, "memory");
  Tensor run(Output y, const Parameters& parameters) {
    FedValues feeds = feed_parameters(graph, parameters);
    feeds[x] = sines({2, 3, 4}, 0.7, 0);
    feeds[memory] = sines({2, 5, 6}, 0.4, 1);
    return evaluate(y, feeds);
  }
};

}  // namespace

TEST_CASE("attention mixes the values of another sequence, head by head") {
  Sequences s;
  const Output y = nn::attention(s.model, s.x, s.memory, 2, {.head_width = 3});
  CHECK(s.model.parameters().size() == 8);
  check_close(
      s.run(y, attention_parameters(4, 6, 6, 4)), {2, 3, 4},
      {0.023303350923319033, 0.11448668162391673, -0.7155101629304212, -0.6453020909732683,
       0.3829349123598752,   0.3528127338774567,  -0.74305500513245,   -0.9220094959669348,
       -0.05961728159771351, 0.05077899290981602, -0.7213606787376181, -0.5897465894911987,
       0.3663860962879386,   0.32766069493406313, -0.7615533776317605, -0.9226333374880867,
       -0.05022288240190487, 0.06122175312694633, -0.7162039957186702, -0.5930039583937736,
       0.30237099658418615,  0.28644637383605454, -0.7549668659883496, -0.8722412826837627});
}

TEST_CASE("a query of causal attention sees no later key") {
  Sequences s;
  const Output y = nn::attention(s.model, s.x, s.x, 2, {.causal = true});
  check_close(
      s.run(y, attention_parameters(4, 4, 4, 4)), {2, 3, 4},
      {0.8511314579749092, 0.9350585629013757, -0.3999423996067514,    -1.026157616328171,
       1.263847289586539,  1.5183756762173184, 0.00014366183009528743, -1.0519894430054468,
       1.0163166067794904, 1.1727484864691362, -0.23392721942358535,   -1.0325197601217504,
       1.5656744421992292, 1.9371176744805756, 0.2817972285683059,     -1.0782715819525621,
       1.1173874704395095, 1.2943549075532075, -0.16555006414566636,   -1.0588485355094233,
       1.366928816277399,  1.6698993101988155, 0.10819719997838184,    -1.0529498269937219});
}

TEST_CASE("attention passes over what its mask hides") {
  Sequences s;
  const Output mask = constant(
      s.graph, Tensor::of<bool>({true, true, false, true, false, false, true, true, true, true},
                                {2, 1, 1, 5}));
  const Output y = nn::attention(s.model, s.x, s.memory, 2, {.head_width = 3, .mask = mask});
  check_close(
      s.run(y, attention_parameters(4, 6, 6, 4)), {2, 3, 4},
      {0.5182405912199883,   0.4644643029246636,  -0.7227838894639088, -1.005415020429693,
       0.5618081032895745,   0.4569618576473209,  -0.7768054094559649, -1.0731868860075453,
       0.5127121289414613,   0.4777029719739003,  -0.6988084880865222, -0.9852460434810967,
       0.5172604750066848,   0.5173075112979644,  -0.6481713376163873, -0.9542920978556295,
       0.003848775270877347, 0.1824716548789196,  -0.6013244132748835, -0.5541791084345722,
       0.4537282590517286,   0.48627981181948843, -0.627873534465954,  -0.8949811670973231});
}

// A rate that is positive but drops nothing, so the dropout nodes are built.
TEST_CASE("attention with dropout is the same, but for what is dropped") {
  for (const bool causal : {false, true}) {
    Sequences s, training(true);
    const auto build = [&](Sequences& in) {
      const Output mask = constant(in.graph, Tensor::of<bool>({true, false, true}, {3}));
      return nn::attention(in.model, in.x, in.x, 2,
                           {.causal = causal, .mask = mask, .dropout = 1e-300});
    };
    const Parameters p = attention_parameters(4, 4, 4, 4);
    const Tensor want = s.run(build(s), p);
    check_close(training.run(build(training), p), {2, 3, 4},
                {want.values<double>().begin(), want.values<double>().end()});
  }
}

TEST_CASE("a residual block adds what it has passed, through a convolution where shapes differ") {
  Graph graph;
  nn::Model model(graph, {.training = true});
  const Output x = constant(graph, sines({2, 4, 4, 2}, 0.37, 0.3));
  const Output y = nn::residual_block(model, x, 3, {.stride = 2});
  const auto three = [](double a, double b, double c) {
    return Tensor::of<double>({a, b, c}, {3});
  };
  const FedValues feeds =
      feed_parameters(graph, {{"residual/conv1/w", sines({3, 3, 2, 3}, 0.6, 0.1)},
                              {"residual/conv1_norm/gamma", three(1, 0.5, 2)},
                              {"residual/conv1_norm/beta", three(0.1, -0.2, 0.3)},
                              {"residual/conv2/w", sines({3, 3, 3, 3}, 0.45, 0.2)},
                              {"residual/conv2_norm/gamma", three(0.75, 1.5, 1)},
                              {"residual/conv2_norm/beta", three(0, 0.25, -0.5)},
                              {"residual/shortcut/w", sines({1, 1, 2, 3}, 0.9, 0.3)},
                              {"residual/shortcut_norm/gamma", three(1, 1, 0.5)},
                              {"residual/shortcut_norm/beta", three(0.5, 0, 0)}});
  check_rows(evaluate(y, feeds), {2, 2, 2, 3},
             {{1.2704099398323034, 0, 0},
              {1.074427156171733, 1.6491079238767956, 0.678490790461244},
              {0.14518329785307046, 0, 0},
              {1.5456288386647081, 1.9859736884768795, 0.5085561523723761},
              {0, 0, 0},
              {1.7132991420414267, 2.4909036878800457, 0.7394277994996342},
              {0, 0, 0},
              {2.2563633567587775, 3.0162292370921184, 0.764130170598389}},
             1e-11);
  // If x has the same size and as many channels, the shortcut is x itself.
  nn::Model same(graph);
  nn::residual_block(same, x, 2, {.name = "same"});
  CHECK(same.parameters().size() == 6);
  nn::Model bottleneck(graph);
  const Output wide =
      nn::residual_block(bottleneck, x, 2, {.stride = 2, .bottleneck = true, .name = "deep"});
  CHECK(wide.shape() == Shape{2, 2, 2, 8});
  CHECK(bottleneck.parameters().size() == 12);
}

TEST_CASE("an inception block has four branches side by side") {
  Graph graph;
  nn::Model model(graph);
  const Output x = constant(graph, sines({1, 3, 3, 2}, 0.37, 0.3));
  const Output y = nn::inception_block(
      model, x,
      {.one = 1, .three_reduced = 2, .three = 2, .five_reduced = 1, .five = 1, .pooled = 1});
  Parameters p;
  const auto set = [&](const std::string& name, int64_t window, int64_t in, int64_t out,
                       double phase) {
    p["inception/" + name + "/w"] = sines({window, window, in, out}, 0.31, phase);
    p["inception/" + name + "/b"] = sines({out}, 0.7, phase);
  };
  set("one", 1, 2, 1, 0.1);
  set("three_reduced", 1, 2, 2, 0.2);
  set("three", 3, 2, 2, 0.3);
  set("five_reduced", 1, 2, 1, 0.4);
  set("five", 5, 1, 1, 0.5);
  set("pooled", 1, 2, 1, 0.6);
  check_rows(
      evaluate(y, feed_parameters(graph, p)), {1, 3, 3, 5},
      {{0.376867015546393, 0.5863570852680767, 1.8638007267394328, 0.0, 1.8309117505308108},
       {0.5793974851016851, 0.0, 1.4010812236848769, 0.0, 1.8962930461285232},
       {0.5310857906479746, 0.0, 0.0, 0.0, 1.8962930461285232},
       {0.2572019863466509, 1.3359581817323722, 1.1572218143933326, 0.25511547091918707,
        1.8309117505308108},
       {0.0, 1.2625060092358684, 0.8260571148914895, 1.2659716775212926, 1.8962930461285232},
       {0.0, 4.7101761446015695, 4.9842525088217045, 2.2018441909986906, 1.8962930461285232},
       {0.0, 1.8283616572207506, 2.008610165091281, 3.7526484968146834, 1.0899955107383013},
       {0.0, 2.5497603469215973, 3.6662836201307982, 3.685836811492937, 1.1318998683723487},
       {0.21391903985585714, 0.0, 0.7128151518735596, 3.3133487684575673, 0.7674378766717499}});
  nn::Model normed(graph, {.training = true});
  const nn::Inception filters{1, 1, 1, 1, 1, 1};
  const Output z = nn::inception_block(normed, x, filters, {.batch_norm = true, .name = "normed"});
  CHECK(z.shape() == Shape{1, 3, 3, 4});
  CHECK(normed.parameters().size() == 18);  // no biases
}

TEST_CASE("every parameter of the blocks has a gradient") {
  Graph graph;
  nn::Model model(graph, {.training = true});
  const Output images = constant(graph, sines({2, 4, 4, 2}, 0.37, 0.3));
  const Output deep = nn::inception_block(
      model, nn::residual_block(model, images, 3, {.bottleneck = true}), {1, 1, 2, 1, 1, 1});
  const Output sequence = reshape(deep, {2, 16, 5});
  const Output y = nn::attention(model, sequence, sequence, 5, {.causal = true, .dropout = 0.2});
  const auto found = parameter_gradients(reduce_sum(square(y)), model.parameters());
  CHECK(found.size() == model.parameters().size());
  const FedValues feeds = feed_parameters(graph);
  for (const ParameterGradient& one : found) {
    const Tensor g = evaluate(one.gradient, feeds);
    CHECK(g.shape() == one.parameter.shape());
    for (double v : g.values<double>()) REQUIRE(std::isfinite(v));
  }
}

TEST_CASE("blocks refuse what does not fit") {
  Graph graph;
  nn::Model model(graph);
  const Output x = placeholder(graph, DType::f32, {-1, -1, 6}),
               image = placeholder(graph, DType::f32, {-1, 8, 8, 4}),
               number = placeholder(graph, DType::f32, {});
  const auto refused = [](auto&& call, const char* text) {
    check_invalid(call, text, "nn_blocks_test.cpp");
  };
  refused([&] { nn::attention(model, x, x, 4); }, "that 4 heads can share, got 0 and 6");
  refused([&] { nn::attention(model, x, x, 0); }, "at least one head");
  refused([&] { nn::attention(model, x, image, 2); }, "wants floats with 3 dimensions");
  refused([&] { nn::attention(model, x, x, 2, {.mask = number}); },
          "wants a mask of bool, got f32");
  refused([&] { nn::residual_block(model, x, 4); }, "wants floats with 4 dimensions");
  refused([&] { nn::residual_block(model, image, 4, {.stride = 0}); }, "pixel of stride, got 0");
  refused([&] { nn::inception_block(model, image, {.one = 3}); }, "filter in each convolution");
}

}  // namespace troupe
