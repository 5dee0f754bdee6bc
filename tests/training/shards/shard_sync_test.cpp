// The synchronous rule in a shard: rounds, waiting pulls, repeated steps, every small interleaving.
#include <algorithm>
#include <numeric>

#include "tests/support/optimizers.hpp"
#include "tests/support/simulation/shard_script.hpp"

namespace troupe {
namespace {

TEST_CASE("a round closes with the mean of all replicas, and acknowledges them all") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 3, vector_of({10, 10, 10, 10}));
  CHECK(s.push(2, 0, vector_of({0, 3, 0, 1})).empty());
  CHECK(s.push(0, 0, vector_of({3, 0, 0, 1})).empty());
  CHECK(s.shard.waiting_for() == "w waits for the gradient of step 0 of replica 1");
  const ShardActions& out = s.push(1, 0, vector_of({0, 0, 3, 1}));
  REQUIRE(out.size() == 3);
  for (int32_t replica = 0; replica < 3; ++replica) {
    const auto& ack = std::get<Acknowledged>(out[static_cast<size_t>(replica)].message);
    CHECK(ack.ticket == ShardScript::ticket_of(replica, 0));
    CHECK(ack.code == Errc::ok);
    CHECK(ack.version == 1);
  }
  CHECK(same_bits(s.shard.values(0), vector_of({9, 9, 9, 9})));
  REQUIRE(s.applied.size() == 1);
  CHECK(s.applied[0].from == std::vector<Shard::Applied::From>{{0, 0, 0}, {1, 0, 0}, {2, 0, 0}});
  CHECK(s.shard.counters().merged == 3);
  CHECK(s.shard.waiting_for().empty());
}

TEST_CASE("gradients are summed in the order of replicas, not of arrival") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 3);
  const auto all = [](float x) { return vector_of({x, x, x, x}); };
  s.push(2, 0, all(3));
  s.push(1, 0, all(-1e8F));
  s.push(0, 0, all(1e8F));
  CHECK(
      same_bits(s.shard.values(0), all(-1)));  // (1e8 - 1e8) + 3; any other order rounds the 3 away
}

TEST_CASE("a pull of step t waits for version t and gets exactly it") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2);
  CHECK(only<Pulled>(s.pull(0, 0)).version == 0);
  CHECK(s.pull(0, 1).empty());
  s.push(0, 0, vector_of({2, 2, 2, 2}));
  const ShardActions& out = s.push(1, 0, vector_of({0, 0, 0, 0}));
  REQUIRE(out.size() == 3);
  const auto& pulled = std::get<Pulled>(out[2].message);
  CHECK(pulled.version == 1);
  CHECK(same_bits(pulled.values, vector_of({-1, -1, -1, -1})));
}

TEST_CASE("a replica that was lost reads the step before again, with the same bits") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2, vector_of({1, 2, 3, 4}));
  const Tensor first = only<Pulled>(s.pull(0, 0)).values;
  s.push(0, 0, vector_of({1, 1, 1, 1}));
  s.push(
      1, 0,
      vector_of({1, 1, 1,
                 1}));  // closes step 0; the acknowledgement to replica 1 is lost with its process
  const auto again = only<Pulled>(s.pull(1, 0));
  CHECK(again.version == 0);
  CHECK(same_bits(again.values, first));
  s.incarnation = 7;
  Push push = s.make_push(1, 0, vector_of({1, 1, 1, 1}));
  CHECK(only<Acknowledged>(s.push(push)).code ==
        Errc::ok);  // known by its step, although the sequence restarted
  CHECK(s.shard.version(0) == 1);
  CHECK(s.shard.counters().duplicate == 1);
}

TEST_CASE("values two steps back are gone, and the answer says so") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 1);
  for (int64_t step = 0; step < 2; ++step) s.push(0, step, vector_of({1, 1, 1, 1}));
  const auto pulled = only<Pulled>(s.pull(0, 0));
  CHECK(pulled.code == Errc::stale);
  CHECK(pulled.text ==
        "the values of step 0 are gone: the shard is at step 2 and keeps one step back");
}

TEST_CASE("a gradient ahead of the open round waits for its own, and is refused 65 steps ahead") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2);
  CHECK(s.push(0, 0, vector_of({2, 0, 0, 0})).empty());
  CHECK(s.push(0, 1, vector_of({4, 0, 0, 0})).empty());
  CHECK(s.push(0, 2, vector_of({8, 0, 0, 0})).empty());
  Push far = s.make_push(0, 65, vector_of({1, 0, 0, 0}));
  far.sequence = 3;
  const auto ahead = only<Acknowledged>(s.push(far));
  CHECK(ahead.code == Errc::stale);
  CHECK_MESSAGE(
      ahead.text.find("step 65 of replica 0 is more than 64 steps ahead") != std::string::npos,
      ahead.text);
  CHECK(s.refused(PushRefusal::step) == 1);
  CHECK(s.shard.counters().held == 3);
  for (int64_t step = 0; step < 3; ++step)
    CHECK(s.push(1, step, vector_of({0, 0, 0, 0})).size() == 2);
  CHECK(same_bits(s.shard.values(0), vector_of({-7, 0, 0, 0})));
}

