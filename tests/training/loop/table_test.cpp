// Training with tables whose rows are made on first touch: the bits of dense tables, on any number
// of shards and processes, checkpoints, and the refusals.
#include <cmath>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/fit.hpp"
#include "training/rules/first_rows.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

constexpr int64_t kRows = 1'000'000'000'000, kWidth = 6, kIds = 40;
const TableOptions kUniform{.first = {FirstRows::Kind::uniform, -0.5, 0.5, 3}};

// Row `id` of a small table, far apart in a large one.
int64_t far_row(int64_t id) { return (id * 617'263'118'093 + 5) % kRows; }

// The ids of a step; some occur twice, and which ones occur changes slowly.
std::vector<int64_t> ids_of(int64_t replica, int64_t step) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < 9; ++i) out.push_back((step * 2 + replica * 3 + i * i * 5) % kIds);
  return out;
}

// Two towers that read a table of 10^12 rows, or a dense one of the rows that occur.
struct TableFit {
  explicit TableFit(const Optimizer& optimizer, bool dense, const TableOptions& options = kUniform,
                    const std::vector<std::string>& devices = {"", ""}, bool changed = false,
                    bool scaled = false) {
    Tensor first = Tensor::empty(DType::f32, Shape{kIds, kWidth});
    for (int64_t id = 0; id < kIds; ++id)
      FirstRowValues(options.first, "emb")
          .fill(far_row(id), kWidth, first.mutable_data<float>() + id * kWidth);
    for (int32_t i = 0; i < 2; ++i) {
      auto scope = graph.scope({.name = detail::concat("tower", i),
                                .device = devices.at(static_cast<size_t>(i)),
                                .replica = i});
      const Output ids = placeholder(graph, DType::i64, {-1}, "ids");
      const Output emb = dense ? parameter("emb", constant(graph, first))
                               : table_parameter(graph, "emb", {kRows, kWidth}, options);
      const Output w = parameter("w", truncated_normal(graph, {kWidth, 3}, 0, 0.5, 11));
      const Output read = gather(emb, ids);
      const Output loss = reduce_mean(square(matmul(read, w) - 1.0));
      const Output update =
          changed  ? apply_gradients(changed_gradients(loss), optimizer)
          : scaled ? minimize_scaled(loss, optimizer, {.initial = 1024, .growth_interval = 3})
                   : minimize(loss, optimizer);
      all.push_back({i, loss, update, {ids}, [i, dense](int64_t step) {
                       std::vector<int64_t> rows = ids_of(i, step);
                       if (!dense)
                         for (int64_t& row : rows) row = far_row(row);
                       const auto n = static_cast<int64_t>(rows.size());
                       return std::vector<Tensor>{Tensor::of<int64_t>(rows, {n})};
                     }});
      if (i == 0) reads = read, fed = ids;
    }
  }
  static std::vector<ParameterGradient> changed_gradients(Output loss) {
    return clip_by_global_norm(add_weight_decay(parameter_gradients(loss), 0.1), 0.2);
  }
  // All rows that occur, after the training.
  Tensor rows(Session& session, bool dense) const {
    std::vector<int64_t> wanted;
    for (int64_t id = 0; id < kIds; ++id) wanted.push_back(dense ? id : far_row(id));
    return session.run({reads}, {{fed, Tensor::of<int64_t>(wanted, {kIds})}})[0];
  }
  Graph graph;
  std::vector<Tower> all;
  Output reads, fed;
};

struct Trained {
  std::string weights;
  Tensor rows;
  int64_t made = 0, forgotten = 0, there = 0;
};

Trained train_in(Session session, const TableFit& fit, const TrainOptions& options, bool dense) {
  Trained out;
  out.weights = train(session, fit.all, options).weights_sha256;
  for (const ParameterSlice& s : parameter_slices(session)) {
    out.made += s.rows_made;
    out.forgotten += s.rows_forgotten;
    out.there += s.rows;
  }
  out.rows = fit.rows(session, dense);
  return out;
}

Trained alone(const TableFit& fit, const TrainOptions& options, int shards, bool dense = false) {
  Graph& graph = const_cast<Graph&>(fit.graph);
  return train_in(Session::local(graph, {.threads = 2, .parameter_shards = shards}), fit, options,
                  dense);
}

