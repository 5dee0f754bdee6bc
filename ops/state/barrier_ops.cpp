// BarrierInsert: inserts one component of several elements of a barrier, by their keys. Completes
// when there was room for the elements that it begins. Attribute `component`: its index.
//   keys: i64[n]   values: [n, ...] of the component's type   ready: i64[], the number of complete
//   elements afterwards
//
// BarrierTake: takes the complete elements of a barrier that were begun first, when there are
// `count` of them. Holds no thread while it waits.
//   keys: i64[count]   components: [count, ...]
//
// CloseBarrier: no element is begun after this. Attribute `cancel_pending`: elements that were
// begun are dropped, and inserts that wait for room fail.
//   ready: i64[], the number of complete elements left
#include "ops/state/barrier.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_inserted(const InferContext& ctx) {
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

void insert(std::shared_ptr<AsyncContext> ctx) {
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

std::vector<DType> infer_taken_dtypes(const InferContext& ctx) {
  check_barrier(ctx);
  std::vector<DType> dtypes = {DType::i64};
  for (const TensorType& type : barrier_of(ctx.node()).types) dtypes.push_back(type.dtype);
  return dtypes;
}

std::vector<Shape> infer_taken(const InferContext& ctx) {
  const int64_t count = ctx.attr<int64_t>("count");
  if (count < 1) throw ctx.error("wants a count of at least 1, got ", count);
  const Barrier barrier = barrier_of(ctx.node());
  if (count > barrier.capacity)
    throw ctx.error("the barrier ", barrier.name, " holds at most ", barrier.capacity,
                    " elements, and ", count, " are to be taken; give it a larger capacity");
  std::vector<Shape> shapes = {Shape{count}};
  for (const TensorType& type : barrier.types)
    shapes.push_back(shape_with_rows(count, type.shape.dims()));
  return shapes;
}

void take(std::shared_ptr<AsyncContext> ctx) {
  with_barrier(ctx, [&](BarrierState& barrier) {
    barrier.take(ctx->node().attr<int64_t>("count"), waiter_of(ctx));
  });
}

std::vector<Shape> infer_ready(const InferContext& ctx) {
  check_barrier(ctx);
  return {Shape{}};
}

void close(std::shared_ptr<AsyncContext> ctx) {
  with_barrier(ctx, [&](BarrierState& barrier) {
    barrier.close(ctx->node().attr<bool>("cancel_pending"));
    ctx->done({Tensor::scalar(barrier.ready())});
  });
}

}  // namespace

Op barrier_insert_op() {
  return state_op({.name = "BarrierInsert",
                   .inputs = {"keys", "values"},
                   .outputs = {"ready"},
                   .attrs = barrier_attrs({{"component", AttrKind::integer}}),
                   .infer_dtypes = infer_i64,
                   .infer_shapes = infer_inserted,
                   .no_gradient = "what leaves the barrier leaves it in another step",
                   .precision = Precision::kept},
                  insert);
}

Output barrier_insert(const Barrier& barrier, int64_t component, Output keys, Output values,
                      Origin at) {
  return add_node_of(barrier, "BarrierInsert", {keys, values}, {{"component", component}}, at);
}

Op barrier_take_op() {
  return state_op({.name = "BarrierTake",
                   .outputs = {"keys", "components..."},
                   .attrs = barrier_attrs({{"count", AttrKind::integer}}),
                   .infer_dtypes = infer_taken_dtypes,
                   .infer_shapes = infer_taken,
                   .no_gradient = "what comes out of the barrier was put in by another step"},
                  take);
}

std::vector<Output> barrier_take(const Barrier& barrier, int64_t count, Origin at) {
  return all_outputs(add_node_of(barrier, "BarrierTake", {}, {{"count", count}}, at));
}

Op close_barrier_op() {
  return state_op({.name = "CloseBarrier",
                   .outputs = {"ready"},
                   .attrs = barrier_attrs({{"cancel_pending", AttrKind::boolean, false}}),
                   .infer_dtypes = infer_i64,
                   .infer_shapes = infer_ready,
                   .no_gradient = "it has no inputs"},
                  close);
}

Output close_barrier(const Barrier& barrier, bool cancel_pending, Origin at) {
  return add_node_of(barrier, "CloseBarrier", {}, {{"cancel_pending", cancel_pending}}, at);
}

}  // namespace troupe
