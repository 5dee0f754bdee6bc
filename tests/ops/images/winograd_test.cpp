// Convolutions by minimal filtering: against the loops in f64, equal bits for any number of
// threads, values that are not finite, and the sizes that they suit.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "devices/device.hpp"
#include "ops/gradients.hpp"
#include "ops/images/winograd.hpp"
#include "tests/support/engine/fused_nodes.hpp"
#include "tests/support/op_cases.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

using Pass = ConvolutionSizes::Pass;

constexpr double kErrorMax = 3e-5;  // of sums that cancel; oneDNN's is 1e-6

struct Images {
  int64_t batch, height, width, in, out;
  int window;
  ConvolutionOptions options = {};
  Shape x() const { return {batch, height, width, in}; }
  Shape filter() const { return {window, window, in, out}; }
  bool suits(Pass pass) const {
    return suits_winograd(ConvolutionSizes(x(), filter(), options), pass);
  }
};

Tensor uniform(const Shape& shape, uint32_t seed, float most = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(-most, most);
  std::vector<float> values(static_cast<size_t>(shape.size()));
  for (float& v : values) v = draw(random);
  return Tensor::of<float>(values, shape);
}

// A convolution and both its gradients.
struct Passes {
  Graph graph;
  std::vector<Output> outputs;
  Passes(const Images& of, DType dtype, const Tensor& x, const Tensor& filter) {
    const Output images = constant(graph, converted(x, dtype)),
                 weights = constant(graph, converted(filter, dtype));
    const Output y = convolution(images, weights, of.options);
    const Output dy = constant(graph, converted(uniform(y.shape(), 3), dtype));
    outputs = {y, convolution_input_gradient(dy, weights, images, of.options),
               convolution_filter_gradient(dy, images, weights, of.options)};
  }
};

// The largest error, relative to the largest correct number.
double relative_error(const Tensor& got, const Tensor& right) {
  REQUIRE(got.shape() == right.shape());
  double error = 0, most = 0;
  bool finite = true;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double wanted = right.data<double>()[i];
    finite = finite && std::isfinite(got.data<float>()[i]);
    error = std::max(error, std::abs(got.data<float>()[i] - wanted));
    most = std::max(most, std::abs(wanted));
  }
  CHECK(finite);
  return error / most;
}

TEST_CASE("minimal filtering gives a convolution and its gradients, whatever sizes and padding") {
  const std::vector<Images> all = {
      {8, 16, 16, 32, 32, 3},
      {5, 13, 9, 32, 48, 3},                                // tiles past the edges
      {40, 7, 6, 16, 32, 3},                                // jobs with a remainder
      {2, 31, 70, 48, 32, 3, {.padding = Padding::valid}},  // several blocks of an image
      {3, 20, 17, 32, 32, 3, {.padding = Padding::given, .before = {2, 0}, .after = {0, 2}}},
      {6, 14, 14, 32, 64, 5},
      {3, 24, 30, 32, 32, 5, {.padding = Padding::valid}},
      {3, 19, 22, 64, 32, 5, {.padding = Padding::given, .before = {4, 1}, .after = {3, 0}}}};
  for (const Images& of : all) {
    CAPTURE(of.x());
    CAPTURE(of.filter());
    for (const Pass pass : {Pass::forward, Pass::to_input, Pass::to_filter}) CHECK(of.suits(pass));
    const Tensor x = uniform(of.x(), 1), filter = uniform(of.filter(), 2);
    const Passes fast(of, DType::f32, x, filter), slow(of, DType::f64, x, filter);
    const auto got = evaluate(fast.graph, fast.outputs), right = evaluate(slow.graph, slow.outputs);
    for (size_t i = 0; i < 3; ++i) {
      CAPTURE(i);
      CHECK(relative_error(got[i], right[i]) < kErrorMax);
    }
  }
}

TEST_CASE("minimal filtering has the same bits on any number of threads") {
  for (const Images& of : {Images{21, 14, 14, 32, 48, 3}, Images{13, 14, 14, 32, 32, 5}}) {
    const Passes passes(of, DType::f32, uniform(of.x(), 1), uniform(of.filter(), 2));
    for (const Output& output : passes.outputs) {
      const Node& node = *passes.graph.nodes()[static_cast<size_t>(output.node)];
      const std::vector<Tensor> inputs = evaluate(passes.graph, node.inputs);
      const auto fire = [&](int threads) {
        Threads helpers(threads);
        HeapMemory memory;
        NodeView view = NodeView::make(node, *find_kernel(node, DeviceKind::cpu));
        view.lanes = &helpers.lanes;
        return run_kernel(view, inputs, memory, {})[0];
      };
      const Tensor one = fire(1);
      for (const int threads : {2, 4}) CHECK(same_bits(one, fire(threads)));
    }
  }
}

