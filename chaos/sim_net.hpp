// SimNet: Transport, Clock and Rng for a world of hosts in one thread, under virtual time, from one
// seed. Streams split and merge bytes as TCP may. Frames of the data plane can be dropped, doubled
// and reordered; hosts can be killed and frozen, and pairs of hosts cut. Equal seeds give equal
// histories (trace()).
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "net/link/link.hpp"
#include "net/link/seams.hpp"
#include "chaos/sim_faults.hpp"

namespace troupe::sim {

class SimNet;

// One process of the world.
class SimHost final : public Transport, public Clock {
 public:
  SimHost(SimNet& net, std::string name, uint64_t seed)
      : net_(net),
        name_(std::move(name)),
        task_(name_.begin(), std::find(name_.begin(), name_.end(), '#')),
        rng_(seed) {}
  const std::string& name() const { return name_; }
  // The part of the name before '#', which the lives of one process have in common.
  const std::string& task() const { return task_; }
  SeededRng& rng() { return rng_; }
  std::string ip = "127.0.0.1";       // address of this host's end of its streams
  bool alive = true, frozen = false;  // by SimNet

  TimePoint now() const override;
  TimerPtr after(ns delay, std::function<void()> fn) override;
  std::unique_ptr<Listener> listen(const std::string& address,
                                   std::function<void(ConnectionPtr)> on_accept) override;
  void dial(const std::string& address, ns timeout,
            std::function<void(ConnectionPtr, const std::string&)> on_done) override;
  void post(std::function<void()> fn) override;
  void run(const std::function<void()>& fn) override { fn(); }

 private:
  SimNet& net_;
  const std::string name_, task_;
  SeededRng rng_;
};

class SimNet {
 public:
  explicit SimNet(uint64_t seed) : rng_(seed) {}
  SimNet(const SimNet&) = delete;
  ~SimNet() { drop_everything(); }

  SimFaults faults;
  std::function<Verdict(const SimFrame&)> filter;  // asked before the probabilities apply
  SimHost* under_way = nullptr;                    // the host whose event runs just now

  SimHost& add(const std::string& name) {
    hosts_.push_back(std::make_unique<SimHost>(*this, name, rng_()));
    return *hosts_.back();
  }
  TimePoint now() const { return now_; }
  uint64_t draw() { return rng_(); }
  uint64_t trace() const { return trace_; }   // hash of all events
  int64_t writes() const { return writes_; }  // number, over all streams

  // Runs one event. Returns false if none is possible.
  bool step() { return step_until(TimePoint::max()); }
  // Runs the events of the next `duration`; virtual time then stands at its end.
  void run_for(ns duration) {
    const TimePoint end = now_ + duration;
    while (step_until(end)) {
    }
    now_ = end;
  }
  // Runs until `done` or `limit`; returns whether `done`. Virtual time stands at the last event.
  bool run_until(const std::function<bool()>& done, ns limit) {
    const TimePoint end = now_ + limit;
    while (!done())
      if (!step_until(end)) return now_ = end, done();
    return true;
  }
  // The time of the next event, before which nothing happens. max() if there is none.
  TimePoint next_due() const {
    for (const auto& [when, event] : events_)
      if (may_happen(event)) return std::max(when.first, now_);
    return TimePoint::max();
  }
  void advance_to(TimePoint time) { now_ = std::max(now_, time); }

  // Ends the process; its streams end at once.
  void kill(SimHost& host) {
    host.alive = false;
    for (const auto& pipe : live_pipes())
      if (pipe->from == &host) end_pipe(pipe, "reset by the peer");
    std::erase_if(listeners_, [&](const auto& l) { return l.second.host == &host; });
    std::erase_if(events_, [&](const auto& e) { return e.second.host == &host; });
  }
  // Keeps the streams of the host but runs none of its events.
  void freeze(SimHost& host) { host.frozen = true; }
  void thaw(SimHost& host) { host.frozen = false; }
  // No bytes pass between hosts of these tasks, now or later, until heal(), once for each cut.
  // `one_way`: only those from a to b are stopped.
  void cut(const std::string& a, const std::string& b, bool one_way = false) {
    cuts_.insert({a, b});
    if (!one_way) cuts_.insert({b, a});
  }
  void cut(const SimHost& a, const SimHost& b, bool one_way = false) {
    cut(a.task(), b.task(), one_way);
  }
  void heal(const std::string& a, const std::string& b, bool one_way = false) {
    for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      if (from == b && one_way) continue;
      if (const auto it = cuts_.find({from, to}); it != cuts_.end()) cuts_.erase(it);
      for (const auto& pipe : live_pipes())
        if (pipe->from->task() == from && pipe->to->task() == to) schedule_delivery(pipe);
    }
  }
  // Ends all cuts.
  void heal() {
    cuts_.clear();
    for (const auto& pipe : live_pipes()) schedule_delivery(pipe);
  }
  // Ends all streams between the two hosts.
  void reset(SimHost& a, SimHost& b) {
    for (const auto& pipe : live_pipes())
      if ((pipe->from == &a && pipe->to == &b) || (pipe->from == &b && pipe->to == &a))
        end_pipe(pipe, "reset by the network");
  }

