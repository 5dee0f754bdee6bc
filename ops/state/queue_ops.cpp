// Enqueue: puts an element, or one for each row of its inputs, into a queue; completes when there
// was room. Attribute `many`: the inputs are [n, ...]. Holds no thread while it waits.
//   components: of the queue's types   size: i64[], the number of elements in the queue afterwards
//
// Dequeue: the components of elements taken from a queue, when there are enough. Holds no thread
// while it waits. Attribute `count`: 0 for one element unstacked, otherwise that many, stacked;
// `partial`: a closed queue may give fewer.
//   components: of the queue's types, after [count] or [-1] if they are stacked
//
// QueueSize: the current number of elements in a queue.
//   size: i64[]
//
// CloseQueue: nothing is put into the queue after this; its elements can still be taken. Attribute
// `cancel_pending`: enqueues that wait for room fail.
//   size: i64[], the number of elements left in the queue
#include "ops/state/queue.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_enqueued(const InferContext& ctx) {
  check_queue(ctx);
  const Queue queue = queue_of(ctx.node());
  const bool many = ctx.attr<bool>("many");
  if (ctx.input_count() != static_cast<int>(queue.types.size()))
    throw ctx.error("an element of the queue ", queue.name, " has ", queue.types.size(),
                    " components, got ", ctx.input_count());
  int64_t rows = -1;
  for (int i = 0; i < ctx.input_count(); ++i) {
    const TensorType& type = queue.types[static_cast<size_t>(i)];
    Shape one = ctx.input(i);
    if (many && one.ndim() > 0) {
      if (!may_equal(rows, one[0]))
        throw ctx.error("component ", i, " has ", one[0], " rows, those before have ", rows);
      rows = std::max(rows, one[0]);
      one = Shape(std::vector<int64_t>(one.begin() + 1, one.end()));
    } else if (many) {
      throw ctx.error("wants rows of component ", i, ", [n, ...], got a scalar");
    }
    if (ctx.dtype(i) != type.dtype || !may_equal(type.shape, one))
      throw ctx.error("component ", i, " of the queue ", queue.name, " is ", type, ", got ",
                      TensorType{ctx.dtype(i), one});
  }
  if (rows > queue.options.capacity)
    throw ctx.error("the queue ", queue.name, " has room for ", queue.options.capacity,
                    " elements, and ", rows,
                    " are to be put in at once; give it a larger capacity");
  return {Shape{}};
}

// The elements of a firing. Throws: Error(invalid_argument) if they do not fit; only the step knows
// their sizes.
std::vector<QueueElement> elements_of(const AsyncContext& ctx, const Queue& queue) {
  const bool many = ctx.node().attr<bool>("many");
  const int64_t count = many ? ctx.input(0).dim(0) : 1;
  std::vector<QueueElement> elements(static_cast<size_t>(count));
  for (size_t c = 0; c < queue.types.size(); ++c) {
    const Tensor& input = ctx.input(static_cast<int>(c));
    const Shape& wanted = queue.types[c].shape;
    const auto refuse = [&] {
      return Error(Errc::invalid_argument, describe(ctx.node()), ": component ", c,
                   " of the queue ", queue.name, " is ", queue.types[c], many ? " in rows" : "",
                   ", got ", TensorType{input.dtype(), input.shape()});
    };
    if (!many) {
      if (!wanted.accepts(input.shape())) throw refuse();
      elements[0].push_back(input);
      continue;
    }
    const Shape all = input.shape();
    const Shape one(std::vector<int64_t>(all.begin() + 1, all.end()));
    if (all[0] != count || !wanted.accepts(one)) throw refuse();
    for (int64_t row = 0; row < count; ++row)
      elements[static_cast<size_t>(row)].push_back(row_of(input, row));
  }
  return elements;
}

void enqueue_elements(std::shared_ptr<AsyncContext> ctx) {
  with_queue(ctx, [&](QueueState& queue) {
    queue.enqueue(elements_of(*ctx, queue.description()), waiter_of(ctx));
  });
}

std::vector<DType> infer_component_dtypes(const InferContext& ctx) {
  check_queue(ctx);
  std::vector<DType> dtypes;
  for (const TensorType& type : queue_of(ctx.node()).types) dtypes.push_back(type.dtype);
  return dtypes;
}

