// inception: 28x28x192 through blocks 3a and 3b, batch 32, SGD. A job takes four images through
// both blocks, forward or back.
#include "bench/onednn/kit.hpp"

namespace onednn_loops {
namespace {

using dnnl::memory;

constexpr int64_t kBatch = 32, kImages = 4, kChunks = kBatch / kImages, kSide = 28;
constexpr int64_t kPixels = kSide * kSide, kIn = 192, kMiddle = 256, kLast = 480, kOut = 10;
constexpr float kRate = 0.1f;

// 3x3 max pooling with stride 1 over a chunk.
class Pool {
 public:
  Pool(int64_t channels, bool back) : back_(back) {
    const memory::desc images({kImages, channels, kSide, kSide}, memory::data_type::f32,
                              memory::format_tag::nhwc);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto max = dnnl::algorithm::pooling_max;
    forward_ = std::make_unique<dnnl::pooling_forward::primitive_desc>(
        dnnl::pooling_forward::desc(dnnl::prop_kind::forward_training, max, images, images, {1, 1},
                                    {3, 3}, {1, 1}, {1, 1}),
        attr, engine());
    if (back)
      backward_ = std::make_unique<dnnl::pooling_backward::primitive_desc>(
          dnnl::pooling_backward::desc(max, images, images, {1, 1}, {3, 3}, {1, 1}, {1, 1}), attr,
          engine(), *forward_);
  }
  void bind(const float* x, float* y, const float* dy, float* dx) {
    const auto desc = forward_->src_desc();
    const auto where = forward_->workspace_desc();
    places_.emplace_back(static_cast<int64_t>(where.get_size() / sizeof(float) + 1));
    calls_.push_back({dnnl::pooling_forward(*forward_),
                      forward_->scratchpad_desc(),
                      {{DNNL_ARG_SRC, {desc, const_cast<float*>(x)}},
                       {DNNL_ARG_DST, {desc, y}},
                       {DNNL_ARG_WORKSPACE, {where, places_.back().get()}}}});
    if (back_)
      back_calls_.push_back({dnnl::pooling_backward(*backward_),
                             backward_->scratchpad_desc(),
                             {{DNNL_ARG_DIFF_DST, {desc, const_cast<float*>(dy)}},
                              {DNNL_ARG_DIFF_SRC, {desc, dx}},
                              {DNNL_ARG_WORKSPACE, {where, places_.back().get()}}}});
  }
  void forward(uint32_t chunk, int lane) const { calls_[chunk].run(lane); }
  void back(uint32_t chunk, int lane) const { back_calls_[chunk].run(lane); }

 private:
  bool back_;
  std::unique_ptr<dnnl::pooling_forward::primitive_desc> forward_;
  std::unique_ptr<dnnl::pooling_backward::primitive_desc> backward_;
  std::vector<Floats> places_;
  std::vector<Call> calls_, back_calls_;
};

// One of six convolutions, with its relu: its output, and the gradient of that.
struct Layer {
  int64_t channels;
  ConvolutionLayer convolution;
  Floats y, dy;

  Layer(const ModelFile& file, int number, int64_t in, int64_t window, int64_t out, bool back)
      : channels(out),
        convolution({.images = kImages,
                     .side = kSide,
                     .in = in,
                     .window = window,
                     .out = out,
                     .bias = true,
                     .relu = true},
                    kChunks, file.floats("w", number), file.floats("b", number), back),
        y(kBatch * kPixels * out),
        dy(kBatch * kPixels * out) {}
  int64_t size() const { return kImages * kPixels * channels; }  // of one chunk
};

// The six convolutions: 1x1; 1x1 and 3x3; 1x1 and 5x5; pool and 1x1. Numbers 0, 2, 4 and 5 make the
// concatenated outputs.
class Block {
 public:
  static constexpr int kEnds[] = {0, 2, 4, 5};

  Block(const ModelFile& file, int first, int64_t in, const std::vector<int64_t>& out, bool back)
      : in_(in), back_(back), pool_(in, back), pooled_(kBatch * kPixels * in) {
    layers_.reserve(6);
    layers_.emplace_back(file, first, in, 1, out[0], back);
    layers_.emplace_back(file, first + 1, in, 1, out[1], back);
    layers_.emplace_back(file, first + 2, out[1], 3, out[2], true);
    layers_.emplace_back(file, first + 3, in, 1, out[3], back);
    layers_.emplace_back(file, first + 4, out[3], 5, out[4], true);
    layers_.emplace_back(file, first + 5, in, 1, out[5], back);
    if (!back) return;
    for (Floats& part : parts_) part = Floats(kBatch * kPixels * in);
  }

