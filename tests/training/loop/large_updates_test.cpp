// Updates of large slices: cut over lanes, written over the gradient, and answered again for a push
// without its gradient. Checks the bits, the state after a refused gradient, and that readers keep
// their values.
#include <limits>

#include "devices/memory/pool.hpp"
#include "graph/base/buffer.hpp"
#include "tests/support/helpers.hpp"
#include "tests/support/optimizers.hpp"
#include "tests/support/simulation/shard_script.hpp"
#include "training/rules/update.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

constexpr int64_t kMany = 400'003;  // three jobs of an update, not a multiple of the vector length

float number(int64_t i, int64_t salt) {
  const auto h = static_cast<uint32_t>(i * 31 + salt * 7919) * 2654435761u;
  return static_cast<float>(h >> 16) / 65536.0f - 0.5f;
}
template <class T>
Tensor numbers(int64_t n, int64_t salt) {
  Tensor t = Tensor::empty(dtype_of<T>, Shape{n});
  for (int64_t i = 0; i < n; ++i) t.mutable_data<T>()[i] = static_cast<T>(number(i, salt));
  return t;
}
Tensor copy_in(Memory& memory, const Tensor& from) {
  Tensor to = memory.make(from.dtype(), from.shape());
  std::memcpy(to.mutable_raw(), from.raw(), static_cast<size_t>(from.byte_size()));
  return to;
}
template <class T>
SliceValues state_of(const Optimizer& optimizer) {
  return {.values = numbers<T>(kMany, 1),
          .optimizer_accumulators = zero_accumulators(optimizer, dtype_of<T>, kMany)};
}

void check_same(const SliceValues& a, SliceValues& b) {
  CHECK(same_bits(a.values, b.values));
  for (size_t s = 0; s < a.optimizer_accumulators.size(); ++s)
    CHECK(same_bits(a.optimizer_accumulators[s].second, b.optimizer_accumulators[s].second));
}

// Three updates of `count` gradients each: on this thread, and on lanes over the first gradient.
template <class T>
void compare(Helpers& helpers, Memory& memory, const Optimizer& optimizer, int64_t count) {
  SliceValues plain = state_of<T>(optimizer), cut = state_of<T>(optimizer);
  for (int64_t t = 0; t < 3; ++t) {
    std::vector<Contribution> gradients, again;
    for (int64_t replica = 0; replica < count; ++replica) {
      gradients.push_back({.gradient = numbers<T>(kMany, 10 * t + replica)});
      again.push_back({.gradient = copy_in(memory, gradients.back().gradient.values)});
    }
    const Tensor before = cut.values;
    const void* const room = again[0].gradient.values.raw();
    CHECK(!apply_mean(optimizer, gradients, true, plain));
    CHECK(!apply_mean(optimizer, again, true, cut, {&helpers.lanes, again[0].gradient.values}));
    CHECK(cut.values.raw() == room);
    CHECK(cut.previous.raw() == before.raw());
    check_same(plain, cut);
    CHECK(same_bits(previous_values(plain), previous_values(cut)));
  }
}

}  // namespace

TEST_CASE("an update on lanes, over its gradient, has the bits of one alone, for every optimizer") {
  Helpers helpers(3);
  PoolMemory memory("cpu:0", int64_t{1} << 30);
  for (const Optimizer& optimizer : every_optimizer(0.1)) {
    CAPTURE(describe(optimizer));
    compare<float>(helpers, memory, optimizer, 1);
  }
  for (const Optimizer& optimizer : {sgd(0.1), adam(0.1), lamb(0.1)}) {
    CAPTURE(describe(optimizer));
    compare<float>(helpers, memory, optimizer, 3);
    compare<double>(helpers, memory, optimizer, 1);
  }
}

TEST_CASE("an update in place on lanes has the bits of one alone") {
  Helpers helpers(2);
  SliceValues plain = state_of<float>(momentum(0.1)), cut = state_of<float>(momentum(0.1));
  for (int64_t t = 0; t < 2; ++t) {
    const Contribution one{.gradient = numbers<float>(kMany, t)};
    CHECK(apply_mean(momentum(0.1), {&one, 1}, false, plain));
    CHECK(apply_mean(momentum(0.1), {&one, 1}, false, cut, {.lanes = &helpers.lanes}));
  }
  check_same(plain, cut);
}

