// Hashes words, trains, and tests on every tenth line.
#include "apps/regression/lines.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "apps/program/plot.hpp"
#include "troupe/data.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

using namespace troupe;

namespace {

constexpr int64_t kTowers = 2, kTestEvery = 10, kAtOnce = 4096;

// Lines as numbers of their words: those of line i are ids[begin[i]] to ids[begin[i + 1]].
struct Words {
  std::vector<int32_t> ids;
  std::vector<int64_t> begin = {0};
  std::vector<double> labels;
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

// The words of a line: letters and digits in a row, in lower case, by FNV-1a; and word 0, which
// each line has and whose weight is the intercept.
void add_line(Words& to, std::string_view line, double label, uint32_t mask) {
  constexpr uint32_t kBasis = 2166136261u, kPrime = 16777619u;
  uint32_t hash = kBasis;
  const size_t first = to.ids.size();
  to.ids.push_back(0);
  for (size_t i = 0; i <= line.size(); ++i) {
    const auto c = static_cast<unsigned char>(i < line.size() ? line[i] : ' ');
    if (std::isalnum(c) || c >= 0x80) {
      hash = (hash ^ static_cast<unsigned char>(std::tolower(c))) * kPrime;
    } else if (hash != kBasis) {
      to.ids.push_back(static_cast<int32_t>(1 + (hash & mask)));
      hash = kBasis;
    }
  }
  if (to.ids.size() == first + 1) {  // no word
    to.ids.pop_back();
    return;
  }
  to.begin.push_back(static_cast<int64_t>(to.ids.size()));
  to.labels.push_back(label);
}

// ids i32 [words], rows i32 [words], labels f32 [lines]
std::vector<Tensor> feeds_of(const Words& words, const std::vector<int64_t>& lines) {
  int64_t count = 0;
  for (const int64_t line : lines)
    count += words.begin[static_cast<size_t>(line) + 1] - words.begin[static_cast<size_t>(line)];
  Tensor ids = Tensor::empty(DType::i32, {count}), rows = Tensor::empty(DType::i32, {count});
  Tensor labels = Tensor::empty(DType::f32, {static_cast<int64_t>(lines.size())});
  auto *id = ids.mutable_data<int32_t>(), *row = rows.mutable_data<int32_t>();
  auto* label = labels.mutable_data<float>();
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto line = static_cast<size_t>(lines[i]);
    const auto words_in_it = static_cast<size_t>(words.begin[line + 1] - words.begin[line]);
    id = std::copy_n(words.ids.data() + words.begin[line], words_in_it, id);
    row = std::fill_n(row, words_in_it, static_cast<int32_t>(i));
    label[i] = static_cast<float>(words.labels[line]);
  }
  return {ids, rows, labels};
}

struct Logistic {
  std::vector<Output> feeds;
  Output logits, loss;
};

// `lines`: in a batch; the sum of the weights of a line's words is its logit.
Logistic build(Graph& graph, const LineOptions& given, int64_t lines) {
  const int64_t buckets = (int64_t{1} << given.bits) + 1;
  const Output ids = placeholder(graph, DType::i32, {-1}, "ids");
  const Output rows = placeholder(graph, DType::i32, {-1}, "rows");
  const Output labels = placeholder(graph, DType::f32, {lines}, "labels");
  const Output w = parameter("w", fill(graph, {buckets}, 0));
  const Output logits = segment_sum(gather(w, ids), rows, lines);
  return {{ids, rows, labels},
          logits,
          check_finite(reduce_mean(sigmoid_cross_entropy(logits, labels)), "the loss")};
}

// The log loss of all lines, and the share whose file is found. `asked` takes `at_once` lines,
// `asked_last` those that remain.
std::pair<double, double> test_on(Session& session, const Words& test, int64_t at_once,
                                  const Logistic& asked, const Logistic& asked_last) {
  MeanMetric loss, right;
  for (int64_t first = 0; first < test.size(); first += at_once) {
    const int64_t count = std::min(at_once, test.size() - first);
    const Logistic& model = count == at_once ? asked : asked_last;
    std::vector<int64_t> some(static_cast<size_t>(count));
    std::iota(some.begin(), some.end(), first);
    const std::vector<Tensor> fed = feeds_of(test, some);
    Feeds feeds;
    for (size_t i = 0; i < fed.size(); ++i) feeds.emplace_back(model.feeds[i], fed[i]);
    const auto got = session.run({model.logits, model.loss}, feeds);
    loss.add(got[1].item<float>(), static_cast<double>(count));
    for (int64_t i = 0; i < count; ++i)
      right.add((got[0].data<float>()[i] > 0) == (fed[2].data<float>()[i] > 0));
  }
  return {loss.value(), right.value()};
}

void check(const std::vector<std::string>& files, const LineOptions& given) {
  if (files.size() != 2)
    throw Error(Errc::invalid_argument, "--text wants two files, got ", files.size());
  if (given.bits < 1 || given.bits > 28)
    throw Error(Errc::invalid_argument, "--bits wants 1 to 28, got ", given.bits);
  if (given.batch < 1 || given.epochs < 1)
    throw Error(Errc::invalid_argument, "--batch and --epochs want at least 1, got ", given.batch,
                " and ", given.epochs);
  if (!(given.learning_rate > 0) || !(given.l1 >= 0) || !(given.l2 >= 0))
    throw Error(Errc::invalid_argument,
                "--learning-rate wants a number above 0, --l1 and --l2 0 or ", "more, got ",
                given.learning_rate, ", ", given.l1, " and ", given.l2);
}

}  // namespace

