// lstm: vocabulary 10,000, embedding 200, 2 x 200, 35 time steps, batch 20, full softmax, SGD. Row
// number: time step * 20 + sequence. The gates' columns are stored as [half][gate][100 units], so
// that a job has all four gates of its units; the recurrent weights are packed, because 35 products
// use them. The softmax runs over blocks of 400 words: a block's logits become its gradient in
// place.
#include <cmath>
#include <cstring>

#include "bench/onednn/kit.hpp"

namespace onednn_loops {
namespace {

constexpr int64_t kWords = 10'000, kUnits = 200, kSteps = 35, kBatch = 20;
constexpr int64_t kRows = kSteps * kBatch, kGates = 4 * kUnits, kHalf = kUnits / 2;
constexpr int64_t kColumns = 4 * kHalf;                     // of one half
constexpr int64_t kCut = 200, kCuts = kGates / kCut;        // columns of the input products
constexpr int64_t kTall = 175, kTalls = kRows / kTall;      // rows of their gradients
constexpr int64_t kBlock = 400, kBlocks = kWords / kBlock;  // words
constexpr float kRate = 1;

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// Reorders [rows][gate][unit] to [rows][half][gate][unit of the half].
Floats by_halves(const Floats& w, int64_t rows) {
  Floats out(rows * kGates);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t gate = 0; gate < 4; ++gate)
      for (int64_t u = 0; u < kUnits; ++u)
        out[r * kGates + u / kHalf * kColumns + gate * kHalf + u % kHalf] =
            w[r * kGates + gate * kUnits + u];
  return out;
}

class Layer {
 public:
  Layer(const ModelFile& file, int number)
      : wx_(by_halves(file.floats("wx", number), kUnits)),
        wh_(by_halves(file.floats("wh", number), kUnits)),
        b_(by_halves(file.floats("b", number), 1)) {}

  // x: [rows, units]; dx: its gradient, for the backward half.
  void bind(const float* x, float* dx) {
    for (int64_t j = 0; j < kCuts; ++j)
      inputs_.push_back(product(kRows, kUnits, kCut, x, wx_ + j * kCut, gates + j * kCut,
                                {.b_row = kGates, .c_row = kGates, .bias = b_ + j * kCut}));
    for (int64_t p = 0; p < 2; ++p) bind_recurrent(p);
    for (int64_t i = 0; i < kTalls; ++i)
      input_gradients_.push_back(product(kTall, kGates, kUnits, dgates + i * kTall * kGates, wx_,
                                         dx + i * kTall * kUnits, {.b_transposed = true}));
    for (int64_t j = 0; j < kCuts; ++j) {
      updates_.push_back(product(
          kUnits, kRows, kCut, x, dgates + j * kCut, wx_ + j * kCut,
          {.b_row = kGates, .c_row = kGates, .a_transposed = true, .scale = -kRate, .add = true}));
      recurrent_updates_.push_back(product(
          kUnits, kRows - kBatch, kCut, h, dgates + kBatch * kGates + j * kCut, wh_ + j * kCut,
          {.b_row = kGates, .c_row = kGates, .a_transposed = true, .scale = -kRate, .add = true}));
    }
    for (int p = 0; p < 2; ++p) pack(p, 0);
  }

  void forward(Lanes& lanes) {
    lanes.run(kCuts, [&](uint32_t j, int lane) { inputs_[j].run(lane); });
    for (int64_t t = 0; t < kSteps; ++t)
      lanes.run(2, [&](uint32_t p, int lane) {
        if (t > 0) steps_[static_cast<size_t>(p * (kSteps - 1) + t - 1)].run(lane);
        activate(t, p);
      });
  }
  // Requires: dh holds the gradient from the layer above.
  void back(Lanes& lanes) {
    std::memset(dc_, 0, kBatch * kUnits * sizeof(float));
    for (int64_t t = kSteps - 1; t >= 0; --t)
      lanes.run(2, [&](uint32_t p, int lane) {
        if (t + 1 < kSteps) back_steps_[static_cast<size_t>(p * (kSteps - 1) + t)].run(lane);
        differentiate(t, p);
      });
    lanes.run(kTalls, [&](uint32_t i, int lane) { input_gradients_[i].run(lane); });
    lanes.run(2 * kCuts, [&](uint32_t job, int lane) {
      const uint32_t j = job % kCuts;
      (job < kCuts ? updates_ : recurrent_updates_)[j].run(lane);
      if (job < kCuts) bias_update(b_ + j * kCut, dgates + j * kCut, kRows, kCut, kGates, kRate);
    });
    lanes.run(2, [&](uint32_t p, int lane) { pack(static_cast<int>(p), lane); });
  }

  Floats gates{kRows * kGates}, dgates{kRows * kGates};
  Floats h{kRows * kUnits}, dh{kRows * kUnits}, c{kRows * kUnits};

