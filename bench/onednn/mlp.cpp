// mlp: 784-1024-1024-10, batch 128, SGD. Products are cut into blocks of 512 columns. The gradient
// of the weights is never stored: its product, times -rate, is added to them directly.
#include "bench/onednn/kit.hpp"

namespace onednn_loops {
namespace {

constexpr int64_t kBatch = 128, kIn = 784, kWide = 1024, kOut = 10, kBlock = 512;
constexpr int64_t kBlocks = kWide / kBlock, kRows = 32;
constexpr float kRate = 0.01f;

class Mlp final : public Loop {
 public:
  Mlp(const ModelFile& file, Lanes& lanes)
      : lanes_(lanes),
        x_(file.floats("x")),
        labels_(file.integers("labels")),
        w0_(file.floats("w0")),
        w1_(file.floats("w1")),
        w2_(file.floats("w2")),
        b0_(file.floats("b0")),
        b1_(file.floats("b1")),
        b2_(file.floats("b2")) {
    for (int64_t j = 0; j < kBlocks; ++j) {
      const int64_t at = j * kBlock;
      forward0_.push_back(layer(x_, kIn, w0_, b0_, h0_, at));
      forward1_.push_back(layer(h0_, kWide, w1_, b1_, h1_, at));
      back1_.push_back(product(kBatch, kOut, kBlock, logits_, w2_ + at * kOut, dh1_ + at,
                               {.c_row = kWide, .b_transposed = true}));
      back0_.push_back(product(kBatch, kWide, kBlock, dh1_, w1_ + at * kWide, dh0_ + at,
                               {.c_row = kWide, .b_transposed = true}));
      update1_.push_back(update(h0_, kWide, dh1_, w1_, at));
      update0_.push_back(update(x_, kIn, dh0_, w0_, at));
      update2_.push_back(
          product(kBlock, kBatch, kOut, h1_ + at, logits_, w2_ + at * kOut,
                  {.a_row = kWide, .a_transposed = true, .scale = -kRate, .add = true}));
    }
    for (int64_t i = 0; i < kBatch / kRows; ++i)
      forward2_.push_back(product(kRows, kWide, kOut, h1_ + i * kRows * kWide, w2_,
                                  logits_ + i * kRows * kOut, {.bias = b2_}));
  }

  void step() override {
    lanes_.run(kBlocks, [&](uint32_t j, int lane) { forward0_[j].run(lane); });
    lanes_.run(kBlocks, [&](uint32_t j, int lane) { forward1_[j].run(lane); });
    lanes_.run(kBatch / kRows, [&](uint32_t i, int lane) {
      forward2_[i].run(lane);
      losses_[i] = softmax_loss(logits_ + i * kRows * kOut, labels_.data() + i * kRows, kRows, kOut,
                                1.0f / kBatch);
    });
    lanes_.run(kBlocks, [&](uint32_t j, int lane) {
      back1_[j].run(lane);
      finish(dh1_, h1_, b1_, j);
    });
    lanes_.run(kBlocks, [&](uint32_t j, int lane) {
      back0_[j].run(lane);
      finish(dh0_, h0_, b0_, j);
    });
    lanes_.run(3 * kBlocks, [&](uint32_t job, int lane) {
      const uint32_t j = job % kBlocks;
      if (job < kBlocks) return update1_[j].run(lane);
      if (job < 2 * kBlocks) return update0_[j].run(lane);
      update2_[j].run(lane);
      if (j == 0) bias_update(b2_, logits_, kBatch, kOut, kOut, kRate);
    });
  }

  double loss() override {
    double sum = 0;
    for (const double part : losses_) sum += part;
    return sum / kBatch;
  }

 private:
  static Call layer(const Floats& in, int64_t width, const Floats& w, const Floats& b,
                    const Floats& out, int64_t at) {
    return product(kBatch, width, kBlock, in, w + at, out + at,
                   {.b_row = kWide, .c_row = kWide, .bias = b + at, .relu = true});
  }
  static Call update(const Floats& in, int64_t width, const Floats& d, const Floats& w,
                     int64_t at) {
    return product(
        width, kBatch, kBlock, in, d + at, w + at,
        {.b_row = kWide, .c_row = kWide, .a_transposed = true, .scale = -kRate, .add = true});
  }
  static void finish(const Floats& d, const Floats& h, const Floats& b, uint32_t j) {
    const int64_t at = j * kBlock;
    relu_mask(d + at, h + at, kBatch, kBlock, kWide);
    bias_update(b + at, d + at, kBatch, kBlock, kWide, kRate);
  }

  Lanes& lanes_;
  const Floats x_;
  const std::vector<int64_t> labels_;
  Floats w0_, w1_, w2_, b0_, b1_, b2_;
  Floats h0_{kBatch * kWide}, h1_{kBatch * kWide}, dh0_{kBatch * kWide}, dh1_{kBatch * kWide};
  Floats logits_{kBatch * kOut};  // and their gradient
  std::vector<Call> forward0_, forward1_, forward2_, back0_, back1_, update0_, update1_, update2_;
  double losses_[kBatch / kRows] = {};
};

}  // namespace

std::unique_ptr<Loop> make_mlp(const ModelFile& file, Lanes& lanes) {
  return std::make_unique<Mlp>(file, lanes);
}

}  // namespace onednn_loops