namespace {

// The push of a replica that states the first of its steps that is not over.
Push from_step(const ShardScript& s, int32_t replica, int64_t step, int64_t sequence,
               int64_t first) {
  Push push = s.make_push(replica, step, vector_of({1, 0, 0, 0}));
  push.sequence = sequence;
  push.first = first;
  return push;
}
Pull pull_from(const ShardScript& s, int32_t replica, int64_t step) {
  return {.replica = replica, .step = step, .epoch = s.shard.epoch(), .ticket = 7, .first = step};
}

}  // namespace

TEST_CASE("steps that the only replica has left behind are skipped, and the next one is served") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 1);
  s.push(from_step(s, 0, 0, 0, 0));
  CHECK(s.pull(0, 3).empty());  // steps 1 and 2 may still come
  s.last.clear();
  s.shard.pull(pull_from(s, 0, 3), 1, s.last);
  REQUIRE(s.last.size() == 2);  // the answers of the waiting pull and of this one
  for (const ShardAction& action : s.last) CHECK(std::get<Pulled>(action.message).version == 1);
  CHECK(only<Acknowledged>(s.push(from_step(s, 0, 3, 1, 3))).version == 2);
  CHECK(only<Acknowledged>(s.push(from_step(s, 0, 9, 2, 9))).version == 3);  // without a pull
  // A late push of a step that is over never counts.
  const auto late = only<Acknowledged>(s.push(from_step(s, 0, 2, 3, 3)));
  CHECK(late.code == Errc::stale);
  CHECK_MESSAGE(late.text.find("step 2 was skipped") != std::string::npos, late.text);
  CHECK(only<Acknowledged>(s.push(from_step(s, 0, 3, 4, 9))).code == Errc::ok);  // already counted
  CHECK(s.shard.version(0) == 3);
}

TEST_CASE("a replica may go on at any later step, however far") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2);
  constexpr int64_t kFar = int64_t{1} << 60;
  CHECK(s.push(from_step(s, 0, 0, 0, 0)).empty());
  s.last.clear();
  s.shard.pull(pull_from(s, 1, kFar), 1, s.last);  // gives up step 0, which replica 0 has pushed
  REQUIRE(s.last.size() == 2);
  CHECK(std::get<Acknowledged>(s.last[0].message).code == Errc::stale);
  CHECK(std::get<Pulled>(s.last[1].message).version == 0);
  CHECK(s.push(from_step(s, 1, kFar, 0, kFar)).empty());
  CHECK(s.push(from_step(s, 0, kFar, 1, kFar)).size() == 2);
  CHECK(s.shard.version(0) == 1);
  // A push is of no earlier step than those it ends.
  CHECK(s.push(from_step(s, 0, kFar + 1, 2, kFar + 9)).empty());
  CHECK(s.push(from_step(s, 1, kFar + 1, 1, kFar + 1)).size() == 2);
  CHECK(s.shard.version(0) == 2);
}

TEST_CASE(
    "a gradient that waits for a replica that has gone on is refused at once, with its name") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2);
  CHECK(s.push(from_step(s, 0, 0, 0, 0)).empty());
  s.last.clear();
  s.shard.pull(pull_from(s, 1, 1), 1, s.last);  // replica 1 ended step 0 without a push
  s.check_counters();
  REQUIRE(s.last.size() == 2);
  const auto& lost = std::get<Acknowledged>(s.last[0].message);
  CHECK(lost.code == Errc::stale);
  CHECK(lost.ticket == ShardScript::ticket_of(0, 0));
  CHECK(lost.text ==
        "the gradient of w of replica 0 for step 0 waited for that of replica 1, which has gone on "
        "without one: its run failed, or pushes other parameters; run the step again in all "
        "replicas, "
        "and push the same parameters in each");
  CHECK(std::get<Pulled>(s.last[1].message).version == 0);
  CHECK(s.refused(PushRefusal::step) == 1);
  // Both replicas continue together.
  CHECK(s.push(from_step(s, 1, 1, 0, 1)).empty());
  CHECK(s.push(from_step(s, 0, 1, 1, 1)).size() == 2);
  CHECK(s.shard.version(0) == 1);
}

