// Converts slices to and from messages, and registers the messages.
#include "graph/optimizer.hpp"
#include "training/parameters/messages.hpp"

#include <caf/actor_system_config.hpp>

namespace troupe {

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
  return out;
}

Slice from_spec(const SliceSpec& spec) {
  Slice out;
  out.id = spec.slice;
  out.parameter = spec.parameter;
  out.dtype = static_cast<DType>(spec.dtype);
  out.shape = Shape(spec.shape);
  out.offset = spec.offset;
  out.size = spec.size;
  out.shard = spec.shard;
  if (!spec.optimizer.empty()) out.optimizer = optimizer_from_text(spec.optimizer);
  return out;
}

Acknowledged refusal_of(const Push& m, const Loss& loss) {
  return {m.ticket, m.slice, loss.code, loss.text, 0};
}
Pulled refusal_of(const Pull& m, const Loss& loss) {
  return {m.ticket, m.slice, loss.code, loss.text, 0, {}};
}
Pulled failed_form_of(const Pulled& m, const Loss& loss) {
  return {m.ticket, m.slice, loss.code, loss.text, m.version, {}};
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
      .add_message_type<SetInitial>("SetInitial")
      .add_message_type<BeginEpoch>("BeginEpoch")
      .add_message_type<CaptureShard>("CaptureShard")
      .add_message_type<WriteShard>("WriteShard")
      .add_message_type<ShardFile>("ShardFile")
      .add_message_type<DropContainer>("DropContainer")
      .add_message_type<RouteParameters>("RouteParameters")
      .add_message_type<ShardLost>("ShardLost");
}

}  // namespace troupe
