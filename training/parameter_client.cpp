// Implements training/parameter_client.hpp.
#include "training/parameter_client.hpp"

#include <algorithm>
#include <cstring>

#include "training/row_slices.hpp"

namespace troupe {
namespace {

constexpr const char* kNewEpoch = "the shards have a new epoch; do the step again";

int64_t slice_bytes(const SliceRoute& slice, DType dtype) { return slice.size * size_of(dtype); }

// A gradient of all elements, or of some rows (troupe/ops/row_sparse.hpp).
bool fits(const Tensor& gradient, const ParameterRoute& route) {
  if (gradient.dtype() == DType::u8 && route.dtype != DType::u8)
    return unpack_rows(gradient, route.dtype, route.shape.size()).has_value();
  return gradient.dtype() == route.dtype && gradient.shape() == route.shape;
}

}  // namespace

void ParameterClient::set_routes(ParameterRoutes routes) {
  Replies replies;
  std::vector<std::pair<uint64_t, Part>> again;
  {
    std::lock_guard lock(mutex_);
    if (routes.epoch < routes_.epoch) return;  // an old message
    const bool new_epoch = routes.epoch != routes_.epoch;
    routes_ = std::move(routes);
    if (new_epoch) cache_.clear();
    if (new_epoch) next_sequence_.clear();
    std::vector<std::shared_ptr<Request>> old;
    for (auto& [ticket, part] : parts_) {
      auto it = routes_.parameters.find(part.request->parameter);
      if (part.request->epoch != routes_.epoch || it == routes_.parameters.end()) {
        old.push_back(part.request);
        continue;
      }
      part.route = it->second.slices.at(part.index);
      again.emplace_back(ticket, part);
    }
    for (const auto& request : old) end(request, Errc::stale, kNewEpoch, replies);
  }
  for (const auto& [ticket, part] : again) send(ticket, part);
  run(replies);
}

void ParameterClient::pull_rows(const std::string&, const ParameterStep&, Tensor, Reply reply) {
  reply(Errc::invalid_argument, "rows alone are not pulled yet", {});
}

void ParameterClient::write(const std::string&, const ParameterStep&, ParameterWrite, Reply reply) {
  reply(Errc::invalid_argument, "values are not written yet", {});
}

void ParameterClient::pull(const std::string& parameter, const ParameterStep& at, Reply reply) {
  auto request = std::make_shared<Request>();
  request->parameter = parameter;
  request->slot = at.slot;
  request->step = at.step;
  request->reply = std::move(reply);
  const std::optional<ParameterRoute> route = find_route(*request, nullptr);
  if (!route) return;
  if (route->slices.size() > 1) request->values = make_(route->dtype, route->shape);
  start(std::move(request), {});
}

void ParameterClient::push(const std::string& parameter, const ParameterStep& at, Tensor gradient,
                           Reply reply) {
  auto request = std::make_shared<Request>();
  request->is_push = true;
  request->parameter = parameter;
  request->slot = at.slot;
  request->step = at.step;
  request->reply = std::move(reply);
  if (!find_route(*request, &gradient)) return;
  start(std::move(request), gradient.reshaped(Shape{gradient.size()}));
}

// Where the request goes, and in which epoch; nothing if it was refused, which is its answer.
std::optional<ParameterRoute> ParameterClient::find_route(Request& request,
                                                          const Tensor* gradient) {
  Errc code = Errc::ok;
  std::string text;
  {
    std::lock_guard lock(mutex_);
    const auto it = routes_.parameters.find(request.parameter);
    if (it == routes_.parameters.end()) {
      code = Errc::stale;
      text = detail::concat("this process does not know where parameter ", request.parameter,
                            " lives");
    } else if (parts_.size() >= kPendingMax) {
      code = Errc::out_of_memory;
      text = detail::concat("more than ", kPendingMax,
                            " parameter requests under way; run fewer steps at once");
    } else if (gradient && !fits(*gradient, it->second)) {
      code = Errc::invalid_argument;
      text = detail::concat("the gradient of ", request.parameter, " is ",
                            gradient->dtype() == DType::u8 ? "rows, in " : "", gradient->dtype(),
                            gradient->shape(), "; the parameter is ", it->second.dtype,
                            it->second.shape);
    } else {
      request.epoch = routes_.epoch;
      return it->second;
    }
  }
  request.reply(code, text, {});
  return std::nullopt;
}

void ParameterClient::start(std::shared_ptr<Request> request, const Tensor& gradient) {
  Replies replies;
  std::vector<std::pair<uint64_t, Part>> parts;
  {
    std::lock_guard lock(mutex_);
    if (request->epoch == routes_.epoch)
      parts = add_parts(request, gradient);
    else  // since find_route()
      end(request, Errc::stale, kNewEpoch, replies);
  }
  for (const auto& [ticket, part] : parts) send(ticket, part);
  run(replies);
}

// Requires mutex_, and that the request is of the routes' epoch.
std::vector<std::pair<uint64_t, ParameterClient::Part>> ParameterClient::add_parts(
    const std::shared_ptr<Request>& request, const Tensor& gradient) {
  const ParameterRoute& route = routes_.parameters.at(request->parameter);
  std::vector<std::pair<uint64_t, Part>> parts;
  request->started = system_.clock().now();
  request->open = route.slices.size();
  const bool by_rows = request->is_push && gradient.dtype() != route.dtype;
  for (size_t i = 0; i < route.slices.size(); ++i) {
    Part part;
    part.request = request;
    part.index = i;
    part.route = route.slices[i];
    part.resend_at = request->started + kResendFirst;
    if (tracer_ && tracer_->on()) part.asked_ns = Tracer::now_ns();
    if (request->is_push) {
      part.sequence = next_sequence_[{request->slot, part.route.slice}]++;
      const int64_t begin = part.route.offset, end = begin + part.route.size;
      part.gradient = by_rows ? rows_of_slice(gradient, route.dtype, route.shape.size(), begin, end)
                              : gradient.rows(begin, end);
    }
    const uint64_t ticket = next_ticket_++;
    parts_[ticket] = part;
    parts.emplace_back(ticket, std::move(part));
  }
  return parts;
}

// Of the request it reads what does not change: an answer may come meanwhile.
void ParameterClient::send(uint64_t ticket, const Part& part) {
  const Request& request = *part.request;
  int64_t have_version = -1;
  {
    std::lock_guard lock(mutex_);
    const auto open = parts_.find(ticket);
    if (open == parts_.end()) return;  // the answer to another part has ended the request
    Cached& offered = open->second.offered;
    const auto cached = cache_.find(part.route.slice);
    if (!request.is_push && !part.route.local && !offered.values.defined() &&
        cached != cache_.end())
      offered = cached->second;  // asked again, it offers the same: either answer may come
    have_version = offered.version;
  }
  caf::message message;
  if (request.is_push) {
    Push m;
    m.slice = part.route.slice;
    m.slot = static_cast<int32_t>(request.slot);
    m.step = request.step;
    m.sequence = part.sequence;
    m.epoch = request.epoch;
    m.ticket = ticket;
    m.gradient = part.gradient;
    m.incarnation = incarnation_;
    message = caf::make_message(std::move(m));
  } else {
    Pull m;
    m.slice = part.route.slice;
    m.slot = static_cast<int32_t>(request.slot);
    m.step = request.step;
    m.epoch = request.epoch;
    m.ticket = ticket;
    m.have_version = have_version;
    message = caf::make_message(std::move(m));
  }
  part.route.shard->enqueue(caf::actor_cast<caf::strong_actor_ptr>(door_), caf::make_message_id(),
                            std::move(message), nullptr);
}

void ParameterClient::trace(const Part& part, int64_t bytes) const {
  if (part.asked_ns == 0) return;
  const Request& r = *part.request;
  tracer_->record({.category = r.is_push ? "push" : "pull",
                   .name = detail::concat(r.parameter, " slot ", r.slot, " step ", r.step,
                                          r.is_push ? " to " : " from ", part.route.task),
                   .begin_ns = part.asked_ns,
                   .end_ns = Tracer::now_ns(),
                   .bytes = bytes});
}

void ParameterClient::end(const std::shared_ptr<Request>& request, Errc code,
                          const std::string& text, Replies& out) {
  for (auto it = parts_.begin(); it != parts_.end();) {
    if (it->second.request != request) {
      ++it;
      continue;
    }
    // A push that may not have arrived leaves no gap behind: its number is given again.
    if (request->is_push) {
      int64_t& next = next_sequence_[{request->slot, it->second.route.slice}];
      next = std::min(next, it->second.sequence);
    }
    it = parts_.erase(it);
  }
  if (!request->reply) return;
  Tensor value = code == Errc::ok && !request->is_push ? std::move(request->values) : Tensor{};
  request->values.reset();
  out.push_back([reply = std::move(request->reply), code, text, value = std::move(value)] {
    reply(code, text, value);
  });
  request->reply = nullptr;
}

void ParameterClient::on(Pulled m) {
  Replies replies;
  {
    std::lock_guard lock(mutex_);
    auto it = parts_.find(m.ticket);
    if (it == parts_.end()) return;  // answered before, or not wanted any more
    const Part part = it->second;
    const std::shared_ptr<Request> request = part.request;
    trace(part, m.values.defined() ? m.values.byte_size() : 0);
    auto route = routes_.parameters.find(request->parameter);
    if (m.code != Errc::ok) {
      end(request, m.code, m.text, replies);
    } else if (route == routes_.parameters.end()) {
      end(request, Errc::stale, "the parameter is gone", replies);
    } else {
      const DType dtype = route->second.dtype;
      Tensor values = std::move(m.values);
      Cached* cached = part.route.local ? nullptr : &cache_[part.route.slice];
      if (!values.defined() && part.offered.version == m.version) values = part.offered.values;
      if (!values.defined() || values.dtype() != dtype || values.size() != part.route.size) {
        end(request, Errc::internal,
            detail::concat("shard at ", part.route.task, " answered with other values than slice ",
                           part.route.slice, " of ", request->parameter, " has"),
            replies);
      } else {
        if (cached && m.version >= cached->version) *cached = {m.version, values};
        parts_.erase(it);
        if (route->second.slices.size() == 1) {
          request->values = values.reshaped(route->second.shape);
        } else {
          std::memcpy(static_cast<char*>(request->values.mutable_raw()) +
                          part.route.offset * size_of(dtype),
                      values.raw(), static_cast<size_t>(slice_bytes(part.route, dtype)));
        }
        if (--request->open == 0) end(request, Errc::ok, {}, replies);
      }
    }
  }
  run(replies);
}

void ParameterClient::on(const Acknowledged& m) {
  Replies replies;
  {
    std::lock_guard lock(mutex_);
    auto it = parts_.find(m.ticket);
    if (it == parts_.end()) return;
    const std::shared_ptr<Request> request = it->second.request;
    trace(it->second, it->second.gradient.byte_size());
    if (m.code != Errc::ok) {
      end(request, m.code, m.text, replies);
    } else {
      parts_.erase(it);
      if (--request->open == 0) end(request, Errc::ok, {}, replies);
    }
  }
  run(replies);
}

void ParameterClient::peer_down(const std::string& task, const std::string& reason) {
  Replies replies;
  {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Request>> hit;
    for (const auto& [ticket, part] : parts_) {
      if (part.route.task != task) continue;
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
    std::vector<std::shared_ptr<Request>> all;
    for (const auto& [ticket, part] : parts_) all.push_back(part.request);
    for (const auto& request : all) end(request, code, text, replies);
  }
  run(replies);
}

void ParameterClient::retire(Errc code, const std::string& text) {
  fail_all(code, text);
  std::lock_guard lock(mutex_);
  cache_.clear();
  routes_ = {};
  next_sequence_.clear();
}

void ParameterClient::resend(Time now) {
  std::vector<std::pair<uint64_t, Part>> again;
  {
    std::lock_guard lock(mutex_);
    for (auto& [ticket, part] : parts_) {
      if (now < part.resend_at) continue;
      part.wait = std::min<std::chrono::seconds>(kResendMax, part.wait * 2);
      part.resend_at = now + part.wait;
      again.emplace_back(ticket, part);
    }
  }
  for (const auto& [ticket, part] : again) send(ticket, part);
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
  const Request& r = *oldest->request;
  const auto since = std::chrono::duration<double>(system_.clock().now() - r.started).count();
  return detail::concat(r.is_push ? "push of " : "pull of ", r.parameter, " slot ", r.slot,
                        " step ", r.step, " waits for ", oldest->route.task, " since ", since,
                        " s");
}

}  // namespace troupe
