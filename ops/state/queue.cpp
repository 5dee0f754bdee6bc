// The state machine of a queue, its description in attributes, and make_queue() of
// troupe/ops/parameters.hpp.
#include "ops/state/queue.hpp"

#include <algorithm>
#include <cstring>

#include "devices/run_context.hpp"
#include "graph/base/corner.hpp"
#include "graph/base/philox.hpp"

namespace troupe {

const char* to_string(QueueKind kind) {
  switch (kind) {
    case QueueKind::fifo:
      return "fifo";
    case QueueKind::shuffle:
      return "shuffle";
    case QueueKind::priority:
      return "priority";
    case QueueKind::padding:
      return "padding";
  }
  return "unknown";
}

// ---- the state machine ----

void QueueState::enqueue(std::vector<QueueElement> elements, std::shared_ptr<QueueWaiter> who) {
  if (closed_) return who->fail(Errc::cancelled, named() + " is closed; nothing can be put in");
  if (static_cast<int64_t>(elements.size()) > queue_.options.capacity)
    return who->fail(
        Errc::invalid_argument,
        detail::concat(named(), " has room for ", queue_.options.capacity, " elements, and ",
                       elements.size(), " are to be put in at once; give it a larger capacity"));
  putting_.push_back({std::move(elements), std::move(who)});
  settle();
}

void QueueState::dequeue(const Wish& wish, std::shared_ptr<QueueWaiter> who) {
  const int64_t most = queue_.options.capacity - queue_.options.min_after_dequeue;
  if (wish.count > most && !closed_)
    return who->fail(
        Errc::invalid_argument,
        detail::concat(named(), " never has ", wish.count, " elements to give: its ",
                       "capacity is ", queue_.options.capacity, ", of which ",
                       queue_.options.min_after_dequeue, " stay; give it a larger capacity"));
  taking_.push_back({wish, std::move(who)});
  settle();
}

void QueueState::close(bool cancel_pending) {
  closed_ = true;
  if (cancel_pending)
    for (const Putting& put : std::exchange(putting_, {}))
      put.who->fail(Errc::cancelled, named() + " was closed, and what waited for room cancelled");
  settle();
}

void QueueState::end() {
  for (const Putting& put : std::exchange(putting_, {}))
    put.who->fail(Errc::cancelled, "the session of " + named() + " has ended");
  for (const Taking& take : std::exchange(taking_, {}))
    take.who->fail(Errc::cancelled, "the session of " + named() + " has ended");
}

void QueueState::settle() {
  const auto gone = [](const auto& waiting) { return !waiting.who->waits(); };
  std::erase_if(putting_, gone);
  std::erase_if(taking_, gone);
  while (put_next() || take_next()) {
  }
}

bool QueueState::put_next() {
  if (putting_.empty()) return false;
  const int64_t more = static_cast<int64_t>(putting_.front().elements.size());
  // Only waiting enqueues still add to a closed queue, so they need not wait any longer.
  if (!closed_ && size() + more > queue_.options.capacity) return false;
  Putting put = std::move(putting_.front());
  putting_.pop_front();
  if (!put.who->accept({Tensor::scalar(size() + more)})) return true;
  for (QueueElement& element : put.elements) {
    elements_.push_back({entered_++, std::move(element)});
    if (kind() == QueueKind::priority) std::push_heap(elements_.begin(), elements_.end(), is_later);
  }
  return true;
}

bool QueueState::take_next() {
  if (taking_.empty()) return false;
  const Wish wish = taking_.front().wish;
  const int64_t there = size() - (closed_ ? 0 : queue_.options.min_after_dequeue);
  int64_t count = wish.count;
  if (there < count) {
    if (!closed_) return false;
    if (!wish.partial || there == 0) {
      const auto who = std::move(taking_.front().who);
      taking_.pop_front();
      who->fail(Errc::end_of_data, detail::concat(named(), " is closed and has ", there, " of ",
                                                  count, " elements left"));
      return true;
    }
    count = there;
  }
  const std::vector<size_t> chosen = choose(count);
  const auto who = std::move(taking_.front().who);
  taking_.pop_front();
  bool taken = false;
  try {
    taken = who->accept(outputs_of(chosen, wish));
  } catch (const std::exception& e) {
    const auto* error = dynamic_cast<const Error*>(&e);
    who->fail(error ? error->code() : Errc::out_of_memory, e.what());
  }
  taken ? remove(count) : keep(count);
  return true;
}

// Moves `count` elements to one end; returns their positions in the order in which they leave.
std::vector<size_t> QueueState::choose(int64_t count) {
  std::vector<size_t> places;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const size_t left = elements_.size() - i;
    if (kind() == QueueKind::shuffle) {  // Durstenfeld's (CACM 7, 1964), from the end
      const auto words = RandomStream(queue_.options.seed, queue_.name, 0, 0).block(left_ + i);
      const uint64_t draw = uint64_t{words[0]} << 32 | words[1];
      std::swap(elements_[draw % left], elements_[left - 1]);
    } else if (kind() == QueueKind::priority) {
      std::pop_heap(elements_.begin(), elements_.end() - static_cast<ptrdiff_t>(i), is_later);
    }
    places.push_back(from_front() ? i : left - 1);
  }
  return places;
}

