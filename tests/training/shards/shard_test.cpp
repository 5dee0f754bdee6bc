// The behaviour that all rules share: states, fencing, sequences, refusals, epochs; and the
// asynchronous rule.
#include <limits>

#include "tests/support/simulation/shard_script.hpp"
#include "training/shards/shard_description.hpp"

namespace troupe {
namespace {

TEST_CASE(
    "an empty shard lets pulls wait and refuses pushes until every slice has its initial values") {
  Slice b = slice_w(1);
  b.parameter = std::string("bias");
  ShardScript s({.slices = {slice_w(), b}});
  CHECK(s.pull(0, 0).empty());
  CHECK(s.shard.waiting_for() == "pulls wait for the values of w; the shard is empty");
  CHECK(only<Acknowledged>(s.push(0, 0, vector_of({1, 1, 1, 1}))).code == Errc::stale);
  CHECK(s.refused(PushRefusal::not_serving) == 1);
  ShardActions out;
  CHECK(s.shard.set_initial(1, 0, vector_of({1, 2, 3, 4}), out));
  CHECK(out.empty());
  CHECK(s.shard.set_initial(1, 1, vector_of({5, 6, 7, 8}), out));
  CHECK(same_bits(only<Pulled>(out).values, vector_of({1, 2, 3, 4})));
  CHECK(s.shard.state() == Shard::State::serving);
}

TEST_CASE("initial values are set once, in the shard's epoch") {
  ShardScript s = ShardScript::serving(Aggregation::async, 1, vector_of({1, 2, 3, 4}));
  ShardActions out;
  CHECK(s.shard.set_initial(1, 0, vector_of({1, 2, 3, 4}), out).code == Errc::ok);
  CHECK(s.shard.set_initial(1, 0, vector_of({1, 2, 3, 5}), out).text ==
        "w has values already, of version 0; initial values are set once");
  CHECK(s.shard.set_initial(2, 0, vector_of({1, 2, 3, 4}), out).text ==
        "an initial value is for epoch 2, the shard is in epoch 1");
  CHECK(s.shard.set_initial(1, 7, vector_of({1}), out).text == "this shard has no slice 7");
  ShardScript empty({.slices = {slice_w()}});
  CHECK(empty.shard.set_initial(1, 0, vector_of({1}), out).text ==
        "the initial values of w are f32 of 1 elements; wants f32 of 4");
}

TEST_CASE("asynchronous pushes are applied at once, each a version, and pulls never wait") {
  ShardScript s = ShardScript::serving(Aggregation::async, 2);
  CHECK(only<Pulled>(s.pull(1, 0)).version == 0);
  CHECK(only<Acknowledged>(s.push(0, 0, vector_of({1, 0, 0, 0}))).version == 1);
  CHECK(only<Acknowledged>(s.push(0, 1, vector_of({1, 0, 0, 0}))).version == 2);
  CHECK(only<Acknowledged>(s.push(1, 0, vector_of({0, 1, 0, 0}))).version == 3);
  CHECK(only<Pulled>(s.pull(0, 100)).version == 3);
  CHECK(same_bits(s.shard.values(0), vector_of({-2, -1, 0, 0})));
  CHECK(s.shard.counters().applied == 3);
  CHECK(s.shard.find(0)->use().staleness.max == 2);  // replica 1 had read version 0, met 2
}

TEST_CASE("asynchronous updates are made in place unless somebody holds the values") {
  ShardScript s = ShardScript::serving(Aggregation::async, 1);
  s.push(0, 0, vector_of({1, 0, 0, 0}));
  const void* before = s.shard.values(0).raw();
  s.push(0, 1, vector_of({1, 0, 0, 0}));
  CHECK(s.shard.values(0).raw() == before);
  const Tensor held = only<Pulled>(s.pull(0, 2)).values;
  s.last.clear();
  s.push(0, 2, vector_of({1, 0, 0, 0}));
  CHECK(s.shard.values(0).raw() != before);
  CHECK(same_bits(held, vector_of({-2, 0, 0, 0})));
  CHECK(s.shard.counters().copies == 1);
}

TEST_CASE("a pull that has the newest version already moves no values") {
  ShardScript s = ShardScript::serving(Aggregation::async, 1);
  s.push(0, 0, vector_of({1, 0, 0, 0}));
  const auto same = only<Pulled>(s.pull(0, 1, 1));
  CHECK(same.version == 1);
  CHECK(!same.values.defined());
  CHECK(only<Pulled>(s.pull(0, 1, 0)).values.defined());
}

TEST_CASE("pushes that arrive early are parked and applied in sequence; a wide gap is refused") {
  ShardScript s = ShardScript::serving(Aggregation::async, 1);
  CHECK(s.push(0, 2, vector_of({0, 0, 1, 0})).empty());
  CHECK(s.push(0, 1, vector_of({0, 1, 0, 0})).empty());
  CHECK(s.push(0, 1, vector_of({0, 1, 0, 0})).empty());
  CHECK(s.shard.counters().held == 2);
  const ShardActions& out = s.push(0, 0, vector_of({1, 0, 0, 0}));
  REQUIRE(out.size() == 3);
  for (int64_t i = 0; i < 3; ++i) {
    const auto& ack = std::get<Acknowledged>(out[static_cast<size_t>(i)].message);
    CHECK(ack.ticket == ShardScript::ticket_of(0, i));
    CHECK(ack.version == i + 1);
  }
  const auto gap =
      only<Acknowledged>(s.push(0, 3 + PushOrder::kStepsInFlightMax + 1, vector_of({1, 0, 0, 0})));
  CHECK(gap.code == Errc::stale);
  CHECK(gap.text == "sequence 12 of replica 0 for w came before 3; at most 8 may be under way");
  CHECK(s.refused(PushRefusal::gap) == 1);
}

TEST_CASE(
    "a number that a replica gives to another push is that push's, also while one is parked") {
  ShardScript s = ShardScript::serving(Aggregation::async, 1);
  Push given_up = s.make_push(0, 1, vector_of({0, 1, 0, 0}));
  CHECK(s.push(given_up).empty());
  Push other = s.make_push(0, 2, vector_of({0, 0, 1, 0}));
  other.sequence = given_up.sequence;
  const auto refused = only<Acknowledged>(s.push(other));
  CHECK(refused.ticket == given_up.ticket);
  CHECK(refused.code == Errc::stale);
  CHECK(refused.text == "sequence 1 of replica 0 for w is now that of step 2");
  CHECK(s.push(other).empty());  // sent again
  const ShardActions& out = s.push(0, 0, vector_of({1, 0, 0, 0}));
  REQUIRE(out.size() == 2);
  CHECK(std::get<Acknowledged>(out[1].message).ticket == other.ticket);
  CHECK(std::get<Acknowledged>(out[1].message).version == 2);
  CHECK(s.shard.counters().held == 0);
  CHECK(s.refused(PushRefusal::incarnation) == 1);
}

TEST_CASE(
    "an asynchronous push is applied once, however often and in whatever incarnation it comes") {
  ShardScript s = ShardScript::serving(Aggregation::async, 2);
  const Push push = s.make_push(0, 0, vector_of({1, 0, 0, 0}));
  s.push(push);
  CHECK(only<Acknowledged>(s.push(push)).version == 1);
  Push again = push;
  again.incarnation = 3;
  CHECK(only<Acknowledged>(s.push(again)).code == Errc::ok);
  CHECK(s.shard.version(0) == 1);
  CHECK(s.shard.counters().duplicate == 2);
  const auto old = only<Acknowledged>(s.push(s.make_push(0, 1, vector_of({1, 0, 0, 0}))));
  CHECK(old.code == Errc::stale);
  CHECK(old.text == "incarnation 0 of replica 0 was replaced by 3");
}

TEST_CASE("steps of one replica may overtake each other; each counts once") {
  ShardScript s = ShardScript::serving(Aggregation::async, 1);
  const auto push = [&](int64_t step, int64_t sequence) {
    Push p = s.make_push(0, step, vector_of({1, 0, 0, 0}));
    p.sequence = sequence;
    return only<Acknowledged>(s.push(p)).code;
  };
  CHECK(push(1, 0) == Errc::ok);
  CHECK(push(0, 1) == Errc::ok);
  CHECK(s.shard.version(0) == 2);
  CHECK(push(0, 2) == Errc::ok);
  CHECK(s.shard.version(0) == 2);
  CHECK(push(200, 3) == Errc::ok);
  CHECK(push(100, 4) == Errc::stale);  // too old: the shard no longer knows whether it was applied
  CHECK(s.shard.replicas() ==
        std::vector<ReplicaProgress>{{.replica = 0, .next_step = 201, .counted = 1}});
}

TEST_CASE("what does not fit is refused with what would be right, and changes nothing") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2);
  struct Case {
    const char* name;
    std::function<void(Push&)> change;
    Errc code;
    PushRefusal reason;
    const char* text;
  };
  const std::vector<Case> cases = {
      {"an old epoch", [](Push& p) { p.epoch = 0; }, Errc::stale, PushRefusal::epoch,
       "a push of epoch 0 came to a shard in epoch 1; take the new routes and do the step again"},
      {"a later epoch", [](Push& p) { p.epoch = 2; }, Errc::stale, PushRefusal::epoch,
       "a push of epoch 2 came to a shard in epoch 1; take the new routes and do the step again"},
      {"an unknown slice", [](Push& p) { p.slice = 9; }, Errc::invalid_argument,
       PushRefusal::unknown, "this shard has no slice 9"},
      {"an unknown replica", [](Push& p) { p.replica = 2; }, Errc::invalid_argument,
       PushRefusal::unknown, "this shard knows no replica 2"},
      {"another size", [](Push& p) { p.gradient = vector_of({1}); }, Errc::invalid_argument,
       PushRefusal::type,
       "the gradient of w by replica 1 is f32 of 1 elements; wants f32 of 4, or rows of it"},
      {"another dtype", [](Push& p) { p.gradient = Tensor::zeros(DType::f64, {4}); },
       Errc::invalid_argument, PushRefusal::type,
       "the gradient of w by replica 1 is f64 of 4 elements; wants f32 of 4, or rows of it"},
      {"no gradient", [](Push& p) { p.gradient = {}; }, Errc::stale, PushRefusal::gap,
       "the gradient of w by replica 1 in step 0 was given to the shard once and has not counted; "
       "do "
       "the step again"},
      {"a negative step", [](Push& p) { p.step = -1; }, Errc::invalid_argument, PushRefusal::step,
       "replica 1 pushed step -1, sequence 0; both count from 0"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const int64_t before = s.refused(c.reason);
    Push push = s.make_push(1, 0, vector_of({1, 1, 1, 1}));
    c.change(push);
    const auto ack = only<Acknowledged>(s.push(push));
    CHECK(ack.code == c.code);
    CHECK(ack.text == c.text);
    CHECK(ack.ticket == push.ticket);
    CHECK(s.refused(c.reason) == before + 1);
  }
  CHECK(s.shard.version(0) == 0);
  CHECK(s.shard.counters().held == 0);
}

TEST_CASE("a gradient that is not finite is refused loudly, every time, and the round stays open") {
  constexpr float inf = std::numeric_limits<float>::infinity(),
                  nan = std::numeric_limits<float>::quiet_NaN();
  for (float bad : {nan, inf, -inf}) {
    ShardScript s = ShardScript::serving(Aggregation::sync, 1);
    for (int times = 0; times < 2; ++times) {
      const auto ack = only<Acknowledged>(s.push(0, 0, vector_of({1, 1, bad, 1})));
      CHECK(ack.code == Errc::bad_data);
      CHECK(ack.text.rfind("the gradient of w by replica 0 in step 0 is not finite: element 2 is ",
                           0) == 0);
    }
    CHECK(s.refused(PushRefusal::not_finite) == 2);
    CHECK(only<Acknowledged>(s.push(0, 0, vector_of({1, 1, 1, 1}))).version == 1);
  }
}

TEST_CASE("a new epoch answers everything that waits and lets nothing of the old one count") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2);
  const Push old = s.make_push(0, 0, vector_of({2, 2, 2, 2}));
  s.push(old);
  s.push(0, 1, vector_of({2, 2, 2, 2}));
  s.pull(0, 1);
  ShardActions out;
  const auto captured = s.capture(5);
  CHECK(!captured->done);
  REQUIRE(s.shard.set_epoch(2, out));
  CHECK(captured->done);
  CHECK(captured->outcome.code == Errc::stale);
  CHECK(out.size() == 3);
  for (const ShardAction& a : out)
    std::visit([](const auto& m) { CHECK(m.code == Errc::stale); }, a.message);
  s.check_counters();
  CHECK(s.shard.counters().held == 0);
  CHECK(only<Acknowledged>(s.push(old)).code == Errc::stale);
  CHECK(s.shard.set_epoch(1, out).text == "the order is for epoch 1, the shard is in epoch 2");
  s.push(0, 0, vector_of({2, 2, 2, 2}));
  s.push(1, 0, vector_of({2, 2, 2, 2}));
  CHECK(s.shard.version(0) == 1);
  CHECK(s.applied.size() == 1);
}

