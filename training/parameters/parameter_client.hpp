// ParameterClient: a session's parameters as one process sees them. Pulls slices or rows of them
// from shards and puts them together, cuts gradients up, keeps each gradient until its shard has
// acknowledged it, and repeats requests that were not answered, or met a full link.
//
// A shard of this process handles a small request on the thread that makes it, if the shard is
// idle: then no thread has to wake another. It takes over a large gradient of a whole parameter for
// good, and turns its memory into that of new values; if no answer comes, the request is repeated
// without the gradient.
//
// Within a round of local steps, copies answer (replica_copies.hpp).
//
// When it dies, requests under way are lost; their kernels end at the step's deadline.
// Owner: the process's services. Thread: any.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <caf/all.hpp>

#include "actors/observe/trace.hpp"
#include "training/parameters/parameter_request.hpp"
#include "training/parameters/replica_copies.hpp"

namespace troupe {

struct ParameterRoutes {
  uint64_t epoch = 0;
  std::map<std::string, ParameterRoute> parameters;
};

// An answer of a shard that a client takes, for checkers of invariants: an acknowledged gradient,
// or the values of a whole slice.
struct TakenAnswer {
  uint32_t slice = 0;
  ParameterStep at;
  uint64_t epoch = 0;    // of the request
  int64_t version = -1;  // of the values; -1: an acknowledgement
  Tensor values = {};
  Codec::Kind codec = Codec::none;  // that the values came in
  int64_t steps = 1;                // that the acknowledged push is of: `at` and those before it
};

class ParameterClient final : public ParameterPort {
 public:
  using Time = caf::actor_clock::time_point;
  // A request without an answer is sent again after this, then after twice as long, up to
  // kResendMax.
  static constexpr std::chrono::seconds kResendFirst{2}, kResendMax{16};
  // Requests under way; more are refused.
  static constexpr size_t kPendingMax = 65'536;

  // `make`: allocates the tensors in which pulled slices are put together. `incarnation`: of this
  // process; a shard takes pushes of a replica from the newest incarnation only. The fence of a
  // replica that has moved here stands for it. `here`: shards of this process may work on the
  // calling thread; false in a simulation, which schedules all work itself.
  ParameterClient(caf::actor_system& system, ParameterRequest::Make make, uint64_t incarnation,
                  bool here = false)
      : system_(system), make_(std::move(make)), incarnation_(incarnation), here_(here) {}

  void set_door(const ParameterDoor& door) { door_ = door; }
  // Called with each answer, before its request gets it. Requires: it does not call the client.
  void set_answer_log(std::function<void(const TakenAnswer&)> log) { log_ = std::move(log); }
  void set_tracer(Tracer* tracer) { tracer_ = tracer; }  // records requests; must live longer
  // Sets new routes; requests of an older epoch end with Errc::stale, the others are sent again to
  // the present places of their shards.
  void set_routes(ParameterRoutes routes);

  void pull(const std::string& parameter, const ParameterStep& at, Reply reply) override;
  void pull_rows(const std::string& parameter, const ParameterStep& at, Tensor indices,
                 Reply reply) override;
  void push(const std::string& parameter, const ParameterStep& at, Tensor gradient,
            Reply reply) override;
  void push_rows(const std::string& parameter, const ParameterStep& at, Tensor indices,
                 Tensor values, Reply reply) override;
  void write(const std::string& parameter, const ParameterStep& at, ParameterWrite change,
             Reply reply) override;

  // Called by the door, on any thread.
  void on(Pulled message);
  void on(const Acknowledged& message);
  void peer_down(const std::string& task, const std::string& reason);
  void fail_all(Errc code, const std::string& text);
  void retire(Errc code, const std::string& text);  // the same, and drops values and routes
  void resend(Time now);

  size_t pending() const;
  // The oldest, as "pull of fc1/w replica 1 step 12 from /job:ps/task:0"; empty if there is none.
  std::string waiting_for() const;

 private:
  using RequestPtr = std::shared_ptr<ParameterRequest>;
  using RoutePtr = std::shared_ptr<const SliceRoute>;  // points into routes that were set together
  struct Cached {
    int64_t version = -1;
    Tensor values;
    Codec::Kind codec = Codec::none;  // that the values came in
  };
  struct Part {  // one slice of a request
    RequestPtr request;
    SliceShare share;  // without its gradient, if the shard has it for good
    RoutePtr route;
    Cached offered;  // pull: the version that the shard was told we have
    int64_t sequence = 0;
    int64_t asked_ns = 0;  // Tracer::now_ns() if it is traced, else 0
    Time resend_at;
    std::chrono::seconds wait{kResendFirst};
  };
  struct Sequence {  // of a replica's pushes to a slice
    uint64_t fence = 0;
    int64_t next = 0;
  };
  struct Ended {  // a reply to call without the lock
    Reply reply;
    Errc code = Errc::ok;
    std::string text;
    Tensor value;
  };
  using Replies = std::vector<Ended>;
  using Parts = std::vector<std::pair<uint64_t, Part>>;

  using Kind = ParameterRequest::Kind;
  static RequestPtr request(Kind kind, const std::string& parameter, const ParameterStep& at,
                            Reply reply);
  void start(const RequestPtr& request, Gradient gradient);
  void send(uint64_t ticket, Part part, bool here = false);  // here: on this thread, if it may be
  void send_again(Parts& parts);
  bool is_open(uint64_t ticket) const;
  ShardRequest message_of(uint64_t ticket, Part&& part) const;
  // All below: require mutex_.
  Parts add_parts(const RequestPtr& request, Gradient gradient);
  void offer(Part& part) const;
  void put_off(Part& part);                           // to the next resend()
  void trace(const Part& part, int64_t bytes) const;  // when the part is answered
  // Drops the request's parts, and answers it. answer(): all parts have been answered.
  void end(const RequestPtr& request, Errc code, const std::string& text, Replies& out);
  static void answer(const RequestPtr& request, Errc code, const std::string& text, Replies& out);
  // All slices of a pull are here. True if whole slices are to be pulled in their place.
  bool finish(const RequestPtr& request, const ParameterRoute& route, Replies& out);
  static void run(Replies& replies) {
    for (Ended& r : replies) r.reply(r.code, std::move(r.text), std::move(r.value));
  }

  caf::actor_system& system_;
  const ParameterRequest::Make make_;
  const uint64_t incarnation_;
  const bool here_;
  ParameterDoor door_;
  Tracer* tracer_ = nullptr;
  std::function<void(const TakenAnswer&)> log_;
  Residuals residuals_;
  ReplicaCopies copies_;

  mutable std::mutex mutex_;  // guards the rest
  std::shared_ptr<const ParameterRoutes> routes_ = std::make_shared<const ParameterRoutes>();
  std::map<uint64_t, Part> parts_;                              // by ticket
  std::map<std::pair<int64_t, uint32_t>, Sequence> sequences_;  // by replica and slice
  std::map<uint32_t, Cached>
      cache_;  // newest values of remote slices, so that an unchanged one need not travel
  uint64_t next_ticket_ = 1;
};

}  // namespace troupe
