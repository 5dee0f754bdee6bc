// SimWorkers: the worker processes of a ShardWorld (sim_shards.hpp), one per replica. A worker
// pulls all slices for its step, computes gradients from them and pushes these. The step is done
// when all pushes are acknowledged. Unanswered requests are sent again.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/simulation/message_bag.hpp"
#include "training/parameters/messages.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe::sim {

class SimWorkers {
 public:
  // The surroundings of the workers: the shards, and the leader, which learns how a run ended.
  struct Reach {
    std::function<void(size_t shard, uint64_t from, const Push&)> push;
    std::function<void(size_t shard, uint64_t from, const Pull&)> pull;
    std::function<void(int32_t replica, int64_t run, int64_t step)> done;
    std::function<void(int32_t replica, int64_t run, Errc code, const std::string& text)> failed;
    std::function<bool(int32_t replica, int64_t run)> wanted;  // false: taken back meanwhile
  };
  SimWorkers(const ShardWorldOptions& options, MessageBag& bag, Reach reach)
      : o_(options), bag_(bag), reach_(std::move(reach)) {
    for (int32_t replica = 0; replica < o_.replicas; ++replica)
      workers_.push_back({.replica = replica});
  }

  void start(int32_t replica, int64_t run, int64_t step) {
    WorkerProcess& w = at(replica);
    if (!w.alive) return reach_.failed(replica, run, Errc::peer_lost, "its process is gone");
    if (!reach_.wanted(replica, run)) return;  // taken back meanwhile
    if (w.epoch == 0) return reach_.failed(replica, run, Errc::stale, "no routes yet");
    w.run = run;
    w.step = step;
    w.values.clear();
    w.acknowledged = 0;
    w.open.clear();
    for (uint32_t slice = 0; slice < o_.slice_count(); ++slice) {
      Request request;
      request.shard = o_.shard_of(slice);
      request.pull = {.slice = slice,
                      .replica = w.replica,
                      .step = step,
                      .have_version = -1,
                      .epoch = w.epoch,
                      .ticket = w.next_ticket};
      send(w, w.next_ticket, w.open[w.next_ticket] = request);
      ++w.next_ticket;
    }
  }

  void take_back(int32_t replica, int64_t run) {
    WorkerProcess& w = at(replica);
    if (w.run == run) w.run = 0, w.open.clear();
    reach_.failed(replica, run, Errc::cancelled, "taken back");
  }
  void take_routes(int32_t replica, uint64_t epoch) {
    WorkerProcess& w = at(replica);
    if (!w.alive || epoch <= w.epoch) return;
    w.epoch = epoch;
    w.next_sequence.clear();
    w.pulled_version.clear();
    if (w.run != 0) end_step(w, Errc::stale, "a new epoch");
  }
  void resend() {
    for (WorkerProcess& w : workers_)
      if (w.alive && o_.planted != Planted::no_resend)
        for (auto& [ticket, request] : w.open) {
          if (o_.planted == Planted::fresh_step && request.push) {
            request.push->sequence = w.next_sequence[request.push->slice]++;
            ++request.push->step;
          }
          send(w, ticket, request);
        }
  }

  bool alive(int32_t replica) const { return at(replica).alive; }
  uint64_t incarnation(int32_t replica) const { return at(replica).incarnation; }
  void kill(int32_t replica) {
    WorkerProcess& w = at(replica);
    const uint64_t next = w.incarnation + 1;
    w = WorkerProcess{.replica = replica, .incarnation = next, .alive = false};
  }
  void come_back(int32_t replica) { at(replica).alive = true; }

  // Answers of shards; `to` is the sender id of the request.
  void on(uint64_t to, const Pulled& m) {
    WorkerProcess* w = receiver(to, m.ticket);
    if (!w) return;
    if (m.code != Errc::ok) return end_step(*w, m.code, m.text);
    if (o_.rule == Aggregation::sync && m.version != w->step)
      throw Violation{"I6", detail::concat("replica ", w->replica, " begins step ", w->step,
                                           " with version ", m.version, " of slice ", m.slice)};
    const int64_t least =
        w->step + (o_.replicas - 1) * std::max<int64_t>(0, w->step - o_.rule.bound);
    if (o_.rule.kind == Aggregation::Kind::ssp && m.version < least)
      throw Violation{"I6", detail::concat("replica ", w->replica, " begins step ", w->step,
                                           " with version ", m.version, " of slice ", m.slice,
                                           ", and its bound wants at least ", least)};
    int64_t& before = w->pulled_version[m.slice];
    if (m.version < before && !o_.rule.by_steps())
      throw Violation{"I3", detail::concat("replica ", w->replica, " pulled version ", before,
                                           " of slice ", m.slice, " and now ", m.version)};
    before = m.version;
    w->open.erase(m.ticket);
    w->values[m.slice] = m.values;
    if (w->values.size() < o_.slice_count()) return;
    for (uint32_t slice = 0; slice < o_.slice_count(); ++slice) {
      Push p{.slice = slice,
             .replica = w->replica,
             .incarnation = w->incarnation,
             .step = w->step,
             .sequence = w->next_sequence[slice]++,
             .epoch = w->epoch,
             .ticket = w->next_ticket,
             .gradient = gradient(*w, slice)};
      Request request;
      request.push = std::move(p);
      request.shard = o_.shard_of(slice);
      send(*w, w->next_ticket, w->open[w->next_ticket] = std::move(request));
      ++w->next_ticket;
    }
  }

