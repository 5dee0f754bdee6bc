// captions: a network that says in a sentence which digits stand where on a picture.
//
// Scenes are composed where they are read, by a function of this program: the source's stages take
// four pictures of digits, and the function makes a scene and its sentence of them. The encoder
// learns to name single digits first, and its weights go over into the network that writes
// sentences. On a cluster the processes need the function, too:
// actor-node up --plugin build/captions_ops.so build/captions
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "apps/captions/answers.hpp"
#include "apps/captions/digits.hpp"
#include "apps/captions/network.hpp"
#include "apps/captions/scenes.hpp"
#include "apps/captions/sentences.hpp"
#include "apps/captions/training.hpp"
#include "apps/program/plot.hpp"
#include "apps/program/program.hpp"

using namespace troupe;

namespace {

constexpr int64_t kSmall = 48;  // a canvas below it has a finer map of features

void check(const Options& given) {
  if (std::min({given.epochs, given.replicas, given.network.units, given.scenes.threads}) < 1)
    throw Error(Errc::invalid_argument,
                "--epochs, --replicas, --units and --threads want at least 1");
  if (given.batch < given.replicas || given.batch % given.replicas != 0)
    throw Error(Errc::invalid_argument, "--batch wants a multiple of the ", given.replicas,
                " replicas, got ", given.batch);
  if (std::min({given.pretrain, given.decay_every, given.scenes.canvas, given.scenes.passes}) < 0 ||
      given.scenes.held_out < 2)
    throw Error(Errc::invalid_argument,
                "--pretrain, --decay-every, --canvas and --passes want 0 or more, --held-out 2 or "
                "more");
  if (given.freeze && !given.encoder && given.pretrain == 0)
    throw Error(Errc::invalid_argument,
                "--freeze wants an encoder that has learnt: --encoder, or --pretrain above 0");
  if (!(given.learning_rate > 0) || !(given.clip > 0))
    throw Error(Errc::invalid_argument, "--learning-rate and --clip want a number above 0");
}

// The answers of `network` on scenes, and metrics of them.
struct Asked {
  SceneInputs inputs;
  Output answer;

