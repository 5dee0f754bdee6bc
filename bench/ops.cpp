// ops [--only OP]: each op alone on one thread, as a prepared call, at sizes that fit into the
// caches and one that does not. share_of_roofline is the least time that this machine needs for the
// op's multiply-adds and for reading its inputs and writing its output once (bench/roofline.hpp),
// divided by the measured time; --json lists all values. An op below 0.5 is printed with its
// reason, from the list here; the last line counts the ops without a reason.
#include <algorithm>
#include <functional>

#include "bench/bench.hpp"
#include "bench/roofline.hpp"
#include "ops/gradients.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"

namespace troupe::bench {
namespace {

struct Case {
  std::string op;
  std::vector<Shape> inputs;
  std::function<Output(const std::vector<Output>&)> build;
  double flop = 0;
  int64_t below = 0;  // the last input holds indices below this, not floats
};

// The reason why an op stays below half of its roofline, for the named sizes or for all sizes.
struct Reason {
  const char* op;
  std::vector<std::string> inputs;  // as written()
  const char* why;
};

const std::vector<std::string> kSmallRows = {"16x256"}, kCachedRows = {"16x256", "256x256"};

const std::vector<Reason>& reasons() {
  static constexpr const char* kFunction =
      "waits for arithmetic: a vector function of glibc takes some 20 cycles for 16 results";
  static constexpr const char* kSoftmax =
      "waits for arithmetic: an exponential is 25 operations, none of them a fused multiply-add, "
      "which some machines do not have";
  static constexpr const char* kTree =
      "joins 16 or 32 lanes at each end of a row or of 512 elements, so that bits do not depend on "
      "threads";
  static const std::vector<Reason> all = {
      {"Exp", {}, kFunction},
      {"Log", {}, kFunction},
      {"Tanh", {}, kFunction},
      {"Sigmoid", {}, kFunction},
      {"Erf", {}, kFunction},
      {"Dropout",
       {},
       "waits for arithmetic: four random words are ten rounds of Philox, each with two "
       "multiplications to 64 bits"},
      {"Sqrt",
       {"4096", "65536"},
       "waits for the divider: 16 square roots take longer than reading them from a cache"},
      {"Cast", {"4096"}, "widens 4 bytes to 8: one conversion a cycle, half a vector each"},
      {"ReduceSum", kCachedRows, kTree},
      {"ReduceSum last", kCachedRows, kTree},
      {"ReduceSum first", kCachedRows,
       "adds rows into partial rows, which it reads and writes again for each four of them"},
      {"ReduceMax last",
       {},
       "two comparisons and two choices a vector, for NaN, and a tree of lanes where a row ends"},
      {"ArgMax",
       {},
       "keeps 32 extremes and their places, and chooses among these one by one at the end of each "
       "row"},
      {"Softmax", {}, kSoftmax},
      {"SoftmaxCrossEntropy", {}, kSoftmax},
      {"SoftmaxCrossEntropyGradient", {}, kSoftmax},
      {"Transpose",
       {},
       "four by four in registers: each line of memory that it writes gets 16 bytes at a time"},
      {"CumSum", {}, "each sum waits for the one before it, which is kept in f64"},
      {"Concat", kSmallRows, "copies rows of 1 KiB, each with a call"},
      {"Slice",
       {},
       "copies rows of 512 bytes, each with a call; 8 MiB of them are new to the caches each time"},
      {"LayerNorm",
       {"16x256_256_256", "256x256_256_256"},
       "reads each row three times, for mean, variance and result, with a root and two divisions "
       "between"},
      {"BatchNorm", {}, "reads its input three times: for means, for variances, for the result"},
      {"MatMul", {"16x16_16x16"}, "a call of oneDNN takes 0.4 us, the product 0.03"},
      {"MatMul",
       {"1x1024_1024x1024"},
       "one row: oneDNN reads the matrix once, from the outer cache, in plain layout"},
      {"MatMul bt",
       {"256x6x1_256x100x1"},
       "writes rows of 400 bytes: every second vector crosses a line of the cache"},
      {"Convolution",
       {"64x32x32x3_3x3x3x16"},
       "3 channels fill no vector: oneDNN reads the input element by element"},
      {"ConvolutionInputGradient",
       {"64x32x32x16_3x3x3x16_64x32x32x3"},
       "3 channels of 16 in the vectors of oneDNN; no model here computes it"},
      {"ConvolutionFilterGradient",
       {"32x28x28x64_32x28x28x256_1x1x256x64"},
       "a product of x transposed, which oneDNN copies into its own order, by only 64 columns"},
      {"MaxPool2dGradient",
       {},
       "finds the maximum of each window again, then compares each pixel with it and reads and "
       "writes its slope"},
  };
  return all;
}

// Floats between 0.25 and 1.25, unordered; and indices.
Tensor some_floats(const Shape& shape) {
  std::vector<float> v(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = 0.25f + static_cast<float>(i * 2654435761u % 1024) / 1024;
  return Tensor::of<float>(v, shape);
}
Tensor some_indices(const Shape& shape, int64_t below) {
  std::vector<int64_t> v(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = static_cast<int64_t>(i * 2654435761u % static_cast<uint64_t>(below));
  return Tensor::of<int64_t>(v, shape);
}

using Unary = Output (*)(Output, Origin);
using Binary = Output (*)(Operand, Operand, Origin);

void add_elementwise(std::vector<Case>& all) {
  const std::vector<std::pair<const char*, Unary>> unary = {
      {"Relu", relu}, {"Square", square}, {"Sqrt", sqrt},       {"Exp", exp},
      {"Log", log},   {"Tanh", tanh},     {"Sigmoid", sigmoid}, {"Erf", erf}};
  const std::vector<std::pair<const char*, Binary>> binary = {
      {"Add", add}, {"Multiply", multiply}, {"Divide", divide}, {"Maximum", maximum}};
  for (const int64_t n : {4 << 10, 64 << 10, 4 << 20}) {
    for (const auto& [name, f] : unary)
      all.push_back({name, {{n}}, [f = f](const auto& in) { return f(in[0], Origin::here()); }});
    for (const auto& [name, f] : binary)
      all.push_back(
          {name, {{n}, {n}}, [f = f](const auto& in) { return f(in[0], in[1], Origin::here()); }});
    const Shape rows{n / 256, 256};
    all.push_back(
        {"BiasAdd", {rows, {256}}, [](const auto& in) { return bias_add(in[0], in[1]); }});
    all.push_back({"Cast", {{n}}, [](const auto& in) { return cast(in[0], DType::f64); }});
    all.push_back({"Dropout", {{n}}, [](const auto& in) { return dropout(in[0], 0.3); }});
  }
}

void add_rows(std::vector<Case>& all) {
  for (const int64_t rows : {16, 256, 16 << 10}) {
    const Shape x{rows, 256};
    const auto one = [&](const char* name, std::function<Output(Output)> f) {
      all.push_back({name, {x}, [f](const auto& in) { return f(in[0]); }});
    };
    one("ReduceSum", [](Output v) { return reduce_sum(v); });
    one("ReduceSum last", [](Output v) { return reduce_sum(v, {.axes = {1}}); });
    one("ReduceSum first", [](Output v) { return reduce_sum(v, {.axes = {0}}); });
    one("ReduceMax last", [](Output v) { return reduce_max(v, {.axes = {1}}); });
    one("ArgMax", [](Output v) { return argmax(v); });
    one("Softmax", [](Output v) { return softmax(v); });
    one("Transpose", [](Output v) { return transpose(v); });
    one("CumSum", [](Output v) { return cumsum(v); });
    one("Concat", [](Output v) { return concat({v, v}, 1); });
    one("Slice", [](Output v) { return slice(v, {0, 64}, {-1, 128}); });
    all.push_back({"LayerNorm", {x, {256}, {256}}, [](const auto& in) {
                     return layer_norm(in[0], in[1], in[2]);
                   }});
    all.push_back({"BatchNorm", {x, {256}, {256}}, [](const auto& in) {
                     return batch_norm(in[0], in[1], in[2]).y;
                   }});
    all.push_back({.op = "SoftmaxCrossEntropy",
                   .inputs = {x, {rows}},
                   .build = [](const auto& in) { return softmax_cross_entropy(in[0], in[1]); },
                   .below = 256});
    all.push_back({.op = "Gather",
                   .inputs = {{10'000, 64}, {rows * 4}},
                   .build = [](const auto& in) { return gather(in[0], in[1]); },
                   .below = 10'000});
  }
}

// The cost of a language model beside its products: the loss of 700 words of 10,000, and its bias.
void add_lstm(std::vector<Case>& all) {
  const Shape logits{700, 10'000}, words{700};
  all.push_back({.op = "SoftmaxCrossEntropy",
                 .inputs = {logits, words},
                 .build = [](const auto& in) { return softmax_cross_entropy(in[0], in[1]); },
                 .below = 10'000});
  all.push_back(
      {.op = "SoftmaxCrossEntropyGradient",
       .inputs = {words, logits, words},
       .build = [](const auto& in) { return softmax_cross_entropy_gradient(in[0], in[1], in[2]); },
       .below = 10'000});
  all.push_back({"ReduceSum first", {logits}, [](const auto& in) {
                   return reduce_sum(in[0], {.axes = {0}});
                 }});
}

void add_products(std::vector<Case>& all) {
  const auto product = [&](int64_t m, int64_t k, int64_t n, bool ta, bool tb) {
    const std::string name = detail::concat("MatMul", ta ? " at" : "", tb ? " bt" : "");
    all.push_back({name,
                   {ta ? Shape{k, m} : Shape{m, k}, tb ? Shape{n, k} : Shape{k, n}},
                   [=](const auto& in) {
                     return matmul(in[0], in[1], {.transpose_a = ta, .transpose_b = tb});
                   },
                   2.0 * static_cast<double>(m * k * n)});
  };
  for (const int64_t n : {16, 64, 256, 1'024}) product(n, n, n, false, false);
  product(128, 784, 1'024, false, false);
  product(128, 1'024, 1'024, false, true);
  product(784, 128, 1'024, true, false);
  product(20, 200, 800, false, false);
  product(1, 1'024, 1'024, false, false);
  // Scores of six rows for each of 256 examples, and their gradients.
  const auto products = [&](Shape a, Shape b, bool ta, bool tb) {
    const double flop = 2.0 * static_cast<double>(a.size() * (tb ? b[1] : b[2]));
    all.push_back({detail::concat("MatMul", ta ? " at" : "", tb ? " bt" : ""),
                   {a, b},
                   [=](const auto& in) {
                     return matmul(in[0], in[1], {.transpose_a = ta, .transpose_b = tb});
                   },
                   flop});
  };
  products({256, 6, 100}, {256, 100, 1}, false, false);
  products({256, 6, 1}, {256, 100, 1}, false, true);
  products({256, 6, 100}, {256, 6, 1}, true, false);
  struct Images {
    int64_t batch, in, side, window, out;
  };
  for (const Images& c :
       {Images{64, 16, 32, 3, 16}, Images{64, 32, 16, 3, 32}, Images{64, 64, 8, 3, 64},
        Images{64, 3, 32, 3, 16}, Images{64, 32, 14, 5, 64}, Images{32, 256, 28, 1, 64}}) {
    const Shape x{c.batch, c.side, c.side, c.in}, f{c.window, c.window, c.in, c.out},
        y{c.batch, c.side, c.side, c.out};
    const double flop = 2.0 * static_cast<double>(y.size() * c.window * c.window * c.in);
    all.push_back(
        {"Convolution", {x, f}, [](const auto& in) { return conv2d(in[0], in[1]); }, flop});
    all.push_back({"ConvolutionInputGradient",
                   {y, f, x},
                   [](const auto& in) { return conv2d_input_gradient(in[0], in[1], in[2]); },
                   flop});
    all.push_back({"ConvolutionFilterGradient",
                   {y, x, f},
                   [](const auto& in) { return conv2d_filter_gradient(in[0], in[1], in[2]); },
                   flop});
  }
  all.push_back(
      {"MaxPool2d", {{64, 28, 28, 32}}, [](const auto& in) { return max_pool2d(in[0]); }});
  all.push_back({"MaxPool2dGradient", {{64, 14, 14, 32}, {64, 28, 28, 32}}, [](const auto& in) {
                   return max_pool2d_gradient(in[0], in[1]);
                 }});
  all.push_back({"MaxPool2dGradient", {{32, 28, 28, 192}, {32, 28, 28, 192}}, [](const auto& in) {
                   const PoolOptions window{.window = 3, .stride = 1, .same_padding = true};
                   return max_pool2d_gradient(in[0], in[1], window);
                 }});
  all.push_back({"BatchNorm", {{64, 32, 32, 16}, {16}, {16}}, [](const auto& in) {
                   return batch_norm(in[0], in[1], in[2]).y;
                 }});
}

// A call needs an output, so it is: feed, op, fetch. The cost of a call without an op is
// subtracted.
class OpTimer {
 public:
  OpTimer() {
    Case nothing{"Identity", {{16}}, [](const auto& in) { return identity(in[0]); }};
    call_ = seconds(nothing);
  }
  double call_seconds() const { return call_; }

  double seconds(const Case& c, double* bytes = nullptr) {
    Graph graph;
    std::vector<Output> in;
    std::vector<Tensor> feeds;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const bool indices = c.below > 0 && i + 1 == c.inputs.size();
      feeds.push_back(indices ? some_indices(c.inputs[i], c.below) : some_floats(c.inputs[i]));
      in.push_back(placeholder(graph, feeds.back().dtype(), feeds.back().shape()));
    }
    const Output y = c.build(in);
    Session session = Session::local(graph, {.threads = 1});
    const Callable step = session.prepare({y}, in);
    double total = static_cast<double>(step(feeds)[0].byte_size());
    for (const Tensor& feed : feeds) total += static_cast<double>(feed.byte_size());
    if (c.op == "Gather")  // reads the rows that it returns, and the indices
      total =
          2 * static_cast<double>(y.shape().size() * 4) + static_cast<double>(feeds[1].byte_size());
    if (c.op == "Slice") total = 2 * static_cast<double>(y.shape().size() * 4);
    if (c.op.rfind("Convolution", 0) == 0 &&
        c.inputs.size() == 3)  // only the shape of the third is read
      total -= static_cast<double>(feeds[2].byte_size());
    if (bytes) *bytes = total;
    return best_of(step, feeds);
  }

 private:
  static double best_of(const Callable& step, const std::vector<Tensor>& feeds) {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; ++i) step(feeds);
    const double about = std::max(1e-7, seconds_since(begin) / 3);
    const auto times = std::clamp<int64_t>(static_cast<int64_t>(2e-3 / about), 1, 10'000);
    double best = 1e9;
    for (int r = 0; r < 25; ++r) {
      begin = std::chrono::steady_clock::now();
      for (int64_t i = 0; i < times; ++i) step(feeds);
      best = std::min(best, seconds_since(begin) / static_cast<double>(times));
    }
    return best;
  }
  double call_ = 0;
};

std::string written(const std::vector<Shape>& shapes) {
  std::string text;
  for (const Shape& shape : shapes) {
    if (!text.empty()) text += "_";
    for (int d = 0; d < shape.ndim(); ++d) text += detail::concat(d ? "x" : "", shape[d]);
  }
  return text;
}

// Null if there is none.
const char* reason_for(const Case& c) {
  for (const Reason& reason : reasons())
    if (c.op == reason.op &&
        (reason.inputs.empty() || std::find(reason.inputs.begin(), reason.inputs.end(),
                                            written(c.inputs)) != reason.inputs.end()))
      return reason.why;
  return nullptr;
}

// Finds reasons for ops that are no longer measured.
void check_reasons(const std::vector<Case>& all) {
  for (const Reason& reason : reasons()) {
    const auto is_measured = [&](const std::string& inputs) {
      return std::any_of(all.begin(), all.end(), [&](const Case& c) {
        return c.op == reason.op && (inputs.empty() || written(c.inputs) == inputs);
      });
    };
    TROUPE_CHECK(
        is_measured("") && std::all_of(reason.inputs.begin(), reason.inputs.end(), is_measured),
        "there is a reason for ", reason.op, " of sizes that are not measured");
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  add_elementwise(all);
  add_rows(all);
  add_lstm(all);
  add_products(all);
  check_reasons(all);
  return all;
}

using Config = std::vector<std::pair<std::string, std::string>>;

Config config_of(const Case& c, double share) {
  std::string name = c.op;
  std::replace(name.begin(), name.end(), ' ', '_');
  Config config = {{"op", detail::concat("\"", name, "\"")},
                   {"inputs", detail::concat("\"", written(c.inputs), "\"")},
                   {"below_half", share < 0.5 ? "true" : "false"},
                   {"statistic", "\"minimum\""}};
  const char* const why = reason_for(c);
  if (share < 0.5) config.emplace_back("reason", detail::concat("\"", why ? why : "none", "\""));
  return config;
}

}  // namespace

int ops(const Options& options) {
  const std::string only = options.text("only", "");
  std::vector<Case> all = cases();
  if (!only.empty())
    std::erase_if(all, [&](const Case& c) { return c.op.find(only) == std::string::npos; });
  if (all.empty()) throw Error(Errc::invalid_argument, "no op here is called \"", only, "\"");
  Roofline roofline;
  OpTimer timer;
  report(options, "ops", "peak", roofline.flops() / 1e9, "GFLOP/s", {{"statistic", "\"maximum\""}});
  for (const int64_t kib : {16, 256, 4'096, 262'144})
    report(options, "ops", "bandwidth", roofline.bandwidth(kib << 10) / 1e9, "GB/s",
           {{"working_set_kib", std::to_string(kib)}, {"statistic", "\"maximum\""}});
  report(options, "ops", "call", timer.call_seconds() * 1e6, "us", {{"statistic", "\"minimum\""}});
  int unexplained = 0;
  for (const Case& c : all) {
    double bytes = 0;
    const double took = std::max(1e-9, timer.seconds(c, &bytes) - timer.call_seconds());
    const double share = roofline.seconds(c.flop, bytes) / took;
    const Config config = config_of(c, share);
    if (c.flop > 0)
      report(options, "ops", "gflops", c.flop / took / 1e9, "GFLOP/s", config);
    else
      report(options, "ops", "gb_per_s", bytes / took / 1e9, "GB/s", config);
    report(options, "ops", "share_of_roofline", share, "x", config);
    if (share < 0.5 && !reason_for(c)) ++unexplained;
  }
  report(options, "ops", "below_half_without_reason", unexplained, "ops", {});
  return 0;
}

}  // namespace troupe::bench
