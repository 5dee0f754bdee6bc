// The state of a shard's actor: traffic by slice, answers that are owed, checkpoints that are read
// and written, and the first values of slices.
#include "training/shards/shard_actor_state.hpp"

#include <algorithm>
#include <cstring>

#include "actors/async/guard.hpp"
#include "training/checkpoints/checkpoint.hpp"
#include "training/shards/shard_description.hpp"

namespace troupe {
namespace {

// A shard's initial values come in pieces below this; a length beyond is refused before memory is
// taken.
constexpr int64_t kSliceBytesMax = int64_t{1} << 34;

caf::error outcome_error(const Outcome& outcome) {
  return outcome ? caf::error{} : to_caf(outcome.code, outcome.text);
}

}  // namespace

std::vector<ReplicaProgress> replicas_at(const std::vector<int32_t>& replicas, int64_t next_step) {
  std::vector<ReplicaProgress> out;
  for (int32_t replica : replicas) out.push_back({.replica = replica, .next_step = next_step});
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return a.replica < b.replica; });
  return out;
}

// M: a Push or a RowPush.
template <class M>
void ShardActorState::push(M& m, int64_t bytes, uint64_t from, ShardActions& out) {
  auto it = traffic.find(m.slice);
  if (it != traffic.end()) it->second.pushed_bytes += bytes;
  Tracer& tracer = process->tracer();
  const int64_t begin = tracer.on() ? Tracer::now_ns() : 0;
  const int32_t replica = m.replica;
  const int64_t step = m.step;
  shard->push(std::move(m), from, out);
  if (begin)
    tracer.record({.category = "update",
                   .name = detail::concat(it == traffic.end() ? "unknown slice" : it->second.name,
                                          " replica ", replica, " step ", step),
                   .begin_ns = begin,
                   .end_ns = Tracer::now_ns()});
}

void ShardActorState::count(const Pulled& pulled) {
  if (auto it = traffic.find(pulled.slice); it != traffic.end() && pulled.values.defined())
    it->second.pulled_bytes += pulled.values.byte_size();
}

void ShardActorState::route(ShardActions& actions) {
  for (ShardAction& action : actions) {
    if (auto* done = std::get_if<SnapshotDone>(&action.message)) {
      snapshot_done(std::move(*done));
      continue;
    }
    const caf::actor* to = senders.find(action.to);
    if (!to) continue;
    if (auto* pulled = std::get_if<Pulled>(&action.message)) {
      count(*pulled);
      self->send(*to, std::move(*pulled));
    } else {
      self->send(*to, std::move(std::get<Acknowledged>(action.message)));
    }
  }
}

// Leaves in `actions` what is for `here`.
std::vector<Outgoing> ShardActorState::others(ShardActions& actions, uint64_t here) {
  std::vector<Outgoing> out;
  std::erase_if(actions, [&](ShardAction& action) {
    auto* const pulled = std::get_if<Pulled>(&action.message);
    if (pulled) count(*pulled);
    auto* const done = std::get_if<SnapshotDone>(&action.message);
    if (done) snapshot_done(std::move(*done));
    if (done || action.to == here) return done != nullptr;
    if (const caf::actor* to = senders.find(action.to))
      out.push_back(
          {*to, pulled ? caf::make_message(std::move(*pulled))
                       : caf::make_message(std::move(std::get<Acknowledged>(action.message)))});
    return true;
  });
  return out;
}

void ShardActorState::snapshot_done(SnapshotDone done) {
  const auto asked = captures.extract(done.id);
  if (!asked) return;
  if (done.code != Errc::ok) return pay(done.id, to_caf(done.code, done.text));
  capture = asked.mapped();
  captured = std::make_shared<ShardImage>(std::move(done.state));
  pay(done.id, caf::unit);
}

// What was captured is let go when it is written, so that updates need no copies any more.
caf::result<ShardFile> ShardActorState::write(const WriteShard& m) {
  if (!captured || capture != m.capture || captured->epoch != m.epoch)
    return to_caf(Errc::stale, detail::concat("the shard does not hold capture ", m.capture,
                                              " of epoch ", m.epoch, " any more"));
  const uint64_t number = owe();
  disk->post([this, &files = disk->disk(), handle = caf::actor_cast<caf::actor>(self), number, m,
              image = std::exchange(captured, nullptr)]() mutable {
    std::function<void()> answer;
    try {
      const CheckpointFile file = write_shard_file(files, m.directory, m.name, *image);
      answer = [this, number, file] { pay(number, ShardFile{file.name, file.bytes, file.sha256}); };
    } catch (const std::exception& e) {
      answer = [this, number, error = error_of(e)] { pay(number, error); };
    }
    image.reset();
    caf::anon_send(handle, FileWorkDone{std::move(answer)});
  });
  return owed.at(number);
}

caf::error ShardActorState::set_rule(const BeginEpoch& m) {
  check();
  return outcome_error(shard->set_rule(m.epoch, static_cast<Aggregation>(m.rule),
                                       replicas_at(m.replicas, m.next_step)));
}

