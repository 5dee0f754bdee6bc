// Fixtures of the tests of train(): a small training, a folder for its checkpoints, and an
// exception that a program throws.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/training.hpp"
#include "tests/support/paths.hpp"

namespace troupe {

// Two towers that fit one weight; the batch of each step is a function of the step.
struct Fit {
  explicit Fit(const Optimizer& optimizer = sgd(0.01), int towers = 2) {
    for (int i = 0; i < towers; ++i) {
      auto scope = graph.scope({.name = detail::concat("tower", i), .replica = i});
      Output x = placeholder(graph, DType::f64, {-1, 1}, "x");
      Output w = parameter("w", fill(graph, {1, 1}, 0, DType::f64));
      Output loss = reduce_mean(square(matmul(x, w) - x * 3.0));
      all.push_back({i, loss, minimize(loss, optimizer), {x}, [i](int64_t step) {
                       const double v = static_cast<double>(step % 3 + i);
                       return std::vector<Tensor>{Tensor::of<double>({v, v + 1}, {2, 1})};
                     }});
    }
  }
  Graph graph;
  std::vector<Tower> all;
};

// The same with a session of its own in this process.
struct LocalFit : Fit {
  explicit LocalFit(const Optimizer& optimizer = sgd(0.01), int towers = 2)
      : Fit(optimizer, towers) {}
  TrainResult train(const TrainOptions& options) { return troupe::train(session, all, options); }
  Session session = Session::local(graph, {.threads = 2});
};

// The result of training a new Fit in this process.
inline TrainResult trained(const TrainOptions& options, const Optimizer& optimizer = sgd(0.01)) {
  return LocalFit(optimizer).train(options);
}

class Folder {
 public:
  explicit Folder(const std::string& name) : path_(binary_dir() + "/test-" + name) {
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  size_t manifests() const {
    size_t n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      n += entry.path().string().ends_with(".manifest.json");
    return n;
  }

 private:
  std::string path_;
};

inline TrainOptions steps(int64_t n) { return {.steps = n}; }

struct Stranger {  // no std::exception
  int number;
};

}  // namespace troupe
