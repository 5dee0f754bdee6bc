// Values that a program writes itself, in a shard: each write counts once, and a repeated step
// reads the same values.
#include "devices/run_context.hpp"
#include "tests/support/simulation/shard_script.hpp"
#include "troupe/op.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

// A serving shard with `values` in slice 0, which is not trained.
ShardScript untrained(Aggregation rule, int32_t replicas, Tensor values) {
  Slice slice = slice_w();
  slice.dtype = values.dtype();
  slice.shape = values.shape();
  slice.size = values.size();
  slice.optimizer = std::nullopt;
  ShardScript s({.rule = rule, .replicas = replicas_at(replicas, 0), .slices = {slice}});
  REQUIRE(s.shard.set_initial(1, 0, std::move(values), s.last));
  return s;
}

struct ReplicaWriter {  // one replica's writes, in their sequence
  ShardScript& s;
  int32_t replica = 0;
  int64_t sequence = 0;

  ShardActions& write(ParameterWrite::Kind kind, int64_t step, int64_t number, Gradient values) {
    Push push = s.make_push(replica, step, std::move(values));
    push.sequence = sequence++;
    push.write = static_cast<uint8_t>(1 + kind);
    push.number = number;
    return s.push(push);
  }
};

Gradient rows(const std::vector<int64_t>& indices, const std::vector<float>& values) {
  return rows_of(2, indices, values);
}

Tensor read(ShardScript& s, int32_t replica, int64_t step) {
  const auto pulled = only<Pulled>(s.pull(replica, step));
  CHECK(pulled.code == Errc::ok);
  return pulled.values;
}

}  // namespace

TEST_CASE("a write counts once for its replica, step and number, under both rules") {
  for (const Aggregation& rule : {Aggregation::sync, Aggregation::async}) {
    ShardScript s = untrained(rule, 1, vector_of({1, 2, 3, 4}));
    ReplicaWriter w{s};
    const Tensor ones = vector_of({1, 1, 1, 1});
    CHECK(only<Acknowledged>(w.write(ParameterWrite::add, 0, 0, ones)).code == Errc::ok);
    CHECK(only<Acknowledged>(w.write(ParameterWrite::add, 0, 1, ones)).code == Errc::ok);
    CHECK(only<Acknowledged>(w.write(ParameterWrite::add, 0, 0, ones)).code == Errc::ok);  // again
    CHECK(same_bits(s.shard.values(0), vector_of({3, 4, 5, 6})));
    CHECK(s.shard.counters().duplicate == 1);
    w.write(ParameterWrite::assign, 5, 0, vector_of({0, 1, 0, 1}));  // steps may be left out
    w.write(ParameterWrite::assign, 5, 0, vector_of({9, 9, 9, 9}));
    CHECK(same_bits(s.shard.values(0), vector_of({0, 1, 0, 1})));
    CHECK(s.shard.version(0) == 3);
  }
}

TEST_CASE("under the synchronous rule a step done again reads what was there before its writes") {
  ShardScript s = untrained(Aggregation::sync, 2, vector_of({1, 2, 3, 4}));
  ReplicaWriter w{s};
  const Tensor first = read(s, 0, 0);
  w.write(ParameterWrite::assign_rows, 0, 0, rows({1}, {7, 8}));
  w.write(ParameterWrite::add_rows, 0, 1, rows({1, 0, 1}, {1, 1, 1, 1, 1, 1}));
  CHECK(same_bits(s.shard.values(0), vector_of({2, 3, 9, 10})));
  CHECK(same_bits(first, vector_of({1, 2, 3, 4})));  // values that were sent are not written to
  CHECK(same_bits(read(s, 0, 0), vector_of({1, 2, 3, 4})));
  CHECK(same_bits(read(s, 1, 0), vector_of({1, 2, 3, 4})));
  w.write(ParameterWrite::assign, 0, 2, vector_of({0, 0, 0, 0}));
  CHECK(same_bits(read(s, 0, 0), vector_of({1, 2, 3, 4})));
  CHECK(same_bits(read(s, 0, 1), vector_of({0, 0, 0, 0})));
  w.write(ParameterWrite::add, 1, 0, vector_of({5, 5, 5, 5}));
  CHECK(same_bits(read(s, 1, 1), vector_of({0, 0, 0, 0})));
  CHECK(same_bits(read(s, 0, 2), vector_of({5, 5, 5, 5})));
  CHECK(same_bits(read(s, 0, -1), vector_of({5, 5, 5, 5})));  // outside a step: the newest values
  const auto gone = only<Pulled>(s.pull(1, 0));
  CHECK(gone.code == Errc::stale);
  CHECK_MESSAGE(gone.text.find("replica 0 has written in step 1; read them before the pushes") !=
                    std::string::npos,
                gone.text);
  const auto own = only<Pulled>(s.pull(0, 0));  // the writing replica gets another remedy
  CHECK(own.code == Errc::stale);
  CHECK_MESSAGE(
      own.text.find("replica 0 has written in step 1; steps of a replica are run in their "
                    "order: if you count them (RunOptions::step), go on with 2 or more") !=
          std::string::npos,
      own.text);
}

