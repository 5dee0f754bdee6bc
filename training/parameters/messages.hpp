// The messages about parameters. Pushes, pulls and their answers are frequent and carry tensors:
// they travel on the data plane (net/wire/message_kinds.hpp). The others are control messages,
// between the session that owns the parameters and the processes that hold or use them; they travel
// as ordinary CAF messages inside a link. docs/protocol.md lists the sender and the receiver of
// each. Owner: values. Thread: any.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <caf/fwd.hpp>

#include "net/wire/bounded_list.hpp"
#include "net/wire/message_kinds.hpp"
#include "training/codecs/codec_list.hpp"
#include "training/parameters/layout.hpp"
#include "training/rules/gradient.hpp"

namespace troupe {

// worker -> shard: one replica's gradient of one parameter slice, its change over a round of local
// steps, or a write to its values. Answered by Acknowledged with the same ticket.
struct Push {
  uint32_t slice = 0;
  int32_t replica = 0;
  uint64_t incarnation = 0;
  int64_t step = 0;
  int64_t sequence = 0;  // per replica and slice
  uint64_t epoch = 0;
  uint64_t ticket = 0;  // chosen by the sender
  Gradient gradient;    // in the slice's layout, or rows of it; or the values of a write
  int64_t first = -1;   // ParameterStep::first
  uint8_t write = 0;    // 0: a gradient; otherwise 1 + ParameterWrite::Kind
  // ParameterWrite::number; or the local steps of a change, 0: a gradient
  int64_t number = 0;
  uint8_t codec = 0;  // Codec::Kind; others than none: the gradient's values are codes
};

// shard -> worker: the push is applied and safe by the job's rule, or the reason why it never will
// be.
struct Acknowledged {
  uint64_t ticket = 0;
  uint32_t slice = 0;
  Errc code = Errc::ok;
  std::string text;
  int64_t version = 0;
};

// worker -> shard: asks for the values that training step `step` of a replica may read. Answered by
// Pulled with the same ticket.
struct Pull {
  uint32_t slice = 0;
  int32_t replica = 0;
  int64_t step = -1;          // -1: the newest values, at once
  int64_t have_version = -1;  // if the answer would hold this version, it carries no values
  uint64_t epoch = 0;
  uint64_t ticket = 0;
  int64_t first = -1;    // ParameterStep::first
  int64_t row_size = 0;  // in elements; set if `rows` is
  Tensor rows;           // rows of the slice, i64 [n]: send only these. Undefined: all
  uint8_t codec = 0;     // Codec::Kind of the values in the answer, if it is of all elements
};

// shard -> worker: the answer to a Pull.
struct Pulled {
  uint64_t ticket = 0;
  uint32_t slice = 0;
  Errc code = Errc::ok;
  std::string text;
  int64_t version = 0;
  Tensor values;  // [n], or [rows, row_size]; undefined: the worker has them already
  // The replica does so many steps by itself, this one included, and then pushes their change; 0:
  // it pushes the gradient of this step.
  int64_t local_steps = 0;
  double rate_scale = 1;  // of these steps
};

// A Slice (layout.hpp) on the wire. `optimizer` and `table` are the texts that describe() makes of
// an optimizer and of a table's options; empty: never trained, no table.
struct SliceSpec {
  uint32_t slice = 0;
  std::string parameter;
  uint8_t dtype = 0;
  std::vector<int64_t> shape;    // of the whole parameter
  int64_t offset = 0, size = 0;  // elements
  std::string optimizer;
  int32_t shard = 0;
  std::string table;
};
SliceSpec to_spec(const Slice& slice);
// Throws: Error(invalid_argument) for a shape out of bounds, an invalid optimizer or table.
Slice from_spec(const SliceSpec& spec);

// owner -> shard service: hold these slices. An existing shard of that container and number is kept
// unchanged, so several sessions can share parameters. It is the first sender's, until one with a
// larger claim comes, as a session that was first at a shard which is made anew has none; or until
// its owner is away and one comes that takes over. Answered by ShardDescription.
struct CreateShard {
  std::string container;
  int32_t shard = 0;
  uint64_t epoch = 0;
  std::string rule = "sync";  // to_string() of an Aggregation
  std::vector<int32_t> replicas;
  std::vector<SliceSpec> slices;
  bool skips_bad = false;  // gradients that are not finite: skipped, or refused
  uint64_t claim = 0;      // 1 + the newest epoch that the sender has begun as the owner; 0: it has
                           // none, or does not know yet whether it is the owner
  bool takes_over = false;  // the sender wants to be the owner if there is none
  uint64_t session = 0;     // of the sender
  bool makes = true;        // false: only a shard that is there already answers
  // In a request to shard 0 of a shared container: the replicas that the sender trains. No other
  // session may but for the owner (bad_configuration).
  std::vector<int32_t> trains;
};
struct DescribeShard {
  std::string container;
  int32_t shard = 0;
};
struct ShardDescription {
  uint64_t door = 0;  // the shard actor, for the data plane
  uint64_t epoch = 0;
  std::string rule = "sync";  // to_string() of an Aggregation
  bool serving = false;       // its values are set
  bool created = false;       // in answer to a CreateShard: the shard is its sender's
  bool owner_away = false;    // there is no link to the session whose shard it is
  bool owner_trains = false;  // that session trains replicas, and is not away
  double rate_scale = 1;
  std::map<int32_t, int64_t> next_steps;  // by replica; empty: nothing here is trained
  std::vector<SliceSpec> slices;
  std::vector<int64_t> versions;                    // one per slice
  std::vector<int64_t> pulled_bytes, pushed_bytes;  // one per slice, since the shard was made
  // One per slice: TableUse of training/rules/row_store.hpp; zeros: it is no table.
  std::vector<int64_t> table_rows, table_bytes, table_made, table_forgotten;
  // One per slice: Staleness of shard_counters.hpp.
  std::vector<int64_t> stale_updates, staleness_sum, staleness_max;
  int64_t applied = 0, merged = 0, duplicate = 0, refused = 0,
          received = 0;  // pushes, ShardCounters
};
// owner -> shard service: count the pushes to each slice.
struct CountPushes {
  std::string container;
  int32_t shard = 0;
};
// A row for each replica and slice; the lists have entries for each row, in the same order.
struct PushesCounted {
  std::vector<uint32_t> slices;   // PushRow::kNoSlice: pushes for slices that are not there
  std::vector<int32_t> replicas;  // PushLedger::kOthers: of none of the shard's
  std::vector<int64_t> counts;    // for each row: received, applied, merged, duplicate and held
                                  // ones, then the refused ones by PushRefusal
};
// owner -> shard service: initial values of a slice, in pieces; the last piece puts them into
// effect. Only for a shard that has none, and only in its epoch.
struct SetInitial {
  std::string container;
  int32_t shard = 0;
  uint32_t slice = 0;
  uint64_t epoch = 0;
  int64_t byte_offset = 0;
  std::string bytes;
};
// owner -> shard service: begin a new epoch; messages of older epochs are refused from now on.
struct BeginEpoch {
  enum Mode : uint8_t {
    restore,  // the values come from a checkpoint
    reset,    // the shard is empty again, and waits for SetInitial
    keep,     // values, rule and steps stay; the shard has another owner
  };
  std::string container;
  int32_t shard = 0;
  uint64_t epoch = 0;
  uint8_t mode = reset;
  std::string directory, manifest;  // restore: the checkpoint's place
  std::string rule = "sync";        // to_string() of an Aggregation
  std::vector<int32_t> replicas;
  int64_t next_step = 0;  // of every replica
  double rate_scale = 1;
  bool skips_bad = false;  // as of CreateShard
  // The folder of a record that the shard adds to, and the number of the part that begins; the
  // folder of one that it repeats. Empty: none.
  std::string record, replay;
  int64_t part = 0;
  int32_t shards = 1;  // of the session
};
// owner -> shard service: multiply all learning rates by this from the updates of `step` on.
// Refused by a shard that is past the step under the synchronous rule, and for ftrl.
struct SetRateScale {
  std::string container;
  int32_t shard = 0;
  uint64_t epoch = 0;
  int64_t step = 0;
  double rate_scale = 1;
};
// owner -> shard service: make updates by another rule from `step` on, which all replicas have come
// to and none has begun. Refused by a shard that a replica has brought past the step.
struct ChangeRule {
  std::string container;
  int32_t shard = 0;
  uint64_t epoch = 0;
  int64_t step = 0;
  std::string rule = "sync";  // to_string() of an Aggregation
};
// owner -> shard service: hold the state at `step`, for a WriteShard that names this capture.
// Answered when it is held; an earlier capture is dropped.
struct CaptureShard {
  std::string container;
  int32_t shard = 0;
  uint64_t epoch = 0;
  int64_t step = 0;
  uint64_t capture = 0;
};
// owner -> shard service: write the captured state, once, as a checkpoint's shard file. Answered by
// ShardFile once it is on disk.
struct WriteShard {
  std::string container;
  int32_t shard = 0;
  uint64_t epoch = 0;
  uint64_t capture = 0;
  std::string directory, name;
};
struct ShardFile {
  std::string name;
  int64_t bytes = 0;
  std::string sha256;
};
inline std::string own_container(uint64_t session) { return detail::concat("session-", session); }
struct DropContainer {
  std::string container;
};

// owner -> parameter service of every process: the places of the slices. Answered when it is in
// effect.
struct RouteParameters {
  uint64_t session = 0;
  uint64_t epoch = 0;
  std::vector<SliceSpec> slices;
  std::vector<std::string> tasks;  // one per slice
  std::vector<uint64_t> doors;     // one per slice
  Compression compression;
};
// shard service -> every session that sent a CreateShard for it: a shard has died in a process that
// lives.
struct ShardLost {
  std::string container;
  int32_t shard = 0;
  std::string reason;
};

// A gradient by rows travels as one u8 tensor: the size of a row and the number of rows, i64 each,
// the indices, and the values.
void inspect(FieldWriter& f, Gradient& x);
void inspect(FieldReader& f, Gradient& x);
// The gradient by rows of that dtype that came so; `arrived` itself if it is none. Does not look at
// the indices.
Gradient unpack_rows(Gradient arrived, DType dtype);
template <class I>
auto inspect(I& f, Push& x) {
  return f(x.slice, x.replica, x.incarnation, x.step, x.sequence, x.epoch, x.ticket, x.gradient,
           x.first, x.write, x.number, x.codec);
}
template <class I>
auto inspect(I& f, Acknowledged& x) {
  return f(x.ticket, x.slice, x.code, x.text, x.version);
}
template <class I>
auto inspect(I& f, Pull& x) {
  return f(x.slice, x.replica, x.step, x.have_version, x.epoch, x.ticket, x.first, x.row_size,
           x.rows, x.codec);
}
template <class I>
auto inspect(I& f, Pulled& x) {
  return f(x.ticket, x.slice, x.code, x.text, x.version, x.values, x.local_steps, x.rate_scale);
}
template <class I>
auto inspect(I& f, SliceSpec& x) {
  return f(x.slice, x.parameter, x.dtype, x.shape, x.offset, x.size, x.optimizer, x.shard, x.table);
}
template <class I>
auto inspect(I& f, CreateShard& x) {
  BoundedList slices{x.slices};
  return f(x.container, x.shard, x.epoch, x.rule, x.replicas, slices, x.skips_bad, x.claim,
           x.takes_over, x.session, x.makes, x.trains);
}
template <class I>
auto inspect(I& f, DescribeShard& x) {
  return f(x.container, x.shard);
}
template <class I>
auto inspect(I& f, ShardDescription& x) {
  BoundedList slices{x.slices};
  return f(x.door, x.epoch, x.rule, x.serving, x.created, x.owner_away, x.owner_trains,
           x.rate_scale, x.next_steps, slices, x.versions, x.pulled_bytes, x.pushed_bytes,
           x.table_rows, x.table_bytes, x.table_made, x.table_forgotten, x.stale_updates,
           x.staleness_sum, x.staleness_max, x.applied, x.merged, x.duplicate, x.refused,
           x.received);
}
template <class I>
auto inspect(I& f, CountPushes& x) {
  return f(x.container, x.shard);
}
template <class I>
auto inspect(I& f, PushesCounted& x) {
  return f(x.slices, x.replicas, x.counts);
}
template <class I>
auto inspect(I& f, SetInitial& x) {
  return f(x.container, x.shard, x.slice, x.epoch, x.byte_offset, x.bytes);
}
template <class I>
auto inspect(I& f, BeginEpoch& x) {
  return f(x.container, x.shard, x.epoch, x.mode, x.directory, x.manifest, x.rule, x.replicas,
           x.next_step, x.rate_scale, x.skips_bad, x.record, x.replay, x.part, x.shards);
}
template <class I>
auto inspect(I& f, SetRateScale& x) {
  return f(x.container, x.shard, x.epoch, x.step, x.rate_scale);
}
template <class I>
auto inspect(I& f, ChangeRule& x) {
  return f(x.container, x.shard, x.epoch, x.step, x.rule);
}
template <class I>
auto inspect(I& f, CaptureShard& x) {
  return f(x.container, x.shard, x.epoch, x.step, x.capture);
}
template <class I>
auto inspect(I& f, WriteShard& x) {
  return f(x.container, x.shard, x.epoch, x.capture, x.directory, x.name);
}
template <class I>
auto inspect(I& f, ShardFile& x) {
  return f(x.name, x.bytes, x.sha256);
}
template <class I>
auto inspect(I& f, DropContainer& x) {
  return f(x.container);
}
template <class I>
auto inspect(I& f, RouteParameters& x) {
  BoundedList slices{x.slices};
  BoundedList tasks{x.tasks};
  return f(x.session, x.epoch, slices, tasks, x.doors, x.compression.gradients,
           x.compression.values, x.compression.seed, x.compression.plan.begin,
           x.compression.plan.every, x.compression.plan.pauses, x.compression.plan.steps);
}
template <class I>
auto inspect(I& f, ShardLost& x) {
  return f(x.container, x.shard, x.reason);
}

// Errc::timeout where a link was full: the request is to be sent again.
Acknowledged refusal_of(const Push& message, const Loss& loss);
Pulled refusal_of(const Pull& message, const Loss& loss);
Pulled failed_form_of(const Pulled& message, const Loss& loss);

void add_parameter_messages(MessageKinds& kinds);               // of the data plane
void add_parameter_messages(caf::actor_system_config& config);  // the others

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Gradient)  // its inspect() is the codec's alone
