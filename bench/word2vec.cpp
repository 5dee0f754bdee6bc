// word2vec [--batch B] [--steps S] [--threads N] [--corpus FILE]: skip-gram with negative samples
// (Mikolov et al. 2013) end to end: pairs are made from a text in the training thread, negatives
// are drawn in the graph. words_per_s counts the words of the text that the window has passed.
//
// 10,000 words, 100 dimensions, windows of 1 to 5 words, 5 negatives, SGD. The text is drawn by
// Zipf's law, in sentences of 20 words; --corpus writes it as lines of numbers, for other programs.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <random>

#include "bench/bench.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/session.hpp"

namespace troupe::bench {
namespace {

constexpr int64_t kWords = 10'000, kDimensions = 100, kNegatives = 5, kWindow = 5;
constexpr size_t kSentence = 20, kText = 400'000;

std::vector<int64_t> zipf_text() {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<int64_t> text(kText);
  for (int64_t& word : text)  // P(word k) is about 1 / (k + 1)
    word = std::min<int64_t>(
        kWords - 1,
        static_cast<int64_t>(std::pow(static_cast<double>(kWords + 1), unit(random))) - 1);
  return text;
}

std::vector<float> counts_of(const std::vector<int64_t>& text) {
  std::vector<float> counts(kWords, 0);
  for (const int64_t word : text) ++counts[static_cast<size_t>(word)];
  return counts;
}

void write_text(const std::vector<int64_t>& text, const std::string& path) {
  std::ofstream out(path);
  for (size_t i = 0; i < text.size(); ++i)
    out << text[i] << ((i + 1) % kSentence == 0 ? '\n' : ' ');
  if (!out.flush()) throw Error(Errc::io, "cannot write the text to \"", path, "\"");
}

// The pairs of a word and a word near it, one after the other, from the beginning again at the end.
class Pairs {
 public:
  explicit Pairs(const std::vector<int64_t>& text) : text_(text) { enter(); }
  int64_t words() const { return words_; }  // passed so far

  void next(int64_t& word, int64_t& near) {
    while (at_ >= end_) {
      ++words_;
      center_ = (center_ + 1) % text_.size();
      enter();
    }
    word = text_[center_];
    near = text_[at_++];
    if (at_ == center_) ++at_;
  }

 private:
  void enter() {
    const size_t reach = 1 + random_() % kWindow;
    const size_t begin = center_ / kSentence * kSentence;
    at_ = center_ - std::min(reach, center_ - begin);
    end_ = std::min({center_ + reach + 1, begin + kSentence, text_.size()});
    if (at_ == center_) ++at_;
  }

  const std::vector<int64_t>& text_;
  std::minstd_rand random_{7};
  size_t center_ = 0, at_ = 0, end_ = 0;
  int64_t words_ = 0;
};

// The mean loss of the pairs (words, near), with negatives by the frequencies to the power of 0.75.
Output skip_gram(Output words, Output near, const std::vector<float>& counts, int64_t batch) {
  Graph& g = *words.graph;
  const double reach = 0.5 / static_cast<double>(kDimensions);
  const Shape table{kWords, kDimensions};
  const Output of_words = parameter("words", random_uniform(g, table, -reach, reach, 1));
  const Output of_near = parameter("near", fill(g, table, 0));
  const Output weights = constant(g, Tensor::of<float>(counts, {kWords}));
  const Output drawn =
      unigram_candidates(near, weights, batch * kNegatives, {.unique = false, .seed = 1}, 0.75).ids;
  const Output others = concat({expand_dims(near, 1), reshape(drawn, {batch, kNegatives})}, 1);
  std::vector<float> is_near(static_cast<size_t>(batch * (1 + kNegatives)), 0);
  for (size_t i = 0; i < is_near.size(); i += 1 + kNegatives) is_near[i] = 1;
  const Output scores =
      matmul(gather(of_near, others), reshape(gather(of_words, words), {batch, kDimensions, 1}));
  return reduce_sum(sigmoid_cross_entropy(
             reshape(scores, {batch, 1 + kNegatives}),
             constant(g, Tensor::of<float>(is_near, {batch, 1 + kNegatives})))) /
         static_cast<double>(batch);
}

}  // namespace

int word2vec(const Options& options) {
  const int64_t batch = options.integer("batch", 256), steps = options.integer("steps", 2'000),
                threads = options.integer("threads", 1);
  if (batch < 1 || steps < 1 || threads < 1)
    throw Error(Errc::invalid_argument, "--batch, --steps and --threads want at least 1, got ",
                batch, ", ", steps, " and ", threads);
  const std::vector<int64_t> text = zipf_text();
  if (options.given("corpus")) write_text(text, options.text("corpus", ""));
  Graph graph;
  const Output words = placeholder(graph, DType::i64, {batch}),
               near = placeholder(graph, DType::i64, {batch});
  const Output loss = skip_gram(words, near, counts_of(text), batch);
  const Output update = minimize(loss, sgd(0.025 * static_cast<double>(batch)));
  Session session = Session::local(graph, {.threads = static_cast<int>(threads)});
  const Callable step = session.prepare({loss, update}, {words, near});

  Pairs pairs(text);
  std::vector<int64_t> centers(static_cast<size_t>(batch)), contexts(centers.size());
  double first = 0, last = 0;
  const auto run = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      for (size_t p = 0; p < centers.size(); ++p) pairs.next(centers[p], contexts[p]);
      last =
          step({Tensor::of<int64_t>(centers, {batch}), Tensor::of<int64_t>(contexts, {batch})})[0]
              .item<float>();
      if (first == 0) first = last;
    }
  };
  run(std::min<int64_t>(20, steps));
  // Rates of parts of the training, and the processor time of all threads: the machine may be
  // shared.
  constexpr int64_t kParts = 20;
  std::vector<double> rates, times, busy;
  for (int64_t part = 0; part < kParts; ++part) {
    const int64_t count = std::max<int64_t>(1, steps / kParts), before = pairs.words();
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t busy_before = std::clock();
    run(count);
    const double took = seconds_since(begin);
    busy.push_back(static_cast<double>(std::clock() - busy_before) / CLOCKS_PER_SEC /
                   static_cast<double>(pairs.words() - before));
    rates.push_back(static_cast<double>(pairs.words() - before) / took);
    times.push_back(took / static_cast<double>(count));
  }
  if (!(last < first))
    throw InternalError("the loss went from ", first, " to ", last, ": nothing was learned");
  const auto say = [&](const char* metric, double value, const char* unit, const char* statistic) {
    report(options, "word2vec", metric, value, unit,
           {{"batch", std::to_string(batch)},
            {"threads", std::to_string(threads)},
            {"statistic", detail::concat("\"", statistic, "\"")}});
  };
  say("step_us_best", quantile(times, 0) * 1e6, "us", "minimum");
  say("step_us", quantile(times, 0.5) * 1e6, "us", "median");
  say("words_per_s_best", quantile(rates, 1), "1/s", "maximum");
  say("words_per_s", quantile(rates, 0.5), "1/s", "median");
  say("words_per_cpu_s", 1 / quantile(busy, 0), "1/s", "maximum");
  say("pairs_per_s", static_cast<double>(batch) / quantile(times, 0.5), "1/s", "median");
  return 0;
}

}  // namespace troupe::bench
