// translate: a recurrent network with attention, or a transformer, that learns to translate.
//
// Sentences come in pairs, as lines of two files. Words are cut into pieces, by an encoding that is
// learnt from both languages. Each tower reads its batches, of sentences of similar length, where
// it runs. In the end the network translates the test sentences by beam search, a loop of the
// graph, and again whenever it is given a file (--translate).
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "apps/program/checkpoints.hpp"
#include "apps/program/plot.hpp"
#include "apps/program/program.hpp"
#include "apps/program/tokens.hpp"
#include "apps/translate/last_weights.hpp"
#include "apps/translate/translator.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

using namespace troupe;

namespace {

constexpr int64_t kExamples = 3;  // translations that are shown

struct Options : ProgramOptions {
  NetworkOptions network;
  std::string from = "en", to = "fr", train = "train", validation = "val", test = "test",
              rule = "sync";
  std::optional<std::string> translate;
  int64_t merges = 5000, length = 64, batch = 2000, epochs = 20, replicas = 2, average = 4;
  int64_t warm_up = 200, beams = 5;
  double learning_rate = 0.002, decay = 0.9, clip = 1, smoothing = 0.1, length_penalty = 1;
};

nn::BeamOptions search(const Options& given, int64_t beams) {
  return {.beams = beams,
          .length_max = given.length,
          .begin = Vocabulary::kBegin,
          .end = Vocabulary::kEnd,
          .length_penalty = given.length_penalty};
}

void check_all(const Options& given) {
  check(given.network);
  if (std::min({given.epochs, given.replicas, given.merges, given.batch, given.average,
                given.beams}) < 1)
    throw Error(Errc::invalid_argument,
                "--epochs, --replicas, --merges, --batch, --average and --beams want at least 1");
  if (given.length < 4)
    throw Error(Errc::invalid_argument, "--length wants at least 4, got ", given.length);
  if (!(given.learning_rate > 0) || !(given.clip > 0) || given.warm_up < 0)
    throw Error(Errc::invalid_argument,
                "--learning-rate and --clip want a number above 0, --warm-up one from 0");
  if (!(given.decay > 0 && given.decay <= 1) || !(given.smoothing >= 0 && given.smoothing < 1) ||
      !(given.length_penalty >= 0))
    throw Error(Errc::invalid_argument,
                "--decay wants a number above 0 and up to 1, --smoothing one from 0 to below 1, "
                "--length-penalty one from 0");
}

void show(const Options& given, const OutFolder& out, const std::string& name,
          const std::vector<Words>& translations, const Lines& lines) {
  for (size_t i = 0; i < std::min<size_t>(kExamples, translations.size()); ++i) {
    std::printf("  %s\n", detokenize(translations[i], TokenKind::words).c_str());
    if (!lines.references.empty())
      std::printf("  (%s)\n", detokenize(lines.references[i], TokenKind::words).c_str());
  }
  std::printf("translations: %s\n",
              write_translations(out, name, translations, lines, given.say()).c_str());
}

// With the weights of an earlier training in --out.
int translate_file(const Options& given) {
  const Cluster cluster = given.where();
  const OutFolder out(given.out, true);
  const std::string weights = (out / "weights.safetensors").string();
  if (!std::filesystem::exists(weights))
    throw Error(Errc::io, weights, " is missing; train first, with the same --out");
  const Pieces pieces = Pieces::read(out);
  const Lines lines = read_lines({std::filesystem::absolute(*given.translate).string()}, pieces);
  Graph graph(given.process().ops);
  const auto scope = graph.scope({.name = "answer", .device = cluster.device(0)});
  const Translator translator(graph, TranslationNetwork(given.network, pieces.size(), given.length),
                              search(given, given.beams), given.length);
  Session session = cluster.open(graph, given.process());
  load_weights(session, weights);
  show(given, out, "translation", translator(session, lines, pieces), lines);
  return 0;
}

Evaluation evaluation_of(Graph& graph, const Options& given, const TranslationNetwork& network,
                         const Pieces& pieces) {
  const Output source = placeholder(graph, DType::i64, {-1, -1});
  const Output target = placeholder(graph, DType::i64, {-1, -1});
  nn::Model model(graph), again(graph);
  const TranslationNetwork::Loss loss = network.loss(model, source, target, 0);
  const nn::Beams greedy = network.translate(again, source, search(given, 1));
  const auto add = [pieces](Bleu& bleu, const std::vector<Tensor>& values, const Batch&) {
    for (int64_t row = 0; row < values[2].dim(0); ++row)
      bleu.add(pieces.words(values[2].rows(row, row + 1)),
               pieces.words(values[3].rows(row, row + 1)));
  };
  return {.feeds = {source, target},
          .fetches = {loss.sum, loss.count, squeeze(greedy.ids, {1}), identity(target)},
          .metrics = {metric(
                          "perplexity", Perplexity(),
                          [](Perplexity& p, const std::vector<Tensor>& values, const Batch&) {
                            const double tokens = values[1].item<float>();
                            p.add(values[0].item<float>() / tokens, tokens);
                          },
                          [](const Perplexity& p) { return p.value(); }, false),
                      metric("greedy BLEU", Bleu(), add,
                             [](const Bleu& bleu) { return 100 * bleu.value(); })}};
}

int learn(const Options& given) {
  if (!given.data) throw Error(Errc::invalid_argument, "--data is missing; it names a folder");
  const Cluster cluster = given.where();
  const Languages languages{*given.data, given.from, given.to};
  const auto train = languages.files(given.train), held = languages.files(given.validation),
             test = languages.files(given.test);
  const OutFolder out(given.out, true);
  const Pieces pieces = Pieces::learn(train, given.merges, out);
  if (given.resume) require_work(out, work_of(pieces.vocabulary()));
  const Corpus corpus = load_corpus(train, held, pieces,
                                    {.longest = given.length,
                                     .batch = given.batch / given.replicas,
                                     .seed = static_cast<uint64_t>(given.seed)});
  const Lines lines = read_lines(test, pieces);
  const int64_t steps = corpus.train.steps_per_epoch(given.replicas);
  std::printf("data: %s, %" PRId64 " pairs of sentences, %" PRId64 " target tokens, %" PRId64
              " pieces of words, %" PRId64 " steps an epoch\n",
              given.data->c_str(), corpus.pairs, corpus.target_tokens, pieces.size(), steps);
  if (!corpus.left_out.empty()) std::printf("left out: %s\n", corpus.left_out.c_str());

  Graph graph(given.process().ops);
  const TranslationNetwork network(given.network, pieces.size(), given.length);
  const auto updates = [&](int64_t n) { return updates_in(n, given.rule, given.replicas); };
  const Optimizer optimizer =
      adam(given.learning_rate, 0.9, 0.98)
          .with(exponential_decay(updates(steps), given.decay, updates(given.warm_up)));
  std::vector<Tower> towers;
  for (int64_t i = 0; i < given.replicas; ++i) {
    const auto scope = graph.scope(
        {.name = detail::concat("tower", i), .device = cluster.device(i), .replica = i});
    nn::Model model(graph, {.training = true, .seed = given.seed});
    const SourceBatch batch = read_source(graph, corpus.train, {.replicas = given.replicas});
    const Output loss =
        network.loss(model, batch["source"], batch["target"], given.smoothing).smoothed;
    towers.push_back(
        {i, loss,
         apply_gradients(clip_by_global_norm(parameter_gradients(loss), given.clip), optimizer)});
  }
  const auto scope = graph.scope({.name = "answer", .device = cluster.device(0)});
  const Translator translator(graph, network, search(given, given.beams), given.length);
  FitOptions options;
  options.evaluation = evaluation_of(graph, given, network, pieces);

  Session session = cluster.open(graph, given.process());
  const LastWeights last(out, given.average);
  using Clock = std::chrono::steady_clock;
  double seconds = 0;  // of the epoch's steps
  auto begin = Clock::now();
  options.on_step = [&](const TrainProgress&) {
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  };
  options.on_epoch = [&](const FitEpoch& epoch) {
    std::printf("  %.0f target tokens/s\n", static_cast<double>(corpus.target_tokens) / seconds);
    last.save(session, epoch.epoch);
    begin = Clock::now();
    return true;
  };
  options.epochs = given.epochs;
  options.validation_source = corpus.validation;
  if (!given.resume) begin_work(out, work_of(pieces.vocabulary()));
  const Fitted fitted =
      fit_in_sight(session, towers, corpus.train, options, given, out, given.rule);
  after_training(session, fitted.options, [&] {
    last.average(session, fitted.result.history.back().epoch);
    pieces.keep(out);
    const std::vector<Words> found = translator(session, lines, pieces);
    std::printf("test: BLEU %.2f of words in lower case, %zu sentences, %" PRId64 " beams\n",
                bleu_of(found, lines.references), found.size(), given.beams);
    show(given, out, "test", found, lines);
  });
  Plot curve{given.from + " to " + given.to + ": " + given.network.model, "epoch", ""};
  for (const FitEpoch& epoch : fitted.result.history)
    for (const auto& [name, score] : epoch.scores)
      curve.add("validation " + name, static_cast<double>(epoch.epoch), score);
  std::printf("curve: %s\n", write_plot(out, "curve", curve, given.say()).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options given;
  given.name = "translate", given.out = "out/translate";
  return run_program(
      given, "a network with attention that learns to translate", argc, argv,
      [&](Flags& flags) {
        flags.add("from", &given.from, "language of the sources: the end of their files' names");
        flags.add("to", &given.to, "language of the targets");
        flags.add("train", &given.train, "begin of the names of the files to learn from");
        flags.add("validation", &given.validation, "the same, for validation");
        flags.add("test", &given.test, "the same, to translate in the end");
        flags.add("translate", &given.translate,
                  "file to translate, a sentence a line, with the weights that are in --out");
        flags.add("merges", &given.merges, "of pieces of words");
        flags.add("length", &given.length,
                  "pieces of the longest sentence; longer ones are left out in training, or cut");
        add_network_flags(flags, given.network);
        flags.add("epochs", &given.epochs, "over the pairs");
        flags.add("batch", &given.batch, "target tokens in a step, of all replicas, about");
        flags.add("replicas", &given.replicas, "towers, each with batches of its own");
        flags.add("learning-rate", &given.learning_rate, "of Adam");
        flags.add("warm-up", &given.warm_up, "steps in which the rate grows");
        flags.add("decay", &given.decay, "of the rate, in each epoch");
        flags.add("clip", &given.clip, "largest norm of a replica's gradients");
        flags.add("smoothing", &given.smoothing, "of labels: share for all other tokens");
        flags.add("average", &given.average, "epochs at the end whose weights are averaged");
        flags.add("rule", &given.rule, kRules);
        flags.add("beams", &given.beams, "of the search");
        flags.add("length-penalty", &given.length_penalty,
                  "of the search: 0 prefers short sentences, 1 hardly");
        add_common_flags(flags, given,
                         {.data = "folder with PART.LANGUAGE, plain or .gz, a sentence a line",
                          .seed = "for initial values and the order of sentences",
                          .resume = "go on from the newest checkpoint in --out"});
      },
      [&] {
        check_all(given);
        return given.translate ? translate_file(given) : learn(given);
      });
}