TEST_CASE("under the asynchronous rule every replica writes, and reads see the newest") {
  ShardScript s = untrained(Aggregation::async, 2, vector_of({0, 0, 0, 0}));
  ReplicaWriter a{s}, b{s, 1};
  a.write(ParameterWrite::add, 0, 0, vector_of({1, 0, 0, 0}));
  b.write(ParameterWrite::add, 0, 0, vector_of({1, 0, 0, 0}));
  CHECK(same_bits(read(s, 0, 0), vector_of({2, 0, 0, 0})));
}

TEST_CASE("what cannot be written is refused with the reason") {
  ShardScript s = untrained(Aggregation::sync, 2, vector_of({0, 0, 0, 0}));
  ReplicaWriter a{s}, b{s, 1};
  a.write(ParameterWrite::add, 0, 0, vector_of({1, 0, 0, 0}));
  const auto second =
      only<Acknowledged>(b.write(ParameterWrite::add, 0, 0, vector_of({1, 0, 0, 0})));
  CHECK(second.code == Errc::invalid_argument);
  CHECK_MESSAGE(second.text.find("w is written by replica 0 and by replica 1") != std::string::npos,
                second.text);
  CHECK(only<Acknowledged>(a.write(ParameterWrite::assign, 1, 0, vector_of({1, 0}))).code ==
        Errc::invalid_argument);
  CHECK(only<Acknowledged>(a.write(ParameterWrite::add_rows, 1, 0, rows({2}, {1, 1}))).code ==
        Errc::invalid_argument);
  CHECK(same_bits(s.shard.values(0), vector_of({1, 0, 0, 0})));
  ShardScript trained = ShardScript::serving(Aggregation::sync, 1);
  ReplicaWriter t{trained};
  const auto no =
      only<Acknowledged>(t.write(ParameterWrite::assign, 0, 0, vector_of({1, 0, 0, 0})));
  CHECK(no.code == Errc::invalid_argument);
  CHECK_MESSAGE(no.text.find("w is trained, so gradients alone change it") != std::string::npos,
                no.text);
}

TEST_CASE("a number in sequence that another write of its step takes over is that write's") {
  ShardScript s = untrained(Aggregation::async, 1, vector_of({0, 0, 0, 0}));
  ReplicaWriter w{s, 0, 1};
  CHECK(w.write(ParameterWrite::add, 0, 1, vector_of({1, 0, 0, 0})).empty());  // parked
  w.sequence = 1;
  const auto given_up =
      only<Acknowledged>(w.write(ParameterWrite::add, 0, 0, vector_of({0, 1, 0, 0})));
  CHECK(given_up.code == Errc::stale);
  w.sequence = 1;
  CHECK(w.write(ParameterWrite::add, 0, 0, vector_of({0, 1, 0, 0})).empty());  // sent again
  w.sequence = 1;
  CHECK(only<Acknowledged>(w.write(ParameterWrite::assign, 0, 0, vector_of({0, 0, 1, 0}))).code ==
        Errc::stale);
  w.sequence = 0;
  w.write(ParameterWrite::add, 0, 2, vector_of({0, 0, 0, 1}));
  CHECK(same_bits(s.shard.values(0), vector_of({0, 0, 1, 0})));
}

TEST_CASE("a write of a step that is older than the remembered ones is refused, not lost") {
  ShardScript s = untrained(Aggregation::async, 1, vector_of({0, 0, 0, 0}));
  ReplicaWriter w{s};
  const Tensor ones = vector_of({1, 1, 1, 1});
  CHECK(only<Acknowledged>(w.write(ParameterWrite::add, 64, 0, ones)).code == Errc::ok);
  CHECK(only<Acknowledged>(w.write(ParameterWrite::add, 1, 0, ones)).code == Errc::ok);
  const auto old = only<Acknowledged>(w.write(ParameterWrite::add, 0, 0, ones));
  CHECK(old.code == Errc::stale);
  CHECK(old.text ==
        "step 0 is 64 steps older than the newest one of replica 0; at most 63 are remembered");
  CHECK(s.refused(PushRefusal::step) == 1);
  CHECK(same_bits(s.shard.values(0), vector_of({2, 2, 2, 2})));
}

