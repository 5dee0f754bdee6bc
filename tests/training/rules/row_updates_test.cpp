// Gradients by rows, from a client's cut to the update of a shard, and in whole trainings.
#include <mutex>

#include "tests/support/fit.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/optimizers.hpp"
#include "tests/support/simulation/shard_script.hpp"
#include "training/rules/row_slices.hpp"
#include "training/rules/update.hpp"

namespace troupe {
namespace {

Gradient rows(int64_t width, const std::vector<int64_t>& indices,
              const std::vector<float>& values) {
  return rows_of(width, indices, values);
}
std::vector<float> all_of(const Gradient& gradient, int64_t size) {
  const Tensor all = with_all_rows(gradient, size);
  return {all.data<float>(), all.data<float>() + size};
}

SliceValues state_of(const Optimizer& optimizer, int64_t n) {
  SliceValues state;
  state.values = Tensor::empty(DType::f32, Shape{n});
  for (int64_t i = 0; i < n; ++i)
    state.values.mutable_data<float>()[i] = static_cast<float>(i % 7) - 3;
  state.optimizer_accumulators = zero_accumulators(optimizer, DType::f32, n);
  return state;
}

}  // namespace

TEST_CASE("a slice gets its rows, numbered from its begin; one that cuts rows gets elements") {
  const Gradient all = rows(2, {4, 0, 3}, {1, 2, 3, 4, 5, 6});
  const std::vector<float> whole = all_of(all, 10);
  for (const auto& range : std::vector<std::pair<int64_t, int64_t>>{
           {0, 10}, {0, 6}, {6, 10}, {0, 7}, {7, 10}, {3, 4}, {2, 6}}) {
    CAPTURE(range.first);
    CAPTURE(range.second);
    const auto& [begin, end] = range;
    const Gradient part = rows_of_slice(all, begin, end);
    REQUIRE(are_like_rows(part, DType::f32, end - begin));
    CHECK(all_of(part, end - begin) ==
          std::vector<float>(whole.begin() + begin, whole.begin() + end));
  }
  const Gradient part = rows_of_slice(all, 6, 10);
  CHECK(part.row_size() == 2);
  CHECK(same_bits(part.indices, Tensor::of<int64_t>({1, 0}, {2})));
  CHECK(rows_of_slice(all, 2, 6).rows().empty());
}

TEST_CASE("an update by rows is that of these rows alone, for every optimizer") {
  for (const int64_t width : {1, 3, 80, 1500}) {
    CAPTURE(width);
    for (const Optimizer& optimizer : every_optimizer(0.1)) {
      if (wants_whole_parameter(optimizer)) continue;
      CAPTURE(describe(optimizer));
      const int64_t n = 5000 / width + 4, size = n * width;
      std::vector<int64_t> touched;
      std::vector<float> values;
      for (int64_t row = n - 1; row >= 0; row -= 2) {
        touched.push_back(row);
        for (int64_t j = 0; j < width; ++j)
          values.push_back(static_cast<float>((row + j) % 5) - 1.5f);
      }
      const Gradient gradient = rows(width, touched, values);
      SliceValues sparse = state_of(optimizer, size), dense = state_of(optimizer, size);
      const SliceValues first = state_of(optimizer, size);
      for (int update = 0; update < 3; ++update) {
        const Contribution by_rows{.gradient = gradient};
        const Contribution whole{.gradient = with_all_rows(gradient, size)};
        CHECK(apply_mean(optimizer, {&by_rows, 1}, true, sparse));
        apply_mean(optimizer, {&whole, 1}, true, dense);
      }
      CHECK(sparse.version == 3);
      const float *got = sparse.values.data<float>(), *all = dense.values.data<float>();
      bool same = true, untouched = true;
      for (int64_t i = 0; i < size; ++i) {
        const bool is_touched = (n - 1 - i / width) % 2 == 0;
        if (is_touched) same = same && got[i] == all[i];
        if (!is_touched) untouched = untouched && got[i] == first.values.data<float>()[i];
      }
      CHECK(same);
      CHECK(untouched);
    }
  }
}

TEST_CASE("LAMB takes rows as the gradient of the whole parameter that they are") {
  const Optimizer optimizer = lamb(0.1, 0.05);
  const Gradient gradient = rows(2, {4, 1}, {1, -2, 0.5F, 3});
  const Contribution by_rows{.gradient = gradient};
  const Contribution whole{.gradient = with_all_rows(gradient, 12)};
  SliceValues sparse = state_of(optimizer, 12), dense = state_of(optimizer, 12);
  for (int update = 0; update < 3; ++update) {
    CHECK(!apply_mean(optimizer, {&by_rows, 1}, true, sparse));
    apply_mean(optimizer, {&whole, 1}, true, dense);
    CHECK(same_bits(sparse.values, dense.values));
    CHECK(same_bits(previous_values(sparse), previous_values(dense)));
  }
}

TEST_CASE("the values before an update by rows are there until the next one") {
  SliceValues state = state_of(sgd(1), 6);
  const auto numbers = [](const Tensor& t) {
    return std::vector<float>(t.data<float>(), t.data<float>() + t.size());
  };
  const std::vector<float> first = numbers(state.values);
  const Contribution one{.gradient = rows(2, {2, 0}, {1, 2, 3, 4})};
  const void* const memory = state.values.raw();
  CHECK(apply_mean(sgd(1), {&one, 1}, true, state));
  CHECK(state.values.raw() == memory);  // although the old values are kept
  const std::vector<float> second = numbers(state.values);
  CHECK(second == std::vector<float>{-6, -6, -1, 0, 0, 0});
  CHECK(numbers(previous_values(state)) == first);
  CHECK(numbers(previous_values(state)) == first);
  CHECK(apply_mean(sgd(1), {&one, 1}, true, state));
  CHECK(state.previous_version == 1);
  CHECK(numbers(previous_values(state)) == second);
  const Contribution all{.gradient = Tensor::zeros(DType::f32, {6})};
  const std::vector<float> third = numbers(state.values);
  apply_mean(sgd(1), {&all, 1}, true, state);
  CHECK(numbers(previous_values(state)) == third);
}

TEST_CASE("sgd takes a row that comes twice twice, in their order, and can go back") {
  for (const int64_t width : {1, 2, 100}) {
    CAPTURE(width);
    SliceValues state = state_of(sgd(0.5), 7 * width);
    const auto row = [&](int64_t i) { return state.values.data<float>() + i * width; };
    std::vector<float> values;
    for (const float g : {1.0f, 1e8f, 3.0f, -1e8f})
      for (int64_t j = 0; j < width; ++j) values.push_back(g);
    const Contribution one{.gradient = rows(width, {2, 5, 2, 5}, values)};
    const Tensor before = Tensor::of<float>(state.values.values<float>(), {7 * width});
    const float two = row(2)[0], five = row(5)[0];
    CHECK(apply_mean(sgd(0.5), {&one, 1}, true, state));
    CHECK(row(2)[0] == two - 0.5f - 1.5f);
    const float there = five - 0.5f * 1e8f;  // rounded
    CHECK(row(5)[0] == there + 0.5f * 1e8f);
    CHECK(same_bits(previous_values(state), before));
  }
}

TEST_CASE("sgd changes rows of any width one after the other, and keeps what they were") {
  for (const int64_t width : {1, 2, 17, 100, 1100})
    for (const int64_t times : {1, 3})  // indices for each row of the gradient
      for (const bool keeps : {false, true}) {
        CAPTURE(width);
        CAPTURE(times);
        CAPTURE(keeps);
        const Optimizer optimizer = sgd(0.1);
        SliceValues state = state_of(optimizer, 40 * width);
        const float* const at = state.values.data<float>();
        std::vector<float> expected(at, at + state.values.size());
        const std::vector<float> before = expected;
        std::vector<int64_t> indices;
        for (int64_t i = 0; i < 12; ++i) indices.push_back(i * i % 23 + (i % 4 == 0 ? 0 : 1));
        std::vector<float> gradient(static_cast<size_t>(12 / times * width));
        for (size_t i = 0; i < gradient.size(); ++i)
          gradient[i] = static_cast<float>(i * 37 % 101) / 7 - 5;
        for (size_t i = 0; i < indices.size(); ++i)
          for (int64_t j = 0; j < width; ++j) {
            const auto from = static_cast<int64_t>(i) / times * width + j;
            expected[static_cast<size_t>(indices[i] * width + j)] -=
                0.1f * gradient[static_cast<size_t>(from)];
          }
        const Gradient pushed(Tensor::of<float>(gradient, {12 / times, width}),
                              Tensor::of<int64_t>(indices, {12}));
        const Contribution one{0, 0, 1, pushed};
        CHECK(apply_mean(optimizer, {&one, 1}, keeps, state));
        CHECK(same_bits(state.values, Tensor::of<float>(expected, {40 * width})));
        if (keeps)
          CHECK(same_bits(previous_values(state), Tensor::of<float>(before, {40 * width})));
      }
}

TEST_CASE("values that somebody holds are copied before rows of them are updated") {
  SliceValues state = state_of(sgd(1), 4);
  const Tensor held = state.values;
  const Contribution one{.gradient = rows(1, {3}, {5})};
  CHECK(!apply_mean(sgd(1), {&one, 1}, false, state));
  CHECK(held.data<float>()[3] == 0);
  CHECK(state.values.data<float>()[3] == -5);
  CHECK(same_bits(previous_values(state), held));
}

TEST_CASE("a shard takes the mean of rows in replica order, also beside a whole gradient") {
  const auto run = [](std::vector<Gradient> gradients, std::vector<int32_t> order) {
    ShardScript s = ShardScript::serving(Aggregation::sync, 3, vector_of({0, 0, 0, 0}));
    for (const int32_t replica : order) s.push(replica, 0, gradients[static_cast<size_t>(replica)]);
    REQUIRE(s.shard.version(0) == 1);
    return s.shard.values(0);
  };
  const std::vector<Gradient> by_rows = {rows(1, {1, 3}, {3, 0.1f}), rows(2, {1}, {1e8f, 0.7f}),
                                         rows(1, {2, 1}, {-1e8f, 6})};
  const float sum = ((0.0f + 1e8f) + -1e8f) / 3;
  const Tensor expected = vector_of({0, -(3.0f + 6) / 3, -sum, -(0.1f + 0.7f) / 3});
  CHECK(same_bits(run(by_rows, {0, 1, 2}), run(by_rows, {2, 1, 0})));
  const Tensor got = run(by_rows, {1, 0, 2});
  for (int i = 0; i < 4; ++i) CHECK(got.data<float>()[i] == expected.data<float>()[i]);
  const Tensor mixed = run({by_rows[0], vector_of({1, 0, 0, 3}), by_rows[2]}, {2, 0, 1});
  CHECK(mixed.data<float>()[0] == -1.0f / 3);
  CHECK(mixed.data<float>()[1] == -3);
  CHECK(mixed.data<float>()[3] == -(0.1f + 3) / 3);
}

TEST_CASE("a replica without rows counts in their mean") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2, vector_of({0, 0, 0, 0}));
  s.push(0, 0, rows(1, {1, 3}, {3, 1}));
  s.push(1, 0, rows(1, {}, {}));
  REQUIRE(s.shard.version(0) == 1);
  CHECK(same_bits(s.shard.values(0), vector_of({0, -1.5f, 0, -0.5f})));
}