TEST_CASE("a shard that serves goes back only in a higher epoch, and then all or nothing") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 1, vector_of({1, 2, 3, 4}));
  ShardActions out;
  CHECK(s.shard.begin_restore(1, out).text ==
        "the shard serves in epoch 1; going back wants a higher one");
  SliceState state{.slice = slice_w(),
                   .version = 5,
                   .next_step = 5,
                   .values = vector_of({9, 9, 9, 9}),
                   .progress = {}};
  CHECK(s.shard.restore(1, {state}, out).code == Errc::stale);
  REQUIRE(s.shard.begin_restore(2, out));
  CHECK(s.shard.state() == Shard::State::restoring);
  CHECK(!s.shard.values(0).defined());  // there is no memory for these and the restored ones
  CHECK(s.pull(0, 5).empty());
  CHECK(s.shard.restore(2, {}, out).text == "the restored state lacks w");
  SliceState wrong = state;
  wrong.values = vector_of({1});
  CHECK(s.shard.restore(2, {wrong}, out).text ==
        "the restored values of w are f32 of 1 elements; wants f32 of 4");
  CHECK(s.shard.state() == Shard::State::restoring);
  REQUIRE(s.shard.restore(2, {state}, out));
  CHECK(same_bits(only<Pulled>(out).values, vector_of({9, 9, 9, 9})));
  CHECK(s.shard.version(0) == 5);
}