TEST_CASE("what is not finite reaches all that it should, and no other image") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int window : {3, 5})
    for (const float bad : {nan, std::numeric_limits<float>::infinity()}) {
      const Images of{4, 14, 14, 32, 32, window};
      Graph g;
      Tensor x = uniform(of.x(), 1), dy = uniform(of.x(), 3);  // equal shapes
      const int64_t at = ((2 * 14 + 6) * 14 + 7) * 32 + 5;
      x.mutable_data<float>()[at] = dy.mutable_data<float>()[at] = bad;
      const Output images = constant(g, x), slopes = constant(g, dy),
                   filter = constant(g, uniform(of.filter(), 2));
      const auto got = evaluate(
          g, {convolution(images, filter), convolution_input_gradient(slopes, filter, images),
              convolution_filter_gradient(slopes, constant(g, uniform(of.x(), 1)), filter)});
      for (const Tensor& y : {got[0], got[1]})
        for (int64_t i = 0; i < y.size(); ++i) {
          const int64_t column = i / 32 % 14, row = i / 32 / 14 % 14, image = i / 32 / 196;
          const bool seen =
              image == 2 && std::abs(row - 6) <= window / 2 && std::abs(column - 7) <= window / 2;
          if (seen) CHECK(!std::isfinite(y.data<float>()[i]));
          if (image != 2) CHECK(std::isfinite(y.data<float>()[i]));
        }
      for (int64_t i = 0; i < got[2].size(); ++i)  // of dy's channel 5 only
        CHECK(std::isfinite(got[2].data<float>()[i]) == (i % 32 != 5));
    }
}

TEST_CASE("numbers from 1e-30 to 1e30") {
  const Images of{8, 14, 14, 32, 32, 3};
  for (const float most : {1e-30f, 1e30f}) {
    const Tensor x = uniform(of.x(), 1, most), filter = uniform(of.filter(), 2);
    const Passes fast(of, DType::f32, x, filter), slow(of, DType::f64, x, filter);
    const auto got = evaluate(fast.graph, fast.outputs), right = evaluate(slow.graph, slow.outputs);
    for (size_t i = 0; i < 3; ++i) CHECK(relative_error(got[i], right[i]) < kErrorMax);
  }
}

TEST_CASE("minimal filtering is for many tiles of squares that stand on every pixel") {
  const Images suited{8, 16, 16, 32, 32, 3};
  const auto suits = [](Images of) { return of.suits(Pass::forward); };
  const auto with = [&](auto change) {
    Images of = suited;
    change(of);
    return suits(of);
  };
  CHECK(suits(suited));
  CHECK(!with([](Images& of) { of.in = 24; }));
  CHECK(!with([](Images& of) { of.out = 40; }));
  CHECK(!with([](Images& of) { of.out = 1 << 14; }));
  CHECK(!with([](Images& of) { of.window = 1; }));
  CHECK(!with([](Images& of) { of.window = 4; }));
  CHECK(!with([](Images& of) { of.batch = 1; }));
  CHECK(!with([](Images& of) { of.height = of.width = 5; }));  // three tiles waste eight pixels
  CHECK(!with([](Images& of) { of.options.strides = {2}; }));
  CHECK(!with([](Images& of) { of.options.dilations = {1, 2}; }));
  CHECK(!with([](Images& of) { of.options.groups = 2; }));
  CHECK(!with([](Images& of) {
    of.options.padding = Padding::given;
    of.options.before = {3};
  }));
  // 16 channels in and out: faster in all passes except the one to the filter.
  const Images narrow{8, 16, 16, 16, 16, 3};
  CHECK(narrow.suits(Pass::forward));
  CHECK(narrow.suits(Pass::to_input));
  CHECK(!narrow.suits(Pass::to_filter));
  // Each thread would need many sums.
  const Images wide{8, 16, 16, 512, 512, 3};
  CHECK(wide.suits(Pass::forward));
  CHECK(!wide.suits(Pass::to_filter));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a job that gets no memory for a block says how much it wants, and for what") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto memory = WinogradMemory::shared();
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const auto mapped = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (rlim_t{16} << 20);
    const rlimit little{mapped, mapped};
    if (setrlimit(RLIMIT_AS, &little) != 0) _exit(1);
    try {
      const WinogradMemory::Loan loan(*memory, int64_t{16} << 20);
      _exit(2);
    } catch (const Error& e) {
      const std::string_view text = e.what();
      if (e.code() != Errc::out_of_memory) _exit(3);
      if (text.find("a convolution wants 67108864 bytes for a block of tiles") == text.npos)
        _exit(4);
    } catch (...) {
      _exit(5);
    }
    const WinogradMemory::Loan small(*memory, 64);  // the memory is usable afterwards
    _exit(small.begin() ? 0 : 6);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

}  // namespace
}  // namespace troupe
