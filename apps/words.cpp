// words: vectors of words that stand near the same others, learned from a text by skip-gram with
// negative samples (Mikolov et al. 2013).
//
// A line of the text is a context of its own. Each tower reads lines where it runs, draws pairs of
// words and their negatives, and pulls and pushes the rows of these words alone. The cosines of
// vectors are compared with people's judgements of similarity.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "apps/program/checkpoints.hpp"
#include "apps/program/plot.hpp"
#include "apps/program/program.hpp"
#include "apps/program/tokens.hpp"
#include "apps/words/answers.hpp"
#include "apps/words/similarity.hpp"
#include "apps/words/skip_gram.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

using namespace troupe;

namespace {

constexpr int64_t kDraws = 1'000'000;  // lines that a draw chooses from
constexpr int64_t kAtOnce = 64;        // lines, in validation
constexpr int64_t kAhead = 16;         // batches that are made ahead, as steps are short
constexpr double kLastRate = 0.0001;   // that the learning rate falls to, as in word2vec

struct Options : ProgramOptions {
  SkipGram net;
  std::string tokens = "words", rule = "async";
  std::vector<std::string> similarity, near;
  int64_t window = 5, min_count = 5, epochs = 5, batch = 32, replicas = 2, held_out = 100;
  double subsample = 1e-3, learning_rate = 0.025;
};

struct Text {
  Source train;  // of batches
  std::optional<Source> validation;
  Vocabulary vocabulary;
  std::vector<int64_t> counts;  // by id
  int64_t words = 0;            // with those that are left out
  std::string work;             // a line that says which words these are, for require_work()
};

// Counts the words of --data, and leaves the vocabulary in --out for all that read the sources. Its
// name has its fingerprint, so that of an earlier training stays.
Text load(const Options& given, const OutFolder& out) {
  if (!given.data) throw Error(Errc::invalid_argument, "--data is missing; it names a text");
  const std::string path = std::filesystem::absolute(*given.data).string();
  const bool spaced = given.tokens == "whitespace";
  const WordCounts counted = count_words({path}, spaced ? TokenKind::whitespace : TokenKind::words);
  const Vocabulary vocabulary = Vocabulary::of(counted, {.min_count = given.min_count});
  const int64_t known = vocabulary.size() - Vocabulary::kEnd - 1;
  if (known < 2)
    throw Error(Errc::bad_data, path, " has ", counted.size(), " different words; ", known,
                " stand there at least ", given.min_count,
                " times, and 2 are needed, from more text or with a smaller --min-count");
  const std::string work = work_of(vocabulary);
  if (given.resume) require_work(out, work);
  const std::string words = token_file(out, "vocabulary", vocabulary);
  vocabulary.write(words);
  std::vector<int64_t> counts = vocabulary.counts(counted);
  const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  std::fill_n(counts.begin(), Vocabulary::kEnd + 1, 0);
  const Source lines = Source::of("lines", {{"paths", std::vector<std::string>{path}}})
                           .map("tokenize", {{"kind", given.tokens},
                                             {"vocabulary", words},
                                             {"fingerprint", fingerprint_of(vocabulary)}})
                           .cache();
  SourceArgs pairs = {{"window", given.window}, {"per", std::string("record")}};
  if (given.subsample > 0) pairs.insert({{"subsample", given.subsample}, {"counts", counts}});
  const auto seed = static_cast<uint64_t>(given.seed);
  const auto batches = [&](const Source& from, int64_t size) {
    return from.batch(size, {.pad = true}).map("skip_grams", pairs, seed).prefetch(1, kAhead);
  };
  const bool all_train = given.held_out == 0;
  const Source train = all_train ? lines : lines.but_every(given.held_out);
  return {batches(train.shuffle(kDraws, seed), given.batch),
          all_train ? std::nullopt : std::optional(batches(lines.every(given.held_out), kAtOnce)),
          vocabulary,
          counts,
          all,
          work};
}

void check(const Options& given) {
  if (given.tokens != "words" && given.tokens != "whitespace")
    throw Error(Errc::invalid_argument, "--tokens is words or whitespace, got ", given.tokens);
  aggregation_from_string(given.rule);
  const std::pair<const char*, int64_t> least_one[] = {
      {"dim", given.net.dim},       {"negatives", given.net.negatives}, {"drawn", given.net.drawn},
      {"window", given.window},     {"epochs", given.epochs},           {"batch", given.batch},
      {"replicas", given.replicas}, {"min-count", given.min_count}};
  for (const auto& [name, value] : least_one)
    if (value < 1)
      throw Error(Errc::invalid_argument, "--", name, " wants at least 1, got ", value);
  if (given.held_out < 0 || given.held_out == 1)
    throw Error(Errc::invalid_argument, "--held-out wants 0, or 2 and more, got ", given.held_out);
  if (!(given.subsample >= 0 && given.subsample <= 1) || !(given.learning_rate > kLastRate))
    throw Error(Errc::invalid_argument, "--subsample wants a share from 0 to 1, and ",
                "--learning-rate more than ", kLastRate);
}

// The words whose neighbours are shown: those of --near, or some frequent ones.
std::vector<int64_t> shown(const Options& given, const Vocabulary& vocabulary) {
  std::vector<int64_t> out;
  for (const std::string& word : given.near) {
    out.push_back(vocabulary.id(word));
    if (out.back() <= Vocabulary::kEnd)
      throw Error(Errc::invalid_argument, "--near ", word, ": the text does not have this word ",
                  given.min_count, " times");
  }
  for (int64_t i = 50; given.near.empty() && i <= 200; i += 50)
    if (i < vocabulary.size()) out.push_back(i);
  return out;
}

std::vector<Tower> towers(Graph& graph, const Cluster& cluster, const Text& text,
                          const SkipGram& net, const Options& given) {
  // A pair counts as much under both rules, although the synchronous one divides by the replicas.
  const bool sync = aggregation_from_string(given.rule).by_steps();
  const int64_t updates = updates_in(given.epochs * text.train.steps_per_epoch(given.replicas),
                                     given.rule, given.replicas);
  const Optimizer optimizer =
      sgd(given.learning_rate * static_cast<double>(sync ? given.replicas : 1))
          .with(polynomial_decay(updates, kLastRate / given.learning_rate));
  std::vector<Tower> out;
  for (int64_t i = 0; i < given.replicas; ++i) {
    const auto scope = graph.scope(
        {.name = detail::concat("tower", i), .device = cluster.device(i), .replica = i});
    nn::Model model(graph, {.training = true, .seed = given.seed});
    const SourceBatch batch = read_source(graph, text.train, {.replicas = given.replicas});
    const SkipGram::Loss loss = net.loss(model, batch["centre"], batch["context"]);
    out.push_back({i, loss.mean, minimize(loss.sum, optimizer)});
  }
  return out;
}

int run(const Options& given) {
  check(given);
  const Cluster cluster = given.where();
  const OutFolder out(given.out, true);
  const Text text = load(given, out);
  std::printf("data: %s, %" PRId64 " words, %" PRId64 " different ones at least %" PRId64
              " times\n",
              given.data->c_str(), text.words, text.vocabulary.size() - Vocabulary::kEnd - 1,
              given.min_count);
  const std::vector<Judgements> judgements = read_judgements(given.similarity, text.vocabulary);
  for (const Judgements& of : judgements)
    std::printf("%s: %zu pairs, without %" PRId64 " that have a word outside of the vocabulary\n",
                of.name.c_str(), of.scores.size(), of.missing);
  const std::vector<int64_t> words = shown(given, text.vocabulary);

  Graph graph(given.process().ops);
  SkipGram net = given.net;
  net.words = text.vocabulary.size(), net.counts = text.counts, net.seed = given.seed;
  const std::vector<Tower> replicas = towers(graph, cluster, text, net, given);
  const auto scope = graph.scope({.name = "answer", .device = cluster.device(0)});
  nn::Model model(graph, {.reuse = true});
  FitOptions options;
  if (text.validation) options.evaluation = net.evaluation(model);
  model.rewind();
  const Answers answers(model, net, text.vocabulary);

  Session session = cluster.open(graph, given.process());
  options.epochs = given.epochs;
  options.batch_size = given.batch;
  options.validation_source = text.validation;
  std::string picture;
  // Vectors of zeros have a loss of log 2 for a pair and for each of its negatives.
  options.on_step = [most = 10 * std::log(2.0) *
                            static_cast<double>(1 + net.negatives)](const TrainProgress& now) {
    if (!(now.loss < most))
      throw Error(Errc::bad_data, "the vectors grow without limit: the pairs of a step move the ",
                  "same words too far; give a smaller --batch or --learning-rate, or a larger ",
                  "--drawn");
  };
  Plot curve{"skip-gram: vectors of words", "epoch", "loss of a pair, rank correlation"};
  if (given.resume) curve.add_csv(out / "curve.csv");
  options.on_epoch = [&](const FitEpoch& epoch) {
    const auto x = static_cast<double>(epoch.epoch);
    curve.add("training", x, epoch.loss);
    for (const auto& [name, score] : epoch.scores) curve.add("validation", x, score);
    for (const Judgements& of : judgements) {
      const double agreement = answers.agreement(session, of);
      std::printf("%s: rank correlation %.4f\n", of.name.c_str(), agreement);
      curve.add(of.name, x, agreement);
    }
    picture = write_plot(out, "curve", curve, given.say());
    return true;
  };
  if (!given.resume) begin_work(out, text.work);
  const auto begin = std::chrono::steady_clock::now();
  const Fitted fitted =
      fit_in_sight(session, replicas, text.train, options, given, out, given.rule);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const int64_t epochs = given.epochs - fitted.result.training.resumed_at * given.epochs /
                                            std::max<int64_t>(1, fitted.result.training.steps);
  if (epochs > 0)
    std::printf("speed: %.0f words/s\n",
                static_cast<double>(text.words * epochs) / seconds.count());
  after_training(session, fitted.options, [&] {
    for (const int64_t id : words)
      std::printf("near %s\n", answers.neighbours(session, id).c_str());
    answers.write(session, (out / "vectors.txt").string());
    save_weights(session, (out / "weights.safetensors").string());
  });
  std::printf("vectors: %s\n", (out / "vectors.txt").c_str());
  if (!picture.empty()) std::printf("curve: %s\n", picture.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options given;
  given.name = "words", given.out = "out/words";
  return run_program(
      given, "vectors of words, by skip-gram with negative samples", argc, argv,
      [&](Flags& flags) {
        flags.add("similarity", &given.similarity,
                  "file of lines: two words and how similar people find them; may be given again");
        flags.add("near", &given.near, "shows the words nearest to this one; may be given again");
        flags.add("tokens", &given.tokens, "words, or whitespace: runs of anything else");
        flags.add("dim", &given.net.dim, "numbers in a vector");
        flags.add("window", &given.window, "words on each side that are near, at most");
        flags.add("negatives", &given.net.negatives, "negative samples for each pair");
        flags.add("drawn", &given.net.drawn, "samples that stand for those of all pairs of a step");
        flags.add("min-count", &given.min_count, "a word seen less often is left out");
        flags.add("subsample", &given.subsample,
                  "words with a greater share of the text are thinned out; 0: none");
        flags.add("epochs", &given.epochs, "over the lines");
        flags.add("batch", &given.batch, "lines in a step of a replica");
        flags.add("replicas", &given.replicas, "towers, each with lines of its own");
        flags.add("learning-rate", &given.learning_rate, "of the first step; falls to 0.0001");
        flags.add("held-out", &given.held_out, "every so many-th line is for validation; 0: none");
        flags.add("rule", &given.rule, kRules);
        add_common_flags(flags, given,
                         {.data = "text in UTF-8, plain or .gz; with * for several files",
                          .seed = "for initial values, the order of lines, pairs and negatives",
                          .resume = "go on from the newest checkpoint in --out"});
      },
      [&] { return run(given); });
}
