// CloseQueue: nothing is put into the queue after this; its elements can still be taken. Attribute
// `cancel_pending`: enqueues that wait for room fail.
//   size: i64[], the number of elements left in the queue
#include "ops/state/queue.hpp"

namespace troupe {
namespace {

void start(std::shared_ptr<AsyncContext> ctx) {
  with_queue(ctx, [&](QueueState& queue) {
    queue.close(ctx->node().attr<bool>("cancel_pending"));
    ctx->done({Tensor::scalar(queue.size())});
  });
}

}  // namespace

Op close_queue_op() {
  return {.name = "CloseQueue",
          .outputs = {"size"},
          .attrs = queue_attrs({{"cancel_pending", AttrKind::boolean, false}}),
          .infer_dtypes = infer_size_dtype,
          .infer_shapes = infer_size_shape,
          .no_gradient = "it has no inputs",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start}},
          .dispatch = -1,
          .stateful = true};
}

Output close_queue(const Queue& queue, bool cancel_pending, Origin at) {
  return add_queue_node(queue, "CloseQueue", {}, {{"cancel_pending", cancel_pending}}, at);
}

}  // namespace troupe
