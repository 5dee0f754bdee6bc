// images: a residual or an inception network that learns the classes of pictures.
//
// The pictures are JPEG or PNG files in folders, one folder a class, or a tar of such folders, as
// CIFAR-10. Each tower reads its own part of each batch where it runs: files are decoded, cropped
// and flipped by the source, and this program sees only their number.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "apps/images/network.hpp"
#include "apps/program/plot.hpp"
#include "apps/program/program.hpp"
#include "troupe/files.hpp"
#include "troupe/nn.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

using namespace troupe;

namespace {

constexpr int64_t kWindow = 60'000;  // pictures, as bytes of their files, that a draw chooses from
constexpr int64_t kAtOnce = 250;     // pictures, in evaluation

struct Options : ProgramOptions {
  NetworkOptions network;
  std::string rule = "sync";
  int64_t epochs = 3, batch = 128, replicas = 2, threads = 1, held_out = 10, warm_up = 0;
  std::vector<double> decay_at;
  double learning_rate = 0.1;
  bool read_only = false;
};

struct Pictures {
  Source train, validation, test;  // of batches
  Shape shape;                     // [h, w, channels]
  std::vector<std::string> classes;
};

// A folder or an archive called `part` in --data.
std::string find_part(const std::string& folder, const std::string& part) {
  for (const char* end : {"", ".tar", ".tar.gz"}) {
    const std::filesystem::path path = std::filesystem::path(folder) / (part + end);
    if (std::filesystem::exists(path)) return std::filesystem::absolute(path).string();
  }
  throw Error(Errc::io, folder, " has no ", part, ", ", part, ".tar or ", part,
              ".tar.gz; wanted are pictures CLASS/NAME for training (train) and testing (test)");
}

Pictures load(const Options& given) {
  if (!given.data) throw Error(Errc::invalid_argument, "--data is missing; it names a folder");
  const std::string train = find_part(*given.data, "train"), test = find_part(*given.data, "test");
  const std::vector<std::string> classes = image_classes(train);
  const auto pictures = [&](const std::string& path) {
    return Source::of("images", {{"path", path}, {"classes", classes}});
  };
  const Source all = pictures(train);
  const Shape shape = all.records().fields()[0].type.shape;
  const SourceArgs scale = {{"mean", std::vector<double>{0.5}}, {"std", std::vector<double>{0.25}}};
  const auto in_order = [&](const Source& source) {
    return source.map("to_float", scale).batch(kAtOnce).prefetch(given.threads);
  };
  const auto seed = static_cast<uint64_t>(given.seed);
  // Each picture moves by up to an eighth of its size, and half of them are mirrored.
  const SourceArgs crop = {{"size", std::vector<int64_t>{shape[0], shape[1]}},
                           {"padding", std::max(shape[0], shape[1]) / 8}};
  const Source drawn = (given.held_out > 0 ? all.but_every(given.held_out) : all)
                           .shuffle(kWindow, seed)
                           .map("random_crop", crop, seed)
                           .map("random_flip", {}, seed)
                           .map("to_float", scale);
  const Source test_pictures = in_order(pictures(test));
  return {drawn.batch(given.batch / given.replicas).prefetch(given.threads),
          given.held_out > 0 ? in_order(all.every(given.held_out)) : test_pictures, test_pictures,
          shape, classes};
}

struct Network {
  std::vector<Tower> towers;
  Evaluation evaluation;
};

Network build(Graph& graph, const Cluster& cluster, const Pictures& data,
              const Optimizer& optimizer, const Options& given) {
  Network out;
  const auto classes = static_cast<int64_t>(data.classes.size());
  for (int64_t i = 0; i < given.replicas; ++i) {
    const auto scope = graph.scope(
        {.name = detail::concat("tower", i), .device = cluster.device(i), .replica = i});
    nn::Model model(graph, {.training = true, .seed = given.seed});
    const SourceBatch batch = read_source(graph, data.train, {.replicas = given.replicas});
    const Output logits = logits_of(model, batch["image"], given.network, classes);
    const Output loss =
        model.with_penalties(reduce_mean(softmax_cross_entropy(logits, batch["label"])));
    out.towers.push_back({i, loss, model.with_updates(minimize(loss, optimizer))});
  }
  const auto scope = graph.scope({.name = "answer", .device = cluster.device(0)});
  nn::Model model(graph, {.reuse = true});
  const Output images =
      placeholder(graph, DType::f32, {-1, data.shape[0], data.shape[1], data.shape[2]});
  const Output labels = placeholder(graph, DType::i64, {-1});
  const Output logits = logits_of(model, images, given.network, classes);
  out.evaluation = {.feeds = {images, labels},
                    .fetches = {argmax(logits), reduce_mean(softmax_cross_entropy(logits, labels))},
                    .metrics = {accuracy(0), mean_loss(1)}};
  return out;
}

// How fast the pictures of an epoch come, without a network.
void read_epoch(const Pictures& data, const Options& given) {
  Graph graph;
  const Output number = placeholder(graph, DType::i64, {});
  const SourceBatch batch = read_source(graph, data.train, {.number = number});
  Session session = Session::local(graph);
  const int64_t steps = data.train.steps_per_epoch();
  const auto begin = std::chrono::steady_clock::now();
  int64_t pictures = 0;
  ProgressLine line("reading");
  for (int64_t step = 0; step < steps; ++step) {
    const auto got =
        session.run({batch["image"], batch["label"]}, {{number, Tensor::scalar(step)}});
    pictures += got[1].size();
    line.show("batches", step + 1, steps);
  }
  line.end();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("reading: %lld pictures in %.2f s, %.0f pictures/s on %lld threads\n",
              static_cast<long long>(pictures), seconds.count(),
              static_cast<double>(pictures) / seconds.count(),
              static_cast<long long>(given.threads));
}

void check(const Options& given) {
  check(given.network);
  if (given.epochs < 1 || given.threads < 1)
    throw Error(Errc::invalid_argument, "--epochs and --threads want at least 1");
  check_batch(given.batch, given.replicas);
  if (given.held_out < 0 || given.held_out == 1 || given.warm_up < 0)
    throw Error(Errc::invalid_argument,
                "--held-out wants 0, or 2 and more; --warm-up 0 or more steps");
  double before = 0;
  for (const double epoch : given.decay_at)
    if (!(epoch > std::exchange(before, epoch) && epoch < 1e6))
      throw Error(Errc::invalid_argument,
                  "--decay-at wants epochs above 0, each above the one before, got ", epoch);
}

// Along a cosine to 0 at the end, or to a tenth after each epoch of --decay-at. Schedules count
// from the end of the warm-up.
Optimizer optimizer_of(const Options& given, int64_t steps) {
  const int64_t warm_up = updates_in(given.warm_up, given.rule, given.replicas);
  const auto updates = [&](double epochs) {
    return updates_in(std::llround(epochs * static_cast<double>(steps)), given.rule,
                      given.replicas) -
           warm_up;
  };
  std::vector<int64_t> boundaries;
  for (const double epoch : given.decay_at) boundaries.push_back(updates(epoch));
  const int64_t first =
      boundaries.empty() ? updates(static_cast<double>(given.epochs)) : boundaries[0];
  if (first < 1)
    throw Error(Errc::invalid_argument, "--warm-up of ", given.warm_up,
                " steps does not end before the rate falls; an epoch has ", steps, " steps");
  return momentum(given.learning_rate)
      .with(boundaries.empty() ? cosine_decay(first, 0, warm_up)
                               : piecewise_decay(boundaries, 0.1, warm_up));
}

int run(const Options& given) {
  check(given);
  const Pictures data = load(given);
  const int64_t steps = data.train.steps_per_epoch(given.replicas);
  std::printf("data: %s, %zu classes of pictures %s, %lld steps an epoch\n", given.data->c_str(),
              data.classes.size(), to_string(data.shape).c_str(), static_cast<long long>(steps));
  if (given.read_only) return read_epoch(data, given), 0;
  const Cluster cluster = given.where();
  const OutFolder out(given.out, true);

  Graph graph(given.process().ops);
  const Network net = build(graph, cluster, data, optimizer_of(given, steps), given);
  Session session = cluster.open(graph, given.process());

  FitOptions options;
  options.epochs = given.epochs;
  options.batch_size = given.batch / given.replicas;
  options.validation_source = data.validation;
  options.evaluation = net.evaluation;
  const Fitted fitted =
      fit_in_sight(session, net.towers, data.train, options, given, out, given.rule);
  after_training(session, fitted.options, [&] {
    const Scores scores = evaluate(session, net.evaluation, data.test);
    std::printf("test: accuracy %.2f %%, loss %.4f\n", 100 * scores.at("accuracy"),
                scores.at("loss"));
    save_weights(session, (out / "weights.safetensors").string());
  });
  std::printf("weights: %s\n", (out / "weights.safetensors").c_str());
  Plot curve{given.network.name + ": classes of pictures", "epoch", "loss, accuracy"};
  const std::string part = given.held_out > 0 ? "validation" : "test";
  for (const FitEpoch& epoch : fitted.result.history) {
    const auto x = static_cast<double>(epoch.epoch);
    curve.add("training loss", x, epoch.loss);
    for (const auto& [name, score] : epoch.scores)
      curve.add(detail::concat(part, " ", name), x, score);
  }
  std::printf("curve: %s\n", write_plot(out, "curve", curve, given.say()).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options given;
  given.name = "images", given.out = "out/images";
  return run_program(
      given, "a residual or inception network for the classes of pictures", argc, argv,
      [&](Flags& flags) {
        add_network_flags(flags, given.network);
        flags.add("epochs", &given.epochs, "of the training pictures");
        flags.add("batch", &given.batch, "pictures in a step, of all replicas");
        flags.add("replicas", &given.replicas, "towers, each with its part of a batch");
        flags.add("threads", &given.threads, "that read and decode for each tower");
        flags.add("learning-rate", &given.learning_rate, "of momentum");
        flags.add("decay-at", &given.decay_at,
                  "epoch after which the rate is a tenth, a fraction too; again for a second one "
                  "(default: it falls along a cosine to 0 at the end)");
        flags.add("warm-up", &given.warm_up, "steps until the learning rate is reached");
        flags.add("held-out", &given.held_out,
                  "every so many-th training picture validates; 0: the test pictures do");
        flags.add("rule", &given.rule, kRules);
        flags.add("read-only", &given.read_only, "reads an epoch, and says how fast that is");
        add_common_flags(flags, given,
                         {.data = "folder with train and test, each a folder CLASS/NAME of "
                                  "pictures, or a .tar or .tar.gz of one; each tower keeps up to "
                                  "60000 of the training files in memory",
                          .seed = "for initial values, the order of pictures and their crops",
                          .resume = "go on from the newest checkpoint in --out"});
      },
      [&] { return run(given); });
}