// keep() puts the chosen elements back in order; remove() removes them.
void QueueState::keep(int64_t count) {
  if (kind() == QueueKind::priority)
    for (int64_t i = count; i-- > 0;)
      std::push_heap(elements_.begin(), elements_.end() - static_cast<ptrdiff_t>(i), is_later);
}
void QueueState::remove(int64_t count) {
  left_ += static_cast<uint64_t>(count);
  if (from_front())
    elements_.erase(elements_.begin(), elements_.begin() + count);
  else
    elements_.erase(elements_.end() - count, elements_.end());
}

bool QueueState::is_later(const Numbered& a, const Numbered& b) {
  const auto rank = [](const Numbered& e) {
    return std::pair{e.element[0].item<int64_t>(), e.number};
  };
  return rank(a) > rank(b);
}

std::vector<Tensor> QueueState::outputs_of(const std::vector<size_t>& chosen,
                                           const Wish& wish) const {
  if (!wish.stacked) return elements_[chosen[0]].element;
  std::vector<Tensor> outputs;
  for (size_t c = 0; c < queue_.types.size(); ++c) {
    std::vector<const Tensor*> parts;
    for (const size_t i : chosen) parts.push_back(&elements_[i].element[c]);
    outputs.push_back(stack_padded(parts));
  }
  return outputs;
}

Tensor stack_padded(const std::vector<const Tensor*>& parts) {
  const DType dtype = parts[0]->dtype();
  Shape row = parts[0]->shape();
  for (const Tensor* part : parts)
    for (int d = 0; d < row.ndim(); ++d) row.set(d, std::max(row[d], part->dim(d)));
  Tensor out =
      Tensor::zeros(dtype, shape_with_rows(static_cast<int64_t>(parts.size()), row.dims()));
  char* to = static_cast<char*>(out.mutable_raw());
  const int64_t row_bytes = row.size() * size_of(dtype);
  for (const Tensor* part : parts) {
    if (const Shape shape = part->shape(); shape.size() > 0)
      copy_corner(static_cast<const char*>(part->raw()), shape.dims(), to, row.dims(),
                  size_of(dtype));
    to += row_bytes;
  }
  return out;
}

Tensor row_of(const Tensor& rows, int64_t row) {
  const Shape all = rows.shape();
  return rows.rows(row, row + 1).reshaped(Shape(std::vector<int64_t>(all.begin() + 1, all.end())));
}

// ---- the description in attributes ----

std::vector<int64_t> types_to_integers(const std::vector<TensorType>& types) {
  std::vector<int64_t> out;
  for (const TensorType& type : types) {
    out.push_back(static_cast<int64_t>(type.dtype));
    out.push_back(type.shape.ndim());
    out.insert(out.end(), type.shape.begin(), type.shape.end());
  }
  return out;
}

std::optional<std::vector<TensorType>> types_from_integers(const std::vector<int64_t>& in) {
  std::vector<TensorType> types;
  for (size_t i = 0; i < in.size();) {
    if (i + 2 > in.size() || !is_dtype(in[i]) || in[i + 1] < 0 || in[i + 1] > Shape::kNdimMax)
      return std::nullopt;
    const size_t ndim = static_cast<size_t>(in[i + 1]);
    if (i + 2 + ndim > in.size()) return std::nullopt;
    TensorType type{static_cast<DType>(in[i]), {}};
    const std::span<const int64_t> sizes(in.data() + i + 2, ndim);
    if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < -1; }))
      return std::nullopt;
    type.shape = Shape(sizes);
    types.push_back(type);
    i += 2 + ndim;
  }
  return types;
}

std::string fault_of_name(const std::string& name) {
  const bool good = !name.empty() && std::none_of(name.begin(), name.end(), [](unsigned char c) {
    return c < 0x20 || c == 0x7f;
  });
  return good ? "" : "wants a name of one line, not empty and without control characters";
}

