// The tables of a trace: the sums of a known run.
#include <iterator>
#include <sstream>

#include "actors/observe/trace.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

std::string trace_of_products(int steps) {
  Graph graph;
  const Output a = placeholder(graph, DType::f32, {100, 50}, "a");
  const Output b = placeholder(graph, DType::f32, {50, 20}, "b");
  const Output y = relu(matmul(a, b));
  ProcessOptions one{.threads = 1};
  one.passes = false;  // a pass would fuse the two nodes
  Session session = Session::local(graph, one);
  const Callable step = session.prepare({y}, {a, b});
  session.start_trace();
  for (int i = 0; i < steps; ++i)
    step({Tensor::zeros(DType::f32, {100, 50}), Tensor::zeros(DType::f32, {50, 20})});
  return session.stop_trace();
}

// The words of the first line that begins with two spaces and `word`.
std::vector<std::string> row(const std::string& text, const std::string& word) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("  " + word + " ", 0) == 0) {
      std::istringstream words(line);
      return {std::istream_iterator<std::string>(words), {}};
    }
  return {};
}

}  // namespace

TEST_CASE("the tables count kernels, bytes and operations of each op, node and step") {
  const std::string text = describe_trace(trace_of_products(3), {.peak_flops = 1e12});
  CAPTURE(text);
  has(text, "with 6 kernels in 3 steps");
  const auto product = row(text, "MatMul");
  REQUIRE(product.size() == 9);
  CHECK(product[1] == "3");
  // 3 times (100 x 50 + 50 x 20 + 100 x 20) elements of 4 bytes.
  CHECK(product[5] == "0.1");
  const double seconds = std::stod(product[2]) / 1e3;
  const double gflops = 3 * 2.0 * 100 * 50 * 20 / 1e9;
  if (seconds > 1e-5)
    CHECK(std::stod(product[7]) == doctest::Approx(gflops / seconds).epsilon(0.2));
  const auto step = row(text, "1");
  REQUIRE(step.size() == 7);
  CHECK(step[2] == "2");
  CHECK(step[5] == "0.000");
  CHECK(row(text, "Relu")[7] == "-");
  has(text, "Memory\n");
  has(text, "/job:local/task:0/device:cpu:0");
}

TEST_CASE("tables may be left out, and the slowest nodes are as many as were asked for") {
  const std::string trace = trace_of_products(4);
  const std::string few = describe_trace(trace, {.nodes = 1, .steps = 2});
  has(few, "The slowest 1 of 2 nodes");
  has(few, "The first 2 of 4 steps");
  CHECK(few.find("% of peak") == std::string::npos);
  const std::string none = describe_trace(trace, {.nodes = 0, .steps = 0});
  CHECK(none.find("slowest") == std::string::npos);
  CHECK(none.find("steps\n  ") == std::string::npos);
}

TEST_CASE("what is waited for is counted by kind, and an empty trace is one") {
  Tracer tracer("/job:a/task:0", 7);
  tracer.start();
  const int64_t origin = tracer.started_ns();
  tracer.record({.category = "pull",
                 .name = "w",
                 .begin_ns = origin,
                 .end_ns = origin + 3'000'000,
                 .run = 1,
                 .bytes = 1 << 20});
  tracer.record({.category = "copy",
                 .name = "c",
                 .begin_ns = origin,
                 .end_ns = origin + 500'000,
                 .run = 1,
                 .bytes = 0});
  const std::string text = describe_trace(chrome_trace({tracer.take(origin)}));
  const auto pulls = row(text, "pull");
  REQUIRE(pulls.size() == 4);
  CHECK(pulls[2] == "3.000");
  CHECK(pulls[3] == "1.0");
  CHECK(row(text, "copy")[2] == "0.500");
  has(describe_trace(chrome_trace({})), "with 0 kernels in 0 steps");
}

TEST_CASE("a text that is no trace, or half of one, is refused with its line") {
  CHECK(code_of([] { describe_trace("{}"); }) == Errc::bad_data);
  CHECK(code_of([] { describe_trace(""); }) == Errc::bad_data);
  const std::string trace = trace_of_products(1);
  check_error(
      Errc::bad_data, [&] { describe_trace(trace.substr(0, trace.size() / 2)); }, "line ");
  std::string other = trace;
  other.replace(other.find("\"dur\":"), 6, "\"was\":");
  has(refusal_of([&] { describe_trace(other); }).text, "dur");
}

}  // namespace troupe
