// cnn: 28x28x1, 5x5x32, pool, 5x5x64, pool, 512, 10, batch 64, SGD. A job takes four images through
// all convolution layers, forward and back, while they are in the cache.
#include "bench/onednn/kit.hpp"

namespace onednn_loops {
namespace {

constexpr int64_t kBatch = 64, kImages = 4, kChunks = kBatch / kImages;
constexpr int64_t kSide = 28, kC1 = 32, kC2 = 64, kFlat = 7 * 7 * kC2, kWide = 512, kOut = 10;
constexpr int64_t kBlock = 256, kBlocks = kWide / kBlock;           // columns of the wide layer
constexpr int64_t kPart = 448, kParts = kFlat / kPart, kRows = 16;  // of the wide layer's input
constexpr float kRate = 0.01f;
constexpr int64_t kZ1 = kSide * kSide * kC1, kP1 = kZ1 / 4;  // size of an image after each layer
constexpr int64_t kZ2 = 14 * 14 * kC2, kP2 = kFlat;

class Cnn final : public Loop {
 public:
  Cnn(const ModelFile& file, Lanes& lanes)
      : lanes_(lanes),
        x_(file.floats("x")),
        labels_(file.integers("labels")),
        first_({.images = kImages,
                .side = kSide,
                .in = 1,
                .window = 5,
                .out = kC1,
                .bias = true,
                .relu = true},
               kChunks, file.floats("w0"), file.floats("b0"), false),
        second_({.images = kImages,
                 .side = 14,
                 .in = kC1,
                 .window = 5,
                 .out = kC2,
                 .bias = true,
                 .relu = true},
                kChunks, file.floats("w1"), file.floats("b1"), true),
        w2_(file.floats("w2")),
        w3_(file.floats("w3")),
        b2_(file.floats("b2")),
        b3_(file.floats("b3")) {
    for (int64_t i = 0; i < kChunks; ++i) {
      const int64_t at = i * kImages;
      first_.bind(i, x_ + at * kSide * kSide, z1_ + at * kZ1, dz1_ + at * kZ1, nullptr);
      second_.bind(i, p1_ + at * kP1, z2_ + at * kZ2, dz2_ + at * kZ2, dp1_ + at * kP1);
    }
    bind_dense();
  }

  void step() override {
    lanes_.run(kChunks, [&](uint32_t i, int lane) {
      const int64_t at = i * kImages;
      first_.forward(i, lane);
      max_pool(z1_ + at * kZ1, p1_ + at * kP1, kImages, kSide, kC1);
      second_.forward(i, lane);
      max_pool(z2_ + at * kZ2, p2_ + at * kP2, kImages, 14, kC2);
    });
    lanes_.run(kBlocks, [&](uint32_t j, int lane) { forward2_[j].run(lane); });
    lanes_.run(kBatch / kRows, [&](uint32_t i, int lane) {
      forward3_[i].run(lane);
      losses_[i] = softmax_loss(logits_ + i * kRows * kOut, labels_.data() + i * kRows, kRows, kOut,
                                1.0f / kBatch);
    });
    lanes_.run(1, [&](uint32_t, int lane) {
      back3_.run(lane);
      relu_mask(dh_, h_, kBatch, kWide, kWide);
      update3_.run(lane);
      bias_update(b3_, logits_, kBatch, kOut, kOut, kRate);
      bias_update(b2_, dh_, kBatch, kWide, kWide, kRate);
    });
    lanes_.run(kParts, [&](uint32_t j, int lane) {
      back2_[j].run(lane);    // reads only the rows of w2
      update2_[j].run(lane);  // that this job writes
    });
    lanes_.run(kChunks, [&](uint32_t i, int lane) {
      const int64_t at = i * kImages;
      max_pool_relu_gradient(z2_ + at * kZ2, dp2_ + at * kP2, dz2_ + at * kZ2, kImages, 14, kC2);
      second_.filter_gradient(i, lane);
      second_.input_gradient(i, lane);
      max_pool_relu_gradient(z1_ + at * kZ1, dp1_ + at * kP1, dz1_ + at * kZ1, kImages, kSide, kC1);
      first_.filter_gradient(i, lane);
    });
    lanes_.run(2,
               [&](uint32_t i, int lane) { (i == 0 ? second_ : first_).update(kRate, 0, lane); });
  }

  double loss() override {
    double sum = 0;
    for (const double part : losses_) sum += part;
    return sum / kBatch;
  }

 private:
  void bind_dense() {
    for (int64_t j = 0; j < kBlocks; ++j)
      forward2_.push_back(
          product(kBatch, kFlat, kBlock, p2_, w2_ + j * kBlock, h_ + j * kBlock,
                  {.b_row = kWide, .c_row = kWide, .bias = b2_ + j * kBlock, .relu = true}));
    for (int64_t i = 0; i < kBatch / kRows; ++i)
      forward3_.push_back(product(kRows, kWide, kOut, h_ + i * kRows * kWide, w3_,
                                  logits_ + i * kRows * kOut, {.bias = b3_}));
    back3_ = product(kBatch, kOut, kWide, logits_, w3_, dh_, {.b_transposed = true});
    update3_ = product(kWide, kBatch, kOut, h_, logits_, w3_,
                       {.a_transposed = true, .scale = -kRate, .add = true});
    for (int64_t j = 0; j < kParts; ++j) {
      const int64_t at = j * kPart;
      back2_.push_back(product(kBatch, kWide, kPart, dh_, w2_ + at * kWide, dp2_ + at,
                               {.c_row = kFlat, .b_transposed = true}));
      update2_.push_back(
          product(kPart, kBatch, kWide, p2_ + at, dh_, w2_ + at * kWide,
                  {.a_row = kFlat, .a_transposed = true, .scale = -kRate, .add = true}));
    }
  }

  Lanes& lanes_;
  const Floats x_;
  const std::vector<int64_t> labels_;
  ConvolutionLayer first_, second_;
  Floats w2_, w3_, b2_, b3_;
  Floats z1_{kBatch * kZ1}, p1_{kBatch * kP1}, z2_{kBatch * kZ2}, p2_{kBatch * kP2};
  Floats dz1_{kBatch * kZ1}, dp1_{kBatch * kP1}, dz2_{kBatch * kZ2}, dp2_{kBatch * kP2};
  Floats h_{kBatch * kWide}, dh_{kBatch * kWide}, logits_{kBatch * kOut};
  std::vector<Call> forward2_, forward3_, back2_, update2_;
  Call back3_, update3_;
  double losses_[kBatch / kRows] = {};
};

}  // namespace

std::unique_ptr<Loop> make_cnn(const ModelFile& file, Lanes& lanes) {
  return std::make_unique<Cnn>(file, lanes);
}

}  // namespace onednn_loops
