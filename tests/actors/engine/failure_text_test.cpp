// Errors of kernels that do not know their node: memory ends, a size is too large for any memory, a
// kernel of the program throws. The text names node and line.

#include "tests/support/engine/own_op.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

struct Failing {
  Failing(std::shared_ptr<const Registry> ops = builtin_ops()) : graph(ops) {}
  Refusal run(Output y, Feeds feeds, ProcessOptions options = {}) {
    options.threads = 1;
    Session session = Session::local(graph, options);
    return refusal_of([&] { session.run({y}, feeds); });
  }
  Graph graph;
};

std::string made_at(const std::string& node, int line) {
  return detail::concat(node, " made at ", __FILE__, ":", line);
}

}  // namespace

TEST_CASE("memory that is used up names the node that wanted it, and its line") {
  for (const char* device : {"/device:cpu:0", "/device:shadow:0"}) {
    CAPTURE(device);
    Failing f;
    const Output x = placeholder(f.graph, DType::f32, {-1, 1}, "x");
    const auto there = f.graph.scope({.device = device});
    const int line = __LINE__ + 1;
    const Output y = tile(x, {1, 1 << 24});
    const Refusal refusal = f.run(y, {{x, Tensor::zeros(DType::f32, {4, 1})}},
                                  {.shadow_devices = 1, .memory_budget_bytes = 1 << 26});
    CHECK(refusal.code == Errc::out_of_memory);
    has(refusal.text, made_at("Tile node Tile", line));
    has(refusal.text, "has no room for a tensor of 268435456 bytes");
  }
}

TEST_CASE("memory that is used up while a call is prepared names the node, and its line") {
  Failing f;
  const int line = __LINE__ + 1;
  const Output y = fill(f.graph, {1 << 26}, 1);
  const Refusal refusal = f.run(y, {}, {.memory_budget_bytes = 1 << 26});
  CHECK(refusal.code == Errc::out_of_memory);
  has(refusal.text, made_at("Fill node Fill", line));
}

TEST_CASE("a size past all memory that only the step knows names the node and its line") {
  Failing f;
  const Output x = placeholder(f.graph, DType::f32, {-1}, "x");
  const int line = __LINE__ + 1;
  const Output y = tile(x, {int64_t{1} << 58});
  const Refusal refusal = f.run(y, {{x, Tensor::zeros(DType::f32, {8})}});
  CHECK(refusal.code == Errc::invalid_argument);
  has(refusal.text, made_at("Tile node Tile", line));
  has(refusal.text, "[2305843009213693952] has more than 2^59 elements");
}

TEST_CASE("what somebody's kernel throws is told with the node and its line, on each device") {
  const Op throws = own_op("Throws", {DeviceKind::cpu, DType::f32, [](KernelContext&) {
                                        throw std::runtime_error("no such luck");
                                      }});
  for (const char* device : {"/device:cpu:0", "/device:shadow:0"}) {
    CAPTURE(device);
    Failing f(ops_with({throws}));
    const Output x = placeholder(f.graph, DType::f32, {2}, "x");
    const auto there = f.graph.scope({.device = device});
    const int line = __LINE__ + 1;
    const Output y = f.graph.add({.op = "Throws", .inputs = {x}});
    const Refusal refusal = f.run(y, {{x, Tensor::zeros(DType::f32, {2})}}, {.shadow_devices = 1});
    CHECK(refusal.code == Errc::kernel_failed);
    has(refusal.text, made_at("Throws node Throws", line) + ": no such luck");
  }
}

}  // namespace troupe
