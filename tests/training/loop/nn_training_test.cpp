// Whole networks of troupe/nn.hpp that learn synthetic data with fit(): a perceptron, a
// convolutional network with batch norms, an embedding; and the values that their layers keep in
// shards.

#include <array>
#include <cmath>
#include <functional>

#include "tests/support/fit.hpp"
#include "troupe/nn.hpp"

namespace troupe {
namespace {

// Numbers in [0, 1), the same in every run.
struct Numbers {
  uint64_t state;
  double operator()() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  }
};

// logits = network(model, features), trained on `data` by one tower and tested on `held_out`.
struct Learned {
  FitResult result;
  double accuracy = 0;
};
Learned learn(const std::function<Output(nn::Model&, Output)>& network, DType dtype,
              const Shape& record, const Dataset& data, const Dataset& held_out, int64_t epochs,
              double rate) {
  Graph graph;
  struct Built {
    Output x, labels, logits, loss, update;
  };
  const auto build = [&](bool training) {
    const auto scope = graph.scope({.name = training ? "tower" : "evaluation"});
    nn::Model model(graph, {.training = training, .seed = 3});
    std::vector<int64_t> dims = {-1};
    dims.insert(dims.end(), record.begin(), record.end());
    Built b;
    b.x = placeholder(graph, dtype, Shape(dims), "x");
    b.labels = placeholder(graph, DType::i64, {-1}, "labels");
    b.logits = network(model, b.x);
    b.loss = model.with_penalties(reduce_mean(softmax_cross_entropy(b.logits, b.labels)));
    if (training) b.update = model.with_updates(minimize(b.loss, adam(rate)));
    return b;
  };
  const Built tower = build(true), test = build(false);
  FitOptions options{.epochs = epochs, .batch_size = 32, .validation = held_out};
  options.evaluation = {
      .feeds = {test.x, test.labels}, .fetches = {argmax(test.logits)}, .metrics = {accuracy()}};
  Session session = Session::local(graph, {.threads = 2});
  Learned out;
  out.result =
      fit(session, {{0, tower.loss, tower.update, {tower.x, tower.labels}, {}}}, data, options);
  out.accuracy = out.result.history.back().scores.at("accuracy");
  return out;
}

TEST_CASE("a perceptron with two layers tells the two arms of a spiral apart") {
  const auto arms = [](int64_t n, uint64_t seed) {
    Numbers draw{seed};
    Dataset out{Tensor::empty(DType::f32, {n, 2}), Tensor::empty(DType::i64, {n})};
    for (int64_t i = 0; i < n; ++i) {
      const double radius = 0.2 + draw(),
                   angle = 5 * radius + 3.14159265 * static_cast<double>(i % 2);
      out.features.mutable_data<float>()[2 * i] = static_cast<float>(radius * std::cos(angle));
      out.features.mutable_data<float>()[2 * i + 1] = static_cast<float>(radius * std::sin(angle));
      out.labels.mutable_data<int64_t>()[i] = i % 2;
    }
    return out;
  };
  const auto network = [](nn::Model& model, Output x) {
    const nn::DenseOptions he = {.weights = nn::he_normal(), .regularizer = {.l2 = 1e-5}};
    x = relu(nn::dense(model, x, 32, he));
    x = relu(nn::dense(model, x, 32, he));
    return nn::dense(model, x, 2);
  };
  const Learned learned = learn(network, DType::f32, {2}, arms(480, 1), arms(200, 2), 40, 0.01);
  CHECK(learned.accuracy >= 0.98);
}

TEST_CASE("a small convolutional network with batch norms tells four patterns apart") {
  // Stripes: horizontal, vertical, and along both diagonals, at any phase, under noise.
  const auto patterns = [](int64_t n, uint64_t seed) {
    Numbers draw{seed};
    Dataset out{Tensor::empty(DType::f32, {n, 8, 8, 1}), Tensor::empty(DType::i64, {n})};
    const std::array<std::array<double, 2>, 4> ways = {{{1, 0}, {0, 1}, {1, 1}, {1, -1}}};
    for (int64_t i = 0; i < n; ++i) {
      const double phase = 6.2831853 * draw();
      const auto& way = ways[static_cast<size_t>(i % 4)];
      for (int64_t p = 0; p < 64; ++p)
        out.features.mutable_data<float>()[64 * i + p] =
            static_cast<float>(std::sin(1.5 * (way[0] * static_cast<double>(p / 8) +
                                               way[1] * static_cast<double>(p % 8)) +
                                        phase) +
                               1.5 * (draw() - 0.5));
      out.labels.mutable_data<int64_t>()[i] = i % 4;
    }
    return out;
  };
  const auto network = [](nn::Model& model, Output x) {
    x = relu(nn::batch_norm(model, nn::conv2d(model, x, 8, 3, {.bias = false})));
    x = nn::residual_block(model, max_pool2d(x), 8);
    x = nn::dropout(model, nn::flatten(max_pool2d(x)), 0.2);
    return nn::dense(model, x, 4);
  };
  const Learned learned =
      learn(network, DType::f32, {8, 8, 1}, patterns(320, 1), patterns(160, 2), 6, 0.01);
  CHECK(learned.accuracy >= 0.95);
}

TEST_CASE("an embedding learns which words speak for which class") {
  // Words 0 to 19 vote for class word % 2, the others for none.
  const auto sentences = [](int64_t n, uint64_t seed) {
    Numbers draw{seed};
    Dataset out{Tensor::empty(DType::i64, {n, 9}), Tensor::empty(DType::i64, {n})};
    for (int64_t i = 0; i < n; ++i) {
      int64_t votes = 0;
      for (int64_t w = 0; w < 9; ++w) {
        const auto word = static_cast<int64_t>(draw() * 60);
        out.features.mutable_data<int64_t>()[9 * i + w] = word;
        if (word < 20) votes += word % 2 ? 1 : -1;
      }
      if (votes == 0) {  // the last word decides
        out.features.mutable_data<int64_t>()[9 * i + 8] = i % 20;
        votes = 0;
        for (int64_t w = 0; w < 9; ++w)
          if (const int64_t word = out.features.data<int64_t>()[9 * i + w]; word < 20)
            votes += word % 2 ? 1 : -1;
      }
      out.labels.mutable_data<int64_t>()[i] = votes > 0;
    }
    return out;
  };
  const auto network = [](nn::Model& model, Output x) {
    x = nn::embedding(model, x, 60, 8, {.combiner = Combiner::mean});
    return nn::dense(model, x, 2);
  };
  const Learned learned =
      learn(network, DType::i64, {9}, sentences(1200, 1), sentences(300, 2), 20, 0.03);
  CHECK(learned.accuracy >= 0.95);
}

// A batch norm of one channel that reads its feeds, in two towers.
struct Normed {
  explicit Normed(double decay, int64_t parts = 1) {
    for (int i = 0; i < 2; ++i) {
      const auto scope = graph.scope({.name = detail::concat("tower", i), .replica = i});
      nn::Model model(graph, {.training = true});
      const Output x = placeholder(graph, DType::f64, {-1, 1}, "x");
      const auto sum = accumulate_gradients({x}, parts, [&](const std::vector<Output>& part) {
        model.rewind();
        return reduce_mean(square(nn::batch_norm(model, part[0], {.decay = decay, .name = "n"})));
      });
      all.push_back(
          {i,
           sum.loss,
           model.with_updates(apply_gradients(sum.gradients, sgd(0.01))),
           {x},
           [i](int64_t step) {
             const double at = static_cast<double>(step + 10 * i);
             return std::vector<Tensor>{Tensor::of<double>({at, at + 2, at + 4, at + 6}, {4, 1})};
           }});
    }
  }
  Graph graph;
  std::vector<Tower> all;
};

TEST_CASE("the averages of batch_norm are moved once a step by the mean over towers") {
  Normed normed(0.75);
  Session session = Session::local(normed.graph, {.threads = 2});
  train(session, normed.all, steps(3));
  double mean = 0, variance = 1;
  for (int step = 0; step < 3; ++step) {
    mean = 0.75 * mean + 0.25 * (step + 3 + 5);             // towers see step + 3 and step + 13
    variance = 0.75 * variance + 0.25 * (5.0 * 4.0 / 3.0);  // of 0, 2, 4, 6: 5, times 4 / 3
  }
  const auto values = parameter_values(session);
  CHECK(values.at("n/mean").values<double>()[0] == doctest::Approx(mean).epsilon(1e-14));
  CHECK(values.at("n/variance").values<double>()[0] == doctest::Approx(variance).epsilon(1e-14));
  for (const ParameterSlice& slice : parameter_slices(session)) CHECK(slice.version == 3);
}

TEST_CASE("parts of an accumulated batch move the averages together, once") {
  Normed normed(0.5, 2);  // each part has two records
  Session session = Session::local(normed.graph);
  train(session, normed.all, steps(1));
  const auto values = parameter_values(session);
  CHECK(values.at("n/mean").values<double>()[0] == doctest::Approx(0.5 * (3 + 5)).epsilon(1e-14));
  CHECK(values.at("n/variance").values<double>()[0] ==
        doctest::Approx(0.5 + 0.5 * 2).epsilon(1e-14));  // of 0, 2: 1, times 2
}

TEST_CASE("a training with batch norms is resumed to the same bits") {
  Folder folder("nn-resume");
  TrainOptions options = steps(6);
  const auto run = [&] {
    Normed normed(0.9);
    Session session = Session::local(normed.graph, {.threads = 2});
    return train(session, normed.all, options).weights_sha256;
  };
  const std::string whole = run();
  options.checkpoint_dir = folder.path();
  options.steps = 4;
  run();
  options.steps = 6;
  options.resume = true;
  CHECK(run() == whole);
}

// One network over a batch of 128, trained as a whole and in parts.
TEST_CASE("four micro-batches of 32 train like one batch of 128, but for rounding") {
  const auto trained = [](int64_t parts) {
    Graph graph;
    nn::Model model(graph);
    const Output x = placeholder(graph, DType::f64, {-1, 3}, "x");
    const Output y = placeholder(graph, DType::i64, {-1}, "y");
    const auto sum = accumulate_gradients({x, y}, parts, [&](const std::vector<Output>& part) {
      model.rewind();
      const Output hidden = tanh(nn::dense(model, part[0], 8));
      return reduce_mean(softmax_cross_entropy(nn::dense(model, hidden, 3), part[1]));
    });
    const auto batch = [](int64_t step) {
      Numbers draw{static_cast<uint64_t>(step)};
      Tensor a = Tensor::empty(DType::f64, {128, 3}), b = Tensor::empty(DType::i64, {128});
      for (int64_t i = 0; i < 3 * 128; ++i) a.mutable_data<double>()[i] = draw();
      for (int64_t i = 0; i < 128; ++i) b.mutable_data<int64_t>()[i] = i % 3;
      return std::vector<Tensor>{a, b};
    };
    const Output update = apply_gradients(clip_by_global_norm(sum.gradients, 1), adamw(0.01));
    Session session = Session::local(graph, {.threads = 2});
    train(session, {{0, sum.loss, update, {x, y}, batch}}, steps(10));
    return parameter_values(session);
  };
  const auto whole = trained(1), parts = trained(4);
  REQUIRE(parts.size() == 4);
  for (const auto& [name, value] : whole)
    for (int64_t i = 0; i < value.size(); ++i)
      CHECK(std::abs(parts.at(name).data<double>()[i] - value.data<double>()[i]) < 1e-11);
}

}  // namespace
}  // namespace troupe