  Evaluation evaluation(bool by_digits) const {
    const auto of = [](const std::string& name, auto value) {
      return metric(
          name, RightSentences(),
          [](auto& all, const auto& values, const Batch&) {
            all.add(values[0], values[1], values[2]);
          },
          value);
    };
    std::vector<Metric> metrics = {of("exact", [](const auto& all) { return all.exact(); }),
                                   of("words", [](const auto& all) { return all.words(); })};
    for (int64_t n = 1; by_digits && n <= kDigitsMax; ++n)
      metrics.push_back(of(std::to_string(n), [n](const auto& all) { return all.exact(n); }));
    return {.feeds = {inputs.images, inputs.words, inputs.digits},
            .fetches = {answer, inputs.words, inputs.digits},
            .metrics = std::move(metrics)};
  }
};

// Says how many test sentences are right, and draws some of the scenes.
void report(Session& session, const Asked& asked, const Scenes& scenes, const Options& given,
            const OutFolder& out, const Registry& functions) {
  const Scores scores = evaluate(session, asked.evaluation(true), scenes.test);
  std::printf("test: %" PRId64 " scenes, %.2f %% exact sentences, %.2f %% right words\n",
              scenes.test_digits / given.scenes.digits, 100 * scores.at("exact"),
              100 * scores.at("words"));
  for (int64_t n = 1; n <= given.scenes.digits; ++n)
    std::printf("test: %.2f %% exact sentences of %" PRId64 " %s\n",
                100 * scores.at(std::to_string(n)), n, n == 1 ? "digit" : "digits");
  const Record shown = scenes.shown.records(0, functions).next().value();
  const Tensor said = session.run({asked.answer}, {{asked.inputs.images, shown[0]}})[0];
  std::printf(
      "scenes: %s\n",
      write_extra(out / "scenes.svg", to_sheet(shown[0], shown[1], said), given.say()).c_str());
}

void write_curve(const FitResult& result, const OutFolder& out, const Options& given) {
  Plot curve{"Sentences on scenes of digits", "epoch", "loss, share"};
  for (const FitEpoch& epoch : result.history) {
    const auto x = static_cast<double>(epoch.epoch);
    curve.add("training loss", x, epoch.loss);
    curve.add("exact sentences of validation", x, epoch.scores.at("exact"));
    curve.add("right words of validation", x, epoch.scores.at("words"));
  }
  std::printf("curve: %s\n", write_plot(out, "curve", curve, given.say()).c_str());
}

int run(Options given) {
  check(given);
  const Cluster cluster = given.where();
  const OutFolder out(given.out, true);
  const ProcessOptions process = process_of(given);
  given.scenes.data = given.data, given.scenes.seed = static_cast<uint64_t>(given.seed);
  given.scenes.batch = given.batch / given.replicas;
  const Scenes scenes = load_scenes(given.scenes, *process.ops);
  given.network.pools = scenes.canvas < kSmall ? 2 : 3;
  std::printf("data: %s, %" PRId64 " training and %" PRId64 " test digits; scenes of %" PRId64
              " x %" PRId64 " pixels, %zu words\n",
              scenes.name.c_str(), scenes.train_digits, scenes.test_digits, scenes.canvas,
              scenes.canvas, words().size());
  const std::string encoder = given.encoder        ? *given.encoder
                              : given.pretrain > 0 ? pretrain(given, cluster, scenes, out)
                                                   : "";

  const int64_t steps = scenes.train.steps_per_epoch(given.replicas, *process.ops);
  const int64_t decay =
      updates_in(given.decay_every > 0 ? given.decay_every * steps
                                       : std::max<int64_t>(1, given.epochs * steps * 2 / 3),
                 given.rule, given.replicas);
  Graph graph(process.ops);
  const Captioner network(given.network);
  const std::vector<Tower> towers =
      towers_of(graph, cluster, scenes.train, given, decay, given.freeze,
                [&](nn::Model& model, const SourceBatch& batch) {
                  return network.loss(model, batch["image"], batch["words"]);
                });
  const auto scope = graph.scope({.name = "answer", .device = cluster.device(0)});
  nn::Model model(graph);
  const SceneInputs inputs(graph, scenes.canvas);
  const Asked asked{inputs, network.answer(model, inputs.images)};
  Session session = cluster.open(graph, process);
  if (!encoder.empty()) take_encoder(session, encoder, given);

  FitOptions options;
  options.epochs = given.epochs;
  options.batch_size = given.scenes.batch;
  options.validation_source = scenes.validation;
  options.evaluation = asked.evaluation(false);
  const Fitted fitted =
      fit_in_sight(session, towers, scenes.train, options, given, out, given.rule);
  after_training(session, fitted.options, [&] {
    report(session, asked, scenes, given, out, *process.ops);
    save_weights(session, (out / "weights.safetensors").string());
  });
  std::printf("weights: %s\n", (out / "weights.safetensors").c_str());
  write_curve(fitted.result, out, given);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options given;
  given.name = "captions", given.out = "out/captions";
  return run_program(
      given, "a network that says in a sentence which digits stand where on a picture", argc, argv,
      [&](Flags& flags) {
        flags.add("digits", &given.scenes.digits, "the most in a scene, 1 to 4");
        flags.add("canvas", &given.scenes.canvas,
                  "side of a scene in pixels; 0: so that four digits find place");
        flags.add("passes", &given.scenes.passes,
                  "over the digits in an epoch; 0: enough for 12,000 scenes of four");
        flags.add("held-out", &given.scenes.held_out,
                  "every so many-th training digit is for validation");
        flags.add(
            "encoder", &given.encoder,
            "weights to begin with: a .safetensors or .npz file, or a folder with checkpoints");
        flags.add("encoder-scope", &given.encoder_scope,
                  "where the encoder's layers, conv1 to conv4, are in it; \"\": at the top");
        flags.add("pretrain", &given.pretrain,
                  "steps in which the encoder learns single digits, if there is no --encoder");
        flags.add("freeze", &given.freeze, "the encoder stays as it begins");
        flags.add("epochs", &given.epochs, "of scenes, new ones each");
        flags.add("batch", &given.batch, "scenes in a step, of all replicas");
        flags.add("replicas", &given.replicas, "towers, each with its part of a batch");
        flags.add("threads", &given.scenes.threads, "that compose scenes for each tower");
        flags.add("units", &given.network.units, "of the decoder");
        flags.add("learning-rate", &given.learning_rate, "of Adam");
        flags.add("decay-every", &given.decay_every,
                  "epochs after which the rate is a tenth (default: two thirds of --epochs)");
        flags.add("clip", &given.clip, "largest norm of a replica's gradients");
        flags.add("rule", &given.rule, kRules);
        add_common_flags(flags, given,
                         {.data = "folder with MNIST's four IDX files, or a table as CSV of "
                                  "square pictures whose last column is a digit (default: the "
                                  "digits that ship)",
                          .seed = "for initial values, and the composition and order of scenes",
                          .resume = "go on from the newest checkpoints in --out"});
      },
      [&] { return run(given); });
}