TEST_CASE("integers wrap around when they are added to") {
  const auto huge = [] { return Tensor::of<int64_t>({INT64_MAX, -1}, {2}); };
  ShardScript s = untrained(Aggregation::sync, 1, huge());
  ReplicaWriter w{s};
  w.write(ParameterWrite::add, 0, 0, Tensor::of<int64_t>({1, 1}, {2}));
  CHECK(same_bits(s.shard.values(0), Tensor::of<int64_t>({INT64_MIN, 0}, {2})));
}

TEST_CASE("a restored shard has the writes of the steps before, and takes those after") {
  ShardScript s = untrained(Aggregation::sync, 1, vector_of({0, 0, 0, 0}));
  ReplicaWriter w{s};
  const Tensor ones = vector_of({1, 1, 1, 1});
  for (int64_t step = 0; step < 3; ++step) w.write(ParameterWrite::add, step, 0, ones);
  s.last.clear();
  const ShardImage image = s.capture(3)->image;
  for (int64_t step = 3; step < 5; ++step) w.write(ParameterWrite::add, step, 0, ones);
  REQUIRE(s.shard.begin_restore(2, s.last));
  REQUIRE(s.shard.restore(2, image.slices, s.last));
  CHECK(same_bits(s.shard.values(0), vector_of({3, 3, 3, 3})));
  w.sequence = 0;
  w.write(ParameterWrite::add, 2, 0, ones);  // already in the snapshot
  CHECK(same_bits(s.shard.values(0), vector_of({3, 3, 3, 3})));
  w.write(ParameterWrite::add, 3, 0, ones);
  CHECK(same_bits(s.shard.values(0), vector_of({4, 4, 4, 4})));
}

TEST_CASE("rows are pulled as they are in the step that asks, and others are refused") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 1, vector_of({1, 2, 3, 4}));
  const auto pull = [&](int64_t step, std::vector<int64_t> which, int64_t row_size) {
    s.last.clear();
    s.shard.pull({.step = step,
                  .epoch = 1,
                  .ticket = 3,
                  .row_size = row_size,
                  .rows = Tensor::of<int64_t>(which, {static_cast<int64_t>(which.size())})},
                 1, s.last);
    s.check_counters();
    return only<Pulled>(s.last);
  };
  CHECK(same_bits(pull(0, {1, 0, 1}, 2).values, Tensor::of<float>({3, 4, 1, 2, 3, 4}, {3, 2})));
  s.push(0, 0, rows_of(1, {3}, {10}));
  CHECK(same_bits(pull(1, {3}, 1).values, Tensor::of<float>({-6}, {1, 1})));
  CHECK(same_bits(pull(0, {3}, 1).values, Tensor::of<float>({4}, {1, 1})));  // a repeated step
  CHECK(pull(1, {2}, 2).code == Errc::invalid_argument);
  CHECK(pull(1, {-1}, 2).code == Errc::invalid_argument);
  CHECK(pull(1, {0}, 3).code == Errc::invalid_argument);
}

TEST_CASE("a pull whose answer finds no memory is refused, and the shard serves on") {
  const int64_t rows = int64_t{1} << 23, row_size = rows / 2;  // 2^47 bytes in all
  ShardScript s({.rule = Aggregation::sync, .replicas = replicas_at(1, 0), .slices = {[&] {
                                                                             Slice wide = slice_w();
                                                                             wide.shape = {
                                                                                 row_size};
                                                                             wide.size = row_size;
                                                                             return wide;
                                                                           }()}});
  REQUIRE(s.shard.set_initial(1, 0, Tensor::zeros(DType::f32, {row_size}), s.last));
  s.last.clear();
  s.shard.pull({.step = 0,
                .epoch = 1,
                .ticket = 3,
                .row_size = row_size,
                .rows = Tensor::zeros(DType::i64, {rows})},
               1, s.last);
  s.check_counters();
  const auto refused = only<Pulled>(s.last);
  CHECK(refused.code == Errc::out_of_memory);
  CHECK_MESSAGE(refused.text.find("the answer to a pull of w: ") == 0, refused.text);
  CHECK(only<Pulled>(s.pull(0, 0)).values.defined());
}

}  // namespace troupe
