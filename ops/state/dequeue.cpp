// Dequeue: the components of elements taken from a queue, when there are enough. Holds no thread
// while it waits. Attribute `count`: 0 for one element unstacked, otherwise that many, stacked;
// `partial`: a closed queue may give fewer.
//   components: of the queue's types, after [count] or [-1] if they are stacked
#include "ops/state/queue.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  check_queue(ctx);
  std::vector<DType> dtypes;
  for (const TensorType& type : queue_of(ctx.node()).types) dtypes.push_back(type.dtype);
  return dtypes;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const int64_t count = ctx.attr<int64_t>("count");
  if (count < 0) throw ctx.error("wants a count of at least 1, got ", count);
  const Queue queue = queue_of(ctx.node());
  const int64_t stay = queue.options.min_after_dequeue, most = queue.options.capacity - stay;
  const bool partial = ctx.attr<bool>("partial");
  if (!partial && count > most)
    throw ctx.error("the queue ", queue.name, " never has ", count,
                    " elements to give: its capacity is ", queue.options.capacity, ", of which ",
                    stay, " stay; give it a larger capacity");
  std::vector<Shape> shapes;
  for (const TensorType& type : queue.types) {
    std::vector<int64_t> sizes(type.shape.begin(), type.shape.end());
    if (count > 0) sizes.insert(sizes.begin(), partial ? -1 : count);
    shapes.push_back(Shape(sizes));
  }
  return shapes;
}

void start(std::shared_ptr<AsyncContext> ctx) {
  const int64_t count = ctx->node().attr<int64_t>("count");
  with_queue(ctx, [&](QueueState& queue) {
    queue.dequeue({.count = std::max<int64_t>(1, count),
                   .stacked = count > 0,
                   .partial = ctx->node().attr<bool>("partial")},
                  waiter_of(ctx));
  });
}

std::vector<Output> add(const Queue& queue, int64_t count, bool partial, Origin at) {
  return all_outputs(
      add_queue_node(queue, "Dequeue", {}, {{"count", count}, {"partial", partial}}, at));
}

// 0 stands for dequeue(), which takes one element and does not stack.
int64_t checked_count(const Queue& queue, int64_t count, Origin at) {
  if (count < 1)
    throw Error(Errc::invalid_argument, "a dequeue from ", queue.name, " made at ", at.file, ":",
                at.line, " wants a count of at least 1, got ", count);
  return count;
}

}  // namespace

Op dequeue_op() {
  return {.name = "Dequeue",
          .outputs = {"components..."},
          .attrs = queue_attrs(
              {{"count", AttrKind::integer, int64_t{0}}, {"partial", AttrKind::boolean, false}}),
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "what comes out of the queue was put in by another step",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start}},
          .dispatch = -1,
          .stateful = true,
          .properties = &kDraws};
}

std::vector<Output> dequeue(const Queue& queue, Origin at) { return add(queue, 0, false, at); }

std::vector<Output> dequeue_many(const Queue& queue, int64_t count, Origin at) {
  return add(queue, checked_count(queue, count, at), false, at);
}

std::vector<Output> dequeue_up_to(const Queue& queue, int64_t count, Origin at) {
  return add(queue, checked_count(queue, count, at), true, at);
}

}  // namespace troupe