  // A stream between two hosts without a listener, for tests of links. Returns its ends.
  // a has dialled `port` of b.
  std::pair<ConnectionPtr, ConnectionPtr> connect(SimHost& a, SimHost& b,
                                                  const std::string& port = ":1") {
    auto there = std::make_shared<Pipe>(), back = std::make_shared<Pipe>();
    there->from = back->to = &a;
    there->to = back->from = &b;
    auto left = std::make_shared<End>(*this, there, back),
         right = std::make_shared<End>(*this, back, there);
    left->port_ = port;
    there->writer = left, there->reader = right;
    back->writer = right, back->reader = left;
    pipes_.push_back(there), pipes_.push_back(back);
    return {left, right};
  }

  // For SimHost: an event of the host; its timer; its Transport.
  void at(SimHost& host, ns delay, std::function<void()> fn) {
    if (host.alive)
      events_.emplace(std::pair{now_ + delay, sequence_++}, Event{&host, std::move(fn)});
  }
  TimerPtr after(SimHost& host, ns delay, std::function<void()> fn) {
    auto live = std::make_shared<bool>(true);
    at(host, std::max(ns{0}, delay), [live, fn = std::move(fn)] {
      if (std::exchange(*live, false)) fn();
    });
    return std::make_unique<SimTimer>(live);
  }
  std::unique_ptr<Listener> listen(SimHost& host, std::string address,
                                   std::function<void(ConnectionPtr)> on_accept) {
    if (address.ends_with(":0"))
      address = address.substr(0, address.size() - 1) + std::to_string(next_port_++);
    if (listeners_.count(address)) throw Error(Errc::io, address, " is taken; choose another port");
    listeners_[address] = {&host, std::move(on_accept)};
    return std::make_unique<SimListener>(*this, address);
  }
  void dial(SimHost& here, const std::string& address, ns timeout,
            std::function<void(ConnectionPtr, const std::string&)> on_done) {
    at(here, draw_delay(), [this, &here, address, timeout, on_done = std::move(on_done)] {
      const auto it = listeners_.find(address);
      if (it == listeners_.end()) return on_done(nullptr, "connection refused");
      SimHost& there = *it->second.host;
      if (cuts_.count({here.task(), there.task()}) || cuts_.count({there.task(), here.task()}))
        return at(here, timeout, [on_done] { on_done(nullptr, "no answer in time"); });
      const auto [mine, theirs] = connect(here, there, address.substr(address.rfind(':')));
      at(there, ns{0}, [this, address, theirs = theirs] {
        const auto listener = listeners_.find(address);
        if (listener != listeners_.end()) listener->second.on_accept(theirs);
      });
      on_done(mine, "");
    });
  }

 private:
  struct End;

  struct Unit {
    std::vector<std::byte> bytes;
    TimePoint due;
    std::vector<Descriptor> descriptors;
  };
  // One direction of a stream.
  struct Pipe {
    SimHost *from = nullptr, *to = nullptr;
    std::weak_ptr<End> writer, reader;
    std::vector<std::byte> raw;           // written, not yet cut into frames
    std::vector<Descriptor> descriptors;  // written, for the next unit
    bool greeted = false;
    bool encrypted = false;       // its frames cannot be seen
    size_t to_border = 0;         // bytes until the next frame begins
    std::deque<Unit> units;       // under way, in order
    std::vector<std::byte> held;  // a frame that another one is to overtake
    size_t in_flight = 0;
    bool cut_short = false;  // a write was cut short
    bool ended = false;
    std::string end_reason;
  };
  using PipePtr = std::shared_ptr<Pipe>;

