// language: a recurrent network or a transformer that learns to write like a text.
//
// The text is UTF-8, cut into characters or into pieces of words. Each tower reads it where it
// runs, as windows of tokens in random order, and this program sees only their number. A window
// begins without memory of the one before it. In the end the network continues an end of a line.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "apps/program/plot.hpp"
#include "apps/program/program.hpp"
#include "troupe/nn.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/arrays.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/ops/elementwise.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/text.hpp"

using namespace troupe;

namespace {

constexpr int64_t kDraws = 1'000'000;  // windows that a draw chooses from
constexpr int64_t kAtOnce = 64;        // windows, in evaluation
constexpr int64_t kHeldOut = 10;       // the last windows of one in so many are for validation
constexpr int64_t kSeen = 2;           // a token seen less often is <unk>, which so has examples

struct Options : ProgramOptions {
  std::string model = "lstm", tokens = "characters", rule = "sync";
  std::optional<std::string> validation;
  int64_t layers = 2, units = 256, heads = 4, length = 64, batch = 32, epochs = 3, replicas = 2;
  int64_t merges = 2000, sample = 400;
  double learning_rate = 0.002, dropout = 0, clip = 1, temperature = 0.8;
};

struct Text {
  Source train, validation;  // of batches
  int64_t train_windows = 0, validation_windows = 0;
  Vocabulary vocabulary;
  std::optional<Bpe> bpe;
};

// `ids`: of sequences. Those of windows() for each.
int64_t windows_in(const Source& ids, int64_t length) {
  int64_t count = 0;
  Source::Records records = ids.records();
  while (const auto record = records.next())
    count += std::max<int64_t>(0, (*record)[0].dim(0) - 1) / length;
  return count;
}

// Learns tokens from --data, and leaves their files in --out for all that read the sources.
Text load(const Options& given, const OutFolder& out) {
  if (!given.data) throw Error(Errc::invalid_argument, "--data is missing; it names a text");
  const auto whole = [](const std::string& path) {
    return std::filesystem::absolute(path).string();
  };
  const std::string train_path = whole(*given.data), words = (out / "vocabulary.txt").string();
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
  if (given.resume && std::filesystem::exists(words))
    Vocabulary::read(words).require(vocabulary.size(), vocabulary.fingerprint());
  vocabulary.write(words);
  char fingerprint[20];
  std::snprintf(fingerprint, sizeof fingerprint, "%" PRIx64, vocabulary.fingerprint());
  SourceArgs tokens = {{"kind", given.tokens},
                       {"vocabulary", words},
                       {"vocabulary_size", vocabulary.size()},
                       {"fingerprint", std::string(fingerprint)}};
  if (bpe) {
    const std::string merges = (out / "merges.txt").string();
    bpe->write(merges);
    tokens.insert({{"merges", merges}, {"split", std::string("whitespace")}, {"line_ends", true}});
  }

  const auto ids = [&](const std::string& path) {
    return Source::of("documents", {{"paths", std::vector<std::string>{path}}})
        .map("tokenize", tokens);
  };
  const auto cut = [&](const Source& from) {
    return from.expand("windows", {{"length", given.length}});
  };
  const Source all = ids(train_path);
  const int64_t windows = windows_in(all, given.length);
  const Source held = given.validation ? ids(whole(*given.validation)) : all;
  const int64_t held_windows =
      given.validation ? windows_in(held, given.length) : windows / kHeldOut;
  const int64_t kept = given.validation ? windows : windows - held_windows;
  if (kept < given.batch || held_windows < 1)
    throw Error(Errc::bad_data, train_path, given.validation ? " and " : "",
                given.validation.value_or(""), ": ", kept, " windows of ", given.length,
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
          bpe};
}

// A network that gives each token a value for the next one. Its functions are called in this order,
// for training, for validation and for a sample: the same parameters each time.
class Network {
 public:
  Network(const Options& given, int64_t tokens) : given_(given), tokens_(tokens) {}

  // ids [batch, time] -> [batch, time, tokens]
  Output logits(nn::Model& model, Output ids) const {
    return given_.model == "lstm"
               ? last(model, transpose(recurrent(model, transpose(ids), {}, {}).y, {1, 0, 2}))
               : last(model, transformer(model, ids));
  }

  // `count` tokens behind `first` -> [count]
  Output sample(Graph& graph, int64_t first, int64_t count) const {
    nn::Model model(graph);
    return reshape(given_.model == "lstm" ? sample_recurrent(model, first, count)
                                          : sample_transformer(model, first, count),
                   {-1});
  }

