// Work that actors defer on a lane is done, however busy the lane is.
#include <doctest/doctest.h>

#include <future>

#include "actors/cluster/lane_scheduler.hpp"
#include "devices/threads/burst.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

struct OneLane : caf::actor_system_config {
  OneLane() {
    load<LaneScheduler>();
    set("scheduler.max-threads", size_t{1});
  }
};

}  // namespace

TEST_CASE("what an actor has put off is done on an idle lane, and on one that never is") {
  OneLane config;
  caf::actor_system system(config);
  std::promise<void> done;
  const auto put_off = [&](caf::event_based_actor*) {
    Burst::put_off(&done, [&] { done.set_value(); });
  };
  SUBCASE("idle") {
    system.spawn(put_off);
    CHECK(done.get_future().wait_for(20s) == std::future_status::ready);
  }
  SUBCASE("busy") {
    // Two actors that never let the lane rest.
    const auto echo = [](caf::event_based_actor* self) -> caf::behavior {
      return {
          [self](int x) { self->send(caf::actor_cast<caf::actor>(self->current_sender()), x); }};
    };
    const caf::actor left = system.spawn(echo), right = system.spawn(echo);
    for (int ball = 0; ball < 3; ++ball) caf::send_as(left, right, ball);
    system.spawn(put_off);
    CHECK(done.get_future().wait_for(20s) == std::future_status::ready);
    caf::anon_send_exit(left, caf::exit_reason::kill);
    caf::anon_send_exit(right, caf::exit_reason::kill);
  }
}

}  // namespace troupe