TEST_CASE("a shard counts rows once, answers the step before, and refuses what is none") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 1, vector_of({1, 2, 3, 4}));
  s.push(0, 0, rows(1, {2}, {1}));
  CHECK(only<Acknowledged>(s.push(0, 0, rows(1, {2}, {1}))).version == 1);  // the same push again
  CHECK(same_bits(s.shard.values(0), vector_of({1, 2, 2, 4})));
  CHECK(same_bits(only<Pulled>(s.pull(0, 0)).values, vector_of({1, 2, 3, 4})));
  CHECK(same_bits(only<Pulled>(s.pull(0, 1)).values, vector_of({1, 2, 2, 4})));
  CHECK(only<Acknowledged>(s.push(0, 1, rows(1, {4}, {1}))).code == Errc::invalid_argument);
  CHECK(s.refused(PushRefusal::type) == 1);
  const Acknowledged bad = only<Acknowledged>(s.push(0, 1, rows(2, {1, 0}, {1, 2, 3, NAN})));
  CHECK(bad.code == Errc::bad_data);
  CHECK_MESSAGE(bad.text.find("element 1 is nan of w") != std::string::npos, bad.text);
  CHECK(same_bits(s.shard.values(0), vector_of({1, 2, 2, 4})));
}

// ---- whole trainings ----

