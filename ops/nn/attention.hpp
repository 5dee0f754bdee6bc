// Shared by Attention and AttentionGradient: shape rules, the blocks of queries, the mask, and the
// same computation as a graph of ops.
#pragma once

#include <array>
#include <cmath>
#include <memory>

#include "ops/elementwise/composition.hpp"
#include "ops/support/row.hpp"
#include "ops/linear_algebra/step_product.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {

// ---- the node ----

// Attributes of both ops. `scale` 0 means 1 / sqrt(d).
inline std::vector<AttrSpec> attention_attrs() {
  return {{"causal", AttrKind::boolean, false}, {"scale", AttrKind::real, 0.0}};
}

struct AttentionGradients {
  Output dq, dk, dv;
};
struct AttentionBackward {
  Output dy, q, k, v, mask, y, log_sums;
  bool causal = false;
  double scale = 0;
};
AttentionGradients attention_gradient(const AttentionBackward& of);

// ---- shape rules ----

// q [batch, heads, queries, d], k [batch, heads, keys, d], v [batch, heads, keys, dv]
struct AttentionShape {
  int64_t batch = -1, heads = -1, queries = -1, keys = -1, d = -1, dv = -1;
  Shape y() const { return Shape{batch, heads, queries, dv}; }
  Shape log_sums() const { return Shape{batch, heads, queries}; }
  Shape q() const { return Shape{batch, heads, queries, d}; }
  Shape k() const { return Shape{batch, heads, keys, d}; }
  Shape v() const { return Shape{batch, heads, keys, dv}; }
  static AttentionShape of(const Tensor& q, const Tensor& v) {
    return {q.dim(0), q.dim(1), q.dim(2), v.dim(2), q.dim(3), v.dim(3)};
  }
};

// Checks inputs `first` to first + 3: q, k, v and the mask. Throws: Error if they do not fit.
inline AttentionShape require_attention(const InferContext& ctx, int first) {
  require_kernel(ctx, ctx.dtype(first));
  const Shape &q = ctx.input(first), &k = ctx.input(first + 1), &v = ctx.input(first + 2);
  const Shape& mask = ctx.input(first + 3);
  if (q.ndim() != 4 || k.ndim() != 4 || v.ndim() != 4)
    throw ctx.error("wants q, k and v [batch, heads, time, features], got ", q, ", ", k, " and ",
                    v);
  AttentionShape of;
  const auto same = [&](int64_t& to, int64_t a, int64_t b) {
    to = std::max(a, b);
    return may_equal(a, b);
  };
  bool fits = same(of.batch, q[0], k[0]) && same(of.batch, of.batch, v[0]);
  fits = fits && same(of.heads, q[1], k[1]) && same(of.heads, of.heads, v[1]);
  fits = fits && same(of.keys, k[2], v[2]) && same(of.d, q[3], k[3]);
  if (!fits)
    throw ctx.error(
        "wants q [batch, heads, queries, d], k [batch, heads, keys, d] and v [batch, "
        "heads, keys, dv], got ",
        q, ", ", k, " and ", v);
  of.queries = q[2];
  of.dv = v[3];
  const int64_t scores[4] = {of.batch, of.heads, of.queries, of.keys};
  bool broadcasts = mask.ndim() <= 4;
  for (int i = 0; broadcasts && i < mask.ndim(); ++i)
    broadcasts = mask[i] == 1 || may_equal(mask[i], scores[4 - mask.ndim() + i]);
  if (!broadcasts)
    throw ctx.error("wants a mask that broadcasts to [batch, heads, queries, keys], ",
                    Shape{scores[0], scores[1], scores[2], scores[3]}, ", got ", mask);
  if (!std::isfinite(ctx.attr<double>("scale")))
    throw ctx.error("wants a finite scale, got ", ctx.attr<double>("scale"));
  return of;
}

// All floats have the dtype of input `first`; the mask, input first + 3, is bool or has that dtype.
inline std::vector<DType> attention_dtypes(const InferContext& ctx, int first, size_t outputs) {
  const DType dtype = ctx.dtype(first);
  for (int i = 0; i < ctx.input_count(); ++i) {
    const bool mask = i == first + 3;
    if (ctx.dtype(i) == dtype || (mask && ctx.dtype(i) == DType::boolean)) continue;
    if (mask) throw ctx.error("wants a mask of bool or ", dtype, ", got ", ctx.dtype(i));
    throw ctx.error("wants inputs of one dtype, got ", dtype, " and ", ctx.dtype(i),
                    "; cast one of them");
  }
  return std::vector<DType>(outputs, dtype);
}

// ---- kernels ----

// The jobs of one firing. A job handles some pairs (batch, head) one after the other, and the
// blocks of queries of a pair one after the other, with the scores of one block in its memory. The
// cut depends on shapes only.
struct AttentionCut {
  int64_t pairs = 0, queries = 0, keys = 0, rows = 0, jobs = 0;

