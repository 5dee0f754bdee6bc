// sparse-lr: logistic regression on 512 examples with 40 out of a million features, SGD. The scores
// are gathered in four jobs; the update runs once over the examples, in their order.
#include <cmath>

#include "bench/onednn/kit.hpp"

namespace onednn_loops {
namespace {

constexpr int64_t kBatch = 512, kPerExample = 40, kChunks = 4, kPart = kBatch / kChunks;
constexpr float kRate = 1;

class SparseLr final : public Loop {
 public:
  SparseLr(const ModelFile& file, Lanes& lanes)
      : lanes_(lanes),
        features_(file.integers("features")),
        labels_(file.floats("labels")),
        w_(file.floats("w")),
        b_(file.floats("b")) {}

  void step() override {
    lanes_.run(kChunks, [&](uint32_t i, int) { chunk(i * kPart); });
    loss_ = 0;
    float all = 0;
    for (int64_t i = 0; i < kBatch; ++i) {
      loss_ += losses_[i];
      all += gradients_[i];
      const float change = kRate * gradients_[i];
      for (int64_t j = 0; j < kPerExample; ++j)
        w_[features_[static_cast<size_t>(i * kPerExample + j)]] -= change;
    }
    b_[0] -= kRate * all;
  }
  double loss() override { return loss_ / kBatch; }

 private:
  void chunk(int64_t first) {
    for (int64_t i = first; i < first + kPart; ++i) {
      const int64_t* at = features_.data() + i * kPerExample;
      float x = b_[0];
      for (int64_t j = 0; j < kPerExample; ++j) x += w_[at[j]];
      scores_[i] = x;
    }
    for (int64_t i = first; i < first + kPart; ++i) {
      const float x = scores_[i], e = std::exp(-std::abs(x));
      losses_[i] = std::max(x, 0.0f) - x * labels_[i] + std::log1p(e);
      const float p = x >= 0 ? 1 / (1 + e) : e / (1 + e);
      gradients_[i] = (p - labels_[i]) / kBatch;
    }
  }

  Lanes& lanes_;
  const std::vector<int64_t> features_;
  const Floats labels_;
  Floats w_, b_;
  float scores_[kBatch] = {}, losses_[kBatch] = {}, gradients_[kBatch] = {};
  double loss_ = 0;
};

}  // namespace

std::unique_ptr<Loop> make_sparse_lr(const ModelFile& file, Lanes& lanes) {
  return std::make_unique<SparseLr>(file, lanes);
}

}  // namespace onednn_loops