Trained on_cluster(const Optimizer& optimizer, const TableOptions& table,
                   const TrainOptions& options, int ps) {
  std::vector<std::string> tasks = {"/job:worker/task:0", "/job:worker/task:1"};
  for (int i = 0; i < ps; ++i) tasks.push_back(detail::concat("/job:ps/task:", i));
  LocalCluster cluster(tasks);
  TableFit fit(optimizer, false, table, {"/job:worker/task:0", "/job:worker/task:1"});
  return train_in(cluster.connect(fit.graph), fit, options, false);
}

const std::vector<Optimizer> kOptimizers = {sgd(0.1), momentum(0.05), adagrad(0.1), adam(0.01),
                                            ftrl(0.1)};

}  // namespace

TEST_CASE("a table of 10^12 rows learns as a dense one of the rows that occur, to the bit") {
  for (const Optimizer& optimizer : kOptimizers) {
    CAPTURE(describe(optimizer));
    const TrainOptions options{.steps = 12};
    const TableFit dense(optimizer, true), table(optimizer, false);
    const Trained wanted = alone(dense, options, 1, true);
    // The dense digest has the dense table, too: rows say whether the values are the same.
    const Trained got = alone(table, options, 1);
    CHECK(same_bits(got.rows, wanted.rows));
    CHECK(got.there > 20);
    CHECK(got.made == got.there);
  }
}

TEST_CASE("clipping by the norm of all gradients and weight decay take the rows of a table") {
  const TrainOptions options{.steps = 6};
  const TableFit dense(adagrad(0.1), true, kUniform, {"", ""}, true);
  const TableFit table(adagrad(0.1), false, kUniform, {"", ""}, true);
  const Trained wanted = alone(dense, options, 1, true), got = alone(table, options, 2);
  CHECK(same_bits(got.rows, wanted.rows));
  CHECK(!same_bits(got.rows, alone(TableFit(adagrad(0.1), false), options, 2).rows));
}

TEST_CASE("a scaled loss trains a table as a dense one, while the scale changes") {
  const TrainOptions options{.steps = 10};
  const TableFit dense(adagrad(0.1), true, kUniform, {"", ""}, false, true);
  const TableFit table(adagrad(0.1), false, kUniform, {"", ""}, false, true);
  const Trained wanted = alone(dense, options, 1, true), got = alone(table, options, 2);
  CHECK(same_bits(got.rows, wanted.rows));
  CHECK(got.made == got.there);
  CHECK(got.there > 20);
}

TEST_CASE("a table has the same bits on 1, 2 and 4 shards and processes, with rows forgotten") {
  TableOptions forgets = kUniform;
  forgets.forget_after = 3;
  TableOptions few{.first = {FirstRows::Kind::normal, 0, 0.3, 9}, .rows_max = 64};
  for (const TableOptions& options : {kUniform, forgets, few})
    for (const Optimizer& optimizer : {sgd(0.1), adam(0.01)}) {
      CAPTURE(options.forget_after);
      CAPTURE(options.rows_max);
      const TrainOptions steps{.steps = 10};
      const Trained wanted = alone(TableFit(optimizer, false, options), steps, 1);
      CHECK((wanted.forgotten > 0) == (options.forget_after > 0 || options.rows_max > 0));
      CHECK(wanted.made - wanted.forgotten == wanted.there);
      const auto check = [&](const Trained& got) {
        CHECK(got.weights == wanted.weights);
        CHECK(same_bits(got.rows, wanted.rows));
        CHECK(got.made == wanted.made);
        CHECK(got.forgotten == wanted.forgotten);
      };
      for (const int shards : {2, 4})
        check(alone(TableFit(optimizer, false, options), steps, shards));
      for (const int ps : {1, 2, 4}) check(on_cluster(optimizer, options, steps, ps));
    }
}

