// BarrierInsert: inserts one component of several elements of a barrier, by their keys. Completes
// when there was room for the elements that it begins. Attribute `component`: its index.
//   keys: i64[n]   values: [n, ...] of the component's type   ready: i64[], the number of complete
//   elements afterwards
#include "ops/state/barrier.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_barrier(ctx);
  const Barrier barrier = barrier_of(ctx.node());
  const int64_t component = ctx.attr<int64_t>("component");
  if (component < 0 || component >= static_cast<int64_t>(barrier.types.size()))
    throw ctx.error("wants a component from 0 to ", barrier.types.size() - 1, ", got ", component);
  const TensorType& type = barrier.types[static_cast<size_t>(component)];
  const Shape &keys = ctx.input(0), &values = ctx.input(1);
  if (ctx.dtype(0) != DType::i64 || keys.ndim() != 1)
    throw ctx.error("wants keys i64[n], got ", TensorType{ctx.dtype(0), keys});
  if (keys[0] > barrier.capacity)
    throw ctx.error("the barrier ", barrier.name, " holds at most ", barrier.capacity,
                    " elements, and ", keys[0],
                    " are given a component at once; give it a larger capacity");
  if (values.ndim() < 1 || !may_equal(values[0], keys[0]) || ctx.dtype(1) != type.dtype ||
      !may_equal(type.shape, Shape(std::vector<int64_t>(values.begin() + 1, values.end()))))
    throw ctx.error("wants a row for each of ", keys, " keys, each ", type, ", got ",
                    TensorType{ctx.dtype(1), values});
  return {Shape{}};
}

void start(std::shared_ptr<AsyncContext> ctx) {
  with_barrier(ctx, [&](BarrierState& barrier) {
    const auto component = static_cast<size_t>(ctx->node().attr<int64_t>("component"));
    const Tensor &keys = ctx->input(0), &values = ctx->input(1);
    const Shape& wanted = barrier.description().types[component].shape;
    std::vector<Tensor> rows;
    if (values.dim(0) == keys.size())
      for (int64_t i = 0; i < keys.size(); ++i) rows.push_back(row_of(values, i));
    if (static_cast<int64_t>(rows.size()) != keys.size() ||
        (!rows.empty() && rows[0].shape() != wanted))
      throw Error(Errc::invalid_argument, describe(ctx->node()), ": wants a row of shape ", wanted,
                  " for each of ", keys.size(), " keys, got ", values.shape());
    const auto numbers = keys.values<int64_t>();
    barrier.insert(component, {numbers.begin(), numbers.end()}, std::move(rows), waiter_of(ctx));
  });
}

}  // namespace

Op barrier_insert_op() {
  return {.name = "BarrierInsert",
          .inputs = {"keys", "values"},
          .outputs = {"ready"},
          .attrs = barrier_attrs({{"component", AttrKind::integer}}),
          .infer_dtypes = infer_size_dtype,
          .infer_shapes = infer_shapes,
          .no_gradient = "what leaves the barrier leaves it in another step",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start}},
          .dispatch = -1,
          .stateful = true,
          .precision = Precision::kept};
}

Output barrier_insert(const Barrier& barrier, int64_t component, Output keys, Output values,
                      Origin at) {
  return add_barrier_node(barrier, "BarrierInsert", {keys, values}, {{"component", component}}, at);
}

}  // namespace troupe
