// StepProduct: c = a * w for one matrix of weights w and many small matrices a, one after the
// other, as the steps of a recurrent layer need them. The weights are packed once a firing, if
// there is more than one product. Rows of a are independent: which job multiplies them changes no
// bit. SumOfProducts: c += transpose(a) * b, the way back to such weights.
//
// Both are compiled once for all firings of a shape, and any number of jobs may run them. Memory is
// the caller's.
#pragma once

#include <memory>
#include <vector>

#include "devices/threads/isa.hpp"
#include "ops/support/onednn.hpp"

namespace troupe {

struct StepProductSizes {
  std::vector<int64_t> rows;  // of a; the numbers that run() is called with
  int64_t k = 0, n = 0;       // a [rows, k], w [k, n], c [rows, n]
  int64_t a_step = 0;         // between rows of a
  int64_t w_step = 0;         // between rows of w
  bool transposed = false;    // w is [n, k]
  int64_t uses = 2;           // products with one w
};

// Bytes are multiples of 64, and so are the addresses that such memory begins at.
template <class T>
class StepProduct;

// In oneDNN.
template <>
class StepProduct<float> {
 public:
  explicit StepProduct(const StepProductSizes& sizes);  // Requires: within onednn_compile()
  int64_t packed_bytes() const { return packed_bytes_; }
  int64_t scratch_bytes() const { return scratch_bytes_; }  // of a product under way
  // Returns what run() takes as `weights`: `packed` or, with nothing to pack, w.
  const void* pack(const KernelContext& ctx, const float* w, uint8_t* packed,
                   uint8_t* scratch) const;
  void run(const KernelContext& ctx, int64_t rows, const float* a, float* c, const void* weights,
           uint8_t* scratch) const;

 private:
  struct Variant {  // for one number of rows
    int64_t rows = 0;
    std::unique_ptr<OneDnnPrimitive> product;
    std::unique_ptr<OneDnnPrimitive> pack;  // null: packed as for an earlier one, or not at all
    int64_t packed_at = 0;
  };
  std::vector<Variant> variants_;  // none where there is nothing to multiply
  int64_t n_ = 0;
  int64_t packed_bytes_ = 0, scratch_bytes_ = 0;
};

// In a loop of our own. Packed weights are [k, n].
template <>
class StepProduct<double> {
 public:
  explicit StepProduct(const StepProductSizes& sizes) : sizes_(sizes) {}
  int64_t packed_bytes() const { return (sizes_.k * sizes_.n * 8 + 63) / 64 * 64; }
  int64_t scratch_bytes() const { return 0; }
  const void* pack(const KernelContext& ctx, const double* w, uint8_t* packed,
                   uint8_t* scratch) const;
  void run(const KernelContext& ctx, int64_t rows, const double* a, double* c, const void* weights,
           uint8_t* scratch) const;

 private:
  StepProductSizes sizes_;
};

// c [m, n] += transpose(a) * b for a [rows, m] and b [rows, n], again and again.
template <class T>
class SumOfProducts;

template <>
class SumOfProducts<float> {
 public:
  // Requires: within onednn_compile(). `rows`: the numbers that run() is called with.
  SumOfProducts(const std::vector<int64_t>& rows, int64_t m, int64_t n);
  int64_t scratch_bytes() const { return scratch_bytes_; }
  void run(const KernelContext& ctx, int64_t rows, const float* a, const float* b, float* c,
           uint8_t* scratch) const;

 private:
  std::vector<std::pair<int64_t, std::unique_ptr<OneDnnPrimitive>>> variants_;  // by rows
  int64_t scratch_bytes_ = 0;
};

template <>
class SumOfProducts<double> {
 public:
  SumOfProducts(const std::vector<int64_t>&, int64_t m, int64_t n) : m_(m), n_(n) {}
  int64_t scratch_bytes() const { return 0; }
  void run(const KernelContext& ctx, int64_t rows, const double* a, const double* b, double* c,
           uint8_t* scratch) const;

 private:
  int64_t m_, n_;
};

}  // namespace troupe