TEST_CASE("a cleared shard takes initial values again") {
  ShardScript s = ShardScript::serving(Aggregation::async, 1);
  s.push(0, 0, vector_of({1, 1, 1, 1}));
  ShardActions out;
  REQUIRE(s.shard.clear(2, Aggregation::async, replicas_at(1, 0), out));
  CHECK(s.shard.state() == Shard::State::empty);
  REQUIRE(s.shard.set_initial(2, 0, vector_of({3, 3, 3, 3}), out));
  CHECK(s.shard.version(0) == 0);
  CHECK(only<Acknowledged>(s.push(0, 0, vector_of({1, 1, 1, 1}))).version == 1);
}

TEST_CASE("a shard is cleared for replicas that the rule before could not have") {
  ShardScript s = ShardScript::serving({Aggregation::Kind::sync_backup, 1}, 2);
  ShardActions out;
  REQUIRE(s.shard.clear(2, Aggregation::sync, replicas_at(1, 0), out));
  CHECK(s.shard.rule() == Aggregation::sync);
  REQUIRE(s.shard.set_initial(2, 0, vector_of({3, 3, 3, 3}), out));
  CHECK(only<Acknowledged>(s.push(0, 0, vector_of({1, 1, 1, 1}))).version == 1);
}

TEST_CASE("the rule changes between steps, and only there") {
  ShardScript s = ShardScript::serving(Aggregation::async, 2);
  s.push(0, 0, vector_of({1, 0, 0, 0}));
  s.push(1, 0, vector_of({1, 0, 0, 0}));
  REQUIRE(s.shard.set_rule(1, Aggregation::sync, replicas_at(2, 1)));
  CHECK(s.push(0, 1, vector_of({2, 0, 0, 0})).empty());
  CHECK(s.shard.set_rule(1, Aggregation::async, replicas_at(2, 1)).text ==
        "the rule changes only between steps, and w is within step 1");
  CHECK(s.push(1, 1, vector_of({2, 0, 0, 0})).size() == 2);
  CHECK(s.shard.version(0) == 3);
  CHECK(same_bits(s.shard.values(0), vector_of({-4, 0, 0, 0})));
  CHECK(s.shard
            .set_rule(1, Aggregation::sync,
                      {{.replica = 0, .next_step = 2}, {.replica = 1, .next_step = 3}})
            .text ==
        "synchronous replicas begin together, but replica 0 is at step 2 and replica 1 at step 3");
  CHECK(s.shard.rule() == Aggregation::sync);
}

