// language: a recurrent network or a transformer that learns to write like a text.
//
// The text is UTF-8, cut into characters or into pieces of words. Each tower reads it where it
// runs, as windows of tokens in random order, and this program sees only their number. A window
// begins without memory of the one before it. In the end the network continues an end of a line.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "apps/language/network.hpp"
#include "apps/program/checkpoints.hpp"
#include "apps/program/plot.hpp"
#include "apps/program/program.hpp"
#include "apps/program/tokens.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/text.hpp"

using namespace troupe;

namespace {

constexpr int64_t kDraws = 1'000'000;  // windows that a draw chooses from
constexpr int64_t kAtOnce = 64;        // windows, in evaluation
constexpr int64_t kHeldOut = 10;       // the last windows of one in so many are for validation
constexpr int64_t kSeen = 2;           // a token seen less often is <unk>, which so has examples

struct Options : ProgramOptions {
  NetworkOptions network;
  std::string tokens = "characters", rule = "sync";
  std::optional<std::string> validation;
  int64_t batch = 32, epochs = 3, replicas = 2, merges = 2000, sample = 400;
  Plateau plateau = {.factor = 0.25};
  double learning_rate = 0.002, clip = 1, temperature = 0.8;
};

struct Text {
  Source train, validation;  // of batches
  int64_t train_windows = 0, validation_windows = 0;
  Vocabulary vocabulary;
  std::optional<Bpe> bpe;
  std::string work;  // for work.txt: the tokens that a checkpoint is of
};

// The windows of `ids`, which are sequences.
int64_t windows_in(const Source& ids, int64_t length) {
  int64_t count = 0;
  Source::Records records = ids.records();
  while (const auto record = records.next())
    count += std::max<int64_t>(0, (*record)[0].dim(0) - 1) / length;
  return count;
}

// Learns tokens from --data, and leaves their files in --out for all that read the sources. Their
// names have the fingerprint of the vocabulary, so those of an earlier training stay whole.
Text load(const Options& given, const OutFolder& out) {
  if (!given.data) throw Error(Errc::invalid_argument, "--data is missing; it names a text");
  const auto whole = [](const std::string& path) {
    return std::filesystem::absolute(path).string();
  };
  const std::string train_path = whole(*given.data);
  const bool pieces = given.tokens == "bpe";
  WordCounts counts =
      count_words({train_path}, pieces ? TokenKind::whitespace : TokenKind::characters);
  if (counts.empty()) throw Error(Errc::bad_data, train_path, " has no text in it");
  std::optional<Bpe> bpe;
  if (pieces) {
    bpe = Bpe::train(counts, given.merges);
    counts = bpe->counts(counts);
  }
  const Vocabulary vocabulary = Vocabulary::of(counts, {.min_count = kSeen});
  const std::string work = given.tokens + ", " + work_of(vocabulary);
  if (given.resume) require_work(out, work);
  const std::string words = token_file(out, "vocabulary", vocabulary);
  vocabulary.write(words);
  SourceArgs tokens = {{"kind", given.tokens},
                       {"vocabulary", words},
                       {"vocabulary_size", vocabulary.size()},
                       {"fingerprint", fingerprint_of(vocabulary)}};
  if (bpe) {
    const std::string merges = token_file(out, "merges", vocabulary);
    bpe->write(merges);
    tokens.insert({{"merges", merges}, {"split", std::string("whitespace")}, {"line_ends", true}});
  }

  const auto ids = [&](const std::string& path) {
    return Source::of("documents", {{"paths", std::vector<std::string>{path}}})
        .map("tokenize", tokens);
  };
  const auto cut = [&](const Source& from) {
    return from.expand("windows", {{"length", given.network.length}});
  };
  const Source all = ids(train_path);
  const int64_t windows = windows_in(all, given.network.length);
  const Source held = given.validation ? ids(whole(*given.validation)) : all;
  const int64_t held_windows =
      given.validation ? windows_in(held, given.network.length) : windows / kHeldOut;
  const int64_t kept = given.validation ? windows : windows - held_windows;
  if (kept < given.batch || held_windows < 1)
    throw Error(Errc::bad_data, train_path, given.validation ? " and " : "",
                given.validation.value_or(""), ": ", kept, " windows of ", given.network.length,
                " tokens to train on and ", held_windows, " for validation; at least ", given.batch,
                " and 1 are needed, from more text, or with a smaller --length or --batch");
  return {cut(all)
              .take(kept)
              .shuffle(kDraws, static_cast<uint64_t>(given.seed))
              .batch(given.batch / given.replicas),
          cut(held).skip(given.validation ? 0 : kept).batch(kAtOnce),
          kept,
          held_windows,
          vocabulary,
          bpe,
          work};
}

// The text of tokens, whose line ends are kEnd if they are pieces of words.
std::string written(const Tensor& ids, const Text& text) {
  std::string out;
  if (!text.bpe) {
    for (const int64_t id : ids.values<int64_t>()) out += text.vocabulary.word(id);
    return out;
  }
  const auto all = ids.values<int64_t>();
  for (auto at = all.begin(); at != all.end();) {
    const auto end = std::find(at, all.end(), Vocabulary::kEnd);
    const auto line = text.bpe->decode(text.vocabulary.words({at, end}));
    out += detokenize(line, TokenKind::whitespace) + "\n";
    at = end == all.end() ? end : end + 1;
  }
  return out;
}

void check_all(const Options& given) {
  check(given.network);
  if (given.tokens != "characters" && given.tokens != "bpe")
    throw Error(Errc::invalid_argument, "--tokens is characters or bpe, got ", given.tokens);
  if (std::min({given.epochs, given.merges, given.sample}) < 1 || given.plateau.epochs < 0)
    throw Error(Errc::invalid_argument,
                "--epochs, --merges and --sample want at least 1, --plateau 0 or more epochs");
  check_batch(given.batch, given.replicas);
  if (!(given.learning_rate > 0) || !(given.clip > 0) || !(given.temperature > 0))
    throw Error(Errc::invalid_argument,
                "--learning-rate, --clip and --temperature want a number above 0");
}

int run(const Options& given) {
  check_all(given);
  const Cluster cluster = given.where();
  const OutFolder out(given.out, true);
  const Text text = load(given, out);
  std::printf("data: %s, %" PRId64 " windows of %" PRId64 " %s, %" PRId64
              " for validation, %" PRId64 " different ones\n",
              given.data->c_str(), text.train_windows, given.network.length,
              text.bpe ? "pieces of words" : "characters", text.validation_windows,
              text.vocabulary.size());

  Graph graph(given.process().ops);
  const Network network(given.network, text.vocabulary.size());
  std::vector<Tower> towers;
  for (int64_t i = 0; i < given.replicas; ++i) {
    const auto scope = graph.scope(
        {.name = detail::concat("tower", i), .device = cluster.device(i), .replica = i});
    nn::Model model(graph, {.training = true, .seed = given.seed});
    const SourceBatch batch = read_source(graph, text.train, {.replicas = given.replicas});
    const Output loss = reduce_mean(
        softmax_cross_entropy(network.logits(model, batch["inputs"]), batch["targets"]));
    towers.push_back({i, loss,
                      apply_gradients(clip_by_global_norm(parameter_gradients(loss), given.clip),
                                      adam(given.learning_rate))});
  }
  const auto scope = graph.scope({.name = "answer", .device = cluster.device(0)});
  nn::Model model(graph, {.reuse = true});
  const Output inputs = placeholder(graph, DType::i64, {-1, given.network.length});
  const Output targets = placeholder(graph, DType::i64, {-1, given.network.length});
  FitOptions options;
  options.evaluation = {
      .feeds = {inputs, targets},
      .fetches = {reduce_mean(softmax_cross_entropy(network.logits(model, inputs), targets))},
      .metrics = {perplexity()}};
  // It goes on from the end of a line.
  nn::Model again(graph, {.reuse = true});
  const Output sample =
      network.sample(again, {.first = text.bpe ? Vocabulary::kEnd : text.vocabulary.id("\n"),
                             .count = given.sample,
                             .temperature = given.temperature,
                             .seed = given.seed});

  Session session = cluster.open(graph, given.process());
  options.epochs = given.epochs;
  options.batch_size = given.batch / given.replicas;
  options.plateau = given.plateau;
  options.validation_source = text.validation;
  if (!given.resume) begin_work(out, text.work);
  const Fitted fitted = fit_in_sight(session, towers, text.train, options, given, out, given.rule);
  after_training(session, fitted.options, [&] {
    const std::string words = written(session.run({sample}, {}, {.seed = given.seed})[0], text);
    std::printf("sample: %s\n%s\n", write_extra(out / "sample.txt", words, given.say()).c_str(),
                words.c_str());
  });
  Plot curve{given.network.model + ": the next token", "epoch", "perplexity"};
  for (const FitEpoch& epoch : fitted.result.history) {
    const auto x = static_cast<double>(epoch.epoch);
    curve.add("training", x, std::exp(epoch.loss));
    curve.add("validation", x, epoch.scores.at("perplexity"));
  }
  std::printf("curve: %s\n", write_plot(out, "curve", curve, given.say()).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options given;
  given.name = "language", given.out = "out/language";
  return run_program(
      given, "a recurrent network or a transformer that learns to write like a text", argc, argv,
      [&](Flags& flags) {
        flags.add("validation", &given.validation,
                  "another text, for validation (default: the last tenth of --data)");
        flags.add("tokens", &given.tokens, "characters, or bpe: pieces of words");
        flags.add("merges", &given.merges, "of pieces of words, with --tokens bpe");
        add_network_flags(flags, given.network);
        flags.add("epochs", &given.epochs, "over the windows");
        flags.add("batch", &given.batch, "windows in a step, of all replicas");
        flags.add("replicas", &given.replicas, "towers, each with its part of a batch");
        flags.add("learning-rate", &given.learning_rate, "of Adam");
        flags.add("plateau", &given.plateau.epochs,
                  "epochs without a lower perplexity after which the rate is a quarter; 0: never");
        flags.add("clip", &given.clip, "largest norm of a replica's gradients");
        flags.add("rule", &given.rule, kRules);
        flags.add("sample", &given.sample, "tokens that the network writes in the end");
        flags.add("temperature", &given.temperature, "of the sample: below 1, likelier tokens");
        add_common_flags(flags, given,
                         {.data = "text in UTF-8, plain or .gz; with * for several files",
                          .seed = "for initial values, the order of windows, and the sample",
                          .resume = "go on from the newest checkpoint in --out"});
      },
      [&] { return run(given); });
}
