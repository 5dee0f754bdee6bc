// Gradients by rows, from a client's requests to a shard's values: within a process, and as another
// one gets them.

#include <cmath>
#include <cstring>

#include "graph/base/repeat_rows.hpp"
#include "tests/support/data_messages.hpp"
#include "tests/support/simulation/shard_script.hpp"
#include "training/parameters/parameter_client.hpp"
#include "training/rules/row_slices.hpp"

namespace troupe {
namespace {

// Rows with different numbers, one after another.
struct SomeRows {
  SomeRows(std::vector<int64_t> which, int64_t width, float first)
      : indices(Tensor::of<int64_t>(which, {static_cast<int64_t>(which.size())})),
        values(Tensor::empty(DType::f32, {indices.size(), width})) {
    float* to = values.mutable_data<float>();
    for (int64_t i = 0; i < values.size(); ++i)
      to[i] = first + std::ldexp(1.0f, static_cast<int>(i % 23));
  }
  Gradient gradient() const { return {values, indices}; }
  Tensor indices, values;
};

Push row_push(const ShardScript& s, int32_t replica, int64_t step, const SomeRows& rows) {
  return s.make_push(replica, step, rows.gradient());
}

// The gradient as it comes from another process.
Gradient arrived(const Gradient& gradient) {
  const Push push{.gradient = gradient};
  const Encoded sent = encode(push);
  std::string why;
  REQUIRE(data_kinds()->claim(sent.kind, sent.header, why));
  const caf::message got = data_kinds()->at(sent.kind).decode(sent.header, sent.payload);
  return unpack_rows(got.get_as<Push>(0).gradient, gradient.values.dtype());
}

const Acknowledged& push_rows(ShardScript& s, int32_t replica, int64_t step, const SomeRows& rows) {
  s.last.clear();
  s.shard.push(row_push(s, replica, step, rows), 1, s.last);
  s.check_counters();
  return only<Acknowledged>(s.last);
}

Tensor pull_rows(ShardScript& s, int64_t step, const SomeRows& rows) {
  ShardActions out;
  s.shard.pull({.slice = 0,
                .replica = 0,
                .step = step,
                .epoch = s.shard.epoch(),
                .row_size = rows.values.dim(1),
                .rows = rows.indices},
               1, out);
  return only<Pulled>(out).values;
}

const Tensor kFirst = vector_of({1, -2, 3, 0.1f});

}  // namespace

TEST_CASE("rows of another process make the values that those of the same process make") {
  for (const Aggregation& rule : {Aggregation::sync, Aggregation::async})
    for (const Optimizer& optimizer : {sgd(0.3), adam(0.1), lamb(0.1)})
      for (const bool reads : {false, true}) {
        CAPTURE(describe(optimizer));
        CAPTURE(reads);
        const auto copy = [] { return Tensor::of<float>(kFirst.values<float>(), {4}); };
        ShardScript remote = ShardScript::serving(rule, 1, copy(), optimizer);
        ShardScript loose = ShardScript::serving(rule, 1, copy(), optimizer);
        for (int64_t step = 0; step < 4; ++step) {
          // A repeated row is updated twice by sgd; other optimizers get each row once.
          const std::vector<int64_t> which = optimizer.kind == "sgd"
                                                 ? std::vector<int64_t>{3, 0, 3, 3, 1, 0}
                                                 : std::vector<int64_t>{3, 1};
          const SomeRows rows(which, 1, 0.1f * static_cast<float>(step));
          const Tensor before = only<Pulled>(remote.pull(0, step)).values;
          const Tensor kept = Tensor::of<float>(before.values<float>(), {4});
          remote.last.clear();  // releases the values, as a reader of rows does
          if (reads) {
            const Tensor read = pull_rows(loose, step, rows);
            for (int64_t i = 0; i < read.size(); ++i)
              CHECK(read.data<float>()[i] == kept.data<float>()[which[static_cast<size_t>(i)]]);
          }
          remote.push(0, step, arrived(rows.gradient()));
          CHECK(push_rows(loose, 0, step, rows).version == step + 1);
          CHECK(same_bits(loose.shard.values(0), remote.shard.values(0)));
          // The repeated step reads the same values, and its push counts once.
          if (rule == Aggregation::sync) {
            CHECK(same_bits(only<Pulled>(loose.pull(0, step)).values, kept));
            loose.last.clear();
          }
          CHECK(push_rows(loose, 0, step, rows).version == step + 1);
          CHECK(same_bits(loose.shard.values(0), remote.shard.values(0)));
        }
      }
}

TEST_CASE("a row for several indices is what it is when it is pushed for each") {
  for (const int64_t width : {1, 2})
    for (const Optimizer& optimizer : {sgd(0.3), adam(0.1), lamb(0.1)})
      for (const bool reads : {false, true}) {
        CAPTURE(width);
        CAPTURE(describe(optimizer));
        CAPTURE(reads);
        const auto copy = [&] { return Tensor::of<float>(kFirst.values<float>(), {4}); };
        ShardScript each = ShardScript::serving(Aggregation::sync, 1, copy(), optimizer);
        ShardScript once = ShardScript::serving(Aggregation::sync, 1, copy(), optimizer);
        for (int64_t step = 0; step < 3; ++step) {
          // Only sgd accepts a repeated row.
          const std::vector<int64_t> which = optimizer.kind != "sgd" ? std::vector<int64_t>{1, 0}
                                             : width == 1 ? std::vector<int64_t>{3, 0, 3, 3, 1, 0}
                                                          : std::vector<int64_t>{1, 0, 1, 1};
          const auto n = static_cast<int64_t>(which.size());
          SomeRows few(which, width, 0.1f * static_cast<float>(step)), all = few;
          few.values = few.values.rows(0, n / 2);
          all.values = repeat_rows(few.values, n);
          CHECK(all.values.data<float>()[width] == few.values.data<float>()[0]);
          if (reads) pull_rows(once, step, few);
          const Tensor before = only<Pulled>(each.pull(0, step)).values;
          const Tensor kept = Tensor::of<float>(before.values<float>(), {4});
          each.last.clear();
          CHECK(push_rows(each, 0, step, all).version == step + 1);
          CHECK(push_rows(once, 0, step, few).version == step + 1);
          CHECK(same_bits(once.shard.values(0), each.shard.values(0)));
          CHECK(same_bits(only<Pulled>(once.pull(0, step)).values, kept));
          once.last.clear();
        }
      }
  ShardScript s = ShardScript::serving(Aggregation::sync, 2);
  SomeRows few({1, 2, 3, 1}, 1, 1);  // 2 for rows 1 and 2, 3 for rows 3 and 1
  few.values = few.values.rows(0, 2);
  s.last.clear();
  s.shard.push(row_push(s, 0, 0, few), 1, s.last);
  CHECK(s.last.empty());
  s.push(1, 0, vector_of({2, 1, 0, 1}));
  CHECK(same_bits(s.shard.values(0), vector_of({-1, -3, -1, -2})));
  few.values.mutable_data<float>()[1] = NAN;
  CHECK(push_rows(s, 0, 1, few).text.find("element 3 is nan") != std::string::npos);
  few.values = Tensor::zeros(DType::f32, {3, 1});  // not one number a row
  CHECK(push_rows(s, 0, 1, few).text.find("or rows of it") != std::string::npos);
  CHECK(same_bits(s.shard.values(0), vector_of({-1, -3, -1, -2})));
}

TEST_CASE("what was read of rows is what they were, unless an update came between") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 1, vector_of({1, 2, 3, 4}));
  const SomeRows rows({2, 0, 2}, 1, 0);  // gradients 1, 2, 4
  const SomeRows others({1}, 1, 6);      // 7
  CHECK(same_bits(pull_rows(s, 0, rows), Tensor::of<float>({3, 1, 3}, {3, 1})));
  push_rows(s, 0, 0, others);
  CHECK(same_bits(s.shard.values(0), vector_of({1, -5, 3, 4})));
  push_rows(s, 0, 1, rows);  // the rows were not read in this step
  CHECK(same_bits(s.shard.values(0), vector_of({-1, -5, -2, 4})));
  CHECK(same_bits(only<Pulled>(s.pull(0, 1)).values, vector_of({1, -5, 3, 4})));
  s.last.clear();
  const Tensor read = pull_rows(s, 2, rows);
  push_rows(s, 0, 2, rows);
  CHECK(same_bits(s.shard.values(0), vector_of({-3, -5, -7, 4})));
  CHECK(same_bits(only<Pulled>(s.pull(0, 2)).values, vector_of({-1, -5, -2, 4})));
  CHECK(same_bits(read, Tensor::of<float>({-2, -1, -2}, {3, 1})));  // a reader's values stay
}

