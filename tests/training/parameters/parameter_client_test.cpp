// One process's side of pulls and pushes: its requests to shards and their sequence numbers.
#include <doctest/doctest.h>

#include "training/parameters/parameter_client.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

// Routes by which each ps has one slice of w, of sizes `sizes`; `shard` serves all of them.
ParameterRoutes routes_to(const ShardDoor& shard, const Shape& shape,
                          const std::vector<int64_t>& sizes, uint64_t epoch = 1) {
  ParameterRoutes routes{.epoch = epoch};
  auto& w = routes.parameters["w"] = {DType::f32, shape, {}};
  int64_t offset = 0;
  for (const int64_t size : sizes) {
    const auto i = static_cast<uint32_t>(w.slices.size());
    w.slices.push_back({.slice = i,
                        .offset = std::exchange(offset, offset + size),
                        .size = size,
                        .task = detail::concat("/job:ps/task:", i),
                        .shard = shard});
  }
  return routes;
}

Tensor zeros(DType dtype, const Shape& shape) { return Tensor::zeros(dtype, shape); }

// A client with one shard, which keeps all requests.
struct ClientRig {
  caf::actor_system_config config;
  caf::actor_system system{config};
  caf::scoped_actor shard{system};
  const ShardDoor door = caf::actor_cast<ShardDoor>(shard);
  std::shared_ptr<ParameterClient> client;
  explicit ClientRig(const Shape& shape = {2}, const std::vector<int64_t>& sizes = {2},
                     const std::function<Tensor(DType, const Shape&)>& allocate = zeros)
      : client(std::make_shared<ParameterClient>(system, allocate, 1)) {
    client->set_routes(routes_to(door, shape, sizes));
  }
  Push push(int64_t step, std::vector<Errc>& ended) {
    client->push("w", {0, step}, Tensor::zeros(DType::f32, {2}),
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

TEST_CASE("a replica that moves here counts its pushes anew, and its fence names their place") {
  ClientRig rig;
  std::vector<Errc> ended;
  const auto push = [&](int64_t step, uint64_t fence) {
    rig.client->push(
        "w", {.replica = 0, .step = step, .fence = fence}, Tensor::zeros(DType::f32, {2}),
        [&ended](Errc code, const std::string&, const Tensor&) { ended.push_back(code); });
    Push got;
    rig.shard->receive([&](const Push& m) { got = m; });
    return got;
  };
  CHECK(push(0, 0).incarnation == 1);
  CHECK(push(1, 0).sequence == 1);
  const Push moved = push(1, 12);
  CHECK(moved.incarnation == 12);
  CHECK(moved.sequence == 0);
  const Push late = push(2, 0);  // of a step that began before the move
  CHECK(late.incarnation == 1);
  rig.client->on(Acknowledged{.ticket = late.ticket, .code = Errc::stale});
  CHECK(push(2, 12).sequence == 1);
  const Push back = push(3, 15);
  CHECK(back.incarnation == 15);
  CHECK(back.sequence == 0);
  rig.client->on(Acknowledged{.ticket = back.ticket, .code = Errc::peer_lost});
  CHECK(push(3, 15).sequence == 0);
  CHECK(ended == std::vector<Errc>{Errc::stale, Errc::peer_lost});
}

TEST_CASE("a request that meets a full link goes again, with its number and its gradient") {
  ClientRig rig;
  const Loss full{Errc::out_of_memory, "too much waits to be sent", "/job:ps/task:0"};
  std::vector<Errc> ended;
  const auto again = [&] { rig.client->resend(rig.system.clock().now()); };
  const auto sent = [&](const auto& check) {
    rig.shard->receive(
        check, caf::after(std::chrono::seconds(10)) >> [] { FAIL("not sent"); });
  };
  const Push push = rig.push(0, ended);
  again();  // no answer yet: it is not due
  for (int i = 0; i < 3; ++i) {
    rig.client->on(refusal_of(push, full));
    again();
    sent([&](const Push& m) {
      CHECK(m.ticket == push.ticket);
      CHECK(m.sequence == push.sequence);
      CHECK(m.gradient.defined());
    });
  }
  CHECK(ended.empty());
  rig.client->on(Acknowledged{.ticket = push.ticket});
  CHECK(ended == std::vector<Errc>{Errc::ok});

  rig.client->pull("w", {0, 1},
                   [&](Errc code, const std::string&, const Tensor&) { ended.push_back(code); });
  Pull pull;
  sent([&](const Pull& m) { pull = m; });
  rig.client->on(refusal_of(pull, full));
  again();
  sent([&](const Pull& m) { CHECK(m.ticket == pull.ticket); });
  rig.client->on(failed_form_of(Pulled{.ticket = pull.ticket}, full));  // no room for the answer
  again();
  sent([&](const Pull& m) { CHECK(m.ticket == pull.ticket); });
  CHECK(ended.size() == 1);
  const Loss no_memory{Errc::out_of_memory, "no memory for the tensor of a message", {}};
  rig.client->on(failed_form_of(Pulled{.ticket = pull.ticket}, no_memory));
  CHECK(ended == std::vector<Errc>{Errc::ok, Errc::out_of_memory});
  CHECK(rig.client->pending() == 0);
}

// A shard's door that answers each push from within the call that sends it.
struct AnsweringShard final : caf::monitorable_actor {
  explicit AnsweringShard(caf::actor_config& settings) : monitorable_actor(settings) {}
  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit*) override {
    const auto& m = message->content().get_as<Push>(0);
    gradients.push_back(m.gradient.values);
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
  const auto shard = caf::make_actor<AnsweringShard, ShardDoor>(
      system.next_actor_id(), system.node(), &system, actor_config);
  auto& door = *static_cast<AnsweringShard*>(caf::actor_cast<caf::abstract_actor*>(shard));
  door.client = std::make_shared<ParameterClient>(system, zeros, 1);
  door.client->set_routes(routes_to(shard, {2, 2}, {1, 3}));
  for (const Errc answer : {Errc::peer_lost, Errc::ok}) {
    door.answer = answer;
    door.gradients.clear();
    std::vector<Errc> ended;
    door.client->push(
        "w", {0, 0}, Tensor::of<float>({1, 2, 3, 4}, {2, 2}),
        [&ended](Errc code, const std::string&, const Tensor&) { ended.push_back(code); });
    CHECK(ended == std::vector<Errc>{answer});
    CHECK(same_bits(door.gradients.at(0), Tensor::of<float>({1}, {1})));
    if (answer == Errc::ok)
      CHECK(same_bits(door.gradients.at(1), Tensor::of<float>({2, 3, 4}, {3})));
    else
      CHECK(door.gradients.size() == 1);  // a failed push sends no more slices
    CHECK(door.client->pending() == 0);
  }
  door.client = nullptr;
}

TEST_CASE("routes of the same epoch do not overtake a gradient that was given away") {
  ClientRig rig;
  ParameterRoutes routes{.epoch = 1};
  SliceRoute whole{.slice = 0, .offset = 0, .size = 30'000, .task = "/job:local/task:0"};
  whole.local = true;
  whole.shard = rig.door;
  routes.parameters["w"] = {DType::f32, Shape{30'000}, {whole}};
  rig.client->set_routes(routes);
  bool ended = false;
  rig.client->push("w", {0, 0}, Tensor::zeros(DType::f32, {30'000}),
                   [&ended](Errc, const std::string&, const Tensor&) { ended = true; });
  rig.client->set_routes(routes);
  std::vector<bool> with_gradient;
  const auto take_all = [&] {
    for (bool more = true; more;)
      rig.shard->receive([&](const Push& m) { with_gradient.push_back(m.gradient.defined()); },
                         caf::after(std::chrono::seconds(0)) >> [&] { more = false; });
  };
  take_all();
  CHECK(with_gradient == std::vector<bool>{true});
  CHECK_FALSE(ended);
  rig.client->resend(rig.system.clock().now() + std::chrono::hours(1));
  take_all();
  CHECK(with_gradient == std::vector<bool>{true, false});
}

TEST_CASE("a shard of the process gets a large gradient for good, and is asked again without one") {
  ClientRig rig;
  const auto route_to = [&](std::vector<SliceRoute> slices) {
    ParameterRoutes routes{.epoch = 1};
    for (SliceRoute& slice : slices) slice.shard = rig.door;
    routes.parameters["w"] = {DType::f32, Shape{30'000}, std::move(slices)};
    rig.client->set_routes(routes);
  };
  std::vector<Errc> ended;
  // The push that the shard got, and the repeated one.
  const auto push_twice = [&](Gradient gradient) {
    const auto reply = [&ended](Errc code, const std::string&, const Tensor&) {
      ended.push_back(code);
    };
    if (gradient.by_rows())
      rig.client->push_rows("w", {0, 0}, gradient.indices, gradient.values, reply);
    else
      rig.client->push("w", {0, 0}, std::move(gradient.values), reply);
    std::vector<Push> got(2);
    rig.shard->receive([&](Push& m) { got[0] = std::move(m); });
    rig.client->resend(rig.system.clock().now() + std::chrono::hours(1));
    rig.shard->receive([&](Push& m) { got[1] = std::move(m); });
    CHECK(got[1].ticket == got[0].ticket);
    CHECK(got[1].sequence == got[0].sequence);
    return got;
  };
  SliceRoute whole{.slice = 0, .offset = 0, .size = 30'000, .task = "/job:local/task:0"};
  SUBCASE("of all of the parameter") {
    whole.local = true;
    route_to({whole});
    const auto got = push_twice(Tensor::zeros(DType::f32, {30'000}));
    CHECK(got[0].gradient.values.size() == 30'000);
    CHECK(got[0].gradient.values.unique());
    CHECK(!got[1].gradient.defined());
    rig.client->on(Acknowledged{.ticket = got[0].ticket});
    CHECK(ended == std::vector<Errc>{Errc::ok});
  }
  SUBCASE("not of another process") {
    route_to({whole});
    const auto got = push_twice(Tensor::zeros(DType::f32, {30'000}));
    CHECK(!got[0].gradient.values.unique());
    CHECK(got[1].gradient.values.size() == 30'000);
  }
  SUBCASE("not by rows") {
    whole.local = true;
    route_to({whole});
    const auto got =
        push_twice({Tensor::zeros(DType::f32, {9'000, 1}), Tensor::zeros(DType::i64, {9'000})});
    CHECK(got[1].gradient.byte_size() == 9'000 * 12);
  }
}

TEST_CASE("rows are asked of the slices that have them, and come back in their order") {
  ClientRig rig({12, 2}, {8, 8, 8});
  ParameterClient& client = *rig.client;
  Errc code = Errc::internal;
  Tensor got;
  const auto ask = [&](const Tensor& indices) {
    code = Errc::internal;
    client.pull_rows("w", {0, 7}, indices, [&](Errc c, const std::string&, const Tensor& value) {
      code = c;
      got = value;
    });
  };
  const auto receive = [&] {
    Pull sent;
    rig.shard->receive([&](const Pull& m) { sent = m; });
    return sent;
  };
  ask(Tensor::of<int64_t>({9, 1, 11, 9}, {2, 2}));
  const Pull first = receive(), last = receive();  // the middle slice has no wanted row
  CHECK(first.slice == 0);
  CHECK(last.slice == 2);
  CHECK(first.row_size == 2);
  CHECK(same_bits(first.rows, Tensor::of<int64_t>({1}, {1})));
  CHECK(same_bits(last.rows, Tensor::of<int64_t>({1, 3, 1}, {3})));
  client.on(Pulled{.ticket = last.ticket,
                   .version = 3,
                   .values = Tensor::of<float>({18, 19, 22, 23, 18, 19}, {3, 2})});
  CHECK(code == Errc::internal);  // not yet
  client.on(
      Pulled{.ticket = first.ticket, .version = 3, .values = Tensor::of<float>({2, 3}, {1, 2})});
  CHECK(code == Errc::ok);
  CHECK(same_bits(got, Tensor::of<float>({18, 19, 2, 3, 22, 23, 18, 19}, {2, 2, 2})));
  // More than half of the rows: pulls the whole parameter, which may be cached for the next time.
  std::vector<int64_t> many = {5, 4, 3, 2, 1, 0, 0};
  ask(Tensor::of<int64_t>(many, {7}));
  std::vector<float> all(24);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i);
  for (int i = 0; i < 3; ++i) {
    const Pull sent = receive();
    CHECK(!sent.rows.defined());
    client.on(Pulled{.ticket = sent.ticket,
                     .version = 4,
                     .values = Tensor::of<float>({all.data() + 8 * sent.slice, 8}, {8})});
  }
  CHECK(code == Errc::ok);
  CHECK(same_bits(got, Tensor::of<float>({10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1, 0, 1}, {7, 2})));
  ask(Tensor::of<int64_t>({}, {0, 3}));  // no rows: no request
  CHECK(code == Errc::ok);
  CHECK(got.shape() == Shape{0, 3, 2});
  for (const int64_t bad : {int64_t{12}, int64_t{-1}, INT64_MIN}) {
    ask(Tensor::of<int64_t>({0, bad}, {2}));
    CHECK(code == Errc::invalid_argument);
  }
  CHECK(client.pending() == 0);
}

TEST_CASE("an answer that finds no memory for its rows is the asker's to know, and nobody else's") {
  bool room = false;
  ClientRig rig({2, 1}, {2}, [&](DType dtype, const Shape& shape) {
    if (!room) throw Error(Errc::out_of_memory, "the budget is spent");
    return zeros(dtype, shape);
  });
  ParameterClient& client = *rig.client;
  std::vector<Errc> ended;
  std::string why;
  Tensor got;
  const auto ask = [&] {  // more than half of the rows: pulls all and gathers here
    client.pull_rows("w", {0, 0}, Tensor::of<int64_t>({1, 0}, {2}),
                     [&](Errc code, std::string text, Tensor value) {
                       ended.push_back(code);
                       why = std::move(text);
                       got = std::move(value);
                     });
    uint64_t ticket = 0;
    rig.shard->receive([&](const Pull& m) { ticket = m.ticket; });
    client.on(Pulled{.ticket = ticket, .version = 1, .values = Tensor::of<float>({5, 7}, {2})});
  };
  CHECK_NOTHROW(ask());
  CHECK(ended == std::vector<Errc>{Errc::out_of_memory});
  CHECK(why == "the budget is spent");
  CHECK(!got.defined());
  CHECK(client.pending() == 0);
  room = true;
  ask();
  CHECK(ended == std::vector<Errc>{Errc::out_of_memory, Errc::ok});
  CHECK(same_bits(got, Tensor::of<float>({7, 5}, {2, 1})));
}

TEST_CASE("a push that finds no memory to be cut leaves nothing behind, and its asker is told") {
  ClientRig rig;
  constexpr int64_t kRow = 1 << 22, kRows = 1 << 23;  // one row for all: too large to repeat
  ParameterRoutes routes{.epoch = 1};
  SliceRoute low{.slice = 0, .offset = 0, .size = kRow, .task = "/job:ps/task:0"}, high = low;
  low.shard = high.shard = rig.door;
  high.slice = 1;
  high.offset = kRow;
  routes.parameters["w"] = {DType::f32, Shape{2, kRow}, {low, high}};
  rig.client->set_routes(routes);
  std::vector<Errc> ended;
  const auto push = [&](int64_t rows) {
    rig.client->push_rows(
        "w", {0, 0}, Tensor::zeros(DType::i64, {rows}), Tensor::zeros(DType::f32, {1, kRow}),
        [&ended](Errc code, const std::string&, const Tensor&) { ended.push_back(code); });
  };
  CHECK_THROWS_AS(push(kRows), Error);
  CHECK(ended.empty());
  CHECK(rig.client->pending() == 0);
  CHECK_NOTHROW(rig.client->resend(rig.system.clock().now() + std::chrono::hours(1)));
  push(1);  // the failed push used no sequence number
  rig.shard->receive([](const Push& m) { CHECK(m.sequence == 0); });
  rig.client->fail_all(Errc::cancelled, "over");
}

TEST_CASE("an answer that nothing has changed means the values that its pull has offered") {
  ClientRig rig;
  std::vector<Tensor> got;
  const auto pull = [&](int64_t replica) {
    rig.client->pull("w", {replica, 3}, [&](Errc code, const std::string&, const Tensor& value) {
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
  CHECK(pull(0).have_version == 8);  // the newest values stay so
  rig.client->fail_all(Errc::cancelled, "over");
}

TEST_CASE("a request that begins while the routes change ends with the old epoch") {
  std::function<void()> meanwhile;  // between a pull's look at the routes and its first message
  ClientRig rig({2}, {1, 1}, [&](DType dtype, const Shape& shape) {
    meanwhile();
    return zeros(dtype, shape);
  });
  ParameterClient* const client = rig.client.get();
  const auto routes = [&](uint64_t epoch) { return routes_to(rig.door, {2}, {1, 1}, epoch); };
  std::vector<Errc> ended;
  const auto pull = [&] {
    client->pull("w", {0, 0},
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
  const ParameterRoutes larger = routes_to(rig.door, {1 << 20}, {1, (1 << 20) - 1});
  SUBCASE("the same epoch, and the values have no room in the tensor of the request") {
    meanwhile = [&] { client->set_routes(larger); };
    pull();
    CHECK(ended == std::vector<Errc>{Errc::stale});
  }
  SUBCASE("the same, after the first message") {
    meanwhile = [] {};
    pull();
    uint64_t ticket = 0;
    rig.shard->receive([&](const Pull& m) { ticket = m.ticket; });
    client->set_routes(larger);
    client->on(Pulled{.ticket = ticket, .slice = 0, .values = zeros(DType::f32, {1})});
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

TEST_CASE("routes that lead out of their parameter are refused, and the ones before stay") {
  ClientRig rig;
  ParameterRoutes routes = routes_to(rig.door, {8}, {4, 4});
  routes.parameters["w"].slices[1].offset = 6;
  CHECK_THROWS_WITH_AS(
      rig.client->set_routes(routes),
      "the route of parameter w has a slice of elements 6 to 6 + 4 behind element 4 of 8", Error);
  std::vector<Errc> ended;
  rig.push(0, ended);
  CHECK(rig.client->pending() == 1);
  rig.client->fail_all(Errc::cancelled, "over");
}

}  // namespace troupe