TEST_CASE("a replica that has pushed a round and then gone on is not missed in it") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2);
  CHECK(s.push(from_step(s, 0, 0, 0, 0)).empty());
  CHECK(s.push(from_step(s, 0, 3, 1, 3)).empty());  // its step 0 ended before the round
  CHECK(s.push(from_step(s, 1, 0, 0, 0)).size() == 2);
  CHECK(s.shard.version(0) == 1);
  // Steps 1 and 2 are skipped as soon as step 0 is applied.
  CHECK(s.push(from_step(s, 1, 3, 1, -1)).size() == 2);
  CHECK(s.shard.version(0) == 2);
}

TEST_CASE("a repeated push is answered with the first, or again, and never applied twice") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2);
  const Push first = s.make_push(0, 0, vector_of({2, 0, 0, 0}));
  CHECK(s.push(first).empty());
  CHECK(s.push(first).empty());
  Push moved = first;  // the same gradient from the replica's next process
  moved.ticket = 5;
  CHECK(s.push(moved, 9).empty());
  const ShardActions& out = s.push(1, 0, vector_of({0, 0, 0, 0}));
  REQUIRE(out.size() == 3);
  CHECK(out[1].to == 9);
  CHECK(only<Acknowledged>(s.push(first)).version == 1);
  CHECK(same_bits(s.shard.values(0), vector_of({-1, 0, 0, 0})));
  CHECK(s.shard.counters().duplicate == 3);
}

TEST_CASE(
    "values that were pulled are never written, and memory is used again when they are free") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 1, vector_of({1, 1, 1, 1}));
  const Tensor held = only<Pulled>(s.pull(0, 0)).values;
  for (int64_t step = 0; step < 5; ++step) s.push(0, step, vector_of({1, 1, 1, 1}));
  CHECK(same_bits(held, vector_of({1, 1, 1, 1})));
  const void* before = s.shard.values(0).raw();
  s.push(0, 5, vector_of({1, 1, 1, 1}));
  s.push(0, 6, vector_of({1, 1, 1, 1}));
  CHECK(s.shard.values(0).raw() == before);
}

// Gradients of two steps of three replicas; their order changes the last bit of each sum.
const std::vector<Tensor>& gradients() {
  static const std::vector<Tensor> all = [] {
    std::vector<Tensor> out;
    for (int i = 0; i < 6; ++i) {
      const float x = 1.0F / static_cast<float>(i + 3);
      out.push_back(
          vector_of({x, 1e8F * x, -x, 3.1F * x * static_cast<float>(i % 2 == 0 ? 1 : -1)}));
    }
    return out;
  }();
  return all;
}
const Tensor& gradient(int32_t replica, int64_t step) {
  return gradients()[static_cast<size_t>(replica + 3 * step)];
}

Tensor result_of(const Optimizer& optimizer) {
  ShardScript s = ShardScript::serving(Aggregation::sync, 3, vector_of({1, 2, 3, 4}), optimizer);
  for (int64_t step = 0; step < 2; ++step)
    for (int32_t replica = 0; replica < 3; ++replica)
      s.push(replica, step, gradient(replica, step));
  return s.shard.values(0);
}

TEST_CASE("every order of arrival of three replicas' pushes of two steps gives the same bits") {
  for (const Optimizer& optimizer : every_optimizer()) {
    CAPTURE(describe(optimizer));
    const Tensor expected = result_of(optimizer);
    std::vector<int> order(6);
    std::iota(order.begin(), order.end(), 0);
    int64_t orders = 0;
    do {
      ShardScript s =
          ShardScript::serving(Aggregation::sync, 3, vector_of({1, 2, 3, 4}), optimizer);
      int64_t acks = 0;
      for (int i : order)
        for (const ShardAction& a : s.push(i % 3, i / 3, gradient(i % 3, i / 3)))
          acks += std::get<Acknowledged>(a.message).code == Errc::ok;
      REQUIRE(acks == 6);
      REQUIRE(same_bits(s.shard.values(0), expected));
      ++orders;
    } while (std::next_permutation(order.begin(), order.end()));
    CHECK(orders == 720);
  }
}

