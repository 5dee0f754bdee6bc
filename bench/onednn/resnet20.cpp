// resnet20: 32x32x3, batch 64, momentum (defined in bench/models.cpp). Four images a job. In the
// forward half, a job normalizes the previous layer's output, convolves it and sums the moments of
// the result; in the backward half, it computes the gradients of one convolution and the sums of
// the norm before it.
#include <cmath>

#include "bench/onednn/batch_norm.hpp"
#include "bench/onednn/kit.hpp"

namespace onednn_loops {
namespace {

constexpr int64_t kBatch = 64, kImages = 4, kChunks = kBatch / kImages, kOut = 10, kLast = 64;
constexpr float kRate = 0.02f, kMomentum = 0.9f, kEpsilon = 1e-5f;
constexpr int64_t kLargest = kBatch * 32 * 32 * 16;

// Parameters of a norm or of the dense layer: v = m * v + g; w -= rate * v.
struct Trained {
  Floats w, v;
  explicit Trained(Floats values) : w(std::move(values)), v(w.size()) {}
  void update(int64_t i, float gradient) {
    v[i] = kMomentum * v[i] + gradient;
    w[i] -= kRate * v[i];
  }
};

// A convolution without a bias and its norm.
struct Layer {
  Convolution shape;
  std::unique_ptr<ConvolutionLayer> convolution;
  Trained gamma, beta;
  Floats input, z;                     // of the whole batch
  Floats mean, inverse, scale, shift;  // [c]: y = z * scale + shift
  Floats chunk_mean, chunk_m2;         // [chunks, c]
  Floats chunk_sum, chunk_product;     // [chunks, c]
  Floats on_gradient, on_z, constant;  // [c]: dz = g * on_gradient + z * on_z + constant

  Layer(const ModelFile& file, int number, int64_t side, int64_t in, int64_t out, int64_t stride)
      : shape{.images = kImages, .side = side, .in = in, .window = 3, .out = out, .stride = stride},
        gamma(file.floats("gamma", number)),
        beta(file.floats("beta", number)),
        input(kBatch * side * side * in),
        z(kBatch * shape.out_side() * shape.out_side() * out) {
    for (Floats* f : {&mean, &inverse, &scale, &shift, &on_gradient, &on_z, &constant})
      *f = Floats(out);
    for (Floats* f : {&chunk_mean, &chunk_m2, &chunk_sum, &chunk_product})
      *f = Floats(kChunks * out);
    convolution = std::make_unique<ConvolutionLayer>(shape, kChunks, file.floats("w", number),
                                                     Floats(), number > 0);
  }
  int64_t channels() const { return shape.out; }
  int64_t pixels() const { return kImages * shape.out_side() * shape.out_side(); }  // of one chunk

  void forward(int64_t i, int lane) {
    convolution->forward(i, lane);
    chunk_moments(z + i * shape.y_size(), pixels(), channels(), chunk_mean + i * channels(),
                  chunk_m2 + i * channels());
  }
  // Merges the chunks in their order (Chan, Golub and LeVeque 1983).
  void merge_moments() {
    for (int64_t c = 0; c < channels(); ++c) {
      double middle = 0, m2 = 0, count = 0;
      const auto n = static_cast<double>(pixels());
      for (int64_t i = 0; i < kChunks; ++i) {
        const double d = chunk_mean[i * channels() + c] - middle;
        m2 += chunk_m2[i * channels() + c] + d * d * count * n / (count + n);
        middle += d * n / (count + n);
        count += n;
      }
      mean[c] = static_cast<float>(middle);
      inverse[c] = static_cast<float>(1 / std::sqrt(m2 / count + kEpsilon));
      scale[c] = gamma.w[c] * inverse[c];
      shift[c] = beta.w[c] - mean[c] * scale[c];
    }
  }
  void sum_gradients(int64_t i, const float* g) {
    chunk_gradient_sums(g, z + i * shape.y_size(), mean, pixels(), channels(),
                        chunk_sum + i * channels(), chunk_product + i * channels());
  }
  void merge_gradients() {
    const auto n = static_cast<double>(pixels() * kChunks);
    for (int64_t c = 0; c < channels(); ++c) {
      double sum = 0, product = 0;
      for (int64_t i = 0; i < kChunks; ++i) {
        sum += chunk_sum[i * channels() + c];
        product += chunk_product[i * channels() + c];
      }
      const double k = scale[c], around = product * inverse[c] / n;
      on_gradient[c] = scale[c];
      on_z[c] = static_cast<float>(-k * inverse[c] * around);
      constant[c] = static_cast<float>(-k * (sum / n - mean[c] * inverse[c] * around));
      gamma.update(c, static_cast<float>(product * inverse[c]));
      beta.update(c, static_cast<float>(sum));
    }
  }
  // The gradient of z, for one chunk.
  void gradient(int64_t i, const float* g, float* dz) const {
    const auto* at_g = reinterpret_cast<const Vector*>(g);
    const auto* at_z = reinterpret_cast<const Vector*>(z + i * shape.y_size());
    const auto *k1 = reinterpret_cast<const Vector*>(on_gradient.get()),
               *k2 = reinterpret_cast<const Vector*>(on_z.get()),
               *k3 = reinterpret_cast<const Vector*>(constant.get());
    auto* to = reinterpret_cast<Vector*>(dz);
    for_each_vector(pixels(), channels(), [=](int64_t at, int64_t v) {
      to[at] = at_g[at] * k1[v] + at_z[at] * k2[v] + k3[v];
    });
  }
};

class ResNet20 final : public Loop {
 public:
  ResNet20(const ModelFile& file, Lanes& lanes)
      : lanes_(lanes),
        labels_(file.integers("labels")),
        w_(file.floats("w19")),
        b_(file.floats("b19")) {
    int number = 0;
    layers_.reserve(19);
    layers_.emplace_back(file, number++, 32, 3, 16, 1);
    int64_t side = 32, channels = 16;
    for (const int64_t out : {16, 32, 64})
      for (int block = 0; block < 3; ++block) {
        const int64_t stride = channels < out ? 2 : 1;
        layers_.emplace_back(file, number++, side, channels, out, stride);
        side /= stride;
        channels = out;
        layers_.emplace_back(file, number++, side, out, out, 1);
      }
    layers_[0].input = file.floats("x");
    for (Layer& l : layers_)
      for (int64_t i = 0; i < kChunks; ++i)
        l.convolution->bind(i, l.input + i * l.shape.x_size(), l.z + i * l.shape.y_size(),
                            dz_ + i * l.shape.y_size(), dx_ + i * l.shape.x_size());
    forward_dense_ = product(
        {.m = kBatch, .k = kLast, .n = kOut, .a = pooled_, .b = w_.w, .c = logits_, .bias = b_.w});
    back_dense_ = product(kBatch, kOut, kLast, logits_, w_.w, dpooled_, {.b_transposed = true});
    gradient_dense_ = product(kLast, kBatch, kOut, pooled_, logits_, dw_, {.a_transposed = true});
  }