TEST_CASE("rows of one replica are parked and joined with those of others") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2);
  const SomeRows mine({1, 2}, 1, 1), later({0}, 1, 4);  // 2, 3; 5
  s.last.clear();
  s.shard.push(row_push(s, 0, 1, later), 1, s.last);  // its step arrives before step 0
  CHECK(s.last.empty());
  s.shard.push(row_push(s, 0, 0, mine), 1, s.last);
  CHECK(s.last.empty());
  s.push(1, 0, arrived(SomeRows({2, 3}, 1, 6).gradient()));  // 7, 8
  CHECK(same_bits(s.shard.values(0), vector_of({0, -1, -5, -4})));
  s.push(1, 1, vector_of({1, 0, 0, 2}));
  CHECK(same_bits(s.shard.values(0), vector_of({-3, -1, -5, -5})));
}

TEST_CASE("rows that are none of the slice change nothing, and are named") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 1);
  const auto refusal = [&](const SomeRows& rows) {
    const Acknowledged got = push_rows(s, 0, 0, rows);
    CHECK(got.code != Errc::ok);
    return got.text;
  };
  CHECK(refusal(SomeRows({0, 4}, 1, 0)).find("index 4 (number 1 of 2)") != std::string::npos);
  CHECK(refusal(SomeRows({-1}, 1, 0)).find("index -1") != std::string::npos);
  CHECK(refusal(SomeRows({2}, 2, 0)).find("index 2") != std::string::npos);
  CHECK(refusal(SomeRows({0}, 3, 0)).find("or rows of it") != std::string::npos);
  SomeRows wrong({0, 1}, 1, 0);
  wrong.indices = Tensor::of<int64_t>({0, 1, 2}, {3});
  CHECK(refusal(wrong).find("or rows of it") != std::string::npos);
  CHECK(s.refused(PushRefusal::type) == 5);
  SomeRows bad({3, 1}, 1, 0);
  bad.values.mutable_data<float>()[1] = NAN;
  CHECK(refusal(bad).find("element 1 is nan") != std::string::npos);
  CHECK(s.refused(PushRefusal::not_finite) == 1);
  CHECK(same_bits(s.shard.values(0), vector_of({0, 0, 0, 0})));
  CHECK(push_rows(s, 0, 0, SomeRows({}, 1, 0)).version == 1);  // no rows, but a step
}