  struct Event {
    SimHost* host;  // the event does not run while the host is frozen
    std::function<void()> fn;
  };
  struct ListenerEntry {
    SimHost* host;
    std::function<void(ConnectionPtr)> on_accept;
  };

  struct End final : Connection {
    End(SimNet& net, PipePtr out, PipePtr in)
        : net_(net), out_(std::move(out)), in_(std::move(in)) {}
    void start(ConnectionHandlers handlers) override {
      handlers_ = std::move(handlers);
      started_ = true;
      net_.schedule_delivery(in_);
    }
    size_t write(std::span<const std::span<const std::byte>> parts,
                 std::span<const int> descriptors) override {
      if (closed_ || out_->ended) return 0;
      ++net_.writes_;
      size_t done = 0;
      for (std::span<const std::byte> part : parts) {
        const size_t space = net_.faults.window - std::min(net_.faults.window, out_->in_flight);
        // Faults apply to whole frames, so these must fit.
        const size_t size = net_.is_plain() ? std::min(part.size(), space) : part.size();
        out_->raw.insert(out_->raw.end(), part.begin(),
                         part.begin() + static_cast<ptrdiff_t>(size));
        out_->in_flight += size;
        done += size;
        if (size < part.size()) {
          out_->cut_short = true;
          break;
        }
      }
      if (done > 0)
        for (const int descriptor : descriptors) out_->descriptors.emplace_back(::dup(descriptor));
      net_.cut_frames(out_);
      return done;
    }
    void close() override {
      if (std::exchange(closed_, true)) return;
      net_.at(*out_->from, ns{0}, [h = std::move(handlers_)] {});  // handlers may be running now
      handlers_ = {};
      net_.flush_raw(out_);
      out_->ended = true;
      out_->end_reason = "closed by the peer";
      net_.schedule_delivery(out_);
    }
    std::string peer_address() const override { return out_->to->ip + port_; }
    bool is_local() const override { return local_; }

    SimNet& net_;
    PipePtr out_, in_;
    ConnectionHandlers handlers_;
    std::string port_ = ":1";  // of the other end
    const bool local_ = net_.faults.one_machine;
    bool started_ = false, closed_ = false;
  };

  class SimTimer final : public Timer {
   public:
    explicit SimTimer(std::shared_ptr<bool> live) : live_(std::move(live)) {}
    ~SimTimer() override { *live_ = false; }

   private:
    std::shared_ptr<bool> live_;
  };
  class SimListener final : public Listener {
   public:
    SimListener(SimNet& net, std::string address) : net_(net), address_(std::move(address)) {}
    ~SimListener() override { net_.listeners_.erase(address_); }
    std::string address() const override { return address_; }

   private:
    SimNet& net_;
    const std::string address_;
  };

  bool may_happen(const Event& event) const { return !event.host || !event.host->frozen; }

  bool step_until(TimePoint end) {
    for (auto it = events_.begin(); it != events_.end() && it->first.first <= end; ++it) {
      if (!may_happen(it->second)) continue;
      now_ = std::max(now_, it->first.first);
      const auto fn = std::move(it->second.fn);
      note(static_cast<uint64_t>(now_.time_since_epoch().count()) ^ it->first.second);
      struct UnderWay {  // an event may throw
        ~UnderWay() { host = nullptr; }
        SimHost*& host;
      } const until_end{under_way};
      under_way = it->second.host;
      events_.erase(it);
      fn();
      return true;
    }
    return false;
  }

  void note(uint64_t what) { trace_ = (trace_ ^ what) * 1099511628211ull; }

  ns draw_delay() {
    const auto span = static_cast<uint64_t>((faults.delay_max - faults.delay_min).count()) + 1;
    return faults.delay_min + ns(static_cast<int64_t>(rng_() % span));
  }
  bool chance(double p) { return p > 0 && static_cast<double>(rng_() >> 11) * 0x1p-53 < p; }

  std::vector<PipePtr> live_pipes() {
    std::erase_if(pipes_,
                  [](const PipePtr& p) { return p->writer.expired() && p->reader.expired(); });
    return pipes_;
  }