  void step() override {
    for (int l = 0; l < count(); ++l) {
      lanes_.run(kChunks, [&](uint32_t i, int lane) {
        if (l > 0) activate(l - 1, i, layer(l).input + i * layer(l).shape.x_size());
        layer(l).forward(i, lane);
      });
      layer(l).merge_moments();
    }
    head();
    for (int l = count() - 1; l >= 0; --l) {
      layer(l).merge_gradients();
      lanes_.run(kChunks, [&](uint32_t i, int lane) { back(l, i, lane); });
    }
    lanes_.run(static_cast<uint32_t>(count()), [&](uint32_t l, int lane) {
      layer(static_cast<int>(l)).convolution->update(kRate, kMomentum, lane);
    });
  }
  double loss() override { return loss_; }

 private:
  Layer& layer(int l) { return layers_[static_cast<size_t>(l)]; }
  int count() const { return static_cast<int>(layers_.size()); }
  // Layer l ends a block: 2, 4, ... 18; the block began with layer l - 1.
  static bool ends_block(int l) { return l > 0 && l % 2 == 0; }

  // relu(norm(z)), plus the shortcut if the layer ends a block.
  void activate(int l, int64_t i, float* to) {
    Layer& me = layer(l);
    const auto* z = reinterpret_cast<const Vector*>(me.z + i * me.shape.y_size());
    const auto* scale = reinterpret_cast<const Vector*>(me.scale.get());
    const auto* shift = reinterpret_cast<const Vector*>(me.shift.get());
    auto* y = reinterpret_cast<Vector*>(to);
    if (!ends_block(l)) {
      for_each_vector(me.pixels(), me.channels(), [=](int64_t at, int64_t v) {
        y[at] = positive(z[at] * scale[v] + shift[v]);
      });
      return;
    }
    const Layer& first = layer(l - 1);
    const float* from = first.input + i * first.shape.x_size();
    if (first.shape.stride == 1) {
      const auto* x = reinterpret_cast<const Vector*>(from);
      for_each_vector(me.pixels(), me.channels(), [=](int64_t at, int64_t v) {
        y[at] = positive(z[at] * scale[v] + shift[v] + x[at]);
      });
      return;
    }
    for_each_vector(me.pixels(), me.channels(),
                    [=](int64_t at, int64_t v) { y[at] = z[at] * scale[v] + shift[v]; });
    for_each_kept_pixel(first.shape, [&](int64_t x, int64_t narrow) {
      for (int64_t c = 0; c < first.shape.in; ++c) to[narrow + c] += from[x + c];
    });
    for_each_vector(me.pixels(), me.channels(),
                    [=](int64_t at, int64_t) { y[at] = positive(y[at]); });
  }

  // For a shortcut with stride 2: calls f(a pixel of x, the same pixel of y, from its first channel
  // that is not padding), in floats.
  template <class F>
  static void for_each_kept_pixel(const Convolution& s, F f) {
    const int64_t side = s.out_side();
    for (int64_t image = 0; image < s.images; ++image)
      for (int64_t r = 0; r < side; ++r)
        for (int64_t c = 0; c < side; ++c)
          f(((image * s.side + 2 * r) * s.side + 2 * c) * s.in,
            ((image * side + r) * side + c) * s.out + (s.out - s.in) / 2);
  }