TEST_CASE("of several elements that are not finite the first one is named, with any lanes") {
  Helpers helpers(3);
  constexpr int64_t kLarge = int64_t{3} << 20;
  Tensor g = numbers<float>(kLarge, 1);
  CHECK(!find_not_finite(g, &helpers.lanes));
  g.mutable_data<float>()[kLarge - 1] = std::numeric_limits<float>::infinity();
  CHECK(find_not_finite(g, &helpers.lanes) == "element 3145727 is inf");
  g.mutable_data<float>()[2'000'000] = -std::numeric_limits<float>::infinity();
  g.mutable_data<float>()[70'001] = std::numeric_limits<float>::quiet_NaN();
  CHECK(find_not_finite(g, &helpers.lanes) == "element 70001 is nan");
  CHECK(find_not_finite(g) == "element 70001 is nan");
}

TEST_CASE("a gradient makes room for values if nobody holds it and it fills a buffer of the pool") {
  PoolMemory memory("cpu:0", int64_t{1} << 30), other("cpu:1", int64_t{1} << 30);
  const ShardMemory pool{memory.owner(), nullptr};
  const auto makes_room = [&](Gradient g) { return room_of(g, pool).defined(); };
  CHECK(makes_room(memory.make(DType::f32, {100'000})));
  CHECK(makes_room(memory.make(DType::f32, {200, 500})));
  CHECK(!makes_room(memory.make(DType::f32, {100})));  // copying costs less
  CHECK(!room_of({memory.make(DType::f32, {100'000, 1}), Tensor::zeros(DType::i64, {100'000})},
                 pool)
             .defined());                                 // rows
  CHECK(!makes_room(other.make(DType::f32, {100'000})));  // memory of another device
  CHECK(!makes_room(Tensor::zeros(DType::f32, {100'000})));
  CHECK(!makes_room(memory.make(DType::f32, {4, 100'000}).rows(0, 1)));  // the rest would be kept
  CHECK(!makes_room(memory.make(DType::f32, {4, 100'000}).rows(1, 4)));
  CHECK(!makes_room(Tensor{}));
  const Tensor held = memory.make(DType::f32, {100'000});
  const Tensor second = held;
  CHECK(!makes_room(held));
  CHECK(!room_of(memory.make(DType::f32, {100'000}), {}).defined());
}

namespace {

// A shard of one slice of kMany elements that may keep gradients of `memory`.
struct Rig {
  explicit Rig(Aggregation rule, int32_t replicas = 1)
      : s({.rule = rule,
           .replicas = replicas_at(replicas, 0),
           .slices = {slice()},
           .lanes = &helpers.lanes,
           .memory = {memory.owner(), nullptr}}) {
    REQUIRE(s.shard.set_initial(1, 0, numbers<float>(kMany, 1), s.last));
  }
  static Slice slice() {
    Slice w = slice_w();
    w.shape = Shape{kMany};
    w.size = kMany;
    return w;
  }
  // Returns the shard's answer. The shard has the only handle of the gradient.
  Acknowledged push(int64_t step, int64_t salt) {
    Push p = s.make_push(0, step, copy_in(memory, numbers<float>(kMany, salt)));
    given = p.gradient.values.raw();
    s.last.clear();
    s.shard.push(std::move(p), 1, s.last);
    s.check_counters();
    return s.last.empty() ? Acknowledged{.code = Errc::internal} : only<Acknowledged>(s.last);
  }
  // The same push without its gradient.
  ShardActions& again(int32_t replica, int64_t step, uint64_t ticket) {
    Push p = s.make_push(replica, step, {});
    p.ticket = ticket;
    return s.push(p);
  }

  PoolMemory memory{"cpu:0", int64_t{1} << 30};
  Helpers helpers{1};
  ShardScript s;
  const void* given = nullptr;  // address of the last gradient
};

}  // namespace

TEST_CASE("a shard writes new values over the gradient, and nothing that it gave away changes") {
  for (const Aggregation& rule : {Aggregation::sync, Aggregation::async}) {
    Rig rig(rule);
    std::vector<Tensor> read, copies;  // one a version, as a slow reader holds them
    for (int64_t step = 0; step < 5; ++step) {
      read.push_back(only<Pulled>(rig.s.pull(0, step)).values);
      copies.push_back(Tensor::of<float>(read.back().values<float>(), {kMany}));
      rig.s.last.clear();
      CHECK(rig.push(step, step).version == step + 1);
      CHECK(rig.s.shard.values(0).raw() == rig.given);
      const float *w = copies.back().data<float>(), *now = rig.s.shard.values(0).data<float>();
      for (const int64_t i : {int64_t{0}, int64_t{1}, kMany - 1})
        CHECK(now[i] == w[i] - number(i, step));
    }
    for (size_t i = 0; i < read.size(); ++i) CHECK(same_bits(read[i], copies[i]));
    if (rule == Aggregation::sync)
      CHECK(same_bits(only<Pulled>(rig.s.pull(0, 4)).values, copies[4]));  // the same step again
  }
}

TEST_CASE("a large gradient that is refused leaves values and those before them as they were") {
  Rig rig(Aggregation::sync);
  const Tensor first = only<Pulled>(rig.s.pull(0, 0)).values;
  CHECK(rig.push(0, 1).code == Errc::ok);
  const Tensor second = only<Pulled>(rig.s.pull(0, 1)).values;
  const Tensor kept = Tensor::of<float>(second.values<float>(), {kMany});
  Tensor bad = copy_in(rig.memory, numbers<float>(kMany, 2));
  bad.mutable_data<float>()[kMany - 2] = std::numeric_limits<float>::quiet_NaN();
  Push p = rig.s.make_push(0, 1, std::move(bad));
  rig.s.last.clear();
  rig.s.shard.push(std::move(p), 1, rig.s.last);
  CHECK(only<Acknowledged>(rig.s.last).code == Errc::bad_data);
  CHECK(same_bits(only<Pulled>(rig.s.pull(0, 1)).values, kept));
  CHECK(same_bits(only<Pulled>(rig.s.pull(0, 0)).values, first));
}

TEST_CASE("values before an update are let go once every replica has left their step behind") {
  Rig rig(Aggregation::sync, 2);
  const auto step = [&](int64_t number) {
    for (const int32_t replica : {0, 1}) {
      Push p =
          rig.s.make_push(replica, number, copy_in(rig.memory, numbers<float>(kMany, replica)));
      rig.s.shard.push(std::move(p), 1, rig.s.last);
    }
    rig.s.last.clear();
  };
  const auto begins = [&](int32_t replica, int64_t number, int64_t first) {
    rig.s.last.clear();
    rig.s.shard.pull({.replica = replica, .step = number, .epoch = 1, .ticket = 7, .first = first},
                     1, rig.s.last);
    return only<Pulled>(rig.s.last);
  };
  const auto used = [&] { return rig.memory.stats().used_bytes / (kMany * 4); };
  step(0);
  step(1);
  REQUIRE(used() == 2);
  CHECK(begins(0, 2, 2).version == 2);
  CHECK(used() == 2);  // replica 1 may do step 1 again
  Tensor before = begins(1, 1, 1).values;
  CHECK(begins(1, 2, 2).version == 2);
  CHECK(used() == 2);  // `before` still holds them
  CHECK(before.data<float>()[0] == number(0, 1) - (number(0, 0) + number(0, 1)) / 2);
  rig.s.last.clear();
  before.reset();
  CHECK(used() == 1);
  const Pulled late = begins(1, 1, 1);
  CHECK(late.code == Errc::stale);
  CHECK_MESSAGE(late.text.find("every replica has said that it is over") != std::string::npos,
                late.text);
  step(2);
  CHECK(begins(0, 3, -1).version == 3);
  CHECK(begins(1, 2, -1).version == 2);  // names no first step, so it may go back
}

TEST_CASE("a push without its gradient asks for the answer to the one that had it") {
  Rig rig(Aggregation::sync, 2);
  CHECK(rig.push(0, 1).code == Errc::internal);  // the other replica's push is missing
  CHECK(rig.again(0, 0, 77).empty());
  CHECK(rig.s.shard.counters().duplicate == 1);
  ShardActions done = rig.s.push(1, 0, numbers<float>(kMany, 2));
  REQUIRE(done.size() == 3);  // both tickets of replica 0, and replica 1
  CHECK(std::get<Acknowledged>(done[1].message).ticket == 77);
  const Acknowledged late = only<Acknowledged>(rig.again(0, 0, 78));
  CHECK(late.code == Errc::ok);
  CHECK(late.ticket == 78);
  CHECK(late.version == 1);
  SUBCASE("one that never came is to be done again, and its number stays free") {
    const Acknowledged none = only<Acknowledged>(rig.again(0, 1, 79));
    CHECK(none.code == Errc::stale);
    CHECK(
        none.text ==
        "the gradient of w by replica 0 in step 1 was given to the shard once and has not counted; "
        "do the step again");
    rig.push(1, 3);
    CHECK(rig.s.push(1, 1, numbers<float>(kMany, 4)).size() == 2);
  }
  SUBCASE("one that waits for its turn is answered with it") {
    Push early = rig.s.make_push(0, 2, numbers<float>(kMany, 5));
    CHECK(rig.s.push(early).empty());
    CHECK(rig.again(0, 2, 80).empty());
    rig.push(1, 3);
    rig.s.push(1, 1, numbers<float>(kMany, 4));
    done = rig.s.push(1, 2, numbers<float>(kMany, 6));
    REQUIRE(done.size() == 3);
    CHECK(std::get<Acknowledged>(done[1].message).ticket == 80);
  }
  SUBCASE("one of a process that was replaced is refused") {
    Push newer = rig.s.make_push(0, 1, numbers<float>(kMany, 7));
    newer.incarnation = 5;
    newer.sequence = 0;
    CHECK(rig.s.push(newer).empty());
    CHECK(only<Acknowledged>(rig.again(0, 0, 81)).code == Errc::stale);
  }
}

namespace {

// The values after some steps of a model with large parameters, and the fetches of each step.
struct Trained {
  std::map<std::string, Tensor> values;
  std::vector<Tensor> gradients;
};
Trained train_large(int threads, const Optimizer& optimizer) {
  Graph g;
  const Output x = constant(g, numbers<float>(32 * 600, 3).reshaped({32, 600}));
  const Output w = parameter("w", constant(g, numbers<float>(600 * 700, 4).reshaped({600, 700})));
  const Output v = parameter("v", constant(g, numbers<float>(700 * 400, 5).reshaped({700, 400})));
  const Output loss = reduce_mean(square(matmul(relu(matmul(x, w)), v)));
  const std::vector<ParameterGradient> gradients = parameter_gradients(loss, {w, v});
  const Output update = apply_gradients(gradients, optimizer);
  const Output dw_of = gradients[0].gradient;
  Session session = Session::local(g, {.threads = threads});
  Trained out;
  for (int step = 0; step < 4; ++step) {
    const bool fetches = step % 2 == 1;  // then the shard shares the gradient of w
    const auto got = fetches ? session.run({loss, dw_of, update}) : session.run({loss, update});
    if (!fetches) continue;
    const Tensor& dw = got[1];
    out.gradients.push_back(Tensor::of<float>(dw.values<float>(), dw.shape()));
    session.run({loss, update});
    CHECK(same_bits(dw, out.gradients.back()));  // the program's tensor was not written to
  }
  out.values = parameter_values(session);
  return out;
}

}  // namespace

TEST_CASE("large parameters have the same bits with 1, 2 and 4 threads, fetched gradients or not") {
  for (const Optimizer& optimizer : {sgd(0.05), momentum(0.05), adam(0.01)}) {
    CAPTURE(describe(optimizer));
    const Trained one = train_large(1, optimizer);
    REQUIRE(one.values.size() == 2);
    for (const int threads : {2, 4}) {
      CAPTURE(threads);
      const Trained more = train_large(threads, optimizer);
      for (const auto& [name, value] : one.values) CHECK(same_bits(value, more.values.at(name)));
      for (size_t i = 0; i < one.gradients.size(); ++i)
        CHECK(same_bits(one.gradients[i], more.gradients[i]));
    }
  }
}

}  // namespace troupe