TEST_CASE("rows go to one shard as they are, and cut to several") {
  caf::actor_system_config config;
  caf::actor_system system{config};
  caf::scoped_actor near{system}, far{system};
  ParameterClient client(
      system, [](DType dtype, const Shape& shape) { return Tensor::zeros(dtype, shape); }, 1);
  const auto route_to = [&](std::vector<SliceRoute> slices) {
    ParameterRoutes routes{.epoch = 1};
    routes.parameters["w"] = {DType::f32, Shape{6, 2}, std::move(slices)};
    client.set_routes(routes);
  };
  std::vector<Errc> ended;
  const SomeRows rows({5, 0, 5}, 2, 0);
  const auto push = [&](const Tensor& indices) {
    client.push_rows("w", {0, 0}, indices, rows.values,
                     [&](Errc code, const std::string&, const Tensor&) { ended.push_back(code); });
  };
  const auto push_at = [](caf::scoped_actor& shard) {
    Push got;
    shard->receive([&](const Push& m) { got = m; });
    return got;
  };
  const SliceRoute here{.slice = 0,
                        .offset = 0,
                        .size = 12,
                        .task = "/job:a/task:0",
                        .shard = caf::actor_cast<ShardDoor>(near),
                        .local = true};
  const SliceRoute there{.slice = 0,
                         .offset = 0,
                         .size = 12,
                         .task = "/job:b/task:0",
                         .shard = caf::actor_cast<ShardDoor>(far)};

  route_to({here});
  push(rows.indices);
  const auto as_they_are = [&](const Push& push) {
    CHECK(push.gradient.indices.raw() == rows.indices.raw());
    CHECK(push.gradient.values.raw() == rows.values.raw());
    CHECK(push.gradient.values.shape() == Shape{3, 2});
  };
  const auto same = [](const Gradient& a, const Gradient& b) {
    CHECK(same_bits(a.indices, b.indices));
    CHECK(same_bits(a.values, b.values));
  };
  const Push first = push_at(near);
  as_they_are(first);

  route_to({there});  // the shard moves before it answers
  const Push again = push_at(far);
  CHECK(again.ticket == first.ticket);
  CHECK(again.sequence == first.sequence);
  as_they_are(again);
  same(arrived(again.gradient), rows.gradient());
  client.on(Acknowledged{.ticket = again.ticket});
  CHECK(ended == std::vector<Errc>{Errc::ok});

  push(rows.indices);
  const Push second = push_at(far);
  as_they_are(second);
  client.on(Acknowledged{.ticket = second.ticket});
  push(Tensor::zeros(DType::i64, {4}));  // three rows cannot belong to four indices
  CHECK(ended == std::vector<Errc>{Errc::ok, Errc::ok, Errc::invalid_argument});
  ended.pop_back();

  SliceRoute low = here, high = there;
  low.size = high.offset = 6;
  high.size = 6;
  high.slice = 1;
  route_to({low, high});
  push(rows.indices);
  const Push a = push_at(near), b = push_at(far);
  same(a.gradient, rows_of_slice(rows.gradient(), 0, 6));
  same(b.gradient, rows_of_slice(rows.gradient(), 6, 12));
  client.on(Acknowledged{.ticket = a.ticket});
  client.on(Acknowledged{.ticket = b.ticket});
  push(Tensor::of<int64_t>({4, 5, 0, 2, 1, 3}, {6}));  // each row for two indices
  SomeRows six({4, 5, 0, 2, 1, 3}, 2, 0);
  six.values = repeat_rows(rows.values, 6);
  const Push c = push_at(near), d = push_at(far);
  same(c.gradient, rows_of_slice(six.gradient(), 0, 6));
  same(d.gradient, rows_of_slice(six.gradient(), 6, 12));
  client.on(Acknowledged{.ticket = c.ticket});
  client.on(Acknowledged{.ticket = d.ticket});
  ended.pop_back();
  push(Tensor::of<int64_t>({0, 6, 1}, {3}));  // there are six rows
  CHECK(ended == std::vector<Errc>{Errc::ok, Errc::ok, Errc::ok, Errc::invalid_argument});
  CHECK(client.pending() == 0);
}