  // The mean over pixels, the dense layer, the loss, and the gradients back to the sums of the last
  // norm.
  void head() {
    const int last = count() - 1;
    Layer& me = layer(last);
    const int64_t pixels = me.pixels() / kImages;
    lanes_.run(kChunks, [&](uint32_t i, int) {
      activate(last, i, out_ + i * me.shape.y_size());
      for (int64_t image = i * kImages; image < (i + 1) * kImages; ++image)
        for (int64_t v = 0; v < kLast / 16; ++v) {
          const auto* at = reinterpret_cast<const Vector*>(out_ + image * pixels * kLast) + v;
          reinterpret_cast<Vector*>(pooled_ + image * kLast)[v] =
              sum_of(pixels, kLast / 16, [=](int64_t p) { return at[p]; }) /
              static_cast<float>(pixels);
        }
    });
    forward_dense_.run(0);
    loss_ = softmax_loss(logits_, labels_.data(), kBatch, kOut, 1.0f / kBatch) / kBatch;
    back_dense_.run(0);
    gradient_dense_.run(0);
    for (int64_t i = 0; i < w_.w.size(); ++i) w_.update(i, dw_[i]);
    for (int64_t c = 0; c < kOut; ++c) {
      float sum = 0;
      for (int64_t i = 0; i < kBatch; ++i) sum += logits_[i * kOut + c];
      b_.update(c, sum);
    }
    lanes_.run(kChunks, [&](uint32_t i, int) {
      const auto* y = reinterpret_cast<const Vector*>(out_ + i * me.shape.y_size());
      auto* g = reinterpret_cast<Vector*>(gradient_of(last) + i * me.shape.y_size());
      for (int64_t image = 0; image < kImages; ++image) {
        const auto* d = reinterpret_cast<const Vector*>(dpooled_ + (i * kImages + image) * kLast);
        const int64_t first = image * pixels * kLast / 16;
        for_each_vector(pixels, kLast, [&](int64_t at, int64_t v) {
          g[first + at] = masked(d[v] / static_cast<float>(pixels), y[first + at]);
        });
      }
      me.sum_gradients(i, gradient_of(last) + i * me.shape.y_size());
    });
  }

  // dL/d(norm of layer l), masked by the relu. A block's last gradient is also its shortcut's, so
  // it is kept while the block's other gradient is computed.
  float* gradient_of(int l) { return l % 2 == 0 ? (l % 4 == 0 ? even_ : other_even_) : odd_; }

  // The gradients of convolution l for a chunk, and the sums of the norm before it.
  void back(int l, int64_t i, int lane) {
    Layer& me = layer(l);
    me.gradient(i, gradient_of(l) + i * me.shape.y_size(), dz_ + i * me.shape.y_size());
    me.convolution->filter_gradient(i, lane);
    if (l == 0) return;
    me.convolution->input_gradient(i, lane);
    const int64_t size = me.shape.x_size();
    float* dx = dx_ + i * size;
    float* to = gradient_of(l - 1) + i * size;
    const auto* x = reinterpret_cast<const Vector*>(me.input + i * size);
    auto* g = reinterpret_cast<Vector*>(to);
    const auto* d = reinterpret_cast<const Vector*>(dx);
    if (ends_block(l)) {
      for (int64_t at = 0; at < size / 16; ++at) g[at] = masked(d[at], x[at]);
    } else {
      const float* above = gradient_of(l + 1) + i * layer(l + 1).shape.y_size();
      if (me.shape.stride == 1) {
        const auto* s = reinterpret_cast<const Vector*>(above);
        for (int64_t at = 0; at < size / 16; ++at) g[at] = masked(d[at] + s[at], x[at]);
      } else {
        for_each_kept_pixel(me.shape, [&](int64_t pixel, int64_t narrow) {
          for (int64_t c = 0; c < me.shape.in; ++c) dx[pixel + c] += above[narrow + c];
        });
        for (int64_t at = 0; at < size / 16; ++at) g[at] = masked(d[at], x[at]);
      }
    }
    layer(l - 1).sum_gradients(i, to);
  }

  Lanes& lanes_;
  const std::vector<int64_t> labels_;
  Trained w_, b_;
  std::vector<Layer> layers_;
  Floats dz_{kLargest}, dx_{kLargest}, even_{kLargest}, other_even_{kLargest}, odd_{kLargest};
  Floats out_{kBatch * 8 * 8 * kLast}, pooled_{kBatch * kLast}, dpooled_{kBatch * kLast};
  Floats logits_{kBatch * kOut}, dw_{kLast * kOut};
  Call forward_dense_, back_dense_, gradient_dense_;
  double loss_ = 0;
};

}  // namespace

std::unique_ptr<Loop> make_resnet20(const ModelFile& file, Lanes& lanes) {
  return std::make_unique<ResNet20>(file, lanes);
}

}  // namespace onednn_loops
