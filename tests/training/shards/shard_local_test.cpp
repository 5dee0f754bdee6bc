// The rule of local steps in a Shard: rounds, the mean of changes, outer momentum, and requests of
// rounds that are over, not begun, or begun anew.
#include <algorithm>

#include "tests/support/simulation/shard_script.hpp"
#include "training/rules/optimizer.hpp"
#include "training/rules/rule_local.hpp"

namespace troupe {
namespace {

Aggregation local(int64_t steps) { return {.kind = Aggregation::Kind::local, .bound = steps}; }

bool has_values(const Tensor& found, const std::vector<float>& wanted) {
  const auto values = found.values<float>();
  return std::equal(values.begin(), values.end(), wanted.begin(), wanted.end());
}

// The change of a replica over `steps` local steps, the last of which is `step`.
Push change_of(const ShardScript& s, int32_t replica, int64_t step, int64_t steps,
               std::initializer_list<float> values) {
  Push p = s.make_push(replica, step, vector_of(values));
  p.number = steps;
  p.sequence = step / steps;
  return p;
}

TEST_CASE("a round is one update: the values of its begin less the mean of the changes") {
  ShardScript s = ShardScript::serving(local(4), 2, vector_of({1, 2, 3, 4}));
  const Pulled begin = only<Pulled>(s.pull(0, 0));
  CHECK(begin.local_steps == 4);
  CHECK(begin.version == 0);
  s.push(change_of(s, 1, 3, 4, {4, 0, 0, 8}));
  CHECK(s.last.empty());
  CHECK(s.pull(1, 4).empty());  // waits for the end of the round
  s.push(change_of(s, 0, 3, 4, {0, 2, 0, 0}));
  CHECK(has_values(s.shard.values(0), {-1, 1, 3, 0}));
  CHECK(s.shard.version(0) == 4);  // the update stands for four steps
  REQUIRE(s.applied.size() == 1);
  CHECK(s.applied[0].steps == 4);
  CHECK(s.applied[0].optimizer == sgd(1));
  const Pulled next = only<Pulled>(s.pull(1, 4));
  CHECK(next.version == 4);
  CHECK(next.local_steps == 4);
}

TEST_CASE("a change over another number of steps than its round has is refused") {
  ShardScript s = ShardScript::serving(local(4), 1, vector_of({1, 2, 3, 4}));
  s.pull(0, 0);
  for (const int64_t steps : {int64_t{1}, int64_t{3}, INT64_MAX}) {
    Push wrong = change_of(s, 0, 3, 4, {1, 1, 1, 1});
    wrong.number = steps;
    s.push(wrong);
    CHECK(only<Acknowledged>(s.last).code == Errc::invalid_argument);
  }
  CHECK(s.shard.version(0) == 0);
}

TEST_CASE("a replica that begins a round again reads the values of its begin") {
  ShardScript s = ShardScript::serving(local(3), 1, vector_of({1, 2, 3, 4}));
  s.pull(0, 0);
  s.push(change_of(s, 0, 2, 3, {1, 1, 1, 1}));
  CHECK(s.shard.version(0) == 3);
  const Pulled again = only<Pulled>(s.pull(0, 0));
  CHECK(again.version == 0);
  CHECK(again.local_steps == 3);
  CHECK(has_values(again.values, {1, 2, 3, 4}));
  s.push(change_of(s, 0, 2, 3, {1, 1, 1, 1}));  // its change counts once
  CHECK(only<Acknowledged>(s.last).code == Errc::ok);
  CHECK(s.shard.version(0) == 3);
  // Steps within a round are no matter of the shard.
  const Pulled within = only<Pulled>(s.pull(0, 4));
  CHECK(within.code == Errc::stale);
  CHECK(within.text ==
        "step 4 is not the first step of the round of steps 3 to 5; a process that "
        "is new in a round begins it again");
  CHECK(only<Pulled>(s.pull(0, 1)).code == Errc::stale);
  s.push(change_of(s, 0, 4, 3, {1, 1, 1, 1}));
  CHECK(only<Acknowledged>(s.last).text.find("takes its changes in step 5") != std::string::npos);
}

TEST_CASE("an outer momentum is that of Nesterov, and is in the state of the shard") {
  const Aggregation rule = aggregation_from_string("diloco:2:0.5:0.75");
  ShardScript s = ShardScript::serving(rule, 1, vector_of({8, 8, 8, 8}));
  float value = 8, momentum = 0;
  for (int64_t round = 0; round < 3; ++round) {
    s.pull(0, 2 * round);
    s.push(change_of(s, 0, 2 * round + 1, 2, {1, 1, 1, 1}));
    momentum = 0.75F * momentum + 1;
    value -= 0.5F * (1 + 0.75F * momentum);
    CHECK(has_values(s.shard.values(0), {value, value, value, value}));
  }
  const SliceState state = s.shard.find(0)->image();
  REQUIRE(state.optimizer_accumulators.size() == 1);
  CHECK(state.optimizer_accumulators[0].first == kOuterMomentum);
  CHECK(state.optimizer_accumulators[0].second.data<float>()[0] == momentum);
}

TEST_CASE("gradients and changes are told apart") {
  ShardScript s = ShardScript::serving(local(1), 1);
  s.push(0, 0, vector_of({1, 1, 1, 1}));
  CHECK(only<Acknowledged>(s.last).code == Errc::invalid_argument);
  CHECK(only<Acknowledged>(s.last).text.find("read the parameter and push its gradient in one "
                                             "process") != std::string::npos);
  ShardScript sync = ShardScript::serving(Aggregation::sync, 1);
  sync.push(change_of(sync, 0, 0, 1, {1, 1, 1, 1}));
  CHECK(only<Acknowledged>(sync.last).code == Errc::stale);
  CHECK(sync.shard.version(0) == 0);
}

TEST_CASE("inner and outer optimizers take turns, and each begins anew") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 1, vector_of({0, 0, 0, 0}), adam(0.5));
  for (int64_t step = 0; step < 3; ++step) s.push(0, step, vector_of({1, 1, 1, 1}));
  REQUIRE(s.shard.change_rule(1, 3, local(3), s.last));
  CHECK(s.shard.find(0)->values().optimizer_accumulators.empty());
  Push change = change_of(s, 0, 5, 3, {1, 1, 1, 1});
  change.sequence = 3;
  s.push(change);
  CHECK(s.shard.version(0) == 6);
  REQUIRE(s.shard.change_rule(1, 6, Aggregation::sync, s.last));
  const float before = s.shard.values(0).data<float>()[0];
  Push first = s.make_push(0, 6, vector_of({2, 2, 2, 2}));
  first.sequence = 4;
  s.push(first);
  // Adam's first step is the learning rate, whatever the gradient: its bias is that of one update.
  CHECK(before - s.shard.values(0).data<float>()[0] == doctest::Approx(0.5));
  CHECK(s.shard.find(0)->image().accumulators_since == 6);
}

TEST_CASE("rules of local steps that cannot hold are refused") {
  const auto text = [](const Aggregation& rule, const Optimizer& optimizer) -> std::string {
    try {
      check_rule(rule, 2);
      check_rule(rule, optimizer, "parameter w");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  CHECK(text(local(0), sgd(1)).find("wants rounds of at least 1 step") != std::string::npos);
  CHECK(text(local(4), ftrl()).find("begins anew in each round") != std::string::npos);
  CHECK(text(aggregation_from_string("diloco:4:0.5:1"), sgd(1)).find("outer momentum from 0") !=
        std::string::npos);
  CHECK(text(local(4), adam()).empty());
}

}  // namespace
}  // namespace troupe
