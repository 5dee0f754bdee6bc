// Requests of a ParameterClient: their start, answers, repeats and ends.
#include "training/parameters/parameter_client.hpp"

#include <algorithm>

#include "devices/failure.hpp"
#include "devices/memory/memory.hpp"
#include "graph/base/fail_point.hpp"
#include "graph/base/mutant.hpp"
#include "graph/base/repeat_rows.hpp"
#include "training/parameters/write_kind.hpp"

namespace troupe {
namespace {

constexpr const char* kNewEpoch = "the shards have a new epoch; do the step again";

// A request of at most this size is carried out on the calling thread. A push of a whole gradient
// is then applied in about ten us, less than a lane takes to wake; whole values are handed out
// without a copy. Rows are gathered and updated as fast, but their values come from the cache of
// the thread that computes with them, so more of them are worth staying there.
constexpr int64_t kHereBytesMax = int64_t{256} << 10, kHereRowBytesMax = int64_t{1} << 20;

// From this size on a gradient is worth giving away, and the gradients of a step are buffers of
// their own.
constexpr int64_t kGivenFrom = Memory::kMarkedAbove + 1;

// The bytes that the shard reads. A row that is for several indices is processed once for each.
int64_t bytes_at_work(const SliceShare& share) {
  const Gradient& g = share.gradient;
  if (!g.defined() || !g.by_rows() || g.values.dim(0) == g.indices.size()) return share.bytes;
  return g.indices.byte_size() + g.indices.size() * g.row_size() * size_of(g.values.dtype());
}

}  // namespace

void ParameterClient::set_routes(ParameterRoutes routes) {
  for (const auto& [parameter, route] : routes.parameters) check_route(parameter, route);
  Replies replies;
  Parts again;
  {
    std::lock_guard lock(mutex_);
    if (routes.epoch < routes_->epoch) return;  // an old message
    const bool new_epoch = routes.epoch != routes_->epoch;
    const auto before =
        std::exchange(routes_, std::make_shared<const ParameterRoutes>(std::move(routes)));
    if (new_epoch && !mutant(Mutant::cache_over_epochs)) cache_.clear();
    if (new_epoch) copies_.clear();
    if (new_epoch && !mutant(Mutant::sequence_over_epochs)) sequences_.clear();
    std::vector<RequestPtr> old;
    for (auto& [ticket, part] : parts_) {
      auto it = routes_->parameters.find(part.request->parameter);
      if (part.request->epoch != routes_->epoch || it == routes_->parameters.end() ||
          !same_layout(it->second, before->parameters.at(part.request->parameter))) {
        old.push_back(part.request);
        continue;
      }
      const RoutePtr route(routes_, &it->second.slices.at(part.share.index));
      const bool same = route->shard == part.route->shard;
      part.route = route;
      // A gradient that was given away is on its way to a shard of this process, and no message is
      // lost there; a message without the gradient must not overtake it.
      const bool given = part.request->kind == Kind::push && !part.share.gradient.defined();
      if (given && same) continue;
      offer(part);
      again.emplace_back(ticket, part);
    }
    for (const auto& request : old) end(request, Errc::stale, kNewEpoch, replies);
  }
  fail_point(FailPoint::client_routes_taken);
  send_again(again);
  run(replies);
}

ParameterClient::RequestPtr ParameterClient::request(Kind kind, const std::string& parameter,
                                                     const ParameterStep& at, Reply reply) {
  auto request = std::make_shared<ParameterRequest>();
  request->kind = kind;
  request->parameter = parameter;
  request->at = at;
  request->reply = std::move(reply);
  return request;
}

void ParameterClient::pull(const std::string& parameter, const ParameterStep& at, Reply reply) {
  start(request(Kind::pull, parameter, at, std::move(reply)), {});
}

void ParameterClient::pull_rows(const std::string& parameter, const ParameterStep& at,
                                Tensor indices, Reply reply) {
  const RequestPtr wanted = request(Kind::rows, parameter, at, std::move(reply));
  wanted->indices = std::move(indices);
  start(wanted, {});
}

void ParameterClient::push(const std::string& parameter, const ParameterStep& at, Tensor gradient,
                           Reply reply) {
  start(request(Kind::push, parameter, at, std::move(reply)), std::move(gradient));
}

void ParameterClient::push_rows(const std::string& parameter, const ParameterStep& at,
                                Tensor indices, Tensor values, Reply reply) {
  start(request(Kind::push, parameter, at, std::move(reply)),
        {as_rows(values), std::move(indices)});
}

void ParameterClient::write(const std::string& parameter, const ParameterStep& at,
                            ParameterWrite change, Reply reply) {
  const RequestPtr wanted = request(Kind::write, parameter, at, std::move(reply));
  wanted->write = write_code(change.kind);
  wanted->number = change.number;
  Gradient written = std::move(change.values);
  if (writes_rows(change.kind)) {
    const int64_t n = change.indices.size();
    written.indices = change.indices.reshaped(Shape{n});
    written.values = written.values.reshaped(Shape{n, n > 0 ? written.values.size() / n : 1});
  }
  start(wanted, std::move(written));
}

void ParameterClient::start(const RequestPtr& request, Gradient gradient) {
  Replies replies;
  Parts parts;
  std::unique_lock lock(mutex_);
  const auto routes = routes_;
  request->epoch = routes_->epoch;
  const auto route = routes_->parameters.find(request->parameter);
  const Outcome fits =
      route == routes_->parameters.end()
          ? Outcome{Errc::stale, detail::concat("this process does not know where parameter ",
                                                request->parameter, " lives")}
      : parts_.size() >= kPendingMax
          ? Outcome{Errc::out_of_memory,
                    detail::concat("more than ", kPendingMax,
                                   " parameter requests under way; run fewer steps at once")}
          : request->check(route->second, gradient);
  if (!fits) {
    lock.unlock();
    return request->reply(fits.code, fits.text, {});
  }
  if (copies_.used()) {
    lock.unlock();
    Outcome done;
    if (copies_.take(*request, route->second, gradient, done) == ReplicaCopies::By::copy)
      return request->reply(done.code, done.text, std::move(request->values));
    lock.lock();
  }
  const TensorType type = request->collects(route->second);
  const Codec codec = request->codec_of(route->second, gradient);
  if (type.dtype != DType::none || (request->sends() && codec.used())) {
    lock.unlock();
    if (type.dtype != DType::none) request->values = make_(type.dtype, type.shape);
    if (request->sends() && codec.used())
      if (const Outcome coded = request->code(
              route->second, gradient,
              mutant(Mutant::codes_by_incarnation) ? incarnation_ : route->second.seed, residuals_,
              make_);
          !coded)
        return request->reply(coded.code, coded.text, {});
    lock.lock();
  }
  if (!request->sends()) request->codec = codec.kind;
  try {
    const auto now = routes_->parameters.find(request->parameter);
    if (request->epoch != routes_->epoch || now == routes_->parameters.end() ||
        !same_layout(now->second, route->second)) {  // changed since the request was made
      end(request, Errc::stale, kNewEpoch, replies);
    } else {
      parts = add_parts(request, std::move(gradient));
      if (parts.empty()) end(request, Errc::ok, {}, replies);  // no rows
    }
    lock.unlock();
    const bool alone = parts.size() == 1;
    for (auto& [ticket, part] : parts)
      if (alone || is_open(ticket)) send(ticket, std::move(part), here_);
  } catch (...) {  // the caller gets the exception; no part of the request is sent again
    if (!lock.owns_lock()) lock.lock();
    end(request, Errc::internal, {}, replies);
    throw;
  }
  run(replies);
}

ParameterClient::Parts ParameterClient::add_parts(const RequestPtr& request, Gradient gradient) {
  const ParameterRoute& route = routes_->parameters.at(request->parameter);
  Parts parts;
  request->started = system_.clock().now();
  for (SliceShare& share : request->cut(route, std::move(gradient))) {
    Part part;
    part.request = request;
    part.route = RoutePtr(routes_, &route.slices[share.index]);
    part.share = std::move(share);
    part.resend_at = request->started + kResendFirst;
    if (tracer_ && tracer_->on()) part.asked_ns = Tracer::now_ns();
    // Drawn once memory was found: the shard would wait for a number that was never sent.
    if (request->sends()) {
      Sequence& sequence = sequences_[{request->at.replica, part.route->slice}];
      // The replica has moved here anew. A step of an earlier stay disturbs no number.
      if (request->at.fence > sequence.fence) sequence = {request->at.fence, 0};
      part.sequence = request->at.fence == sequence.fence ? sequence.next++ : 0;
    }
    offer(part);
    const uint64_t ticket = next_ticket_++;
    Part& kept = parts_[ticket] = part;
    if (request->kind == Kind::push && part.route->local && route.slices.size() == 1 &&
        !part.share.gradient.by_rows() && request->codec == Codec::none &&
        part.share.bytes >= kGivenFrom)
      kept.share.gradient = {};
    parts.emplace_back(ticket, std::move(part));
  }
  request->open = parts.size();
  return parts;
}

// False if the answer to another part has ended the request.
bool ParameterClient::is_open(uint64_t ticket) const {
  std::lock_guard lock(mutex_);
  return parts_.count(ticket) > 0;
}

void ParameterClient::send_again(Parts& parts) {
  // A part for which memory runs out while it is packed waits for the next time.
  for (auto& [ticket, part] : parts)
    if (is_open(ticket))
      static_cast<void>(failure_of([&, t = ticket, &p = part] { send(t, std::move(p)); }));
}

// Offers the shard our cached version of a remote slice. A part that is sent again offers the same
// version, as either answer may come.
void ParameterClient::offer(Part& part) const {
  const Codec::Kind codec = part.request->codec;
  if ((part.route->local && codec == Codec::none) || part.share.rows.defined() ||
      part.request->sends() || part.offered.values.defined())
    return;
  if (const auto cached = cache_.find(part.route->slice);
      cached != cache_.end() && cached->second.codec == codec)
    part.offered = cached->second;
}

// Reads only constant fields of the request: an answer may come meanwhile.
void ParameterClient::send(uint64_t ticket, Part part, bool here) {
  if (drops_at(FailPoint::client_before_send)) return;
  const RoutePtr route = part.route;
  const bool by_rows = part.share.rows.defined() || part.share.gradient.by_rows();
  const bool now = here && route->here &&
                   bytes_at_work(part.share) <= (by_rows ? kHereRowBytesMax : kHereBytesMax);
  const auto door = caf::actor_cast<caf::strong_actor_ptr>(door_);
  ShardRequest request = message_of(ticket, std::move(part));
  if (ShardActions answers; now && route->here->ask(request, door, answers)) {
    for (ShardAction& answer : answers)
      std::visit([this](auto& m) { on(std::move(m)); }, answer.message);
    return;
  }
  std::visit([&](auto& m) { caf::send_as(door_, route->shard, std::move(m)); }, request);
}

ShardRequest ParameterClient::message_of(uint64_t ticket, Part&& part) const {
  const ParameterRequest& request = *part.request;
  if (!request.sends()) {
    Pull m;
    m.slice = part.route->slice;
    m.replica = static_cast<int32_t>(request.at.replica);
    m.step = request.at.step;
    m.epoch = request.epoch;
    m.ticket = ticket;
    m.have_version = part.offered.version;
    m.first = request.at.first;
    m.row_size = part.share.row_size;
    m.rows = part.share.rows;
    m.codec = request.codec;
    return m;
  }
  Push m;
  m.slice = part.route->slice;
  m.replica = static_cast<int32_t>(request.at.replica);
  m.step = request.at.step;
  m.sequence = part.sequence;
  m.epoch = request.epoch;
  m.ticket = ticket;
  m.incarnation = request.at.fence > 0 ? request.at.fence : incarnation_;
  m.first = request.at.first;
  m.write = request.write;
  m.number = request.number;
  m.codec = request.codec;
  m.gradient = std::move(part.share.gradient);
  return m;
}

void ParameterClient::trace(const Part& part, int64_t bytes) const {
  if (part.asked_ns == 0) return;
  const ParameterRequest& r = *part.request;
  tracer_->record(
      {.category = r.name(),
       .name = detail::concat(r.parameter, " replica ", r.at.replica, " step ", r.at.step,
                              r.sends() ? " to " : " from ", part.route->task),
       .begin_ns = part.asked_ns,
       .end_ns = Tracer::now_ns(),
       .bytes = bytes});
}

void ParameterClient::end(const RequestPtr& request, Errc code, const std::string& text,
                          Replies& out) {
  for (auto it = parts_.begin(); it != parts_.end();) {
    if (it->second.request != request) {
      ++it;
      continue;
    }
    // A push that may not have arrived leaves no gap: its number is used again.
    if (request->sends() && !mutant(Mutant::sequence_not_given_back)) {
      Sequence& sequence = sequences_[{request->at.replica, it->second.route->slice}];
      if (request->at.fence == sequence.fence)
        sequence.next = std::min(sequence.next, it->second.sequence);
    }
    it = parts_.erase(it);
  }
  answer(request, code, text, out);
}

void ParameterClient::answer(const RequestPtr& request, Errc code, const std::string& text,
                             Replies& out) {
  if (!request->reply) return;
  Tensor value = code == Errc::ok && !request->sends() ? std::move(request->values) : Tensor{};
  request->values.reset();
  out.push_back({std::move(request->reply), code, text, std::move(value)});
  request->reply = nullptr;
}

void ParameterClient::on(Pulled m) {
  if (drops_at(FailPoint::client_pulled)) return;
  Replies replies;
  RequestPtr whole;
  {
    std::lock_guard lock(mutex_);
    auto it = parts_.find(m.ticket);
    if (it == parts_.end()) return;  // already answered, or no longer wanted
    if (m.code == Errc::timeout) return put_off(it->second);
    const Part& part = it->second;
    const RequestPtr request = part.request;
    const bool by_rows = part.share.rows.defined();
    trace(part, m.values.defined() ? m.values.byte_size() : 0);
    auto route = routes_->parameters.find(request->parameter);
    if (m.code != Errc::ok) {
      end(request, m.code, m.text, replies);
    } else if (route == routes_->parameters.end()) {
      end(request, Errc::stale, "the parameter is gone", replies);
    } else {
      const int64_t wanted =
          by_rows ? part.share.rows.size() * part.share.row_size : part.route->size;
      Tensor values;
      const Failure read =
          failure_of([&] { values = request->decoded(route->second, std::move(m.values), make_); });
      const bool keeps = (!part.route->local || request->codec != Codec::none) && !by_rows;
      if (!values.defined() && part.offered.version == m.version) values = part.offered.values;
      if (read.code != Errc::ok) {
        end(request, read.code, read.text, replies);
      } else if (!values.defined() || values.dtype() != route->second.dtype ||
                 values.size() != wanted) {
        end(request, Errc::internal,
            detail::concat("shard at ", part.route->task, " answered with other values than slice ",
                           part.route->slice, " of ", request->parameter, " has"),
            replies);
      } else {
        if (Cached* cached = keeps ? &cache_[part.route->slice] : nullptr;
            cached && m.version >= cached->version)
          *cached = {m.version, values, request->codec};
        if (log_ && !by_rows)
          log_({part.route->slice, request->at, request->epoch, m.version, values, request->codec});
        const Failure put = failure_of([&] { request->put(part.share, route->second, values); });
        if (put.code != Errc::ok) {
          end(request, put.code, put.text, replies);
        } else {
          request->round = {m.local_steps, m.version, m.rate_scale};
          parts_.erase(it);
          if (--request->open == 0 && finish(request, route->second, replies)) whole = request;
        }
      }
    }
  }
  run(replies);
  if (!whole) return;
  const Reply reply = whole->reply;  // an exception takes it from the request
  const Failure failed = failure_of([&] { start(whole, {}); });
  if (failed.code != Errc::ok) reply(failed.code, failed.text, {});
}

bool ParameterClient::finish(const RequestPtr& request, const ParameterRoute& route, Replies& out) {
  const bool rows = request->by_rows(route);
  if (rows && request->round.steps > 0) {
    const int64_t bytes = route.shape.size() * size_of(route.dtype);
    request->whole = bytes <= ReplicaCopies::kRowsBytesMax;
    if (request->whole) return true;
    answer(request, Errc::invalid_argument,
           detail::concat(request->parameter, " has ", bytes, " bytes and is read by rows; a rule ",
                          "of local steps copies it whole in each round, which is for at most ",
                          ReplicaCopies::kRowsBytesMax, " bytes; train with another rule"),
           out);
    return false;
  }
  Outcome done;
  if (!rows && request->at.step >= 0) done = copies_.begin(*request, route);
  if (done) {  // a lack of memory is reported to the caller
    const Failure failed = failure_of([&] { request->finish(route, make_); });
    done = {failed.code, failed.text};
  }
  answer(request, done.code, done.text, out);
  return false;
}

void ParameterClient::on(const Acknowledged& m) {
  if (drops_at(FailPoint::client_acknowledged)) return;
  Replies replies;
  {
    std::lock_guard lock(mutex_);
    auto it = parts_.find(m.ticket);
    if (it == parts_.end()) return;
    if (m.code == Errc::timeout) return put_off(it->second);
    const RequestPtr request = it->second.request;
    trace(it->second, it->second.share.bytes);
    if (m.code != Errc::ok) {
      end(request, m.code, m.text, replies);
    } else {
      if (log_ && request->kind == Kind::push)
        log_({.slice = it->second.route->slice,
              .at = request->at,
              .epoch = request->epoch,
              .steps = std::max<int64_t>(1, request->number)});
      parts_.erase(it);
      if (--request->open == 0) answer(request, Errc::ok, {}, replies);
    }
  }
  run(replies);
}

// The link had no room for the request or for its answer. The gradient of a push is still here:
// only a shard of this process takes it over, and no link leads there.
void ParameterClient::put_off(Part& part) {
  part.resend_at = system_.clock().now();
  part.wait = kResendFirst;
}

void ParameterClient::peer_down(const std::string& task, const std::string& reason) {
  Replies replies;
  {
    std::lock_guard lock(mutex_);
    std::vector<RequestPtr> hit;
    for (const auto& [ticket, part] : parts_) {
      if (part.route->task != task) continue;
      hit.push_back(part.request);
    }
    for (const auto& request : hit)
      end(request, Errc::peer_lost,
          detail::concat(task, ", which holds a part of ", request->parameter,
                         ", is gone: ", reason),
          replies);
  }
  run(replies);
}

void ParameterClient::fail_all(Errc code, const std::string& text) {
  Replies replies;
  {
    std::lock_guard lock(mutex_);
    std::vector<RequestPtr> all;
    for (const auto& [ticket, part] : parts_) all.push_back(part.request);
    for (const auto& request : all) end(request, code, text, replies);
  }
  run(replies);
}

void ParameterClient::retire(Errc code, const std::string& text) {
  fail_all(code, text);
  std::lock_guard lock(mutex_);
  cache_.clear();
  copies_.clear();
  residuals_.clear();
  routes_ = std::make_shared<const ParameterRoutes>();
  sequences_.clear();
}

void ParameterClient::resend(Time now) {
  Parts again;
  {
    std::lock_guard lock(mutex_);
    for (auto& [ticket, part] : parts_) {
      if (now < part.resend_at) continue;
      offer(part);
      if (mutant(Mutant::resent_with_next_number)) ++part.sequence;
      part.wait = std::min<std::chrono::seconds>(kResendMax, part.wait * 2);
      part.resend_at = now + part.wait;
      again.emplace_back(ticket, part);
    }
  }
  if (!again.empty()) fail_point(FailPoint::client_resend);
  send_again(again);
}

size_t ParameterClient::pending() const {
  std::lock_guard lock(mutex_);
  return parts_.size();
}

std::string ParameterClient::waiting_for() const {
  std::lock_guard lock(mutex_);
  const Part* oldest = nullptr;
  for (const auto& [ticket, part] : parts_)
    if (!oldest || part.request->started < oldest->request->started) oldest = &part;
  if (!oldest) return {};
  const ParameterRequest& r = *oldest->request;
  const auto since = std::chrono::duration<double>(system_.clock().now() - r.started).count();
  return detail::concat(r.name(), " of ", r.parameter, " replica ", r.at.replica, " step ",
                        r.at.step, " waits for ", oldest->route->task, " since ", since, " s");
}

}  // namespace troupe