namespace {

// Towers that gather rows of a table and fit them; with `whole`, they push the whole gradient.
struct Rows {
  Rows(const Optimizer& optimizer, int towers, bool whole, int64_t count = 20'000) {
    for (int i = 0; i < towers; ++i) {
      const auto scope = graph.scope({.name = detail::concat("tower", i), .replica = i});
      const Output ids = placeholder(graph, DType::i64, {3, 2}, "ids");
      const Output table = parameter("table", fill(graph, {count, 2}, 0.5, DType::f64));
      const Output loss =
          reduce_mean(square(gather(table, ids) - reshape(cast(ids, DType::f64), {3, 2, 1})));
      const auto slopes = parameter_gradients(loss);
      const Output update =
          whole ? push_gradient(slopes[0].parameter, slopes[0].gradient, optimizer, slopes[0].reads)
                : apply_gradients(slopes, optimizer);
      const int64_t far = count - 7;
      all.push_back({i, loss, update, {ids}, [i, far](int64_t step) {
                       return std::vector<Tensor>{Tensor::of<int64_t>(
                           {step % 5, far, i, step % 5, step + i, far / 2}, {3, 2})};
                     }});
    }
  }
  Graph graph;
  std::vector<Tower> all;
};

}  // namespace

TEST_CASE(
    "trainings by rows and with whole gradients end with the same bits where zeros do nothing") {
  for (const Optimizer& optimizer : {adagrad(0.2), adagrad(0.7)})
    for (const int towers : {1, 2}) {
      CAPTURE(describe(optimizer));
      CAPTURE(towers);
      const auto run = [&](bool whole) {
        Rows model(optimizer, towers, whole);
        Session session = Session::local(model.graph, {.threads = 2});
        return train(session, model.all, steps(9)).weights_sha256;
      };
      CHECK(run(false) == run(true));
    }
}