  // dx: the gradient of x, computed in the backward half.
  void bind(const float* x, float* dx) {
    dx_ = dx;
    for (int64_t i = 0; i < kChunks; ++i) {
      const int64_t at = i * kImages * kPixels * in_;
      const auto layer = [&](int l, const float* from, float* gradient) {
        Layer& me = layers_[static_cast<size_t>(l)];
        me.convolution.bind(i, from, me.y + i * me.size(), me.dy + i * me.size(), gradient);
      };
      const auto inner = [&](int l) {
        return layers_[static_cast<size_t>(l)].y + i * layers_[static_cast<size_t>(l)].size();
      };
      const auto inner_gradient = [&](int l) {
        return layers_[static_cast<size_t>(l)].dy + i * layers_[static_cast<size_t>(l)].size();
      };
      const auto part = [&](int p) { return back_ ? parts_[p] + at : nullptr; };
      layer(0, x + at, back_ ? dx + at : nullptr);
      layer(1, x + at, part(0));
      layer(2, inner(1), inner_gradient(1));
      layer(3, x + at, part(1));
      layer(4, inner(3), inner_gradient(3));
      pool_.bind(x + at, pooled_ + at, part(2), part(3));
      layer(5, pooled_ + at, part(2));
    }
  }

  void forward(uint32_t i, int lane) {
    for (const int l : {0, 1, 2, 3, 4}) at(l).convolution.forward(i, lane);
    pool_.forward(i, lane);
    at(5).convolution.forward(i, lane);
  }
  // Requires: dy of the four ends, masked by their relus.
  void back(uint32_t i, int lane) {
    for (const int l : {2, 4}) {
      at(l).convolution.filter_gradient(i, lane);
      at(l).convolution.input_gradient(i, lane);
      Layer& inner = at(l - 1);
      relu_mask(inner.dy + i * inner.size(), inner.y + i * inner.size(), 1, inner.size(), 0);
    }
    for (const int l : {0, 1, 3, 5}) {
      at(l).convolution.filter_gradient(i, lane);
      if (back_) at(l).convolution.input_gradient(i, lane);
    }
    if (!back_) return;
    pool_.back(i, lane);
    const int64_t size = kImages * kPixels * in_, from = i * size;
    float* to = dx_ + from;
    const float *a = parts_[0] + from, *b = parts_[1] + from, *c = parts_[3] + from;
    ONEDNN_INDEPENDENT
    for (int64_t k = 0; k < size; ++k) to[k] += a[k] + b[k] + c[k];
  }
  Layer& at(int l) { return layers_[static_cast<size_t>(l)]; }

 private:
  int64_t in_;
  bool back_;
  Pool pool_;
  Floats pooled_;
  std::vector<Layer> layers_;
  Floats parts_[4];  // gradients of x: second and third branch, after and before the pool
  float* dx_ = nullptr;
};

class Inception final : public Loop {
 public:
  Inception(const ModelFile& file, Lanes& lanes)
      : lanes_(lanes),
        x_(file.floats("x")),
        labels_(file.integers("labels")),
        first_(file, 0, kIn, {64, 96, 128, 16, 32, 32}, false),
        second_(file, 6, kMiddle, {128, 128, 192, 32, 96, 64}, true),
        w_(file.floats("w12")),
        b_(file.floats("b12")) {
    first_.bind(x_, nullptr);
    second_.bind(middle_, dmiddle_);
    forward_dense_ = product(
        {.m = kBatch, .k = kLast, .n = kOut, .a = pooled_, .b = w_, .c = logits_, .bias = b_});
    back_dense_ = product(kBatch, kOut, kLast, logits_, w_, dpooled_, {.b_transposed = true});
    update_dense_ = product(kLast, kBatch, kOut, pooled_, logits_, w_,
                            {.a_transposed = true, .scale = -kRate, .add = true});
  }

