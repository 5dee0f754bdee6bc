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

// A shard's door whose answer to each push comes at once, from within its sending.
struct AnsweringShard final : caf::monitorable_actor {
  explicit AnsweringShard(caf::actor_config& settings) : monitorable_actor(settings) {}
  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit*) override {
    const auto& m = message->content().get_as<Push>(0);
    gradients.push_back(m.gradient);
    client->on(Acknowledged{.ticket = m.ticket, .code = answer});
  }
  const char* name() const override { return "AnsweringShard"; }
  std::shared_ptr<ParameterClient> client;
  Errc answer = Errc::ok;
  std::vector<Tensor> gradients;
};

TEST_CASE("the parts of a push whose first part is answered while the second is sent are whole") {
  caf::actor_system_config config;
  caf::actor_system system{config};
  caf::actor_config actor_config;
  const auto shard = caf::make_actor<AnsweringShard, caf::actor>(
      system.next_actor_id(), system.node(), &system, actor_config);
  auto& door = *static_cast<AnsweringShard*>(caf::actor_cast<caf::abstract_actor*>(shard));
  door.client = std::make_shared<ParameterClient>(
      system, [](DType dtype, const Shape& shape) { return Tensor::zeros(dtype, shape); }, 1);
  ParameterRoutes routes;
  routes.epoch = 1;
  routes.parameters["w"] = {
      DType::f32,
      Shape{2, 2},
      {{.slice = 0, .offset = 0, .size = 1, .task = "/job:ps/task:0", .shard = shard},
       {.slice = 1, .offset = 1, .size = 3, .task = "/job:ps/task:1", .shard = shard}}};
  door.client->set_routes(routes);
  for (const Errc answer : {Errc::peer_lost, Errc::ok}) {
    door.answer = answer;
    door.gradients.clear();
    std::vector<Errc> ended;
    door.client->push(
        "w", 0, 0, Tensor::of<float>({1, 2, 3, 4}, {2, 2}),
        [&ended](Errc code, const std::string&, const Tensor&) { ended.push_back(code); });
    CHECK(ended == std::vector<Errc>{answer});
    CHECK(same_bits(door.gradients.at(0), Tensor::of<float>({1}, {1})));
    if (answer == Errc::ok)
      CHECK(same_bits(door.gradients.at(1), Tensor::of<float>({2, 3, 4}, {3})));
    else
      CHECK(door.gradients.size() == 1);  // the rest would be for nobody
    CHECK(door.client->pending() == 0);
  }
  door.client = nullptr;
}

TEST_CASE("an answer that nothing has changed means the values that its pull has offered") {
  ClientRig rig;
  std::vector<Tensor> got;
  const auto pull = [&](int64_t slot) {
    rig.client->pull("w", slot, 3, [&](Errc code, const std::string&, const Tensor& value) {
      if (code == Errc::ok) got.push_back(value);
    });
    Pull sent;
    rig.shard->receive([&](const Pull& m) { sent = m; });
    return sent;
  };
  const auto values = [](float x) { return Tensor::of<float>({x, x}, {2}); };
  rig.client->on(Pulled{.ticket = pull(0).ticket, .version = 7, .values = values(7)});
  const Pull first = pull(0), second = pull(1);
  CHECK(first.have_version == 7);
  CHECK(second.have_version == 7);
  rig.client->on(Pulled{.ticket = second.ticket, .version = 8, .values = values(8)});
  rig.client->on(Pulled{.ticket = first.ticket, .version = 7});
  REQUIRE(got.size() == 3);
  CHECK(same_bits(got[1], values(8)));
  CHECK(same_bits(got[2], values(7)));
  CHECK(pull(0).have_version == 8);  // and what is newest stays so
  rig.client->fail_all(Errc::cancelled, "over");
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