TEST_CASE("a training that resumes on other shards has the rows and bits of one that went on") {
  TableOptions table{.first = {FirstRows::Kind::normal, 0, 0.3, 9}, .forget_after = 3};
  for (const bool by_number : {false, true}) {
    if (by_number) table.forget_after = 0, table.rows_max = 64;
    const Trained wanted = alone(TableFit(adagrad(0.1), false, table), {.steps = 10}, 1);
    for (const int later : {1, 3}) {
      Folder folder(detail::concat("table", by_number, later));
      TrainOptions options{.steps = 5, .checkpoint_dir = folder.path(), .checkpoint_every = 5};
      alone(TableFit(adagrad(0.1), false, table), options, 2);
      options.steps = 10;
      options.resume = true;
      const Trained got = alone(TableFit(adagrad(0.1), false, table), options, later);
      CHECK(got.weights == wanted.weights);
      CHECK(same_bits(got.rows, wanted.rows));
      CHECK(got.there == wanted.there);
    }
  }
}

TEST_CASE(
    "a checkpoint brings its rows to another session; training goes on from checkpoints alone") {
  Folder folder("table-loaded");
  const Trained trained =
      alone(TableFit(adam(0.01), false), {.steps = 5, .checkpoint_dir = folder.path()}, 2);
  TableFit fit(adam(0.01), false);
  Session session = Session::local(fit.graph, {.threads = 1});
  load_parameters(session, folder.path());
  CHECK(same_bits(fit.rows(session, false), trained.rows));
  const Refusal refusal = refusal_of([&] { train(session, fit.all, {.steps = 2}); });
  CHECK(refusal.code == Errc::invalid_argument);
  has(refusal.text, "has been trained before; go on from a checkpoint");
  has(refusal_of([&] {
        set_parameters(session, {{"w", Tensor::zeros(DType::f32, {kWidth, 3})}});
      }).text,
      "its rows would be lost");
  CHECK(same_bits(fit.rows(session, false), trained.rows));
}

TEST_CASE("under async with one replica a table has the bits of sync") {
  TableFit one(adagrad(0.1), false), other(adagrad(0.1), false);
  one.all.pop_back();
  other.all.pop_back();
  const Trained wanted = alone(one, {.steps = 8}, 2);
  const Trained got = alone(other, {.rule = Aggregation::async, .steps = 8}, 2);
  CHECK(got.weights == wanted.weights);
  CHECK(same_bits(got.rows, wanted.rows));
}

TEST_CASE("a read makes no row, and gets the first values of those that are not there") {
  TableFit fit(sgd(0.1), false);
  Session session = Session::local(fit.graph, {.threads = 1});
  const Tensor rows = fit.rows(session, false);
  std::vector<float> first(kWidth);
  FirstRowValues(kUniform.first, "emb").fill(far_row(7), kWidth, first.data());
  CHECK(std::equal(first.begin(), first.end(), rows.data<float>() + 7 * kWidth));
  for (const ParameterSlice& s : parameter_slices(session)) CHECK(s.rows == 0);
}

TEST_CASE("a tower that pushes for the replica of another one is refused before any step") {
  Graph g;
  const Output table = table_parameter(g, "emb", {kRows, kWidth});  // outside of both towers
  std::vector<Tower> towers;
  for (int32_t i = 0; i < 2; ++i) {
    const auto scope = g.scope({.replica = i});
    const Output ids = constant(g, Tensor::of<int64_t>({3, i}, {2}));
    const Output loss = reduce_mean(square(gather(table, ids)));
    towers.push_back({.replica = i, .loss = loss, .update = minimize(loss, sgd(0.1))});
  }
  Session session = Session::local(g, {.threads = 1});
  const Refusal refused = refusal_of([&] { train(session, towers, {.steps = 2}); });
  CHECK(refused.code == Errc::invalid_argument);
  has(refused.text, "for replica 0, which has a tower of its own; call parameter()");
  towers.resize(1);
  CHECK(train(session, towers, {.steps = 2}).steps == 2);
}