std::vector<Shape> infer_components(const InferContext& ctx) {
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
    const int64_t rows = partial ? -1 : count;
    shapes.push_back(count > 0 ? shape_with_rows(rows, type.shape.dims()) : type.shape);
  }
  return shapes;
}

void dequeue_elements(std::shared_ptr<AsyncContext> ctx) {
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
      add_node_of(queue, "Dequeue", {}, {{"count", count}, {"partial", partial}}, at));
}

// 0 stands for dequeue(), which takes one element and does not stack.
int64_t checked_count(const Queue& queue, int64_t count, Origin at) {
  if (count < 1)
    throw Error(Errc::invalid_argument, "a dequeue from ", queue.name, " made at ", at.file, ":",
                at.line, " wants a count of at least 1, got ", count);
  return count;
}

void tell_size(std::shared_ptr<AsyncContext> ctx) {
  with_queue(ctx, [&](QueueState& queue) { ctx->done({Tensor::scalar(queue.size())}); });
}

void close(std::shared_ptr<AsyncContext> ctx) {
  with_queue(ctx, [&](QueueState& queue) {
    queue.close(ctx->node().attr<bool>("cancel_pending"));
    ctx->done({Tensor::scalar(queue.size())});
  });
}

std::vector<Shape> infer_size_shape(const InferContext& ctx) {
  check_queue(ctx);
  return {Shape{}};
}

}  // namespace

Op enqueue_op() {
  return state_op({.name = "Enqueue",
                   .inputs = {"components..."},
                   .outputs = {"size"},
                   .attrs = queue_attrs({{"many", AttrKind::boolean, false}}),
                   .infer_dtypes = infer_i64,
                   .infer_shapes = infer_enqueued,
                   .no_gradient = "what leaves the queue leaves it in another step",
                   .precision = Precision::kept},
                  enqueue_elements);
}

Output enqueue(const Queue& queue, const std::vector<Output>& element, Origin at) {
  return add_node_of(queue, "Enqueue", element, {}, at);
}

Output enqueue_many(const Queue& queue, const std::vector<Output>& elements, Origin at) {
  return add_node_of(queue, "Enqueue", elements, {{"many", true}}, at);
}

Op dequeue_op() {
  return state_op({.name = "Dequeue",
                   .outputs = {"components..."},
                   .attrs = queue_attrs({{"count", AttrKind::integer, int64_t{0}},
                                         {"partial", AttrKind::boolean, false}}),
                   .infer_dtypes = infer_component_dtypes,
                   .infer_shapes = infer_components,
                   .no_gradient = "what comes out of the queue was put in by another step",
                   .properties = &kDraws},
                  dequeue_elements);
}

std::vector<Output> dequeue(const Queue& queue, Origin at) { return add(queue, 0, false, at); }

std::vector<Output> dequeue_many(const Queue& queue, int64_t count, Origin at) {
  return add(queue, checked_count(queue, count, at), false, at);
}

std::vector<Output> dequeue_up_to(const Queue& queue, int64_t count, Origin at) {
  return add(queue, checked_count(queue, count, at), true, at);
}

Op queue_size_op() {
  return state_op({.name = "QueueSize",
                   .outputs = {"size"},
                   .attrs = queue_attrs(),
                   .infer_dtypes = infer_i64,
                   .infer_shapes = infer_size_shape,
                   .no_gradient = "it has no inputs",
                   .properties = &kDraws},
                  tell_size);
}

Output queue_size(const Queue& queue, Origin at) {
  return add_node_of(queue, "QueueSize", {}, {}, at);
}

Op close_queue_op() {
  return state_op({.name = "CloseQueue",
                   .outputs = {"size"},
                   .attrs = queue_attrs({{"cancel_pending", AttrKind::boolean, false}}),
                   .infer_dtypes = infer_i64,
                   .infer_shapes = infer_size_shape,
                   .no_gradient = "it has no inputs"},
                  close);
}

Output close_queue(const Queue& queue, bool cancel_pending, Origin at) {
  return add_node_of(queue, "CloseQueue", {}, {{"cancel_pending", cancel_pending}}, at);
}

}  // namespace troupe