 private:
  // ids [time, batch] -> y [time, batch, units]. Zaremba et al. 2014.
  nn::Recurrent recurrent(nn::Model& model, Output ids, std::vector<Output> h,
                          std::vector<Output> c) const {
    const Output x =
        nn::embedding(model, ids, tokens_, given_.units, {.weights = nn::normal(0, 1)});
    return nn::lstm(
        model, nn::dropout(model, x, given_.dropout), given_.units,
        {.layers = given_.layers, .dropout = given_.dropout, .h = std::move(h), .c = std::move(c)});
  }

  // ids [batch, length] -> [batch, length, units]. Radford et al. 2019, 2.3: norms come first.
  Output transformer(nn::Model& model, Output ids) const {
    const nn::Initializer small = nn::normal(0, 0.02);
    const Output place = model.parameter("position", {given_.length, given_.units}, small);
    const auto drop = [&](Output x) { return nn::dropout(model, x, given_.dropout); };
    Output x = drop(nn::embedding(model, ids, tokens_, given_.units, {.weights = small}) + place);
    for (int64_t i = 0; i < given_.layers; ++i) {
      const Output seen = nn::layer_norm(model, x);
      x = x + drop(nn::attention(model, seen, seen, given_.heads, {.causal = true}));
      const Output wide = gelu(nn::dense(model, nn::layer_norm(model, x), 4 * given_.units));
      x = x + drop(nn::dense(model, wide, given_.units));
    }
    return nn::layer_norm(model, x);
  }

  Output last(nn::Model& model, Output x) const {
    return nn::dense(model, nn::dropout(model, x, given_.dropout), tokens_, {.name = "logits"});
  }

  // values [1, units] of the last token -> the next token, [1]
  Output drawn(nn::Model& model, Output x) const {
    return reshape(categorical(last(model, x) / given_.temperature, 1, given_.seed), {1});
  }

  // The states go from token to token.
  Output sample_recurrent(nn::Model& model, int64_t first, int64_t count) const {
    Graph& graph = model.graph();
    const auto n = static_cast<std::ptrdiff_t>(given_.layers);
    std::vector<Output> begin(static_cast<size_t>(1 + 2 * n), fill(graph, {1, given_.units}, 0));
    begin[0] = constant(graph, Tensor::of<int64_t>({first}, {1}));
    const auto step = [&](const std::vector<Output>& carry, const std::vector<Output>&) {
      const auto h = carry.begin() + 1, c = h + n;
      const nn::Recurrent out =
          recurrent(model, expand_dims(carry[0], 0), {h, c}, {c, carry.end()});
      const Output token = drawn(model, squeeze(out.y, {0}));
      Scanned next{{token}, {token}};
      next.carry.insert(next.carry.end(), out.h.begin(), out.h.end());
      next.carry.insert(next.carry.end(), out.c.begin(), out.c.end());
      return next;
    };
    return scan(step, begin, {range(graph, 0, static_cast<double>(count), 1, DType::i64)}).rows[0];
  }

  // The last tokens go along, up to a window of them; what stands behind the last one is not seen.
  Output sample_transformer(nn::Model& model, int64_t first, int64_t count) const {
    Graph& graph = model.graph();
    Tensor begin = Tensor::zeros(DType::i64, {1, given_.length});
    begin.mutable_data<int64_t>()[0] = first;
    const Output end = constant(graph, Tensor::scalar<int64_t>(given_.length - 1));
    const Output places = range(graph, 0, static_cast<double>(given_.length), 1, DType::i64);
    const auto step = [&](const std::vector<Output>& carry, const std::vector<Output>& rows) {
      const Output at = rows[0];
      const Output token = drawn(model, gather(transformer(model, carry[0]), minimum(at, end), 1));
      const Output moved = where(less(at, end), carry[0], roll(carry[0], {-1}, {1}));
      return Scanned{{where(equal(places, minimum(at + 1, end)), token, moved)}, {token}};
    };
    return scan(step, {constant(graph, begin)},
                {range(graph, 0, static_cast<double>(count), 1, DType::i64)})
        .rows[0];
  }