void add_line_flags(Flags& flags, LineOptions& to) {
  flags.add("bits", &to.bits, "of a word's number, with --text");
  flags.add("batch", &to.batch, "lines of a tower in a step");
  flags.add("epochs", &to.epochs, "over the lines");
  flags.add("learning-rate", &to.learning_rate, "of FTRL");
  flags.add("l1", &to.l1, "of FTRL");
  flags.add("l2", &to.l2, "of FTRL");
  flags.add("rule", &to.rule, kRules);
}

int run_lines(const ProgramOptions& given, const std::vector<std::string>& files,
              const LineOptions& lines) {
  check(files, lines);
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Words train, test;
  const auto mask = (uint32_t{1} << lines.bits) - 1;
  for (size_t f = 0; f < files.size(); ++f) {
    int64_t number = 0;
    for (const std::string& line : read_lines(files[f]))
      add_line(++number % kTestEvery ? train : test, line, static_cast<double>(f), mask);
  }
  if (train.size() < lines.batch * kTowers || test.size() == 0)
    throw Error(Errc::bad_data, files[0], " and ", files[1], " have ", train.size(),
                " lines with words to train on; at least ", lines.batch * kTowers,
                " are needed, or a smaller --batch");
  std::printf("data: %lld lines, %zu words, hashed in %.2f s; %lld lines for testing\n",
              static_cast<long long>(train.size()), train.ids.size(), seconds(),
              static_cast<long long>(test.size()));

  const Cluster cluster = given.where();
  const OutFolder out(given.out, true);
  const LogSink say = given.say();
  Tensor numbers = Tensor::zeros(DType::u8, {train.size()});
  const Batches order(
      {numbers, numbers},
      {.batch_size = lines.batch, .replicas = kTowers, .seed = static_cast<uint64_t>(given.seed)});
  Graph graph(given.process().ops);
  std::vector<Tower> towers;
  for (int64_t i = 0; i < kTowers; ++i) {
    const auto scope = graph.scope(
        {.name = detail::concat("tower", i), .device = cluster.device(i), .replica = i});
    const Logistic model = build(graph, lines, lines.batch);
    towers.push_back(
        {i, model.loss, minimize(model.loss, ftrl(lines.learning_rate, lines.l1, lines.l2)),
         model.feeds, [&, i](int64_t step) { return feeds_of(train, order.records_at(step, i)); }});
  }
  const int64_t at_once = std::min(kAtOnce, test.size()), rest = test.size() % at_once;
  const Logistic asked = build(graph, lines, at_once);
  const Logistic asked_last = rest > 0 ? build(graph, lines, rest) : asked;
  Session session = cluster.open(graph, given.process());
  TrainOptions options;
  options.rule = aggregation_from_string(lines.rule);
  options.steps = std::max<int64_t>(1, lines.epochs * train.size() / (lines.batch * kTowers));
  options.examples_per_step = lines.batch;
  Plot curve{"Which file is a line from?", "step", "loss"};
  options.on_progress = [&](const TrainProgress& p) {
    if (p.step > 0) curve.add("training", static_cast<double>(p.step), p.loss);
  };
  const auto [result, trained] =
      train_in_sight(session, towers, options, given, out, lines.rule, &curve);
  std::printf("%.0f lines/s trained; reading, hashing and training took %.2f s\n",
              static_cast<double>((result.steps - result.resumed_at) * lines.batch * kTowers) /
                  result.seconds,
              seconds());
  after_training(session, trained, [&] {
    const auto [loss, right] = test_on(session, test, at_once, asked, asked_last);
    const Tensor w = parameter_values(session).at("w");
    int64_t used = 0;
    for (const float value : w.values<float>()) used += value != 0;
    std::printf("test: log loss %.5f, accuracy %.3f %%; %lld of %lld weights are not 0\n", loss,
                100 * right, static_cast<long long>(used), static_cast<long long>(w.size()));
  });
  std::printf("curve: %s\n", write_plot(out, "curve", curve, say).c_str());
  return 0;
}