TEST_CASE("rows travel as one tensor and come back, those for several indices, too") {
  for (const DType dtype : {DType::f32, DType::f64, DType::i8, DType::boolean})
    for (const auto& [k, n] : std::vector<std::pair<int64_t, int64_t>>{{2, 2}, {1, 4}, {0, 0}}) {
      const Gradient sent{Tensor::zeros(dtype, {k, 3}), Tensor::zeros(DType::i64, {n})};
      CHECK(encode(Push{.gradient = sent}).payload.dtype() == DType::u8);
      const Gradient got = arrived(sent);
      CHECK(same_bits(got.values, Tensor::zeros(dtype, {n, 3})));
      CHECK(same_bits(got.indices, sent.indices));
    }
  const Gradient all = Tensor::zeros(DType::f32, {40});
  CHECK(!arrived(all).by_rows());
}

TEST_CASE("bytes that are no rows arrive as bytes") {
  const Encoded good =
      encode(Push{.gradient = {Tensor::zeros(DType::f64, {2, 3}), Tensor::zeros(DType::i64, {2})}});
  const auto is_rows = [&](const Tensor& payload) {
    const caf::message got = data_kinds()->at(good.kind).decode(good.header, payload);
    return unpack_rows(got.get_as<Push>(0).gradient, DType::f64).by_rows();
  };
  CHECK(is_rows(good.payload));
  CHECK(!is_rows({}));
  CHECK(!is_rows(Tensor::zeros(DType::f64, {24})));
  CHECK(!is_rows(Tensor::zeros(DType::u8, {15})));
  const auto with_number = [&](size_t place, int64_t number) {
    Tensor bad = Tensor::empty(DType::u8, good.payload.shape());
    std::memcpy(bad.mutable_raw(), good.payload.raw(),
                static_cast<size_t>(good.payload.byte_size()));
    std::memcpy(bad.mutable_data<uint8_t>() + 8 * place, &number, sizeof number);
    return bad;
  };
  for (const int64_t number :
       {int64_t{-1}, int64_t{0}, int64_t{4}, INT64_MAX, INT64_MIN, INT64_MAX / 8}) {
    CAPTURE(number);
    CHECK(!is_rows(with_number(0, number)));  // the size of a row
    CHECK(!is_rows(with_number(1, number)));  // the number of indices
  }
}

}  // namespace troupe
