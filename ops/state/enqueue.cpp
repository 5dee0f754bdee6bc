// Enqueue: puts an element, or one for each row of its inputs, into a queue; completes when there
// was room. Attribute `many`: the inputs are [n, ...]. Holds no thread while it waits.
//   components: of the queue's types   size: i64[], the number of elements in the queue afterwards
#include "ops/state/queue.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
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

void start(std::shared_ptr<AsyncContext> ctx) {
  with_queue(ctx, [&](QueueState& queue) {
    queue.enqueue(elements_of(*ctx, queue.description()), waiter_of(ctx));
  });
}

}  // namespace

Op enqueue_op() {
  return {.name = "Enqueue",
          .inputs = {"components..."},
          .outputs = {"size"},
          .attrs = queue_attrs({{"many", AttrKind::boolean, false}}),
          .infer_dtypes = infer_size_dtype,
          .infer_shapes = infer_shapes,
          .no_gradient = "what leaves the queue leaves it in another step",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start}},
          .dispatch = -1,
          .stateful = true,
          .precision = Precision::kept};
}

Output enqueue(const Queue& queue, const std::vector<Output>& element, Origin at) {
  return add_queue_node(queue, "Enqueue", element, {}, at);
}

Output enqueue_many(const Queue& queue, const std::vector<Output>& elements, Origin at) {
  return add_queue_node(queue, "Enqueue", elements, {{"many", true}}, at);
}

}  // namespace troupe