TEST_CASE(
    "a rate scale holds from the next update on, and is refused once a slice is past its step") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2);
  s.push(0, 0, vector_of({1, 0, 0, 0}));
  REQUIRE(s.shard.set_rate_scale(1, 0, 0.5));  // the round of step 0 is open
  s.push(1, 0, vector_of({1, 0, 0, 0}));
  CHECK(same_bits(s.shard.values(0), vector_of({-0.5, 0, 0, 0})));
  CHECK(s.shard.set_rate_scale(1, 0, 0.25).text == "w is at step 1, past the wanted step 0");
  CHECK(s.shard.set_rate_scale(2, 1, 0.25).text ==
        "a rate scale is for epoch 2, the shard is in epoch 1");
  CHECK(s.shard.set_rate_scale(1, 1, 0).text == "w: the rate scale is 0; wants a positive number");
  CHECK(s.shard.rate_scale() == 0.5);
  REQUIRE(s.shard.set_rate_scale(1, 1, 1));
  s.push(0, 1, vector_of({1, 0, 0, 0}));
  s.push(1, 1, vector_of({1, 0, 0, 0}));
  CHECK(same_bits(s.shard.values(0), vector_of({-1.5, 0, 0, 0})));
}

TEST_CASE("a shard with a slice that takes no rate scale changes none of its slices") {
  Slice sums = slice_w(1);
  sums.parameter = "sums";
  sums.optimizer = ftrl();
  ShardScript s({.rule = Aggregation::async, .slices = {slice_w(), sums}});
  ShardActions out;
  REQUIRE(s.shard.set_initial(1, 0, vector_of({0, 0, 0, 0}), out));
  REQUIRE(s.shard.set_initial(1, 1, vector_of({0, 0, 0, 0}), out));
  CHECK(s.shard.set_rate_scale(1, 0, 0.5).text ==
        "sums: optimizer ftrl takes no rate scale but 1, got 0.5; what it has summed holds for one "
        "learning rate");
  s.push(0, 0, vector_of({1, 0, 0, 0}));
  CHECK(same_bits(s.shard.values(0), vector_of({-1, 0, 0, 0})));
}