TEST_CASE("a table refuses requests for all of its rows") {
  Graph g;
  const Output table = table_parameter(g, "emb", {kRows, kWidth});
  const Output ids = placeholder(g, DType::i64, {-1}, "ids");
  const Output loss = reduce_mean(square(gather(table, ids)));
  has(refusal_of([&] { assign(table, table); }).text, "table whose rows are made on first touch");
  has(refusal_of([&] { moving_average(table, 0.9); }).text, "average would be of all its rows");
  has(refusal_of([&] { minimize(loss + reduce_sum(table), sgd(0.1)); }).text,
      "read it by gather() alone");
  has(refusal_of([&] {
        parameter("emb", fill(g, {3, 3}, 0));
      }).text,
      "read it by table_parameter()");
  has(refusal_of([&] {
        table_parameter(g, "emb", {kRows, kWidth}, kUniform);
      }).text,
      "declare it the same way");
  has(refusal_of([&] {
        table_parameter(g, "b", {int64_t{1} << 60, 16});
      }).text,
      "at most 2^56 elements");
  has(refusal_of([&] {
        table_parameter(g, "b", {9, 2}, {.rows_max = 7});
      }).text,
      "64 rows or more");
  has(refusal_of([&] {
        table_parameter(g, "b", {9, 2}, {}, DType::i64);
      }).text,
      "wants f32 or f64");
  const Output update = minimize(loss, adagrad(0.1));
  Session session = Session::local(g, {.threads = 1});
  const Tensor fed = Tensor::of<int64_t>({1, 5, kRows - 1}, {3});
  session.run({update}, {{ids, fed}});
  const auto refused = [&](const auto& call, const char* part) {
    const Refusal refusal = refusal_of(call);
    CHECK(refusal.code == Errc::invalid_argument);
    has(refusal.text, "emb");
    has(refusal.text, part);
  };
  refused([&] { session.run({table}, {}); }, "read it by gather() alone");
  refused([&] { session.run({reduce_sum(table)}, {}); }, "read it by gather() alone");
  refused(
      [&] {
        session.run({loss}, {{ids, Tensor::of<int64_t>({kRows}, {1})}});
      },
      "is not in [0, 1000000000000)");
  refused([&] { parameter_values(session); }, "rows of the table with gather()");
  refused([&] { parameter_value(session, "emb"); }, "gather()");
  refused([&] { save_weights(session, binary_dir() + "/table.npz"); }, "save_parameters()");
  refused([&] { set_parameters(session, {{"emb", fed}}); }, "the value is");
  session.run({update}, {{ids, fed}});  // all is as before
}

TEST_CASE("tables are refused under local steps and by optimizers of whole parameters") {
  TableFit fit(sgd(0.1), false);
  Session session = Session::local(fit.graph, {.threads = 1});
  has(refusal_of([&] {
        train(session, fit.all, {.rule = aggregation_from_string("local:2"), .steps = 4});
      }).text,
      "copies parameters whole");
  TableFit whole(lamb(0.1), false);
  Session other = Session::local(whole.graph, {.threads = 1});
  has(refusal_of([&] { train(other, whole.all, {.steps = 2}); }).text, "works by rows");
}

TEST_CASE("without room the step fails with table, rows and bytes, and training goes on") {
  Graph g;
  const Output ids = placeholder(g, DType::i64, {-1}, "ids");
  const Output loss =
      reduce_mean(square(gather(table_parameter(g, "emb", {kRows, 64}), ids) - 1.0));
  const Output update = minimize(loss, adagrad(0.1));
  Session session = Session::local(g, {.threads = 1, .memory_budget_bytes = int64_t{4} << 20});
  const auto rows = [](int64_t first, int64_t n) {
    Tensor out = Tensor::empty(DType::i64, Shape{n});
    for (int64_t i = 0; i < n; ++i) out.mutable_data<int64_t>()[i] = first + i;
    return out;
  };
  Refusal refusal;
  int64_t first = 0;
  for (; first < 100'000 && refusal.code == Errc::ok; first += 40)
    refusal = refusal_of([&] { session.run({update}, {{ids, rows(first, 40)}}); });
  CHECK(refusal.code == Errc::out_of_memory);
  has(refusal.text, "table emb has ");
  has(refusal.text, "TableOptions::rows_max");
  session.run({update}, {{ids, rows(0, 40)}});  // rows that are there
  for (const ParameterSlice& s : parameter_slices(session)) {
    CHECK(s.rows == first - 40);
    CHECK(s.bytes > s.rows * 64 * 8);
  }
}

}  // namespace troupe