  explicit AttentionCut(const AttentionShape& s)
      : pairs(s.batch * s.heads), queries(s.queries), keys(s.keys) {
    constexpr int64_t kScores = 1 << 15, kJobsMax = 16;
    rows = std::clamp<int64_t>(kScores / std::max<int64_t>(1, s.keys), 16, 128);
    rows = std::min(rows, std::max<int64_t>(1, queries));
    const double work = static_cast<double>(pairs) * static_cast<double>(queries) *
                        static_cast<double>(s.keys) * static_cast<double>(s.d + s.dv);
    const int64_t most = work < (1 << 22) ? 1 : kJobsMax;
    jobs = std::min(pairs, most);
  }
  int64_t blocks() const { return (queries + rows - 1) / rows; }
  std::vector<int64_t> row_counts() const {
    std::vector<int64_t> counts = {rows};
    if (queries % rows != 0) counts.push_back(queries % rows);
    return counts;
  }
  // Products of the rows of a block: [rows, features] times transpose([keys, features]), and [rows,
  // keys] times [keys, features].
  StepProductSizes to_keys(int64_t features) const {
    return {.rows = row_counts(),
            .k = features,
            .n = keys,
            .a_step = features,
            .w_step = features,
            .transposed = true,
            .uses = blocks()};
  }
  StepProductSizes over_keys(int64_t features) const {
    return {.rows = row_counts(),
            .k = keys,
            .n = features,
            .a_step = keys,
            .w_step = features,
            .uses = blocks()};
  }
  // Calls f(pair, memory of the job) for all pairs, in `jobs` jobs of `job_bytes` each.
  template <class F>
  void run(KernelContext& ctx, int64_t job_bytes, const F& f) const {
    Tensor memory = ctx.scratch(DType::u8, Shape{std::max<int64_t>(1, job_bytes * jobs)});
    uint8_t* const at = memory.mutable_data<uint8_t>();
    ctx.parallel(jobs, [&](int64_t job) {
      for (int64_t pair = pairs * job / jobs; pair < pairs * (job + 1) / jobs; ++pair)
        f(pair, at + job * job_bytes);
    });
  }
};

// Lays out the pieces of a job's memory one after the other, in multiples of 64 bytes.
class JobMemory {
 public:
  int64_t add(int64_t bytes) {
    const int64_t at = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return at;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

// The mask, applied to rows of keys.
class AttentionMask {
 public:
  AttentionMask(const Tensor& mask, const AttentionShape& s) : mask_(mask), heads_(s.heads) {
    none_ = mask.dtype() == DType::boolean && mask.size() == 1 && mask.data<bool>()[0];
    int64_t step = 1;
    for (int i = mask.ndim() - 1, d = 3; i >= 0; step *= mask.dim(i), --i, --d)
      steps_[d] = mask.dim(i) == 1 ? 0 : step;
  }

  // Applies the mask to scores[0, n) of one query of a pair.
  template <class T>
  void apply(int64_t pair, int64_t query, T* scores, int64_t n) const {
    if (none_) return;
    const int64_t at = pair / heads_ * steps_[0] + pair % heads_ * steps_[1] + query * steps_[2];
    if (mask_.dtype() == DType::boolean) {
      const bool* row = mask_.data<bool>() + at;
      for (int64_t j = 0; j < n; ++j)
        scores[j] = row[j * steps_[3]] ? scores[j] : -std::numeric_limits<T>::infinity();
    } else {
      const T* row = mask_.data<T>() + at;
      for (int64_t j = 0; j < n; ++j) scores[j] += row[j * steps_[3]];
    }
  }

 private:
  const Tensor& mask_;
  const int64_t heads_;
  bool none_ = false;
  int64_t steps_[4] = {};
};

inline double attention_scale(double attribute, int64_t d) {
  // With d = 0 all scores are 0, and every visible key has the same weight.
  return attribute != 0 ? attribute : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, d)));
}

// A node's state between firings: a plan for each shape, and its attributes.
template <class Plan>
struct AttentionState final : KernelState {
  ShapeCache<std::array<int64_t, 6>, Plan> plans;
  bool causal = false;
  double scale = 0;

  static std::unique_ptr<KernelState> make(const Node& node) {
    auto state = std::make_unique<AttentionState>();
    state->causal = node.attr<bool>("causal");
    state->scale = node.attr<double>("scale");
    return state;
  }
  std::shared_ptr<const Plan> plan_of(const AttentionShape& s) const {
    return plans.get({s.batch, s.heads, s.queries, s.keys, s.d, s.dv},
                     [&] { return std::make_unique<Plan>(s); });
  }
};

struct ScaleLoop {
  template <class T>
  static void run(T* x, int64_t n, T factor) {
    TROUPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) x[i] *= factor;
  }
};

// ---- as a graph of ops ----

struct AttentionByOps {
  Output q, k, mask;
  bool causal = false;
  double scale = 0;

  Output factor() const;   // the scale, a scalar
  Output weights() const;  // [batch, heads, queries, keys]; the sum of each row is 1, or 0
};

}  // namespace troupe