  void on(uint64_t to, const Acknowledged& m) {
    WorkerProcess* w = receiver(to, m.ticket);
    if (!w) return;
    if (m.code != Errc::ok) return end_step(*w, m.code, m.text);
    w->open.erase(m.ticket);
    if (++w->acknowledged < o_.slice_count()) return;
    const int64_t run = std::exchange(w->run, 0);
    bag_.reliable(
        detail::concat("done replica=", w->replica, " step=", w->step),
        [this, replica = w->replica, run, step = w->step] { reach_.done(replica, run, step); });
  }

  bool idle() const {
    for (const WorkerProcess& w : workers_)
      if (!w.open.empty() || w.run != 0) return false;
    return true;
  }
  std::string pending() const {
    std::string out;
    for (const WorkerProcess& w : workers_)
      out += detail::concat(" worker ", w.replica, " step ", w.step, " has ", w.open.size(),
                            " requests;");
    return out;
  }

 private:
  struct Request {
    std::optional<Push> push;
    Pull pull;
    size_t shard = 0;
  };
  struct WorkerProcess {
    int32_t replica = 0;
    uint64_t incarnation = 1;
    bool alive = true;
    uint64_t epoch = 0;  // of its routes; 0: it has none
    int64_t run = 0;     // of the step under way; 0: none
    int64_t step = 0;
    std::map<uint64_t, Request> open = {};  // by ticket
    uint64_t next_ticket = 1;
    std::map<uint32_t, int64_t> next_sequence = {};
    std::map<uint32_t, Tensor> values = {};
    std::map<uint32_t, int64_t> pulled_version = {};
    size_t acknowledged = 0;
  };

  WorkerProcess& at(int32_t replica) { return workers_[static_cast<size_t>(replica)]; }
  const WorkerProcess& at(int32_t replica) const { return workers_[static_cast<size_t>(replica)]; }
  static uint64_t address(const WorkerProcess& w) {
    return static_cast<uint64_t>(w.replica) * 1000 + w.incarnation;
  }

  WorkerProcess* receiver(uint64_t to, uint64_t ticket) {
    WorkerProcess& w = workers_.at(to / 1000);
    return w.alive && address(w) == to && w.run != 0 && w.open.count(ticket) ? &w : nullptr;
  }

  void send(const WorkerProcess& w, uint64_t ticket, const Request& request) {
    const uint64_t from = address(w);
    const size_t m = request.shard;
    if (request.push) {
      const Push& p = *request.push;
      bag_.lossy(detail::concat("push replica=", p.replica, " step=", p.step, " slice=", p.slice,
                                " sequence=", p.sequence, " incarnation=", p.incarnation,
                                " epoch=", p.epoch),
                 [this, m, from, p] { reach_.push(m, from, p); });
    } else {
      const Pull p = request.pull;
      bag_.lossy(detail::concat("pull replica=", p.replica, " step=", p.step, " slice=", p.slice,
                                " epoch=", p.epoch, " ticket=", ticket),
                 [this, m, from, p] { reach_.pull(m, from, p); });
    }
  }

  // Depends on all slices, so that one wrong bit anywhere shows, and rounds, so that the order of a
  // sum shows. The gradients of odd slices are by rows.
  Gradient gradient(const WorkerProcess& w, uint32_t slice) const {
    float sum = 0;
    for (const auto& [id, values] : w.values)
      for (float v : values.values<float>()) sum += v * 0.13F;
    Tensor out = Tensor::empty(DType::f32, Shape{o_.slice_size});
    const Tensor& mine = w.values.at(slice);
    for (int64_t i = 0; i < o_.slice_size; ++i)
      out.mutable_data<float>()[i] =
          mine.data<float>()[i] * 0.37F + sum * 0.071F + 0.1F * static_cast<float>(w.replica + 1) -
          0.019F * static_cast<float>(w.step * (i + 1)) +
          (o_.planted == Planted::torn_gradient && w.incarnation > 1 ? 0.001F : 0.0F);
    if (o_.is_bad(w.replica, w.step))
      for (int64_t i = 0; i < o_.slice_size; ++i) out.mutable_data<float>()[i] = NAN;
    const bool whole = slice % 2 == 0 || o_.is_bad(w.replica, w.step);
    return whole ? Gradient(out) : some_rows(out, w.step);
  }
  // Every second element: from the last one backwards, or in odd steps from the one before it.
  static Gradient some_rows(const Tensor& gradient, int64_t step) {
    std::vector<int64_t> indices;
    std::vector<float> values;
    for (int64_t i = gradient.size() - 1 - step % 2; i >= 0; i -= 2) {
      indices.push_back(i);
      values.push_back(gradient.data<float>()[i]);
    }
    const auto n = static_cast<int64_t>(indices.size());
    return {Tensor::of<float>(values, {n, 1}), Tensor::of<int64_t>(indices, {n})};
  }

  void end_step(WorkerProcess& w, Errc code, const std::string& text) {
    w.open.clear();
    const int64_t run = std::exchange(w.run, 0);
    bag_.reliable(
        detail::concat("failed replica=", w.replica, " step=", w.step, ": ", text),
        [this, replica = w.replica, run, code, text] { reach_.failed(replica, run, code, text); });
  }

  const ShardWorldOptions& o_;
  MessageBag& bag_;
  const Reach reach_;
  std::vector<WorkerProcess> workers_;
};

}  // namespace troupe::sim
