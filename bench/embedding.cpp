// embedding [--rows A,B] [--bulk N] [--table 1]: rows of two tables of different size, read and
// trained in one process. A step reads 32 rows at random and updates them with adagrad;
// `of_smaller` is its time with the larger table divided by that with the smaller one, the median
// of pairs of turns. Bulk steps read, and read and update, N rows, as bytes a second beside what
// memory gives to a copy. With --table the rows are those of table_parameter() of 10^12 rows, of
// which so many exist, and `of_declared` compares it with one of as many declared rows as exist.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <sstream>

#include "bench/bench.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/session.hpp"

namespace troupe::bench {
namespace {

constexpr int64_t kWidth = 32, kRow = kWidth * sizeof(float), kFew = 32;
constexpr int kTurns = 15, kSteps = 400;

// "100k,10M"
std::vector<int64_t> sizes_of(const std::string& text) {
  std::vector<int64_t> sizes;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    std::istringstream number(word);
    int64_t rows = 0;
    std::string unit;
    number >> rows >> unit;
    const int64_t factor = unit == "M" ? 1'000'000 : unit == "k" ? 1'000 : unit.empty() ? 1 : 0;
    if (factor == 0 || rows < 1 || rows > 1'000'000'000 / factor || rows * factor < kFew)
      throw Error(Errc::invalid_argument, "--rows wants numbers such as 100k,10M, got \"", word,
                  "\"");
    sizes.push_back(rows * factor);
  }
  if (sizes.size() != 2)
    throw Error(Errc::invalid_argument, "--rows wants two numbers, got \"", text, "\"");
  return sizes;
}

constexpr int64_t kDeclared = 1'000'000'000'000;

class Table {
 public:
  // `declared`: 0: a dense table of `rows` rows; otherwise rows are made on first touch.
  Table(int64_t rows, int64_t declared)
      : rows_(rows),
        stride_(declared > 0 ? declared / rows : 1),
        session_(Session::local(graph_, {.threads = 1})),
        random_(1) {
    const Output table =
        declared == 0 ? parameter("table", fill(graph_, {rows, kWidth}, 0.5))
                      : table_parameter(graph_, "table", {declared, kWidth},
                                        {.first = {.kind = FirstRows::Kind::constant, .a = 0.5}});
    const Output ids = placeholder(graph_, DType::i64, {-1});
    const Output read = gather(table, ids);
    const Output loss = reduce_mean(square(read));
    const Output update = minimize(loss, adagrad(0.01));
    read_ = session_.prepare({reduce_sum(read)}, {ids});
    step_ = session_.prepare({loss, update}, {ids});
    if (declared == 0) return;
    constexpr int64_t kTouched = 50'000;  // at a time, until all exist
    for (int64_t first = 0; first < rows; first += kTouched) {
      Tensor some = Tensor::empty(DType::i64, {std::min(kTouched, rows - first)});
      for (int64_t k = 0; k < some.size(); ++k)
        some.mutable_data<int64_t>()[k] = (first + k) * stride_;
      step_({some});
    }
  }
  // Seconds of `steps` steps, each with `count` rows.
  double train(int64_t count, int steps) { return run(step_, count, steps); }
  double read(int64_t count, int steps) { return run(read_, count, steps); }

 private:
  double run(Callable& call, int64_t count, int steps) {
    std::vector<Tensor> ids;  // drawn before the clock runs
    for (int i = 0; i < steps; ++i) {
      ids.push_back(Tensor::empty(DType::i64, {count}));
      for (int64_t k = 0; k < count; ++k)
        ids.back().mutable_data<int64_t>()[k] =
            static_cast<int64_t>(random_() % static_cast<uint64_t>(rows_)) * stride_;
    }
    const auto begin = std::chrono::steady_clock::now();
    for (const Tensor& one : ids) call({one});
    return seconds_since(begin);
  }

  const int64_t rows_, stride_;
  Graph graph_;
  Session session_;
  Callable read_, step_;
  std::mt19937_64 random_;
};

// Bytes a second that a copy of one core reads and writes.
double copy_bytes_per_second() {
  constexpr size_t kSize = size_t{256} << 20;
  std::vector<char> from(kSize, 1), to(kSize, 2);
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), kSize);
    best = std::min(best, seconds_since(begin));
  }
  return 2.0 * kSize / best;
}

}  // namespace

int embedding(const Options& options) {
  const std::vector<int64_t> sizes = sizes_of(options.text("rows", "100k,10M"));
  const int64_t bulk = options.integer("bulk", 65'536);
  if (bulk < 1 || bulk > 10'000'000)
    throw Error(Errc::invalid_argument, "--bulk wants 1 to 10,000,000 rows, got ", bulk);
  const bool on_touch = options.integer("table", 0) != 0;
  std::vector<std::unique_ptr<Table>> tables;
  for (const int64_t rows : sizes) {
    tables.push_back(std::make_unique<Table>(rows, on_touch ? kDeclared : 0));
    tables.back()->train(kFew, kSteps);  // caches, branches and the pool grow warm
    tables.back()->train(bulk, 3);
  }
  std::vector<double> ratios;
  std::vector<std::vector<double>> times(2);
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t i : {0, 1}) times[i].push_back(tables[i]->train(kFew, kSteps) / kSteps);
    ratios.push_back(times[1].back() / times[0].back());
  }
  const auto say = [&](const char* metric, double value, const char* unit, int64_t rows,
                       const char* statistic) {
    report(options, on_touch ? "embedding_table" : "embedding", metric, value, unit,
           {{"rows", std::to_string(rows)},
            {"width", std::to_string(kWidth)},
            {"statistic", detail::concat("\"", statistic, "\"")}});
  };
  for (size_t i : {0, 1}) {
    say("step_us", quantile(times[i], 0.5) * 1e6, "us", sizes[i], "median");
    say("step_us_best", quantile(times[i], 0) * 1e6, "us", sizes[i], "minimum");
  }
  say("of_smaller", quantile(ratios, 0.5), "ratio", sizes[1], "median");
  say("of_smaller_best", quantile(times[1], 0) / quantile(times[0], 0), "ratio", sizes[1],
      "minimum");
  if (on_touch) {
    Table declared(sizes[0], sizes[0]);
    declared.train(kFew, kSteps);
    std::vector<double> of_declared;
    for (int turn = 0; turn < kTurns; ++turn)
      of_declared.push_back(tables[0]->train(kFew, kSteps) / declared.train(kFew, kSteps));
    say("of_declared", quantile(of_declared, 0.5), "ratio", sizes[0], "median");
  }
  const double memory = copy_bytes_per_second();
  for (size_t i : {0, 1}) {
    const int steps = static_cast<int>(std::max<int64_t>(3, 2'000'000 / bulk));
    const double reads = static_cast<double>(bulk) * steps / tables[i]->read(bulk, steps);
    const double both = static_cast<double>(bulk) * steps / tables[i]->train(bulk, steps);
    say("lookups_per_s", reads, "1/s", sizes[i], "mean");
    say("updates_per_s", both, "1/s", sizes[i], "mean");
    // A lookup reads a row and writes a copy of it.
    say("lookups_of_memory", reads * 2 * kRow / memory, "ratio", sizes[i], "mean");
  }
  return 0;
}

}  // namespace troupe::bench
