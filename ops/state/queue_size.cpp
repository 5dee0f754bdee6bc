// QueueSize: the current number of elements in a queue.
//   size: i64[]
#include "ops/state/queue.hpp"

namespace troupe {
namespace {

void start(std::shared_ptr<AsyncContext> ctx) {
  with_queue(ctx, [&](QueueState& queue) { ctx->done({Tensor::scalar(queue.size())}); });
}

}  // namespace

Op queue_size_op() {
  return {.name = "QueueSize",
          .outputs = {"size"},
          .attrs = queue_attrs(),
          .infer_dtypes = infer_size_dtype,
          .infer_shapes = infer_size_shape,
          .no_gradient = "it has no inputs",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start}},
          .dispatch = -1,
          .stateful = true,
          .properties = &kDraws};
}

Output queue_size(const Queue& queue, Origin at) {
  return add_queue_node(queue, "QueueSize", {}, {}, at);
}

}  // namespace troupe