  void end_pipe(const PipePtr& pipe, const std::string& reason) {
    pipe->ended = true;
    pipe->end_reason = reason;
    schedule_delivery(pipe);
  }

  void send_unit(const PipePtr& pipe, std::vector<std::byte> bytes) {
    const TimePoint earliest =
        pipe->units.empty() ? now_ : pipe->units.back().due;  // a stream keeps its order
    pipe->units.push_back({std::move(bytes), std::max(earliest, now_ + draw_delay()),
                           std::exchange(pipe->descriptors, {})});
    schedule_delivery(pipe);
  }

  void flush_raw(const PipePtr& pipe) {
    if (!pipe->held.empty()) send_unit(pipe, std::exchange(pipe->held, {}));
    if (!pipe->raw.empty()) send_unit(pipe, std::exchange(pipe->raw, {}));
  }

  bool is_plain() const {
    return !filter && faults.drop <= 0 && faults.duplicate <= 0 && faults.reorder <= 0;
  }

  // Turns the written bytes into units: pieces of bytes, or frames if faults apply to them. Follows
  // frame borders at all times, so that faults may begin and end in mid-stream.
  void cut_frames(const PipePtr& pipe) {
    auto& raw = pipe->raw;
    constexpr std::byte kTlsRecord{0x16};
    if (!pipe->greeted && !raw.empty() && raw[0] == kTlsRecord) pipe->encrypted = true;
    if (pipe->encrypted) {
      if (!raw.empty()) send_unit(pipe, std::exchange(raw, {}));
      return;
    }
    const auto pop = [&raw](size_t size) {
      std::vector<std::byte> out(raw.begin(), raw.begin() + static_cast<ptrdiff_t>(size));
      raw.erase(raw.begin(), raw.begin() + static_cast<ptrdiff_t>(size));
      return out;
    };
    const bool plain = is_plain() && pipe->held.empty();
    size_t passed = 0;  // from the front of raw, as one piece
    const auto pass = [&] {
      if (passed > 0) send_unit(pipe, pop(std::exchange(passed, 0)));
    };
    for (;;) {
      if (pipe->to_border > 0) {
        const size_t size = std::min(pipe->to_border, raw.size() - passed);
        passed += size;
        pipe->to_border -= size;
        if (pipe->to_border > 0) return pass();
      }
      if (!std::exchange(pipe->greeted, true)) {
        pipe->to_border = kGreetingBytes;
        continue;
      }
      if (raw.size() - passed < kFrameHeader) return pass();
      if (check_prefix(std::span(raw).subspan(passed, kFrameHeader)) == troupe::Refusal::none) {
        pipe->to_border = kGreetingBytes;  // the one after a challenge, or its answer
        continue;
      }
      uint32_t length;
      std::memcpy(&length, raw.data() + passed + 4, 4);
      if (plain) {
        pipe->to_border = kFrameHeader + length;
        continue;
      }
      pass();
      if (raw.size() < kFrameHeader + length) return;
      std::vector<std::byte> bytes = pop(kFrameHeader + length);
      SimFrame frame{pipe->from->name(),
                     pipe->to->name(),
                     static_cast<Channel>(bytes[0]),
                     static_cast<uint8_t>(bytes[1]),
                     0,
                     0,
                     0,
                     bytes};
      std::memcpy(&frame.type, bytes.data() + 2, 2);
      std::memcpy(&frame.target, bytes.data() + 8, 8);
      std::memcpy(&frame.sender, bytes.data() + 16, 8);
      Verdict verdict = filter ? filter(frame) : Verdict::pass;
      if (verdict == Verdict::pass && frame.channel == Channel::small) {
        if (chance(faults.drop))
          verdict = Verdict::drop;
        else if (chance(faults.duplicate))
          verdict = Verdict::duplicate;
        else if (chance(faults.reorder))
          verdict = Verdict::hold_one;
      }
      note(static_cast<uint64_t>(verdict));
      if (verdict == Verdict::drop) {
        pipe->in_flight -= bytes.size();
        continue;
      }
      if (verdict == Verdict::hold_one && pipe->held.empty()) {
        pipe->held = std::move(bytes);
        continue;
      }
      if (verdict == Verdict::duplicate) {
        pipe->in_flight += bytes.size();
        send_unit(pipe, bytes);
      }
      send_unit(pipe, std::move(bytes));
      if (!pipe->held.empty()) send_unit(pipe, std::exchange(pipe->held, {}));
    }
  }

