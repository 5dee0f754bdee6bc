// draw_task() of net/mesh/mesh.hpp: dials members with a question instead of joining.
#include <algorithm>
#include <set>
#include <utility>

#include "net/link/greetings.hpp"
#include "net/link/link.hpp"
#include "net/link/tls.hpp"
#include "net/mesh/mesh.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class TaskDraw final : public LinkHost, public std::enable_shared_from_this<TaskDraw> {
 public:
  TaskDraw(Transport& transport, Clock& clock, Rng& rng, TaskRequest request,
           std::function<void(Errc, const std::string&, int32_t)> done)
      : transport_(transport), clock_(clock), request_(std::move(request)), done_(std::move(done)) {
    hello_.cluster = request_.cluster;
    hello_.job = request_.job;
    hello_.fingerprint = request_.fingerprint;
    hello_.ops = request_.ops;
    hello_.node.process = static_cast<uint32_t>(rng.next());
  }
  void start() {
    deadline_ = clock_.now() + request_.timeout;
    next_ = request_.seeds;
    keep_ = shared_from_this();
    dial();
  }

 private:
  void dial() {
    if (next_.empty()) next_ = request_.seeds;
    const auto left = deadline_ - clock_.now();
    if (left <= 0ns || next_.empty())
      return finish(
          Errc::peer_lost,
          detail::concat("no member of cluster \"", request_.cluster, "\" answers",
                         last_.empty() ? "" : " (" + last_ + ")", "; is a node running at ",
                         request_.seeds.empty() ? "" : request_.seeds.front(), "?"),
          0);
    address_ = next_.front();
    next_.erase(next_.begin());
    transport_.dial(
        address_, std::min<std::chrono::nanoseconds>(kDialTimeout, left),
        [self = shared_from_this()](ConnectionPtr connection, const std::string& reason) {
          if (!connection) return self->again(reason);
          if (self->request_.tls)
            connection = encrypt(std::move(connection), self->request_.tls->current(), self->hello_,
                                 self->address_);
          self->link_ = std::make_shared<Link>(
              Link::Role::dialler, std::move(connection),
              Greeting{GreetingKind::ask_task, Refusal::none, "", self->hello_}, *self,
              [&t = self->transport_](std::function<void()> fn) { t.post(std::move(fn)); },
              self->clock_.now(), self->request_.secret);
          self->link_->start();
          self->tick();
        });
  }
  void tick() {
    const auto left = std::max<std::chrono::nanoseconds>(deadline_ - clock_.now(), 0ns);
    timer_ =
        clock_.after(std::min<std::chrono::nanoseconds>(kTick, left), [self = shared_from_this()] {
          const auto link = self->link_;
          if (!link) return;
          if (self->clock_.now() >= self->deadline_) return link->close_now("no answer in time");
          self->tick();
          link->tick(self->clock_.now());
        });
  }
  void again(const std::string& why) {
    last_ = why;
    if (clock_.now() >= deadline_) return dial();  // which reports the timeout
    timer_ = clock_.after(std::min<std::chrono::nanoseconds>(200ms, deadline_ - clock_.now()),
                          [self = shared_from_this()] { self->dial(); });
  }
  void finish(Errc code, const std::string& text, int32_t task) {
    timer_.reset();
    const auto done = std::exchange(done_, nullptr);
    const auto self = std::exchange(keep_, nullptr);
    if (done) done(code, text, task);
  }

  Greeting judge(Link&, const Greeting& theirs) override {
    answer_ = theirs;
    return refusal(hello_, Refusal::none, "");
  }
  void closed(Link&, const std::string& reason, Refusal why) override {
    timer_.reset();
    transport_.post(
        [self = shared_from_this(), link = std::move(link_)] {});  // keeps the calling link alive
    link_ = nullptr;
    const auto answer = std::exchange(answer_, std::nullopt);
    if (answer && answer->kind == GreetingKind::assigned)
      return finish(Errc::ok, "", answer->hello.task);
    if (answer && answer->kind == GreetingKind::redirect && redirects_++ < kRedirectsMax) {
      next_.insert(next_.begin(), answer->hello.address);
      return again("redirected");
    }
    // A redirect's address is tried once, seeds until the timeout.
    const bool seed = std::count(request_.seeds.begin(), request_.seeds.end(), address_) > 0;
    if (why == Refusal::untrusted && seed) untrusted_.insert(address_);
    const bool trusted_by_none =
        std::all_of(request_.seeds.begin(), request_.seeds.end(),
                    [&](const std::string& other) { return untrusted_.count(other) > 0; });
    if (is_final(why) && seed && (why != Refusal::untrusted || trusted_by_none))
      return finish(Errc::bad_configuration,
                    detail::concat(address_, " refuses this process: ", reason), 0);
    again(reason);
  }
  void established(Link& link) override { link.close_now("nothing was asked"); }
  void control(Link&, Control, std::span<const std::byte>) override {}
  void caf_bytes(Link&, std::span<const std::byte>) override {}
  std::optional<TensorClaim> claim(uint16_t, std::span<const std::byte>,
                                   std::string& why) override {
    why = "nothing was asked";
    return std::nullopt;
  }
  void message(Link&, Received) override {}
  Tensor allocate(DType, const Shape&) override {
    throw Error(Errc::out_of_memory, "nothing was asked");
  }

  static constexpr int kRedirectsMax = 100;

  Transport& transport_;
  Clock& clock_;
  const TaskRequest request_;
  std::function<void(Errc, const std::string&, int32_t)> done_;
  Hello hello_;
  TimePoint deadline_{};
  std::vector<std::string> next_;
  std::string address_, last_;
  std::set<std::string> untrusted_;  // seeds where one side did not trust the other
  int redirects_ = 0;
  std::optional<Greeting> answer_;
  std::shared_ptr<Link> link_;
  TimerPtr timer_;
  std::shared_ptr<TaskDraw> keep_;  // keeps this object alive until it is done
};

}  // namespace

void draw_task(Transport& transport, Clock& clock, Rng& rng, const TaskRequest& request,
               std::function<void(Errc, const std::string&, int32_t)> done) {
  auto draw = std::make_shared<TaskDraw>(transport, clock, rng, request, std::move(done));
  transport.post([draw] { draw->start(); });
}

}  // namespace troupe
