// A small data set in files, and a classifier that reads it as a source, for tests of trainings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_file.hpp"
#include "troupe/custom_op.hpp"
#include "troupe/nn.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/source.hpp"
#include "troupe/training.hpp"

namespace troupe {

inline constexpr int kRecords = 46;

inline std::string idx(std::vector<unsigned char> dims, const std::string& elements) {
  std::string out = {0, 0, 8, static_cast<char>(dims.size())};
  for (const unsigned char d : dims) out += std::string(3, 0) + static_cast<char>(d);
  return out + elements;
}

// Records of two pixels, and labels that tell which one is larger.
struct PixelFiles {
  PixelFiles()
      : images("images", idx({kRecords, 2}, pixels())),
        labels("labels", idx({kRecords}, classes())) {}
  static std::string pixels() {
    std::string out;
    for (int i = 0; i < kRecords; ++i) {
      out += static_cast<char>(i * 37 % 101);
      out += static_cast<char>(i * 59 % 103);
    }
    return out;
  }
  static std::string classes() {
    const std::string p = pixels();
    std::string out;
    for (size_t i = 0; i < p.size(); i += 2) out += static_cast<char>(p[i] > p[i + 1]);
    return out;
  }
  Source source() const { return Source::idx(images.path(), labels.path()); }
  Source batches() const { return source().shuffle(kRecords, 5).batch(4); }
  TempFile images, labels;
};

// A linear classifier with a tower for each replica, which reads a source, or is fed if there is
// none.
struct Classifier {
  explicit Classifier(int replicas, const Source* source,
                      std::shared_ptr<const Registry> ops = builtin_ops(),
                      const std::vector<std::string>& devices = {})
      : graph(std::move(ops)) {
    for (int r = 0; r < replicas; ++r) {
      const auto scope =
          graph.scope({.name = detail::concat("tower", r),
                       .device = devices.empty() ? "" : devices.at(r % devices.size()),
                       .replica = r});
      std::vector<Output> inputs;
      if (source)
        inputs = read_source(graph, *source, {.replicas = replicas}).outputs();
      else
        inputs = {placeholder(graph, DType::u8, {-1, 2}), placeholder(graph, DType::u8, {-1})};
      const Output w = parameter("w", fill(graph, {2, 2}, 0.1));
      const Output logits = matmul(cast(inputs[0], DType::f32) / 100.0, w);
      const Output loss = reduce_mean(softmax_cross_entropy(logits, cast(inputs[1], DType::i64)));
      towers.push_back(
          {r, loss, minimize(loss, momentum(0.1)), source ? std::vector<Output>{} : inputs});
      batches.push_back(inputs);
      answers.push_back(logits);
    }
  }
  Graph graph;
  std::vector<Tower> towers;
  std::vector<std::vector<Output>> batches;
  std::vector<Output> answers;
};

}  // namespace troupe
