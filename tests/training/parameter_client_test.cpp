// A process's side of pulls and pushes: what it sends to shards, and what becomes of its numbers.
#include <doctest/doctest.h>

#include <future>

#include "training/parameter_client.hpp"

namespace troupe {
namespace {

// A client whose one shard keeps what it is sent.
struct ClientRig {
  caf::actor_system_config config;
  caf::actor_system system{config};
  caf::scoped_actor shard{system};
  std::shared_ptr<ParameterClient> client = std::make_shared<ParameterClient>(
      system, [](DType dtype, const Shape& shape) { return Tensor::zeros(dtype, shape); }, 1);
  ClientRig() {
    ParameterRoutes routes;
    routes.epoch = 1;
    routes.parameters["w"] = {
        DType::f32,
        Shape{2},
        {{.slice = 0, .offset = 0, .size = 2, .task = "/job:ps/task:0", .shard = shard}}};
    client->set_routes(routes);
  }
  Push push(int64_t step, std::vector<Errc>& ended) {
    client->push("w", 0, step, Tensor::zeros(DType::f32, {2}),
                 [&ended](Errc code, const std::string&, const Tensor&) { ended.push_back(code); });
    Push got;
    shard->receive([&](const Push& m) { got = m; });
    return got;
  }
};

}  // namespace

TEST_CASE("a push that was not taken gives its number to the next, so that a shard sees no gap") {
  ClientRig rig;
  std::vector<Errc> ended;
  const Push first = rig.push(0, ended);
  CHECK(first.sequence == 0);
  rig.client->on(Acknowledged{.ticket = first.ticket});
  const Push second = rig.push(1, ended);
  CHECK(second.sequence == 1);
  SUBCASE("its own side answers: no link") {
    rig.client->on(Acknowledged{.ticket = second.ticket, .code = Errc::peer_lost});
    CHECK(ended == std::vector<Errc>{Errc::ok, Errc::peer_lost});
  }
  SUBCASE("its own side answers: no room") {
    rig.client->on(Acknowledged{.ticket = second.ticket, .code = Errc::out_of_memory});
    CHECK(ended == std::vector<Errc>{Errc::ok, Errc::out_of_memory});
  }
  SUBCASE("the shard's process is gone") {
    rig.client->peer_down("/job:ps/task:0", "silent");
    CHECK(ended == std::vector<Errc>{Errc::ok, Errc::peer_lost});
  }
  const Push again = rig.push(1, ended);
  CHECK(again.sequence == 1);
  rig.client->on(Acknowledged{.ticket = again.ticket});
  CHECK(rig.push(2, ended).sequence == 2);
}

TEST_CASE("a request that begins while the routes change ends with the old epoch") {
  caf::actor_system_config config;
  caf::actor_system system{config};
  caf::scoped_actor shard{system};
  std::shared_ptr<ParameterClient> client;
  const auto routes = [&](uint64_t epoch) {
    ParameterRoutes out;
    out.epoch = epoch;
    out.parameters["w"] = {
        DType::f32,
        Shape{2},
        {{.slice = 0, .offset = 0, .size = 1, .task = "/job:ps/task:0", .shard = shard},
         {.slice = 1, .offset = 1, .size = 1, .task = "/job:ps/task:1", .shard = shard}}};
    return out;
  };
  std::function<void()> meanwhile;  // between a pull's look at the routes and its first message
  client = std::make_shared<ParameterClient>(
      system,
      [&](DType dtype, const Shape& shape) {
        meanwhile();
        return Tensor::zeros(dtype, shape);
      },
      1);
  client->set_routes(routes(1));
  std::vector<Errc> ended;
  const auto pull = [&] {
    client->pull("w", 0, 0,
                 [&ended](Errc code, const std::string&, const Tensor&) { ended.push_back(code); });
  };
  SUBCASE("a new epoch") {
    meanwhile = [&] { client->set_routes(routes(2)); };
    pull();
    CHECK(ended == std::vector<Errc>{Errc::stale});
  }
  SUBCASE("the session ends") {
    meanwhile = [&] { client->retire(Errc::cancelled, "over"); };
    pull();
    CHECK(ended == std::vector<Errc>{Errc::stale});
  }
  SUBCASE("the same epoch") {
    meanwhile = [&] { client->set_routes(routes(1)); };
    pull();
    CHECK(ended.empty());
    CHECK(client->pending() == 2);
    client->fail_all(Errc::cancelled, "over");
  }
  CHECK(client->pending() == 0);
}

}  // namespace troupe