  void step() override {
    lanes_.run(kChunks, [&](uint32_t i, int lane) {
      first_.forward(i, lane);
      join(i);
      second_.forward(i, lane);
      pool(i);
    });
    forward_dense_.run(0);
    loss_ = softmax_loss(logits_, labels_.data(), kBatch, kOut, 1.0f / kBatch) / kBatch;
    back_dense_.run(0);
    update_dense_.run(0);
    bias_update(b_, logits_, kBatch, kOut, kOut, kRate);
    lanes_.run(kChunks, [&](uint32_t i, int lane) {
      spread(i);
      second_.back(i, lane);
      cut(i);
      first_.back(i, lane);
    });
    lanes_.run(12, [&](uint32_t l, int lane) {
      Block& block = l < 6 ? first_ : second_;
      block.at(static_cast<int>(l % 6)).convolution.update(kRate, 0, lane);
    });
  }
  double loss() override { return loss_; }

 private:
  // The concatenation after the first block, and its gradient, masked by the relus.
  void join(uint32_t i) {
    int64_t column = 0;
    for (const int l : Block::kEnds) {
      const Layer& from = first_.at(l);
      const float* y = from.y + i * from.size();
      float* to = middle_ + i * kImages * kPixels * kMiddle + column;
      for (int64_t p = 0; p < kImages * kPixels; ++p)
        for (int64_t c = 0; c < from.channels; ++c) to[p * kMiddle + c] = y[p * from.channels + c];
      column += from.channels;
    }
  }
  void cut(uint32_t i) {
    int64_t column = 0;
    for (const int l : Block::kEnds) {
      Layer& to = first_.at(l);
      const float* y = to.y + i * to.size();
      float* dy = to.dy + i * to.size();
      const float* from = dmiddle_ + i * kImages * kPixels * kMiddle + column;
      for (int64_t p = 0; p < kImages * kPixels; ++p) ONEDNN_INDEPENDENT
      for (int64_t c = 0; c < to.channels; ++c) {
        const int64_t at = p * to.channels + c;
        dy[at] = y[at] > 0 ? from[p * kMiddle + c] : 0;
      }
      column += to.channels;
    }
  }
  // The means of all channels after the second block, and their gradients.
  void pool(uint32_t i) {
    int64_t column = 0;
    for (const int l : Block::kEnds) {
      const Layer& from = second_.at(l);
      for (int64_t image = 0; image < kImages; ++image) {
        const float* y = from.y + i * from.size() + image * kPixels * from.channels;
        float sums[256] = {};
        for (int64_t p = 0; p < kPixels; ++p)
          for (int64_t c = 0; c < from.channels; ++c) sums[c] += y[p * from.channels + c];
        float* to = pooled_ + (i * kImages + image) * kLast + column;
        for (int64_t c = 0; c < from.channels; ++c) to[c] = sums[c] / kPixels;
      }
      column += from.channels;
    }
  }
  void spread(uint32_t i) {
    int64_t column = 0;
    for (const int l : Block::kEnds) {
      Layer& to = second_.at(l);
      for (int64_t image = 0; image < kImages; ++image) {
        const float* d = dpooled_ + (i * kImages + image) * kLast + column;
        const int64_t first = i * to.size() + image * kPixels * to.channels;
        const float* y = to.y + first;
        float* dy = to.dy + first;
        for (int64_t p = 0; p < kPixels; ++p) ONEDNN_INDEPENDENT
        for (int64_t c = 0; c < to.channels; ++c) {
          const int64_t at = p * to.channels + c;
          dy[at] = y[at] > 0 ? d[c] / kPixels : 0;
        }
      }
      column += to.channels;
    }
  }

  Lanes& lanes_;
  const Floats x_;
  const std::vector<int64_t> labels_;
  Block first_, second_;
  Floats middle_{kBatch * kPixels * kMiddle}, dmiddle_{kBatch * kPixels * kMiddle};
  Floats w_, b_, pooled_{kBatch * kLast}, dpooled_{kBatch * kLast}, logits_{kBatch * kOut};
  Call forward_dense_, back_dense_, update_dense_;
  double loss_ = 0;
};

}  // namespace

std::unique_ptr<Loop> make_inception(const ModelFile& file, Lanes& lanes) {
  return std::make_unique<Inception>(file, lanes);
}

}  // namespace onednn_loops