// Each replica pulls, pushes, pulls, pushes. Replica 2 repeats its first step, as after the loss of
// its process.
TEST_CASE(
    "every interleaving of three replicas' pulls and pushes, one replica restarting, gives the "
    "same "
    "bits") {
  const Tensor expected = result_of({.kind = "sgd", .learning_rate = 1});
  struct Call {
    bool pull;
    int64_t step;
    uint64_t incarnation;
  };
  const std::vector<Call> plain = {{true, 0, 0}, {false, 0, 0}, {true, 1, 0}, {false, 1, 0}};
  const std::vector<Call> restarted = {{true, 0, 0},  {false, 0, 0}, {true, 0, 1},
                                       {false, 0, 1}, {true, 1, 1},  {false, 1, 1}};
  const std::vector<const std::vector<Call>*> programs = {&plain, &plain, &restarted};
  std::string schedule;  // the replica of each call, in order
  for (size_t replica = 0; replica < programs.size(); ++replica)
    schedule += std::string(programs[replica]->size(), static_cast<char>('0' + replica));
  int64_t finished = 0;
  std::vector<size_t> at(3);
  do {
    ShardScript s = ShardScript::serving(Aggregation::sync, 3, vector_of({1, 2, 3, 4}));
    at.assign(3, 0);
    bool possible = true;
    for (char c : schedule) {
      const auto replica = static_cast<size_t>(c - '0');
      const Call& call = (*programs[replica])[at[replica]++];
      ShardActions out;
      if (call.pull) {
        s.shard.pull(
            {.replica = static_cast<int32_t>(replica), .step = call.step, .epoch = 1, .ticket = 1},
            1, out);
        // A worker without the values cannot compute, so the schedule is invalid.
        if (out.empty()) {
          possible = false;
          break;
        }
        REQUIRE(only<Pulled>(out).code == Errc::ok);
        REQUIRE(only<Pulled>(out).version == call.step);
      } else {
        Push push{.replica = static_cast<int32_t>(replica),
                  .incarnation = call.incarnation,
                  .step = call.step,
                  .sequence = call.step,
                  .epoch = 1,
                  .ticket = 1,
                  .gradient = gradient(static_cast<int32_t>(replica), call.step)};
        s.shard.push(push, 1, out);
        for (const ShardAction& a : out)
          REQUIRE(std::get<Acknowledged>(a.message).code == Errc::ok);
      }
    }
    if (!possible) continue;
    ++finished;
    s.check_counters();
    REQUIRE(s.applied.size() == 2);
    REQUIRE(same_bits(s.shard.values(0), expected));
  } while (std::next_permutation(schedule.begin(), schedule.end()));
  CHECK(finished > 100);
}

TEST_CASE("a snapshot at a step has the values of exactly that step, however the round goes on") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2, vector_of({8, 8, 8, 8}),
                                       {.kind = "momentum", .learning_rate = 1});
  const auto captured = s.capture(2);
  for (int64_t step = 0; step < 4; ++step)
    for (int32_t replica = 0; replica < 2; ++replica) {
      CHECK(captured->done == (step >= 2));
      s.push(replica, step, vector_of({1, 1, 1, 1}));
    }
  const ShardImage& image = captured->image;
  REQUIRE(image.slices.size() == 1);
  CHECK(image.step == 2);
  CHECK(image.slices[0].version == 2);
  CHECK(image.slices[0].next_step == 2);
  CHECK(same_bits(image.slices[0].values,
                  vector_of({8 - 1 - 1.9F, 8 - 1 - 1.9F, 8 - 1 - 1.9F, 8 - 1 - 1.9F})));
  CHECK(same_bits(image.slices[0].optimizer_accumulators[0].second,
                  vector_of({1.9F, 1.9F, 1.9F, 1.9F})));
  CHECK(s.capture(2)->outcome.code == Errc::stale);
}

TEST_CASE("a restored shard ends with the bits of one that was never interrupted") {
  for (const Optimizer& optimizer : every_optimizer()) {
    CAPTURE(describe(optimizer));
    ShardScript whole =
        ShardScript::serving(Aggregation::sync, 3, vector_of({1, 2, 3, 4}), optimizer);
    ShardImage image;
    for (int64_t step = 0; step < 6; ++step) {
      if (step == 3) image = whole.capture(3)->image;
      for (int32_t replica = 0; replica < 3; ++replica)
        whole.push(replica, step, gradient(replica, step % 2));
    }
    ShardScript other(
        {.epoch = 2, .replicas = replicas_at(3, 0), .slices = {slice_w(0, optimizer)}});
    ShardActions out;
    REQUIRE(other.shard.begin_restore(2, out));
    REQUIRE(other.shard.restore(2, image.slices, out));
    CHECK(other.shard.version(0) == 3);
    for (int64_t step = 3; step < 6; ++step)
      for (int32_t replica = 0; replica < 3; ++replica) {
        Push push = other.make_push(replica, step, gradient(replica, step % 2));
        push.sequence = step - 3;
        other.push(push);
      }
    CHECK(same_bits(other.shard.values(0), whole.shard.values(0)));
  }
}

}  // namespace
}  // namespace troupe
