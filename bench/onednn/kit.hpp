// Shared by the loops of oneDNN calls: the file of weights, buffers, products and convolutions with
// bound arguments, and the softmax. Independent of the engine, because the engine is compared with
// these programs.
#pragma once

#include <dnnl.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/onednn/lanes.hpp"

#if defined(__clang__)
#define ONEDNN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define ONEDNN_INDEPENDENT _Pragma("GCC ivdep")  // before a loop with independent iterations
#endif

namespace onednn_loops {

// Floats on their own cache line, initially zero; never moved.
class Floats {
 public:
  Floats() = default;
  explicit Floats(int64_t size);
  float* get() const { return at_.get(); }
  operator float*() const { return at_.get(); }  // NOLINT: converts to the pointer it wraps
  int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(float* p) const;
  };
  std::unique_ptr<float, Free> at_;
  int64_t size_ = 0;
};

// The file that bench/models.cpp writes.
class ModelFile {
 public:
  explicit ModelFile(const std::string& path);
  Floats floats(const std::string& name) const;
  Floats floats(const char* kind, int number) const;  // "w" and 2: w2
  std::vector<int64_t> integers(const std::string& name) const;

 private:
  struct Entry {
    std::string dtype;
    int64_t size = 0, at = 0;
  };
  const Entry& entry(const std::string& name, const std::string& dtype) const;
  std::map<std::string, Entry> entries_;
  std::string bytes_;
};

// One training step of one model.
class Loop {
 public:
  virtual ~Loop() = default;
  virtual void step() = 0;
  virtual double loss() = 0;  // of the last step
};

// A primitive with fixed addresses. Any lane may run it; each lane has its own scratch memory.
class Call {
 public:
  Call() = default;
  Call(const dnnl::primitive& primitive, const dnnl::memory::desc& scratch,
       const std::vector<std::pair<int, std::pair<dnnl::memory::desc, void*>>>& arguments);
  void run(int lane) const;

 private:
  struct Bound;
  std::shared_ptr<Bound> bound_;
};
void set_lanes(int lanes);  // before the first Call

const dnnl::engine& engine();

// c [m, n] = a [m, k] * b [k, n], parts of larger matrices: a_row is the distance between rows of
// a. A transposed matrix is stored as [k, m] (b: [n, k]).
struct Product {
  int64_t m = 0, k = 0, n = 0;
  const float *a = nullptr, *b = nullptr;
  float* c = nullptr;
  int64_t a_row = 0, b_row = 0, c_row = 0;
  bool a_transposed = false, b_transposed = false;
  const float* bias = nullptr;  // [n]
  bool relu = false;
  float scale = 1;
  bool add = false;  // c += scale * a * b
  // The oneDNN layout in which b is stored, from packed_layout().
  const dnnl::memory::desc* packed = nullptr;
};
Call product(const Product& p);
// The same, with sizes and operands beside the other members.
inline Call product(int64_t m, int64_t k, int64_t n, const float* a, const float* b, float* c,
                    Product p = {}) {
  p.m = m, p.k = k, p.n = n;
  p.a = a, p.b = b, p.c = c;
  return product(p);
}
// The layout that oneDNN prefers for b in such a product.
dnnl::memory::desc packed_layout(const Product& p);
// Reorders from and to plain rows.
Call reorder(const dnnl::memory::desc& from, const float* a, const dnnl::memory::desc& to,
             float* b);
dnnl::memory::desc plain_matrix(int64_t rows, int64_t columns, bool transposed);

// A convolution with "same" padding: images NHWC, `images` at a time; filter [h, w, in, out].
struct Convolution {
  int64_t images = 0, side = 0, in = 0, window = 0, out = 0, stride = 1;
  bool bias = false, relu = false;
  int64_t out_side() const { return (side + stride - 1) / stride; }
  int64_t x_size() const { return images * side * side * in; }
  int64_t y_size() const { return images * out_side() * out_side() * out; }
  int64_t filter_size() const { return window * window * in * out; }
};
// One layer over a batch in chunks of `images`. The master filter has the plain layout; after each
// update pack() copies it to the layouts that oneDNN prefers.
class ConvolutionLayer {
 public:
  ConvolutionLayer(const Convolution& shape, int64_t chunks, Floats filter, Floats bias,
                   bool input_gradient);
  void bind(int64_t chunk, const float* x, float* y, const float* dy, float* dx);
  void forward(int64_t chunk, int lane) const { forward_[static_cast<size_t>(chunk)].run(lane); }
  void input_gradient(int64_t chunk, int lane) const {
    input_[static_cast<size_t>(chunk)].run(lane);
  }
  // Computes the chunk's own sum of the filter's gradient, and of the bias's.
  void filter_gradient(int64_t chunk, int lane) const {
    filter_[static_cast<size_t>(chunk)].run(lane);
  }
  // Sums the chunks as a tree, and updates: w -= rate * g, or with momentum v = m * v + g, w -=
  // rate * v. Then packs the filter.
  void update(float rate, float momentum, int lane);

 private:
  void pack(int lane) const;

  Convolution shape_;
  int64_t chunks_;
  Floats master_, bias_, velocity_, packed_forward_, packed_input_, sums_, bias_sums_, gradient_;
  dnnl::memory::desc x_, y_, plain_, bias_desc_;
  std::unique_ptr<dnnl::convolution_forward::primitive_desc> forward_desc_;
  std::unique_ptr<dnnl::convolution_backward_data::primitive_desc> input_desc_;
  std::unique_ptr<dnnl::convolution_backward_weights::primitive_desc> filter_desc_;
  dnnl::primitive forward_primitive_, input_primitive_, filter_primitive_;
  std::vector<Call> forward_, input_, filter_;
  Call to_forward_, to_input_, from_filter_;
  bool to_input_needed_ = false;
};

// ---- plain loops ----

// 2 x 2 max pooling with stride 2 of NHWC images [images, side, side, c]. The gradient goes to the
// first maximum, and only if that is above 0: x is the output of a relu.
void max_pool(const float* x, float* y, int64_t images, int64_t side, int64_t c);
void max_pool_relu_gradient(const float* x, const float* dy, float* dx, int64_t images,
                            int64_t side, int64_t c);
// dx[i] = 0 where y[i], the output of a relu, is 0; for `rows` rows.
void relu_mask(float* dx, const float* y, int64_t rows, int64_t columns, int64_t row);
// b -= rate * the sum of the rows of g.
void bias_update(float* b, const float* g, int64_t rows, int64_t columns, int64_t row, float rate);
// In place: replaces logits by (softmax - one_hot) * `scale`. Returns the sum of the losses.
double softmax_loss(float* logits, const int64_t* labels, int64_t rows, int64_t classes,
                    float scale);

std::unique_ptr<Loop> make_mlp(const ModelFile& file, Lanes& lanes);
std::unique_ptr<Loop> make_cnn(const ModelFile& file, Lanes& lanes);
std::unique_ptr<Loop> make_resnet20(const ModelFile& file, Lanes& lanes);
std::unique_ptr<Loop> make_inception(const ModelFile& file, Lanes& lanes);
std::unique_ptr<Loop> make_lstm(const ModelFile& file, Lanes& lanes);
std::unique_ptr<Loop> make_sparse_lr(const ModelFile& file, Lanes& lanes);

}  // namespace onednn_loops
