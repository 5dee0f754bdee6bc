// Op supervision: for any op actor that dies and any kernel that throws, in each step of a
// training, no step is lost and no bit changes.
#include <doctest/doctest.h>

#include <random>
#include <set>

#include <caf/all.hpp>

#include "actors/master/session_state.hpp"
#include "graph/op.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

constexpr int kSteps = 1'000;

// The node whose kernel throws next, and how often it does.
struct Fault {
  std::string node;
  int times = 0;
  int64_t thrown = 0;
};
Fault& fault() {
  static Fault one;
  return one;
}

// The kernel of the built-in op, wrapped to throw first on request.
void unreliable(KernelContext& ctx) {
  if (fault().times > 0 && ctx.node().name == fault().node) {
    --fault().times;
    ++fault().thrown;
    throw std::runtime_error("told to fail");
  }
  Node built_in = ctx.node();
  built_in.op = &builtin_ops()->get(ctx.node().op->name);
  find_kernel(built_in, DeviceKind::cpu)->run(ctx);
}

std::shared_ptr<const Registry> unreliable_ops() {
  auto registry = std::make_shared<Registry>();
  for (const Op* built_in : builtin_ops()->all()) {
    Op op = *built_in;
    for (Kernel& kernel : op.kernels)
      if (kernel.run) kernel.run = unreliable;
    registry->add(op);
  }
  return registry;
}

// A network with a loss and an update.
struct TestProgram {
  explicit TestProgram(std::shared_ptr<const Registry> ops) : graph(std::move(ops)) {
    x = placeholder(graph, DType::f32, {8, 4}, "x");
    y = placeholder(graph, DType::i64, {8}, "y");
    const Output w = parameter("w", truncated_normal(graph, Shape{4, 6}, 0, 0.5, 11));
    const Output b = parameter("b", fill(graph, {6}, 0));
    const Output v = parameter("v", truncated_normal(graph, Shape{6, 3}, 0, 0.5, 12));
    const Output h = dropout(relu(bias_add(matmul(x, w), b)), 0.25, 5);
    loss = reduce_mean(softmax_cross_entropy(matmul(h, v), y));
    update = minimize(loss, momentum(0.005, 0.9));
  }
  static std::vector<Tensor> batch(int64_t step) {
    Tensor images = Tensor::empty(DType::f32, {8, 4});
    Tensor labels = Tensor::empty(DType::i64, {8});
    for (int64_t i = 0; i < 32; ++i)
      images.mutable_data<float>()[i] = static_cast<float>((i * 7 + step % 4) % 11) * 0.1F;
    for (int64_t i = 0; i < 8; ++i) labels.mutable_data<int64_t>()[i] = i % 3;
    return {images, labels};
  }
  Graph graph;
  Output x, y, loss, update;
};

// The losses of the steps; `before` each of them something may happen.
std::vector<float> losses(TestProgram& p, const std::function<void(Session&, int)>& before) {
  ProcessOptions options{.threads = 1};
  options.passes = false;  // so every node has an actor
  Session session = Session::local(p.graph, options);
  const Callable step = session.prepare({p.loss, p.update}, {p.x, p.y});
  std::vector<float> out;
  for (int i = 0; i < kSteps; ++i) {
    before(session, i);
    out.push_back(step(p.batch(i))[0].item<float>());
  }
  return out;
}

}  // namespace

TEST_CASE("a training loses no step and no bit to an op that throws or dies in each of 1,000") {
  TestProgram calm(builtin_ops());
  const std::vector<float> expected = losses(calm, [](Session&, int) {});
  TestProgram p(unreliable_ops());
  std::vector<std::string> throwing, all;
  for (const auto& node : p.graph.nodes()) {
    all.push_back(node->name);
    const Kernel* kernel = find_kernel(*node, DeviceKind::cpu);
    if (kernel && kernel->run && !node->inputs.empty()) throwing.push_back(node->name);
  }
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same faults each time
  int64_t killed = 0, told = 0;
  fault() = {};
  const std::vector<float> got = losses(p, [&](Session& session, int) {
    told += fault().thrown;
    fault() = {throwing[random() % throwing.size()], 1 + static_cast<int>(random() % 3), 0};
    const std::string victim = all[random() % all.size()];
    for (const OpHandle& actor : session.state().master->calls().op_actors(victim)) {
      caf::anon_send_exit(actor, caf::exit_reason::kill);
      ++killed;
    }
  });
  told += fault().thrown;
  CHECK(got == expected);
  CHECK(std::set<float>(expected.begin(), expected.end()).size() > kSteps / 2);  // it moved on
  CHECK(killed > kSteps / 2);
  CHECK(told > kSteps);
}

}  // namespace troupe
