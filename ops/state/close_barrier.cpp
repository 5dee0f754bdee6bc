// CloseBarrier: no element is begun after this. Attribute `cancel_pending`: those that were begun
// go, and who waits for room fails.
//   ready: i64[], how many complete elements are left
#include "ops/state/barrier.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_barrier(ctx);
  return {Shape{}};
}

void start(std::shared_ptr<AsyncContext> ctx) {
  with_barrier(ctx, [&](BarrierState& barrier) {
    barrier.close(ctx->node().attr<bool>("cancel_pending"));
    ctx->done({Tensor::scalar(barrier.ready())});
  });
}

}  // namespace

Op close_barrier_op() {
  return {.name = "CloseBarrier",
          .outputs = {"ready"},
          .attrs = barrier_attrs({{"cancel_pending", AttrKind::boolean, false}}),
          .infer_dtypes = infer_size_dtype,
          .infer_shapes = infer_shapes,
          .no_gradient = "it has no inputs",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start}},
          .dispatch = -1,
          .stateful = true};
}

Output close_barrier(const Barrier& barrier, bool cancel_pending, Origin at) {
  return add_barrier_node(barrier, "CloseBarrier", {}, {{"cancel_pending", cancel_pending}}, at);
}

}  // namespace troupe