TEST_CASE("an untrained slice is read at any step and takes no gradient") {
  Slice table = slice_w();
  table.optimizer.reset();
  table.dtype = DType::i32;
  ShardScript s({.slices = {table}});
  ShardActions out;
  REQUIRE(s.shard.set_initial(1, 0, Tensor::of<int32_t>({1, 2, 3, 4}, Shape{4}), out));
  CHECK(only<Pulled>(s.pull(0, 1000)).values.defined());
  CHECK(only<Acknowledged>(s.push(0, 0, vector_of({1, 1, 1, 1}))).text ==
        "w is not trained and takes no gradients");
  CHECK(s.capture(12)->image.slices.at(0).next_step == 12);
  CHECK(describe_shard(s.shard).next_steps.empty());  // it says nothing of a replica's step
}

TEST_CASE("a sender that is forgotten gets no answers") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2);
  s.push(s.make_push(0, 0, vector_of({1, 1, 1, 1})), 4);
  s.pull(0, 1);
  s.shard.forget(4);
  s.shard.forget(1);
  s.check_counters();
  CHECK(s.push(s.make_push(1, 0, vector_of({1, 1, 1, 1})), 5).size() == 1);
}

TEST_CASE("one replica may push its slices from processes of different incarnations") {
  Slice other = slice_w(1);
  other.parameter = std::string("other");
  ShardScript s({.rule = Aggregation::async, .slices = {slice_w(), other}});
  ShardActions out;
  for (uint32_t slice : {0, 1})
    REQUIRE(s.shard.set_initial(1, slice, vector_of({0, 0, 0, 0}), out));
  for (int64_t step = 0; step < 3; ++step)
    for (uint32_t slice : {0, 1}) {
      Push push = s.make_push(0, step, vector_of({1, 0, 0, 0}));
      push.slice = slice;
      push.incarnation = 5 + slice;
      CHECK(only<Acknowledged>(s.push(push)).version == step + 1);
    }
}

TEST_CASE("a push that waits is refused when its replica's process is replaced") {
  ShardScript s = ShardScript::serving(Aggregation::async, 1);
  CHECK(s.push(0, 1, vector_of({1, 1, 1, 1})).empty());
  s.incarnation = 2;
  const ShardActions& out = s.push(0, 0, vector_of({1, 1, 1, 1}));
  REQUIRE(out.size() == 2);
  const auto& early = std::get<Acknowledged>(out[0].message);
  CHECK(early.ticket == ShardScript::ticket_of(0, 1));
  CHECK(early.code == Errc::stale);
  CHECK(early.text == "replica 0 has a newer incarnation, 2");
  CHECK(std::get<Acknowledged>(out[1].message).code == Errc::ok);
  CHECK(s.shard.version(0) == 1);
}

TEST_CASE("an incarnation is fenced within its epoch: in the next one any may be the first") {
  ShardScript s = ShardScript::serving(Aggregation::async, 1);
  s.incarnation = 5;
  CHECK(only<Acknowledged>(s.push(0, 0, vector_of({1, 1, 1, 1}))).code == Errc::ok);
  ShardActions out;
  REQUIRE(s.shard.set_epoch(2, out));
  s.incarnation = 3;  // of a process whose clock is behind
  Push push = s.make_push(0, 1, vector_of({1, 1, 1, 1}));
  push.sequence = 0;
  CHECK(only<Acknowledged>(s.push(push)).code == Errc::ok);
  CHECK(s.shard.version(0) == 2);
}

}  // namespace
}  // namespace troupe