  const Options& given_;
  const int64_t tokens_;
};

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

void check(const Options& given) {
  if (given.model != "lstm" && given.model != "transformer")
    throw Error(Errc::invalid_argument, "--model is lstm or transformer, got ", given.model);
  if (given.tokens != "characters" && given.tokens != "bpe")
    throw Error(Errc::invalid_argument, "--tokens is characters or bpe, got ", given.tokens);
  if (std::min({given.layers, given.units, given.heads, given.length, given.epochs, given.replicas,
                given.merges, given.sample}) < 1)
    throw Error(Errc::invalid_argument, "--layers, --units, --heads, --length, --epochs, ",
                "--replicas, --merges and --sample want at least 1");
  if (given.model == "transformer" && given.units % given.heads != 0)
    throw Error(Errc::invalid_argument, "--units wants a multiple of the ", given.heads,
                " heads, got ", given.units);
  if (given.batch < given.replicas || given.batch % given.replicas != 0)
    throw Error(Errc::invalid_argument, "--batch wants a multiple of the ", given.replicas,
                " replicas, got ", given.batch);
  if (!(given.learning_rate > 0) || !(given.clip > 0) || !(given.temperature > 0) ||
      !(given.dropout >= 0 && given.dropout < 1))
    throw Error(Errc::invalid_argument, "--learning-rate, --clip and --temperature want a number ",
                "above 0, --dropout one from 0 to below 1");
}

int run(const Options& given) {
  check(given);
  const Cluster cluster = given.where();
  const OutFolder out(given.out, true);
  const Text text = load(given, out);
  std::printf("data: %s, %" PRId64 " windows of %" PRId64 " %s, %" PRId64
              " for validation, %" PRId64 " different ones\n",
              given.data->c_str(), text.train_windows, given.length,
              text.bpe ? "pieces of words" : "characters", text.validation_windows,
              text.vocabulary.size());

  Graph graph(given.process().ops);
  const Network network(given, text.vocabulary.size());
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
  nn::Model model(graph);
  const Output inputs = placeholder(graph, DType::i64, {-1, given.length});
  const Output targets = placeholder(graph, DType::i64, {-1, given.length});
  FitOptions what;
  what.evaluation = {
      .feeds = {inputs, targets},
      .fetches = {reduce_mean(softmax_cross_entropy(network.logits(model, inputs), targets))},
      .metrics = {metric(
          "perplexity", Perplexity(),
          [](Perplexity& p, const std::vector<Tensor>& values, const Batch& batch) {
            p.add(values[0].item<float>(), static_cast<double>(batch.features.size()));
          },
          [](const Perplexity& p) { return p.value(); }, false)}};
  const std::string line_end = "\n";
  const Output sample = network.sample(
      graph, text.bpe ? Vocabulary::kEnd : text.vocabulary.id(line_end), given.sample);

  Session session = cluster.open(graph, given.process());
  what.epochs = given.epochs;
  what.batch_size = given.batch / given.replicas;
  what.validation_source = text.validation;
  what.train.rule = aggregation_from_string(given.rule);
  what.train.checkpoint_dir = (out / "checkpoints").string();
  const FitResult result = fit_in_sight(session, towers, text.train, what, given, given.rule);
  after_training(session, what.train, [&] {
    const std::string words = written(session.run({sample})[0], text);
    std::printf("sample: %s\n%s\n", write_extra(out / "sample.txt", words, given.say()).c_str(),
                words.c_str());
  });
  Plot curve{given.model + ": the next token", "epoch", "perplexity"};
  for (const FitEpoch& epoch : result.history) {
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
        flags.add("length", &given.length, "tokens of a window");
        flags.add("model", &given.model, "lstm or transformer");
        flags.add("layers", &given.layers, "of the network");
        flags.add("units", &given.units, "values of each token in each layer");
        flags.add("heads", &given.heads, "of attention, in a transformer");
        flags.add("dropout", &given.dropout, "share of values that are left out in training");
        flags.add("epochs", &given.epochs, "over the windows");
        flags.add("batch", &given.batch, "windows in a step, of all replicas");
        flags.add("replicas", &given.replicas, "towers, each with its part of a batch");
        flags.add("learning-rate", &given.learning_rate, "of Adam");
        flags.add("clip", &given.clip, "largest norm of a replica's gradients");
        flags.add("rule", &given.rule, "sync or async");
        flags.add("sample", &given.sample, "tokens that the network writes in the end");
        flags.add("temperature", &given.temperature, "of the sample: below 1, likelier tokens");
        add_common_flags(flags, given,
                         {.data = "text in UTF-8, plain or .gz; with * for several files",
                          .seed = "for initial values, the order of windows, and the sample",
                          .resume = "go on from the newest checkpoint in --out"});
      },
      [&] { return run(given); });
}
