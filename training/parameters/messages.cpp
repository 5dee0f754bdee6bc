// Converts slices to and from messages, and registers the messages.
#include "graph/optimizer.hpp"
#include "graph/table_options.hpp"
#include "training/parameters/messages.hpp"

#include <cstring>

#include <caf/actor_system_config.hpp>

#include "graph/base/repeat_rows.hpp"

namespace troupe {
namespace {

struct RowsHead {
  int64_t row_size = 0;  // elements
  int64_t count = 0;     // rows
};
constexpr auto kRowsHead = static_cast<int64_t>(sizeof(RowsHead));

Tensor packed(const Gradient& gradient) {
  const Tensor values = repeat_rows(gradient.values, gradient.indices.size());
  const RowsHead head{gradient.row_size(), gradient.indices.size()};
  const int64_t index_bytes = gradient.indices.byte_size();
  Tensor out = Tensor::empty(DType::u8, Shape{kRowsHead + index_bytes + values.byte_size()});
  uint8_t* const to = out.mutable_data<uint8_t>();
  std::memcpy(to, &head, sizeof head);
  const auto copy = [to](int64_t at, const Tensor& from) {
    if (from.size() > 0) std::memcpy(to + at, from.raw(), static_cast<size_t>(from.byte_size()));
  };
  copy(kRowsHead, gradient.indices);
  copy(kRowsHead + index_bytes, values);
  return out;
}

// A full queue empties by itself. Only a receiver reports a lack of memory, and names no task.
Errc code_of(const Loss& loss) {
  const bool link_is_full = loss.code == Errc::out_of_memory && !loss.task.empty();
  return link_is_full ? Errc::timeout : loss.code;
}

}  // namespace

void inspect(FieldWriter& f, Gradient& x) { f(x.by_rows() ? packed(x) : x.values); }
void inspect(FieldReader& f, Gradient& x) { f(x.values); }

Gradient unpack_rows(Gradient arrived, DType dtype) {
  const Tensor& packed = arrived.values;
  RowsHead head;
  if (arrived.by_rows() || !packed.on_host() || packed.dtype() != DType::u8 ||
      packed.size() < kRowsHead)
    return arrived;
  const auto* at = static_cast<const char*>(packed.raw());
  std::memcpy(&head, at, sizeof head);
  // Each bound is checked before it is used in a computation, so that nothing overflows.
  const int64_t bytes = packed.size() - kRowsHead;
  if (head.row_size < 1 || head.row_size > kTensorBytesMax || head.count < 0 ||
      head.count > bytes / int64_t{sizeof(int64_t)})
    return arrived;
  const int64_t index_bytes = head.count * int64_t{sizeof(int64_t)};
  const int64_t value_bytes = bytes - index_bytes, row_bytes = head.row_size * size_of(dtype);
  if (value_bytes % row_bytes != 0 || value_bytes / row_bytes != head.count) return arrived;
  Gradient out{Tensor::empty(dtype, Shape{head.count, head.row_size}),
               Tensor::empty(DType::i64, Shape{head.count})};
  at += kRowsHead;
  if (head.count > 0) {
    std::memcpy(out.indices.mutable_raw(), at, static_cast<size_t>(index_bytes));
    std::memcpy(out.values.mutable_raw(), at + index_bytes, static_cast<size_t>(value_bytes));
  }
  sanitize(out.values);
  return out;
}

SliceSpec to_spec(const Slice& slice) {
  SliceSpec out;
  out.slice = slice.id;
  out.parameter = slice.parameter;
  out.dtype = static_cast<uint8_t>(slice.dtype);
  out.shape.assign(slice.shape.begin(), slice.shape.end());
  out.offset = slice.offset;
  out.size = slice.size;
  out.shard = slice.shard;
  if (slice.optimizer) out.optimizer = describe(*slice.optimizer);
  if (slice.table) out.table = describe(*slice.table);
  return out;
}

Slice from_spec(const SliceSpec& spec) {
  if (!is_dtype(spec.dtype) || !Shape(spec.shape).is_known())
    throw Error(Errc::invalid_argument, "slice ", spec.slice, " of ", spec.parameter,
                " has dtype number ", int{spec.dtype}, " and shape ", Shape(spec.shape));
  Slice out;
  out.id = spec.slice;
  out.parameter = spec.parameter;
  out.dtype = static_cast<DType>(spec.dtype);
  out.shape = Shape(spec.shape);
  out.offset = spec.offset;
  out.size = spec.size;
  out.shard = spec.shard;
  if (!spec.optimizer.empty()) out.optimizer = optimizer_from_text(spec.optimizer);
  if (!spec.table.empty()) {
    out.table = table_options_from_text(spec.table);
    check_table(out.dtype, out.shape, *out.table);
  }
  return out;
}

Acknowledged refusal_of(const Push& m, const Loss& loss) {
  return {m.ticket, m.slice, code_of(loss), loss.text, 0};
}
Pulled refusal_of(const Pull& m, const Loss& loss) {
  return {m.ticket, m.slice, code_of(loss), loss.text, 0, {}};
}
Pulled failed_form_of(const Pulled& m, const Loss& loss) {
  return {m.ticket, m.slice, code_of(loss), loss.text, m.version, {}};
}

void add_parameter_messages(MessageKinds& kinds) {
  // Gradients and parameters must arrive unchanged.
  kinds.add<Push>(4, /*checked=*/true);
  kinds.add<Acknowledged>(5);
  kinds.add<Pull>(6);
  kinds.add<Pulled>(7, /*checked=*/true);
}

void add_parameter_messages(caf::actor_system_config& config) {
  config.add_message_type<SliceSpec>("SliceSpec")
      .add_message_type<CreateShard>("CreateShard")
      .add_message_type<DescribeShard>("DescribeShard")
      .add_message_type<ShardDescription>("ShardDescription")
      .add_message_type<CountPushes>("CountPushes")
      .add_message_type<PushesCounted>("PushesCounted")
      .add_message_type<SetInitial>("SetInitial")
      .add_message_type<BeginEpoch>("BeginEpoch")
      .add_message_type<SetRateScale>("SetRateScale")
      .add_message_type<ChangeRule>("ChangeRule")
      .add_message_type<CaptureShard>("CaptureShard")
      .add_message_type<WriteShard>("WriteShard")
      .add_message_type<ShardFile>("ShardFile")
      .add_message_type<DropContainer>("DropContainer")
      .add_message_type<RouteParameters>("RouteParameters")
      .add_message_type<ShardLost>("ShardLost");
}

}  // namespace troupe
