// Rounds of local steps in one process: the requests that copies answer, the change that a shard
// gets, and steps that are done again.
#include <doctest/doctest.h>

#include "training/parameters/parameter_client.hpp"

namespace troupe {
namespace {

struct Reply {
  Errc code = Errc::timeout;  // no answer yet
  std::string text;
  Tensor value;
  ParameterPort::Reply take() {
    return [this](Errc c, std::string t, Tensor v) {
      code = c;
      text = std::move(t);
      value = std::move(v);
    };
  }
};

// A client with one shard, which keeps all requests. w is f32 [2, 2].
struct Rig {
  caf::actor_system_config config;
  caf::actor_system system{config};
  caf::scoped_actor shard{system};
  std::shared_ptr<ParameterClient> client = std::make_shared<ParameterClient>(
      system, [](DType dtype, const Shape& shape) { return Tensor::empty(dtype, shape); }, 1);
  Optimizer optimizer;

  explicit Rig(Optimizer by = sgd(1)) : optimizer(std::move(by)) { route(1); }
  void route(uint64_t epoch) {
    ParameterRoutes routes{.epoch = epoch};
    ParameterRoute& w = routes.parameters["w"] = {.dtype = DType::f32, .shape = {2, 2}};
    w.optimizer = optimizer;
    w.slices.push_back({.slice = 0,
                        .offset = 0,
                        .size = 4,
                        .task = "/job:ps/task:0",
                        .shard = caf::actor_cast<ShardDoor>(shard)});
    client->set_routes(std::move(routes));
  }
  template <class T>
  std::optional<T> asked() {
    std::optional<T> out;
    shard->receive([&](const T& m) { out = m; }, caf::after(std::chrono::seconds(0)) >> [] {});
    return out;
  }
  // The pull of the first step of a round, answered by the shard.
  void begin(int64_t step, int64_t steps, std::vector<float> values = {1, 2, 3, 4},
             double rate_scale = 1) {
    Reply reply;
    client->pull("w", {0, step}, reply.take());
    const auto pull = asked<Pull>();
    REQUIRE(pull.has_value());
    client->on(Pulled{.ticket = pull->ticket,
                      .version = step,
                      .values = Tensor::of<float>(values, {4}),
                      .local_steps = steps,
                      .rate_scale = rate_scale});
    REQUIRE(reply.code == Errc::ok);
    CHECK(reply.value.shape() == Shape{2, 2});
  }
  // A pull that a copy answers.
  std::vector<float> pull(int64_t step) {
    Reply reply;
    client->pull("w", {0, step}, reply.take());
    CHECK(!asked<Pull>());
    INFO(reply.text);
    REQUIRE(reply.code == Errc::ok);
    return list(reply.value);
  }
  Reply push(int64_t step, float each) {
    Reply reply;
    client->push("w", {0, step}, Tensor::of<float>({each, each, each, each}, {2, 2}), reply.take());
    return reply;
  }
  static std::vector<float> list(const Tensor& values) {
    const auto all = values.values<float>();
    return {all.begin(), all.end()};
  }
};
using Values = std::vector<float>;

TEST_CASE("a copy answers the steps of a round, and the shard gets their change") {
  Rig rig;
  rig.begin(4, 3);
  CHECK(rig.push(4, 1).code == Errc::ok);
  CHECK(rig.pull(5) == Values{0, 1, 2, 3});
  CHECK(rig.push(5, 2).code == Errc::ok);
  CHECK(rig.pull(6) == Values{-2, -1, 0, 1});
  CHECK(!rig.asked<Push>());
  Reply last;
  rig.client->push("w", {0, 6}, Tensor::of<float>({4, 4, 4, 0}, {2, 2}), last.take());
  const auto change = rig.asked<Push>();
  REQUIRE(change.has_value());
  CHECK(change->step == 6);
  CHECK(change->number == 3);
  CHECK(Rig::list(change->gradient.values) == Values{7, 7, 7, 3});
  CHECK(last.code == Errc::timeout);
  rig.client->on(Acknowledged{.ticket = change->ticket});
  CHECK(last.code == Errc::ok);
}

TEST_CASE("a step that is done again reads what it has read, and counts once") {
  Rig rig(momentum(1, 0.5));
  rig.begin(0, 3);
  rig.push(0, 1);
  const Values before = rig.pull(1);
  rig.push(1, 1);
  CHECK(rig.pull(1) == before);
  CHECK(rig.push(1, 1).code == Errc::ok);
  CHECK(rig.pull(2) == Values{1 - 2.5F, 2 - 2.5F, 3 - 2.5F, 4 - 2.5F});
  for (int i = 0; i < 2; ++i) {  // the change, too
    Reply last;
    rig.client->push("w", {0, 2}, Tensor::of<float>({1, 1, 1, 1}, {2, 2}), last.take());
    const auto change = rig.asked<Push>();
    REQUIRE(change.has_value());
    CHECK(Rig::list(change->gradient.values) == Values{4.25, 4.25, 4.25, 4.25});
    rig.client->on(Acknowledged{.ticket = change->ticket, .code = Errc::peer_lost});
    CHECK(last.code == Errc::peer_lost);
  }
}

TEST_CASE("a round that is begun again begins with the shard's values") {
  Rig rig;
  rig.begin(0, 4);
  for (int64_t step = 0; step < 3; ++step) rig.push(step, 1);
  SUBCASE("as the replica goes back") {}
  SUBCASE("in a new epoch") { rig.route(2); }
  rig.begin(0, 4);
  rig.push(0, 5);
  CHECK(rig.pull(1) == Values{-4, -3, -2, -1});
}

TEST_CASE("a late answer to the first pull does not end the round that has begun") {
  Rig rig;
  Reply given_up;
  rig.client->pull("w", {0, 0}, given_up.take());
  const auto late = rig.asked<Pull>();
  rig.begin(0, 4);
  rig.push(0, 1);
  rig.push(1, 1);
  rig.client->on(Pulled{.ticket = late->ticket,
                        .version = 0,
                        .values = Tensor::of<float>({1, 2, 3, 4}, {4}),
                        .local_steps = 4});
  CHECK(given_up.code == Errc::ok);
  CHECK(rig.pull(2) == Values{-1, 0, 1, 2});
}

TEST_CASE("a process without a copy asks the shard, which knows the round") {
  Rig rig;
  Reply reply;
  rig.client->pull("w", {0, 5}, reply.take());
  CHECK(rig.asked<Pull>().has_value());
}

TEST_CASE(
    "the optimizer of a round begins anew, at the schedule and the rate scale of the training") {
  Optimizer decayed = adam(1).with(step_decay(4, 0.25));
  Rig rig(decayed);
  rig.begin(4, 2, {0, 0, 0, 0}, /*rate_scale=*/0.5);
  rig.push(4, 3);  // update 5: a quarter of the rate, and half of that
  CHECK(rig.pull(5)[0] == doctest::Approx(-0.125));
}

TEST_CASE("rows are read from a copy and change it") {
  Rig rig;
  Reply rows;
  const Tensor second = Tensor::of<int64_t>({1}, {1});
  rig.client->pull_rows("w", {0, 0}, second, rows.take());
  const auto some = rig.asked<Pull>();
  REQUIRE(some.has_value());
  REQUIRE(some->rows.defined());
  rig.client->on(Pulled{
      .ticket = some->ticket, .values = Tensor::of<float>({3, 4}, {1, 2}), .local_steps = 2});
  CHECK(rows.code == Errc::timeout);  // the copy wants all of it
  const auto whole = rig.asked<Pull>();
  REQUIRE(whole.has_value());
  CHECK(!whole->rows.defined());
  rig.client->on(Pulled{
      .ticket = whole->ticket, .values = Tensor::of<float>({1, 2, 3, 4}, {4}), .local_steps = 2});
  CHECK(Rig::list(rows.value) == Values{3, 4});
  Reply pushed;
  rig.client->push_rows("w", {0, 0}, second, Tensor::of<float>({1, 1}, {1, 2}), pushed.take());
  CHECK(pushed.code == Errc::ok);
  rig.client->pull_rows("w", {0, 1}, second, rows.take());
  CHECK(Rig::list(rows.value) == Values{2, 3});
  rig.client->pull_rows("w", {0, 0}, second, rows.take());  // the step before, again
  rig.client->push_rows("w", {0, 1}, second, Tensor::of<float>({1, 1}, {1, 2}), pushed.take());
  const auto change = rig.asked<Push>();
  REQUIRE(change.has_value());
  CHECK(Rig::list(change->gradient.values) == Values{0, 0, 2, 2});
  Reply none;
  rig.client->pull_rows("w", {0, 1}, Tensor::of<int64_t>({7}, {1}), none.take());
  CHECK(none.code == Errc::invalid_argument);
}

TEST_CASE("gradients that a copy cannot take are refused, and change nothing") {
  Rig rig;
  rig.begin(0, 3);
  const Reply bad = rig.push(0, INFINITY);
  CHECK(bad.code == Errc::bad_data);
  CHECK(bad.text.find("the gradient of w by replica 0 in step 0 is not finite: element 0 is inf") !=
        std::string::npos);
  CHECK(rig.push(0, 1).code == Errc::ok);
  CHECK(rig.push(2, 1).code == Errc::stale);
  CHECK(rig.pull(1) == Values{0, 1, 2, 3});
}

TEST_CASE("a parameter whose gradients go elsewhere is refused at the second time") {
  Rig rig;
  for (const Errc code : {Errc::stale, Errc::invalid_argument}) {
    rig.begin(0, 3);
    Reply reply;
    rig.client->pull("w", {0, 1}, reply.take());
    CHECK(reply.code == code);
    CHECK(reply.text.find("step 0 has pushed no gradient of w of replica 0 in the process that "
                          "reads it in step 1") != std::string::npos);
  }
}

}  // namespace
}  // namespace troupe