 private:
  void bind_recurrent(int64_t p) {
    Product step{
        .m = kBatch, .k = kUnits, .n = kColumns, .a = h, .c = gates, .c_row = kGates, .add = true};
    const auto layout = packed_layout(step);
    packed_[p] = Floats(static_cast<int64_t>(layout.get_size() / sizeof(float)));
    const dnnl::memory::desc half({kUnits, kColumns}, dnnl::memory::data_type::f32,
                                  dnnl::memory::dims{kGates, 1});
    to_packed_[p] = reorder(half, wh_ + p * kColumns, layout, packed_[p]);
    step.b = packed_[p];
    step.packed = &layout;
    for (int64_t t = 1; t < kSteps; ++t) {
      step.a = h + (t - 1) * kBatch * kUnits;
      step.c = gates + t * kBatch * kGates + p * kColumns;
      steps_.push_back(product(step));
    }
    // dh of a time step, for 100 units: dgates of the following time step times the transposed rows
    // of wh for these units.
    Product back{
        .m = kBatch, .k = kGates, .n = kHalf, .a = dgates, .c = dh, .c_row = kUnits, .add = true};
    const auto back_layout = packed_layout(back);
    back_packed_[p] = Floats(static_cast<int64_t>(back_layout.get_size() / sizeof(float)));
    to_back_packed_[p] = reorder(plain_matrix(kGates, kHalf, true), wh_ + p * kHalf * kGates,
                                 back_layout, back_packed_[p]);
    back.b = back_packed_[p];
    back.packed = &back_layout;
    for (int64_t t = 0; t + 1 < kSteps; ++t) {
      back.a = dgates + (t + 1) * kBatch * kGates;
      back.c = dh + t * kBatch * kUnits + p * kHalf;
      back_steps_.push_back(product(back));
    }
  }
  void pack(int p, int lane) const {
    to_packed_[p].run(lane);
    to_back_packed_[p].run(lane);
  }

  void activate(int64_t t, int64_t p) {
    for (int64_t r = t * kBatch; r < (t + 1) * kBatch; ++r) {
      float* g = gates + r * kGates + p * kColumns;
      const float* before = t > 0 ? c + (r - kBatch) * kUnits + p * kHalf : zeros_.get();
      float *now = c + r * kUnits + p * kHalf, *out = h + r * kUnits + p * kHalf;
      ONEDNN_INDEPENDENT
      for (int64_t u = 0; u < kHalf; ++u) {
        const float i = sigmoid(g[u]), f = sigmoid(g[kHalf + u]), s = std::tanh(g[2 * kHalf + u]),
                    o = sigmoid(g[3 * kHalf + u]);
        g[u] = i;
        g[kHalf + u] = f;
        g[2 * kHalf + u] = s;
        g[3 * kHalf + u] = o;
        now[u] = f * before[u] + i * s;
        out[u] = o * std::tanh(now[u]);
      }
    }
  }
  void differentiate(int64_t t, int64_t p) {
    for (int64_t r = t * kBatch; r < (t + 1) * kBatch; ++r) {
      const float* g = gates + r * kGates + p * kColumns;
      float* d = dgates + r * kGates + p * kColumns;
      const float* before = t > 0 ? c + (r - kBatch) * kUnits + p * kHalf : zeros_.get();
      const float *now = c + r * kUnits + p * kHalf, *up = dh + r * kUnits + p * kHalf;
      float* carried = dc_ + (r - t * kBatch) * kUnits + p * kHalf;
      ONEDNN_INDEPENDENT
      for (int64_t u = 0; u < kHalf; ++u) {
        const float i = g[u], f = g[kHalf + u], s = g[2 * kHalf + u], o = g[3 * kHalf + u];
        const float y = std::tanh(now[u]);
        const float dc = carried[u] + up[u] * o * (1 - y * y);
        d[u] = dc * s * i * (1 - i);
        d[kHalf + u] = dc * before[u] * f * (1 - f);
        d[2 * kHalf + u] = dc * i * (1 - s * s);
        d[3 * kHalf + u] = up[u] * y * o * (1 - o);
        carried[u] = dc * f;
      }
    }
  }

  Floats wx_, wh_, b_, zeros_{kUnits}, dc_{kBatch * kUnits};
  Floats packed_[2], back_packed_[2];
  std::vector<Call> inputs_, steps_, back_steps_, input_gradients_, updates_, recurrent_updates_;
  Call to_packed_[2], to_back_packed_[2];
};

class Lstm final : public Loop {
 public:
  Lstm(const ModelFile& file, Lanes& lanes)
      : lanes_(lanes),
        words_(file.integers("words")),
        next_(file.integers("next")),
        embedding_(file.floats("embedding")),
        w_(file.floats("softmax_w")),
        b_(file.floats("softmax_b")),
        first_(file, 0),
        second_(file, 1) {
    first_.bind(x_, dx_);
    second_.bind(first_.h, first_.dh);
    for (int64_t j = 0; j < kBlocks; ++j) {
      float* block = logits_ + j * kRows * kBlock;
      float* w = w_ + j * kBlock;
      forward_.push_back(product(kRows, kUnits, kBlock, second_.h, w, block,
                                 {.b_row = kWords, .bias = b_ + j * kBlock}));
      back_.push_back(product(kRows, kBlock, kUnits, block, w, parts_ + j * kRows * kUnits,
                              {.b_row = kWords, .b_transposed = true}));
      updates_.push_back(
          product(kUnits, kRows, kBlock, second_.h, block, w,
                  {.c_row = kWords, .a_transposed = true, .scale = -kRate, .add = true}));
    }
  }

