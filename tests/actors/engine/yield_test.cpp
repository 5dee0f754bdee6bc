// A step on the only lane of a process lets actors go first, before a costly node.

#include <atomic>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/engine/own_op.hpp"

namespace troupe {
namespace {

std::atomic<bool> heard{false};
caf::actor listener;

int64_t many(const Node&, const std::vector<Shape>&, const std::vector<Shape>&) {
  return int64_t{1} << 30;
}

// y = x; tells the listener.
Op tell_op() {
  Op op = own_op("Tell", {.dtype = DType::f32, .run = [](KernelContext& ctx) {
                            caf::anon_send(listener, 1);
                            ctx.set_output(0, ctx.input(0));
                          }});
  op.flops = many;
  return op;
}

// y = 1 if the listener has heard, else 0.
Op heard_op() {
  Op op = own_op("Heard", {.dtype = DType::f32, .run = [](KernelContext& ctx) {
                             ctx.set_output(0, Tensor::scalar<float>(heard ? 1 : 0));
                           }});
  op.flops = many;
  return op;
}

}  // namespace

TEST_CASE("on one lane an actor with a message goes before the next costly node of a step") {
  const auto ops = ops_with({tell_op(), heard_op()});
  LocalCluster cluster({"/job:worker/task:0"}, 1, ops);
  Graph graph(ops);
  const auto scope = graph.scope({.device = "/job:worker/task:0"});
  const Output x = placeholder(graph, DType::f32, {});
  const Output told = graph.add({.op = "Tell", .inputs = {x}});
  const Output got = graph.add({.op = "Heard", .inputs = {told}});
  listener = cluster.process(0).system().spawn(
      [](caf::event_based_actor*) -> caf::behavior { return {[](int) { heard = true; }}; });
  {
    Session session = cluster.connect(graph, {}, {.process = {.ops = ops}});
    CHECK(session.run({got}, {{x, Tensor::scalar<float>(0)}})[0].item<float>() == 1);
  }
  caf::anon_send_exit(listener, caf::exit_reason::user_shutdown);
  listener = nullptr;
}

}  // namespace troupe
