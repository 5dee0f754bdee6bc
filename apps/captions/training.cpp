// Builds towers, trains an encoder on single digits, and takes weights over.
#include "apps/captions/training.hpp"

#include <cstdio>

#include "apps/captions/scenes.hpp"
#include "apps/captions/sentences.hpp"
#include "troupe/custom_op.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

using namespace troupe;

namespace {

// The name of the first digit of each sentence.
Output names(Output words) { return squeeze(slice(words, {0, kNamePlace}, {-1, 1}), {1}); }

}  // namespace

SceneInputs::SceneInputs(Graph& graph, int64_t side)
    : images(placeholder(graph, DType::f32, {-1, side, side, 1}, "images")),
      words(placeholder(graph, DType::i64, {-1, kWordsMax}, "words")),
      digits(placeholder(graph, DType::i64, {-1}, "digits")) {}

ProcessOptions process_of(const Options& given) {
  ProcessOptions out = given.process();
  if (!out.ops->find_function("scene")) out.ops = ops_beside(*out.ops, {}, {scene_function()});
  return out;
}

std::vector<Tower> towers_of(Graph& graph, const Cluster& cluster, const Source& source,
                             const Options& given, int64_t decay, bool freeze,
                             const LossOf& loss_of) {
  Optimizer optimizer = adam(given.learning_rate);
  if (decay > 0) optimizer = optimizer.with(step_decay(decay));
  std::vector<Tower> towers;
  for (int64_t i = 0; i < given.replicas; ++i) {
    const auto scope = graph.scope(
        {.name = detail::concat("tower", i), .device = cluster.device(i), .replica = i});
    nn::Model model(graph, {.training = true, .seed = given.seed});
    const Output loss = loss_of(model, read_source(graph, source, {.replicas = given.replicas}));
    const TrainedParameters trained =
        freeze ? parameters_except(loss, {"encoder/*"}) : TrainedParameters::all();
    towers.push_back(
        {i, loss,
         apply_gradients(clip_by_global_norm(parameter_gradients(loss, trained), given.clip),
                         optimizer)});
  }
  return towers;
}

std::string pretrain(const Options& given, const Cluster& cluster, const Scenes& scenes,
                     const OutFolder& out) {
  const ProcessOptions process = process_of(given);
  Graph graph(process.ops);
  const Captioner network(given.network);
  const auto towers = towers_of(
      graph, cluster, scenes.singles, given, 0, false, [&](nn::Model& model, auto& batch) {
        return reduce_mean(
            softmax_cross_entropy(network.name(model, batch["image"]), names(batch["words"])));
      });
  const auto scope = graph.scope({.name = "answer", .device = cluster.device(0)});
  nn::Model model(graph);
  const SceneInputs asked(graph, scenes.singles_canvas);
  const Evaluation evaluation{
      .feeds = {asked.images, asked.words, asked.digits},
      .fetches = {argmax(network.name(model, asked.images)), names(asked.words)},
      .metrics = {metric(
          "named", Accuracy(),
          [](auto& all, const auto& values, const Batch&) { all.add(values[0], values[1]); },
          [](const auto& all) { return all.value(); })}};
  Session session = cluster.open(graph, process);
  TrainOptions options;
  options.steps = given.pretrain, options.examples_per_step = given.batch / given.replicas;
  options.rule = aggregation_from_string(given.rule);
  const Trained trained = train_in_sight(session, towers, options, given, out, "digits");
  const std::string path = (out / "encoder.safetensors").string();
  after_training(session, trained.options, [&] {
    std::printf("digits: %.2f %% of single digits are named\n",
                100 * evaluate(session, evaluation, scenes.validation_singles).at("named"));
    save_weights(session, path);
  });
  return path;
}

void take_encoder(Session& session, const std::string& path, const Options& given) {
  const std::string scope = given.encoder_scope.empty() ? "" : given.encoder_scope + "/";
  const LoadReport report = load_parameters(
      session, path,
      {.strict = false, .scopes = {"encoder"}, .rename = {{"encoder/", scope}}, .cast = true});
  if (!report.mismatched.empty())
    throw Error(Errc::bad_configuration, path, " is of another network: ", report.mismatched[0]);
  std::printf("encoder: %zu parameters of %s", report.loaded.size(), path.c_str());
  for (const std::string& name : report.missing) std::printf(", %s is new", name.c_str());
  std::printf("\n");
}
