// BarrierTake: takes the complete elements of a barrier that were begun first, when there are
// `count` of them. Holds no thread while it waits.
//   keys: i64[count]   components: [count, ...]
#include "ops/state/barrier.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  check_barrier(ctx);
  std::vector<DType> dtypes = {DType::i64};
  for (const TensorType& type : barrier_of(ctx.node()).types) dtypes.push_back(type.dtype);
  return dtypes;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const int64_t count = ctx.attr<int64_t>("count");
  if (count < 1) throw ctx.error("wants a count of at least 1, got ", count);
  const Barrier barrier = barrier_of(ctx.node());
  if (count > barrier.capacity)
    throw ctx.error("the barrier ", barrier.name, " holds at most ", barrier.capacity,
                    " elements, and ", count, " are to be taken; give it a larger capacity");
  std::vector<Shape> shapes = {Shape{count}};
  for (const TensorType& type : barrier.types) {
    std::vector<int64_t> sizes(type.shape.begin(), type.shape.end());
    sizes.insert(sizes.begin(), count);
    shapes.push_back(Shape(sizes));
  }
  return shapes;
}

void start(std::shared_ptr<AsyncContext> ctx) {
  with_barrier(ctx, [&](BarrierState& barrier) {
    barrier.take(ctx->node().attr<int64_t>("count"), waiter_of(ctx));
  });
}

}  // namespace

Op barrier_take_op() {
  return {.name = "BarrierTake",
          .outputs = {"keys", "components..."},
          .attrs = barrier_attrs({{"count", AttrKind::integer}}),
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "what comes out of the barrier was put in by another step",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start}},
          .dispatch = -1,
          .stateful = true};
}

std::vector<Output> barrier_take(const Barrier& barrier, int64_t count, Origin at) {
  return all_outputs(add_barrier_node(barrier, "BarrierTake", {}, {{"count", count}}, at));
}

}  // namespace troupe