  void schedule_delivery(const PipePtr& pipe) {
    const ns wait =
        pipe->units.empty() ? draw_delay() : std::max(ns{0}, ns(pipe->units.front().due - now_));
    at(*pipe->to, wait, [this, pipe] { deliver(pipe); });
  }

  void deliver(const PipePtr& pipe) {
    const auto reader = pipe->reader.lock();
    if (!reader || reader->closed_ || !reader->started_) return;
    if (!cuts_.empty() && cuts_.count({pipe->from->task(), pipe->to->task()})) return;
    while (!pipe->units.empty() && pipe->units.front().due <= now_) {
      Unit unit = std::move(pipe->units.front());
      pipe->units.pop_front();
      pipe->in_flight -= std::min(pipe->in_flight, unit.bytes.size());
      for (Descriptor& descriptor : unit.descriptors)
        reader->handlers_.on_descriptor(std::move(descriptor));
      hand_over(*reader, unit.bytes);
      if (reader->closed_) return;
      if (std::exchange(pipe->cut_short, false))
        at(*pipe->from, ns{0}, [weak = pipe->writer] {
          if (const auto end = weak.lock(); end && end->handlers_.on_drained && !end->closed_) {
            const auto fn = end->handlers_.on_drained;
            fn();
          }
        });
    }
    if (!pipe->units.empty()) return schedule_delivery(pipe);
    if (!pipe->ended) return;
    reader->closed_ = true;
    const auto fn = std::exchange(reader->handlers_, {}).on_closed;
    if (fn) fn(pipe->end_reason);
  }

  void hand_over(End& reader, std::span<const std::byte> bytes) {
    while (!bytes.empty() && !reader.closed_) {
      const ConnectionHandlers::Room room = reader.handlers_.room();
      size_t piece = bytes.size();
      if (faults.piece_max > 0) piece = std::min<size_t>(piece, 1 + rng_() % faults.piece_max);
      piece = std::min(piece, room.first.size() + room.second.size());
      if (piece == 0) return;
      const size_t first = std::min(piece, room.first.size());
      std::memcpy(room.first.data(), bytes.data(), first);
      if (piece > first) std::memcpy(room.second.data(), bytes.data() + first, piece - first);
      bytes = bytes.subspan(piece);
      const auto fn = reader.handlers_.on_bytes;
      fn(piece);
    }
  }

  void drop_everything() {
    while (!events_.empty()) {
      auto doomed = std::exchange(events_, {});
    }
    for (const PipePtr& pipe : std::exchange(pipes_, {}))
      for (const auto& weak : {pipe->writer, pipe->reader})
        if (const auto end = weak.lock()) end->handlers_ = {};
  }

  std::mt19937_64 rng_;
  TimePoint now_ = TimePoint{} + std::chrono::hours(1);
  uint64_t sequence_ = 0;
  uint64_t trace_ = 1469598103934665603ull;
  int64_t writes_ = 0;
  std::map<std::pair<TimePoint, uint64_t>, Event> events_;
  std::vector<std::unique_ptr<SimHost>> hosts_;
  std::map<std::string, ListenerEntry> listeners_;
  std::vector<PipePtr> pipes_;
  std::multiset<std::pair<std::string, std::string>> cuts_;  // by task: from, to
  int next_port_ = 20000;
};

inline TimePoint SimHost::now() const { return net_.now(); }
inline void SimHost::post(std::function<void()> fn) { net_.at(*this, ns{0}, std::move(fn)); }
inline TimerPtr SimHost::after(ns delay, std::function<void()> fn) {
  return net_.after(*this, delay, std::move(fn));
}
inline std::unique_ptr<Listener> SimHost::listen(const std::string& address,
                                                 std::function<void(ConnectionPtr)> on_accept) {
  return net_.listen(*this, address, std::move(on_accept));
}
inline void SimHost::dial(const std::string& address, ns timeout,
                          std::function<void(ConnectionPtr, const std::string&)> on_done) {
  net_.dial(*this, address, timeout, std::move(on_done));
}

}  // namespace troupe::sim