// The fault of a queue's description; empty if there is none.
std::string fault_of(const Queue& queue) {
  const QueueOptions& options = queue.options;
  if (options.capacity < 1)
    return detail::concat("wants a capacity of at least 1, got ", options.capacity);
  if (options.min_after_dequeue < 0 || options.min_after_dequeue >= options.capacity)
    return detail::concat("wants min_after_dequeue from 0 to below its capacity of ",
                          options.capacity, ", got ", options.min_after_dequeue);
  if (options.min_after_dequeue > 0 && options.kind != QueueKind::shuffle)
    return "only a shuffle queue keeps elements back; leave min_after_dequeue at 0";
  if (queue.types.empty()) return "wants the types of its components, got none";
  for (const TensorType& type : queue.types) {
    if (type.dtype == DType::none) return "wants a dtype for each component";
    if (type.shape.ndim() >= Shape::kNdimMax)
      return detail::concat("stacks its elements, so a component has at most ", Shape::kNdimMax - 1,
                            " dimensions, got ", type);
    if (!type.shape.is_known() && options.kind != QueueKind::padding)
      return detail::concat("wants known sizes, got ", type,
                            "; a padding queue takes components of different sizes");
  }
  if (options.kind == QueueKind::priority && queue.types[0] != TensorType{DType::i64, {}})
    return detail::concat("wants the priority, i64[], as its first component, got ",
                          queue.types[0]);
  return {};
}

std::optional<Queue> read_described(const Node& node, const Queue&) {
  const int64_t kind = node.attr<int64_t>("kind");
  const auto types = types_from_integers(node.attr<std::vector<int64_t>>("types"));
  if (!types || kind < 0 || kind > static_cast<int64_t>(QueueKind::padding)) return std::nullopt;
  return Queue{.graph = nullptr,
               .name = node.attr<std::string>("queue"),
               .types = *types,
               .options = {.kind = static_cast<QueueKind>(kind),
                           .capacity = node.attr<int64_t>("capacity"),
                           .min_after_dequeue = node.attr<int64_t>("min_after_dequeue"),
                           .seed = node.attr<int64_t>("seed")},
               .device = {}};
}

namespace {

class FiringWaiter final : public QueueWaiter {
 public:
  explicit FiringWaiter(std::shared_ptr<AsyncContext> ctx) : ctx_(std::move(ctx)) {}
  bool waits() const override { return ctx_->waits(); }
  bool accept(std::vector<Tensor> outputs) override { return ctx_->done(std::move(outputs)); }
  void fail(Errc code, const std::string& text) override {
    ctx_->fail(code, describe(ctx_->node()) + ": " + text);
  }

 private:
  const std::shared_ptr<AsyncContext> ctx_;
};

}  // namespace

std::vector<AttrSpec> queue_attrs(std::vector<AttrSpec> more) {
  more.insert(more.begin(), {{"queue", AttrKind::text},
                             {"kind", AttrKind::integer},
                             {"types", AttrKind::integers},
                             {"capacity", AttrKind::integer},
                             {"min_after_dequeue", AttrKind::integer},
                             {"seed", AttrKind::integer}});
  return more;
}

Queue make_queue(Graph& graph, std::vector<TensorType> types, QueueOptions options,
                 std::string_view name, Origin at) {
  return checked(Queue{.graph = &graph,
                       .name = std::string(name),
                       .types = std::move(types),
                       .options = options,
                       .device = graph.device()},
                 at);
}

void describe_in(Attrs& attrs, const Queue& queue) {
  attrs["queue"] = queue.name;
  attrs["kind"] = static_cast<int64_t>(queue.options.kind);
  attrs["types"] = types_to_integers(queue.types);
  attrs["capacity"] = queue.options.capacity;
  attrs["min_after_dequeue"] = queue.options.min_after_dequeue;
  attrs["seed"] = queue.options.seed;
}

bool same_state(const Queue& a, const Queue& b) {
  return a.types == b.types && a.options.kind == b.options.kind &&
         a.options.capacity == b.options.capacity &&
         a.options.min_after_dequeue == b.options.min_after_dequeue &&
         a.options.seed == b.options.seed;
}

Op state_op(Op op, void (*start)(std::shared_ptr<AsyncContext>)) {
  op.kernels = {{.start = start}};
  op.dispatch = -1;
  op.stateful = true;
  return op;
}

// ---- kernels ----

std::shared_ptr<QueueWaiter> waiter_of(const std::shared_ptr<AsyncContext>& ctx) {
  return std::make_shared<FiringWaiter>(ctx);
}

Resources& resources_of(const AsyncContext& ctx) {
  if (Resources* resources = ctx.run().resources) return *resources;
  throw Error(Errc::invalid_argument, describe(ctx.node()),
              ": this run keeps nothing between steps; run the graph through a Session");
}

}  // namespace troupe