caf::result<caf::unit_t> ShardActorState::begin_epoch(const BeginEpoch& m) {
  check();
  if (m.epoch < shard->epoch())
    return to_caf(Errc::stale,
                  detail::concat("the shard is in epoch ", shard->epoch(), ", not ", m.epoch));
  ShardActions out;
  initial.clear();
  captured = nullptr;
  if (m.mode == BeginEpoch::reset) {
    const Outcome outcome = shard->clear(m.epoch, replicas_at(m.replicas, m.next_step), out);
    route(out);
    if (!outcome) return outcome_error(outcome);
    if (caf::error error = set_rule(m)) return error;
    return caf::unit;
  }
  const Outcome begun = shard->begin_restore(m.epoch, out);
  route(out);
  if (!begun) return outcome_error(begun);
  const uint64_t number = owe();
  disk->post([this, &files = disk->disk(), handle = caf::actor_cast<caf::actor>(self), number, m,
              slices = shard->slices()]() mutable {
    std::function<void()> answer;
    try {
      const Manifest manifest = read_manifest(files, m.directory, m.manifest);
      auto states = std::make_shared<std::vector<SliceState>>(
          read_slices(files, m.directory, manifest, slices));
      answer = [this, number, m, states] {
        ShardActions actions;
        caf::error error = set_rule(m);  // before pulls that wait are answered
        if (!error) error = outcome_error(shard->restore(m.epoch, std::move(*states), actions));
        route(actions);
        if (error)
          pay(number, error);
        else
          pay(number, caf::unit);
      };
    } catch (const std::exception& e) {
      answer = [this, number, error = error_of(e), text = std::string(e.what())] {
        if (std::exchange(unread, text) != text)
          process->log()->warn("a checkpoint cannot be read: error={}", text);
        pay(number, error);
      };
    }
    caf::anon_send(handle, FileWorkDone{std::move(answer)});
  });
  return owed.at(number);
}

caf::result<caf::unit_t> ShardActorState::set_initial(const SetInitial& m) {
  const std::vector<Slice> slices = shard->slices();
  auto slice =
      std::find_if(slices.begin(), slices.end(), [&](const Slice& s) { return s.id == m.slice; });
  if (slice == slices.end())
    return to_caf(Errc::invalid_argument, detail::concat("this shard has no slice ", m.slice));
  const int64_t total = slice->bytes(), size = static_cast<int64_t>(m.bytes.size());
  if (total > kSliceBytesMax)
    return to_caf(
        Errc::invalid_argument,
        detail::concat(troupe::describe(*slice), " has ", total, " bytes; a slice has at most ",
                       kSliceBytesMax, ", so spread the parameter over more ps tasks"));
  if (m.byte_offset == 0) initial.erase(m.slice);  // from the start, again perhaps
  FirstValues& first = initial[m.slice];
  if (m.byte_offset != first.bytes || m.byte_offset > total - size)
    return to_caf(Errc::invalid_argument,
                  detail::concat("bytes ", m.byte_offset, " to ", m.byte_offset + size, " of ",
                                 troupe::describe(*slice), ", which has ", total, ", came after ",
                                 first.bytes, " bytes"));
  if (!first.values.defined())
    first.values = process->cpu().memory().make(slice->dtype, Shape{slice->size});
  std::memcpy(static_cast<char*>(first.values.mutable_raw()) + m.byte_offset, m.bytes.data(),
              m.bytes.size());
  first.bytes += size;
  if (first.bytes < total) return caf::unit;
  ShardActions out;
  const Outcome outcome = shard->set_initial(m.epoch, m.slice, std::move(first.values), out);
  initial.erase(m.slice);
  route(out);
  if (!outcome) return outcome_error(outcome);
  return caf::unit;
}

// Copied, as who made them may keep them; their memory is there for gradients if he does not.
caf::result<caf::unit_t> ShardActorState::give_initial(const GiveInitial& m) {
  Tensor values = process->cpu().memory().make(m.values.dtype(), m.values.shape());
  std::memcpy(values.mutable_raw(), m.values.raw(), static_cast<size_t>(values.byte_size()));
  ShardActions out;
  const Outcome outcome = shard->set_initial(m.epoch, m.slice, std::move(values), out);
  initial.erase(m.slice);
  route(out);
  if (!outcome) return outcome_error(outcome);
  return caf::unit;
}

ShardDescription ShardActorState::describe() const {
  ShardDescription out = describe_shard(*shard);
  out.door = self->id();
  for (const SliceSpec& slice : out.slices) {
    out.pulled_bytes.push_back(traffic.at(slice.slice).pulled_bytes);
    out.pushed_bytes.push_back(traffic.at(slice.slice).pushed_bytes);
  }
  return out;
}

template void ShardActorState::push(Push& m, int64_t bytes, uint64_t from, ShardActions& out);
template void ShardActorState::push(RowPush& m, int64_t bytes, uint64_t from, ShardActions& out);

}  // namespace troupe
