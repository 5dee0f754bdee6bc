// CloseBarrier: no element is begun after this. Attribute `cancel_pending`: elements that were
// begun are dropped, and inserts that wait for room fail.
//   ready: i64[], the number of complete elements left
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
