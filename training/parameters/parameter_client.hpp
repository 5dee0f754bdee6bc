// ParameterClient: a session's parameters as one process sees them. Pulls slices or rows of them
// from shards and puts them together, cuts gradients up, keeps each gradient until its shard has
// acknowledged it, and repeats requests that were not answered.
//
// A shard of this process handles a small request on the thread that makes it, if the shard is
// idle: then no thread has to wake another. It takes over a large gradient of a whole parameter for
// good, and turns its memory into that of new values; if no answer comes, the request is repeated
// without the gradient.
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
#include "devices/run_context.hpp"
#include "training/parameters/local_shard.hpp"
#include "troupe/op.hpp"

namespace troupe {

struct SliceRoute {
  uint32_t slice = 0;
  int64_t offset = 0, size = 0;  // elements
  std::string task;
  caf::actor shard;
  bool local = false;          // the shard is in this process
  LocalShard* here = nullptr;  // if local: to call it directly; valid as long as `shard`
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

  // `make`: allocates the tensors in which pulled slices are put together. `incarnation`: of this
  // process; a shard takes pushes of a replica from the newest incarnation only. `here`: shards of
  // this process may work on the calling thread; false in a simulation, which schedules all work
  // itself.
  ParameterClient(caf::actor_system& system, std::function<Tensor(DType, const Shape&)> make,
                  uint64_t incarnation, bool here = false)
      : system_(system), make_(std::move(make)), incarnation_(incarnation), here_(here) {}

  void set_door(const caf::actor& door) { door_ = door; }
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
  enum class Kind : uint8_t { pull, rows, push, write };
  static const char* name_of(Kind kind);
  struct Request {  // one parameter, all its slices
    Kind kind = Kind::pull;
    std::string parameter;
    ParameterStep at;
    uint64_t epoch = 0;
    size_t open = 0;
    ParameterWrite write;  // its kind and number
    Tensor indices;        // rows: as asked for; push of rows: their indices
    Tensor values;         // pull, rows: the values received so far
    Reply reply;
    Time started;
    bool sends() const { return kind == Kind::push || kind == Kind::write; }
  };
  using RequestPtr = std::shared_ptr<Request>;
  using RoutePtr = std::shared_ptr<const SliceRoute>;  // points into routes that were set together
  struct Cached {
    int64_t version = -1;
    Tensor values;
  };
  struct Part {  // one slice of a request
    RequestPtr request;
    size_t index = 0;  // in the parameter's slices
    RoutePtr route;
    Tensor gradient;    // push, write: of this slice; undefined once it was given away
    int64_t bytes = 0;  // of `gradient` and `rows`, or of the rows that are pulled
    Tensor rows;  // the rows of this slice to pull, or the indices of `gradient`; undefined: all
    int64_t row_size = 0;         // elements; with `rows`
    std::vector<int64_t> places;  // the positions of `rows` among those asked for; empty: all, in
                                  // their order
    Cached offered;               // pull: the version that the shard was told we have
    int64_t sequence = 0;
    int64_t asked_ns = 0;  // Tracer::now_ns() if it is traced, else 0
    Time resend_at;
    std::chrono::seconds wait{kResendFirst};
  };
  struct Ended {  // a reply to call without the lock
    Reply reply;
    Errc code = Errc::ok;
    std::string text;
    Tensor value;
  };
  using Replies = std::vector<Ended>;
  using Parts = std::vector<std::pair<uint64_t, Part>>;

  RequestPtr request(Kind kind, const std::string& parameter, const ParameterStep& at, Reply reply);
  void start(const RequestPtr& request, Tensor gradient);
  void send(uint64_t ticket, Part part, bool here = false);  // here: on this thread, if it may be
  void send_again(Parts& parts);
  bool is_open(uint64_t ticket) const;
  ShardRequest message_of(uint64_t ticket, Part&& part) const;
  // All below: require mutex_.
  std::pair<Errc, std::string> refusal(const Request& request, const Tensor& gradient) const;
  TensorType room_for(const Request& request) const;
  Parts add_parts(const RequestPtr& request, Tensor gradient);
  void offer(Part& part) const;
  bool cut_rows(const Request& request, const ParameterRoute& route, const SliceRoute& slice,
                Part& part) const;
  void pulled(const RequestPtr& request, const Part& part, const ParameterRoute& route,
              const Tensor& values) const;
  void trace(const Part& part, int64_t bytes) const;  // when the part is answered
  void end(const RequestPtr& request, Errc code, const std::string& text, Replies& out);
  static void run(Replies& replies) {
    for (Ended& r : replies) r.reply(r.code, std::move(r.text), std::move(r.value));
  }

  caf::actor_system& system_;
  const std::function<Tensor(DType, const Shape&)> make_;
  const uint64_t incarnation_;
  const bool here_;
  caf::actor door_;
  Tracer* tracer_ = nullptr;

  mutable std::mutex mutex_;  // guards the rest
  std::shared_ptr<const ParameterRoutes> routes_ = std::make_shared<const ParameterRoutes>();
  std::map<uint64_t, Part> parts_;                                 // by ticket
  std::map<std::pair<int64_t, uint32_t>, int64_t> next_sequence_;  // by replica and slice
  std::map<uint32_t, Cached>
      cache_;  // newest values of remote slices, so that an unchanged one need not travel
  uint64_t next_ticket_ = 1;
};

}  // namespace troupe