TEST_CASE("a training of sums of rows ends with the same bits with passes and without") {
  const auto trained = [](const Optimizer& optimizer, bool passes) {
    Graph g;
    const Output w = parameter("w", random_uniform(g, {50, 3}, -1, 1, 7));
    const Output ids = placeholder(g, DType::i64, {-1, 4}, "ids");
    const Output wanted = placeholder(g, DType::f32, {-1, 3}, "wanted");
    const Output sums = reduce_sum(gather(w, ids), {.axes = {1}});
    const Output loss = reduce_mean(square(sums - wanted));
    Session session = Session::local(g, {.threads = 2, .passes = passes});
    const Callable step = session.prepare({loss, minimize(loss, optimizer)}, {ids, wanted});
    std::vector<float> losses;
    for (int64_t s = 0; s < 8; ++s) {
      const int64_t batch = 5 + s % 2;  // two sizes in turn
      Tensor which = Tensor::empty(DType::i64, {batch, 4});
      for (int64_t i = 0; i < which.size(); ++i)
        which.mutable_data<int64_t>()[i] = (i * i + 7 * batch) % 50;  // some rows repeat
      const Tensor zeros = Tensor::zeros(DType::f32, {batch, 3});
      losses.push_back(step({which, zeros})[0].item<float>());
    }
    CHECK(losses[6] < losses[0]);
    CHECK(losses[7] < losses[1]);
    return losses;
  };
  for (const Optimizer& optimizer : {sgd(0.05), adagrad(0.05)})
    CHECK(trained(optimizer, true) == trained(optimizer, false));
}

TEST_CASE("a training by rows is resumed, on any layout, to the same bits") {
  Folder folder("train-rows");
  const auto run = [](Session& session, Rows& model, TrainOptions options) {
    return train(session, model.all, options);
  };
  const Optimizer optimizer = adam(0.05);
  Rows whole(optimizer, 2, false);
  Session local = Session::local(whole.graph, {.threads = 2});
  const std::string expected = run(local, whole, steps(8)).weights_sha256;
  // 320 KB: slices of two tasks, cut between rows.
  const LocalCluster cluster({"/job:ps/task:0", "/job:ps/task:1"});
  TrainOptions options{.steps = 5, .checkpoint_dir = folder.path()};
  {
    Rows model(optimizer, 2, false);
    Session session = cluster.connect(model.graph);
    run(session, model, options);
  }
  options.steps = 8;
  options.resume = true;
  Rows model(optimizer, 2, false);
  Session session = Session::local(model.graph, {.threads = 1});
  const TrainResult resumed = run(session, model, options);
  CHECK(resumed.resumed_at == 5);
  CHECK(resumed.weights_sha256 == expected);
}

TEST_CASE("rows that are filled with zeros after all are warned of once") {
  std::mutex mutex;
  std::vector<std::string> warnings;
  Rows model(sgd(0.1), 2, true);
  ProcessOptions options{.threads = 1};
  options.log = [&](LogLevel level, const std::string& line) {
    const std::lock_guard lock(mutex);
    if (level == LogLevel::warn && line.find("pushed as zeros") != line.npos)
      warnings.push_back(line);
  };
  Session session = Session::local(model.graph, options);
  train(session, model.all, steps(3));
  const std::lock_guard lock(mutex);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("parameter=table") != std::string::npos);
}

}  // namespace troupe
