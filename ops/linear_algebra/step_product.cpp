// Products of a step's rows with weights that stay the same over all steps.
#include "ops/linear_algebra/step_product.hpp"

#include <algorithm>

#include "ops/support/layout_counts.hpp"

namespace troupe {
namespace {

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

struct ProductLoop {
  static void run(const double* a, int64_t a_step, const double* w, double* c, int64_t rows,
                  int64_t k, int64_t n) {
    std::fill_n(c, rows * n, 0.0);
    for (int64_t i = 0; i < rows; ++i, a += a_step, c += n)
      for (int64_t kk = 0; kk < k; ++kk) {
        const double factor = a[kk];
        const double* row = w + kk * n;
        TROUPE_INDEPENDENT
        for (int64_t j = 0; j < n; ++j) c[j] += factor * row[j];
      }
  }
};

struct SumLoop {
  static void run(const double* a, const double* b, double* c, int64_t rows, int64_t m, int64_t n) {
    for (int64_t row = 0; row < rows; ++row, a += m, b += n)
      for (int64_t i = 0; i < m; ++i) {
        const double factor = a[i];
        double* to = c + i * n;
        TROUPE_INDEPENDENT
        for (int64_t j = 0; j < n; ++j) to[j] += factor * b[j];
      }
  }
};

}  // namespace

StepProduct<float>::StepProduct(const StepProductSizes& s) : n_(s.n) {
  using dnnl::memory;
  if (s.k == 0 || s.n == 0) return;
  const auto f32 = memory::data_type::f32;
  const auto strides = s.transposed ? memory::dims{1, s.w_step} : memory::dims{s.w_step, 1};
  const memory::desc plain({s.k, s.n}, f32, strides);
  std::vector<memory::desc> layouts;  // of the variants
  for (const int64_t rows : s.rows) {
    const memory::desc a({rows, s.k}, f32, memory::dims{s.a_step, 1});
    const memory::desc any({s.k, s.n}, f32, memory::format_tag::any);
    const memory::desc& weights = s.uses > 1 ? any : plain;
    const memory::desc c({rows, s.n}, f32, memory::dims{s.n, 1});
    const dnnl::matmul::primitive_desc desc({a, weights, c}, onednn_attr(), onednn_engine());
    const memory::desc layout = desc.weights_desc();
    Variant v{.rows = rows};
    v.product = std::make_unique<OneDnnPrimitive>(
        dnnl::matmul(desc), desc.scratchpad_desc(),
        std::vector<OneDnnPrimitive::Argument>{
            {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, layout}, {DNNL_ARG_DST, c}});
    const auto same = std::find(layouts.begin(), layouts.end(), layout);
    if (same != layouts.end()) {
      v.packed_at = variants_[static_cast<size_t>(same - layouts.begin())].packed_at;
    } else if (s.uses > 1) {
      const dnnl::reorder::primitive_desc reorder(onednn_engine(), plain, onednn_engine(), layout,
                                                  onednn_attr());
      v.pack = std::make_unique<OneDnnPrimitive>(
          dnnl::reorder(reorder), reorder.scratchpad_desc(),
          std::vector<OneDnnPrimitive::Argument>{{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, layout}});
      v.packed_at = packed_bytes_;
      packed_bytes_ += rounded(static_cast<int64_t>(layout.get_size()));
      scratch_bytes_ = std::max(scratch_bytes_, rounded(v.pack->scratch_bytes()));
    }
    scratch_bytes_ = std::max(scratch_bytes_, rounded(v.product->scratch_bytes()));
    layouts.push_back(layout);
    variants_.push_back(std::move(v));
  }
}

const void* StepProduct<float>::pack(const KernelContext& ctx, const float* w, uint8_t* packed,
                                     uint8_t* scratch) const {
  for (const Variant& v : variants_) {
    if (!v.pack) continue;
    count_filter_reorder();
    v.pack->execute(ctx, {w, packed + v.packed_at}, scratch);
  }
  return packed_bytes_ > 0 ? static_cast<const void*>(packed) : w;
}

void StepProduct<float>::run(const KernelContext& ctx, int64_t rows, const float* a, float* c,
                             const void* weights, uint8_t* scratch) const {
  if (variants_.empty()) {
    std::fill_n(c, rows * n_, 0.0f);
    return;
  }
  const auto v = std::find_if(variants_.begin(), variants_.end(),
                              [&](const Variant& one) { return one.rows == rows; });
  TROUPE_CHECK(v != variants_.end(), "a product of ", rows, " rows was not compiled");
  v->product->execute(ctx, {a, static_cast<const uint8_t*>(weights) + v->packed_at, c}, scratch);
}

const void* StepProduct<double>::pack(const KernelContext&, const double* w, uint8_t* packed,
                                      uint8_t*) const {
  double* to = reinterpret_cast<double*>(packed);
  for (int64_t k = 0; k < sizes_.k; ++k)
    for (int64_t n = 0; n < sizes_.n; ++n)
      *to++ = sizes_.transposed ? w[n * sizes_.w_step + k] : w[k * sizes_.w_step + n];
  return packed;
}

void StepProduct<double>::run(const KernelContext&, int64_t rows, const double* a, double* c,
                              const void* weights, uint8_t*) const {
  in_isa<ProductLoop>(a, sizes_.a_step, static_cast<const double*>(weights), c, rows, sizes_.k,
                      sizes_.n);
}

SumOfProducts<float>::SumOfProducts(const std::vector<int64_t>& rows, int64_t m, int64_t n) {
  using dnnl::memory;
  if (m == 0 || n == 0) return;
  const auto f32 = memory::data_type::f32;
  for (const int64_t count : rows) {
    const memory::desc a({m, count}, f32, memory::dims{1, m});
    const memory::desc b({count, n}, f32, memory::dims{n, 1});
    const memory::desc c({m, n}, f32, memory::dims{n, 1});
    dnnl::primitive_attr attr = onednn_attr();
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attr.set_post_ops(sum);
    const dnnl::matmul::primitive_desc desc({a, b, c}, attr, onednn_engine());
    variants_.emplace_back(count,
                           std::make_unique<OneDnnPrimitive>(
                               dnnl::matmul(desc), desc.scratchpad_desc(),
                               std::vector<OneDnnPrimitive::Argument>{
                                   {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}}));
    scratch_bytes_ = std::max(scratch_bytes_, rounded(variants_.back().second->scratch_bytes()));
  }
}

void SumOfProducts<float>::run(const KernelContext& ctx, int64_t rows, const float* a,
                               const float* b, float* c, uint8_t* scratch) const {
  for (const auto& [count, product] : variants_)
    if (count == rows) return product->execute(ctx, {a, b, c}, scratch);
  TROUPE_CHECK(variants_.empty(), "a sum of ", rows, " products was not compiled");
}

void SumOfProducts<double>::run(const KernelContext&, int64_t rows, const double* a,
                                const double* b, double* c, uint8_t*) const {
  in_isa<SumLoop>(a, b, c, rows, m_, n_);
}

}  // namespace troupe
