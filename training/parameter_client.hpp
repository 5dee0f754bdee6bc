// ParameterClient: a session's parameters as one process sees them: asks shards for slices, puts
// them together, cuts gradients up, keeps each gradient until its shard has acknowledged it, and
// sends again what was not answered.
//
// Owner: the process's services. Lost when it dies: requests under way; their kernels hear of it by
// the step's deadline.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <caf/all.hpp>

#include "actors/trace.hpp"
#include "net/messages.hpp"
#include "troupe/op.hpp"

namespace troupe {

struct SliceRoute {
  uint32_t slice = 0;
  int64_t offset = 0, size = 0;  // elements
  std::string task;
  caf::actor shard;
  bool local = false;  // the shard is in this process
};

struct ParameterRoute {
  DType dtype = DType::none;
  Shape shape;
  std::vector<SliceRoute> slices;  // by offset, without gaps
};

struct ParameterRoutes {
  uint64_t epoch = 0;
  std::map<std::string, ParameterRoute> parameters;
};

class ParameterClient final : public ParameterPort {
 public:
  using Time = caf::actor_clock::time_point;
  // A request without an answer is sent again after this, then after twice as long, up to
  // kResendMax.
  static constexpr std::chrono::seconds kResendFirst{2}, kResendMax{16};
  // Requests under way; more are refused.
  static constexpr size_t kPendingMax = 65'536;

  // `make`: memory where pulled slices are put together. `incarnation`: of this process; a shard
  // takes pushes of a slot from the newest one only.
  ParameterClient(caf::actor_system& system, std::function<Tensor(DType, const Shape&)> make,
                  uint64_t incarnation)
      : system_(system), make_(std::move(make)), incarnation_(incarnation) {}

  void set_door(const caf::actor& door) { door_ = door; }
  void set_tracer(Tracer* tracer) { tracer_ = tracer; }  // records pulls and pushes; outlives us
  // New routes; requests of an older epoch end with Errc::stale, the others are sent again to where
  // their shard is now.
  void set_routes(ParameterRoutes routes);

  void pull(const std::string& parameter, const ParameterStep& at, Reply reply) override;
  void pull_rows(const std::string& parameter, const ParameterStep& at, Tensor indices,
                 Reply reply) override;
  void push(const std::string& parameter, const ParameterStep& at, Tensor gradient,
            Reply reply) override;
  void write(const std::string& parameter, const ParameterStep& at, ParameterWrite change,
             Reply reply) override;

  // From the door; any thread.
  void on(Pulled message);
  void on(const Acknowledged& message);
  void peer_down(const std::string& task, const std::string& reason);
  void fail_all(Errc code, const std::string& text);
  void retire(Errc code, const std::string& text);  // the same, and lets go of values and routes
  void resend(Time now);

  size_t pending() const;
  std::string waiting_for()
      const;  // "pull of fc1/w slot 1 step 12 from /job:ps/task:0", the oldest; empty if none

 private:
  struct Request {  // one parameter, all its slices
    bool is_push = false;
    std::string parameter;
    int64_t slot = 0, step = 0;
    uint64_t epoch = 0;
    size_t open = 0;
    Tensor values;  // pull: what has come so far
    Reply reply;
    Time started;
  };
  struct Cached {
    int64_t version = -1;
    Tensor values;
  };
  struct Part {  // one slice of a request
    std::shared_ptr<Request> request;
    size_t index = 0;  // in the parameter's slices
    SliceRoute route;
    Tensor gradient;  // push: of this slice
    Cached offered;   // pull: what the shard was told that we have
    int64_t sequence = 0;
    int64_t asked_ns = 0;  // Tracer::now_ns() if it is traced, else 0
    Time resend_at;
    std::chrono::seconds wait{kResendFirst};
  };
  using Replies = std::vector<std::function<void()>>;

  std::optional<ParameterRoute> find_route(Request& request, const Tensor* gradient);
  void send(uint64_t ticket, const Part& part);
  void start(std::shared_ptr<Request> request, const Tensor& gradient);
  std::vector<std::pair<uint64_t, Part>> add_parts(const std::shared_ptr<Request>& request,
                                                   const Tensor& gradient);
  void trace(const Part& part, int64_t bytes) const;  // it is answered
  void end(const std::shared_ptr<Request>& request, Errc code, const std::string& text,
           Replies& out);
  static void run(Replies& replies) {
    for (auto& r : replies) r();
  }

  caf::actor_system& system_;
  const std::function<Tensor(DType, const Shape&)> make_;
  const uint64_t incarnation_;
  caf::actor door_;
  Tracer* tracer_ = nullptr;

  mutable std::mutex mutex_;  // guards the rest
  ParameterRoutes routes_;
  std::map<uint64_t, Part> parts_;                                 // by ticket
  std::map<std::pair<int64_t, uint32_t>, int64_t> next_sequence_;  // by slot and slice
  std::map<uint32_t, Cached>
      cache_;  // newest values of remote slices, so that an unchanged one need not travel
  uint64_t next_ticket_ = 1;
};

}  // namespace troupe
