// Requests to an actor that does not answer, like the actor of a lost process.
#include "actors/async/requests.hpp"

#include <doctest/doctest.h>

#include <future>

#include "actors/async/ask.hpp"
#include "actors/cluster/process.hpp"

namespace troupe {
namespace {

// Answers ReadClock and drops all else; when it ends, it notifies only the actors that monitor it,
// as CAF's proxy of a lost process does.
class Proxy final : public caf::monitorable_actor {
 public:
  explicit Proxy(caf::actor_config& config) : monitorable_actor(config) {}
  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit*) override {
    if (message->content().match_elements<ReadClock>())
      message->sender->enqueue(nullptr, message->mid.response_id(),
                               caf::make_message(ClockReading{7}), nullptr);
  }
  void lose() { cleanup(caf::make_error(caf::exit_reason::remote_link_unreachable), nullptr); }
};

struct Rig {
  Process process{"/job:client/task:0", {.threads = 1}};
  Asker asker = spawn_asker(process.system());
  caf::actor whom = make_proxy();
  Rig() { process.track(asker); }
  ~Rig() {
    lose();
    process.stop();
  }

  caf::actor make_proxy() {
    caf::actor_config config;
    return caf::make_actor<Proxy, caf::actor>(process.system().next_actor_id(),
                                              process.system().node(), &process.system(), config);
  }
  void lose() { static_cast<Proxy*>(caf::actor_cast<caf::abstract_actor*>(whom))->lose(); }
  template <class Answer, class Message>
  std::future<Errc> ask(Message message) {
    auto told = std::make_shared<std::promise<Errc>>();
    with_requests(asker, [told, message, to = whom](Requests& requests) {
      requests.ask<Answer>(
          to, std::chrono::hours(1), message,
          [told](Errc code, const std::string&, const Answer&) { told->set_value(code); });
    });
    return told->get_future();
  }
};

// The error of a request, which must end long before its deadline.
Errc end_of(std::future<Errc> asked) {
  if (asked.wait_for(std::chrono::seconds(20)) == std::future_status::ready) return asked.get();
  return Errc::timeout;
}

}  // namespace

TEST_CASE("a request that is under way ends when whoever was asked is lost") {
  Rig rig;
  std::future<Errc> first = rig.ask<Description>(Describe{});
  std::future<Errc> second = rig.ask<caf::unit_t>(InstallGraph{});
  // The end of one request takes nothing from the others.
  CHECK(end_of(rig.ask<ClockReading>(ReadClock{})) == Errc::ok);
  rig.lose();
  CHECK(end_of(std::move(first)) == Errc::peer_lost);
  CHECK(end_of(std::move(second)) == Errc::peer_lost);
}

TEST_CASE("a request to one that was lost before ends at once") {
  Rig rig;
  rig.lose();
  CHECK(end_of(rig.ask<Description>(Describe{})) == Errc::peer_lost);
}

TEST_CASE("a request to nobody ends at once") {
  Rig rig;
  std::promise<Errc> told;
  with_requests(rig.asker, [&](Requests& requests) {
    requests.ask<Description>(
        caf::actor(), std::chrono::hours(1), Describe{},
        [&](Errc code, const std::string&, const Description&) { told.set_value(code); });
  });
  CHECK(end_of(told.get_future()) == Errc::peer_lost);
}

TEST_CASE("an agent refuses a message that it does not know in words") {
  static_assert(caf::response_type<Agent::signatures, Describe>::valid);
  static_assert(!caf::response_type<Agent::signatures, DescribeDevice>::valid);
  Rig rig;
  std::promise<std::pair<Errc, std::string>> told;
  with_requests(rig.asker, [&](Requests& requests) {
    requests.ask<DeviceDescription>(  // of a process of another version
        caf::actor_cast<caf::actor>(rig.process.agent()), std::chrono::hours(1), DescribeDevice{},
        [&](Errc code, const std::string& text, const DeviceDescription&) {
          told.set_value({code, text});
        });
  });
  CHECK(told.get_future().get() ==
        std::pair<Errc, std::string>(
            Errc::bad_configuration,
            "/job:client/task:0 does not understand that message; run one version everywhere"));
}

}  // namespace troupe