  void step() override {
    for (int64_t r = 0; r < kRows; ++r)
      std::memcpy(x_ + r * kUnits, embedding_ + words_[static_cast<size_t>(r)] * kUnits,
                  kUnits * sizeof(float));
    first_.forward(lanes_);
    second_.forward(lanes_);
    softmax();
    second_.back(lanes_);
    first_.back(lanes_);
    for (int64_t r = 0; r < kRows; ++r) {
      float* row = embedding_ + words_[static_cast<size_t>(r)] * kUnits;
      for (int64_t u = 0; u < kUnits; ++u) row[u] -= kRate * dx_[r * kUnits + u];
    }
  }
  double loss() override { return loss_; }

 private:
  void softmax() {
    lanes_.run(kBlocks, [&](uint32_t j, int lane) {
      forward_[j].run(lane);
      exponentials(j);
    });
    merge();
    lanes_.run(kBlocks, [&](uint32_t j, int lane) {
      gradient(j);
      back_[j].run(lane);
      updates_[j].run(lane);
      const float* block = logits_ + j * kRows * kBlock;
      bias_update(b_ + j * kBlock, block, kRows, kBlock, kBlock, kRate);
    });
    lanes_.run(kTalls, [&](uint32_t i, int) {
      const int64_t from = i * kTall * kUnits, size = kTall * kUnits;
      float* to = second_.dh + from;
      std::memcpy(to, parts_ + from, size * sizeof(float));
      for (int64_t j = 1; j < kBlocks; ++j) {
        const float* part = parts_ + j * kRows * kUnits + from;
        for (int64_t k = 0; k < size; ++k) to[k] += part[k];
      }
    });
  }
  // For a block: e^(logit - the row's greatest logit in the block), and the sums of these.
  void exponentials(uint32_t j) {
    for (int64_t r = 0; r < kRows; ++r) {
      float* row = logits_ + (j * kRows + r) * kBlock;
      const int64_t label = next_[static_cast<size_t>(r)] - j * kBlock;
      if (label >= 0 && label < kBlock) label_logits_[r] = row[label];
      float most = row[0];
      for (int64_t k = 1; k < kBlock; ++k) most = row[k] > most ? row[k] : most;
      float sum = 0;
      for (int64_t k = 0; k < kBlock; ++k) sum += row[k] = std::exp(row[k] - most);
      greatest_[j * kRows + r] = most;
      sums_[j * kRows + r] = sum;
    }
  }
  void merge() {
    loss_ = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      float most = greatest_[r];
      for (int64_t j = 1; j < kBlocks; ++j) most = std::max(most, greatest_[j * kRows + r]);
      float sum = 0;
      for (int64_t j = 0; j < kBlocks; ++j)
        sum += sums_[j * kRows + r] * std::exp(greatest_[j * kRows + r] - most);
      for (int64_t j = 0; j < kBlocks; ++j)
        factors_[j * kRows + r] = std::exp(greatest_[j * kRows + r] - most) / (sum * kRows);
      loss_ += std::log(sum) + most - label_logits_[r];
    }
    loss_ /= kRows;
  }
  void gradient(uint32_t j) {
    for (int64_t r = 0; r < kRows; ++r) {
      float* row = logits_ + (j * kRows + r) * kBlock;
      const float factor = factors_[j * kRows + r];
      for (int64_t k = 0; k < kBlock; ++k) row[k] *= factor;
      const int64_t label = next_[static_cast<size_t>(r)] - j * kBlock;
      if (label >= 0 && label < kBlock) row[label] -= 1.0f / kRows;
    }
  }

  Lanes& lanes_;
  const std::vector<int64_t> words_, next_;
  Floats embedding_, w_, b_;
  Floats x_{kRows * kUnits}, dx_{kRows * kUnits};
  Layer first_, second_;
  Floats logits_{kRows * kWords}, parts_{kBlocks * kRows * kUnits};
  Floats greatest_{kBlocks * kRows}, sums_{kBlocks * kRows}, factors_{kBlocks * kRows};
  Floats label_logits_{kRows};
  std::vector<Call> forward_, back_, updates_;
  double loss_ = 0;
};

}  // namespace

std::unique_ptr<Loop> make_lstm(const ModelFile& file, Lanes& lanes) {
  return std::make_unique<Lstm>(file, lanes);
}

}  // namespace onednn_loops
