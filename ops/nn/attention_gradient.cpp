// AttentionGradient: dL/dq, dL/dk and dL/dv of y = Attention(q, k, v, mask) (ops/nn/attention.cpp),
// from dy = dL/dy. The weights are recomputed from the saved log_sums, block by block (Dao et al.
// 2022). Writing p for the weights:
//   dv = transpose(p) * dy   ds = p * (dy * transpose(v) - sum(dy * y)), the sum over features
//   dq = scale * ds * k      dk = scale * transpose(ds) * q
//   dy, y: [b, heads, queries, dv]   log_sums: [b, heads, queries]   the others as in Attention
#include "ops/nn/attention.hpp"

namespace troupe {
namespace {

enum Inputs { kDy, kQ, kK, kV, kMask, kY, kLogSums };

std::vector<DType> infer_dtypes(const InferContext& ctx) { return attention_dtypes(ctx, kQ, 3); }

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const AttentionShape shape = require_attention(ctx, kQ);
  const Shape &dy = ctx.input(kDy), &y = ctx.input(kY), &log_sums = ctx.input(kLogSums);
  if (!may_equal(dy, shape.y()) || !may_equal(y, shape.y()) ||
      !may_equal(log_sums, shape.log_sums()))
    throw ctx.error("wants dy and y of shape ", shape.y(), " and log_sums of ", shape.log_sums(),
                    ", got ", dy, ", ", y, " and ", log_sums);
  return {shape.q(), shape.k(), shape.v()};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  return gradient_of_composition(ctx, [&](const std::vector<Output>& in) {
    const Output dy = in[kDy], v = in[kV];
    const AttentionByOps by_ops{in[kQ], in[kK], in[kMask], ctx.attr<bool>("causal"),
                                ctx.attr<double>("scale")};
    const Output p = by_ops.weights(), scale = by_ops.factor();
    const Output sums = reduce_sum(dy * matmul(p, v), {.axes = {-1}, .keep_dims = true});
    const Output ds = p * (matmul(dy, v, {.transpose_b = true}) - sums) * scale;
    return std::vector<Output>{matmul(ds, in[kK]), matmul(ds, in[kQ], {.transpose_a = true}),
                               matmul(p, dy, {.transpose_a = true})};
  });
}

// Offsets in a job's memory.
struct Pieces {
  JobMemory memory;
  int64_t scores_k = 0, v = 0, k = 0, p = 0, ds = 0, scratch = 0;
};

template <class T>
struct Plan {
  AttentionShape shape;
  AttentionCut cut;
  StepProduct<T> scores, by_v, by_k;  // of q, of dy, of ds
  SumOfProducts<T> into_k, into_v;
  Pieces at;

  Plan(const AttentionShape& s)
      : shape(s),
        cut(s),
        scores(cut.to_keys(s.d)),
        by_v(cut.to_keys(s.dv)),
        by_k(cut.over_keys(s.d)),
        into_k(cut.row_counts(), s.keys, s.d),
        into_v(cut.row_counts(), s.keys, s.dv) {
    const int64_t block = cut.rows * s.keys * static_cast<int64_t>(sizeof(T));
    at.scores_k = at.memory.add(scores.packed_bytes());
    at.v = at.memory.add(by_v.packed_bytes());
    at.k = at.memory.add(by_k.packed_bytes());
    at.p = at.memory.add(block);
    at.ds = at.memory.add(block);
    at.scratch =
        at.memory.add(std::max({scores.scratch_bytes(), by_v.scratch_bytes(), by_k.scratch_bytes(),
                                into_k.scratch_bytes(), into_v.scratch_bytes()}));
  }
};

template <class T>
using State = AttentionState<Plan<T>>;

template <class T>
struct Arrays {
  const T *dy, *q, *k, *v, *y, *log_sums;
  T *dq, *dk, *dv;

  // The arrays of one pair (batch, head).
  Arrays of(int64_t pair, const AttentionShape& s) const {
    const int64_t q_at = pair * s.queries * s.d, k_at = pair * s.keys * s.d;
    const int64_t v_at = pair * s.keys * s.dv, y_at = pair * s.queries * s.dv;
    return {dy + y_at, q + q_at,  k + k_at, v + v_at, y + y_at, log_sums + pair * s.queries,
            dq + q_at, dk + k_at, dv + v_at};
  }
};

struct ScoreGradientLoop {
  template <class T>
  static void run(T* ds, const T* p, int64_t n, T sum, T scale) {
    TROUPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) ds[i] = p[i] * (ds[i] - sum) * scale;
  }
};

// The dot product of dy and y of one query, in the order of row_sum().
struct ProductLoop {
  template <class T>
  static T run(const T* a, const T* b, int64_t n) {
    T part[kRowParts] = {};
    int64_t i = 0;
    for (; i + kRowParts <= n; i += kRowParts)
      for (int j = 0; j < kRowParts; ++j) part[j] += a[i + j] * b[i + j];
    for (int j = 0; i < n; ++i, ++j) part[j] += a[i] * b[i];
    return row_sum(part, kRowParts);
  }
};

// Computes the gradients of one pair (batch, head).
template <class T>
void go_back(const KernelContext& ctx, const Plan<T>& plan, const AttentionMask& mask, bool causal,
             T scale, int64_t pair, const Arrays<T>& a, uint8_t* memory) {
  const AttentionShape& s = plan.shape;
  uint8_t* const scratch = memory + plan.at.scratch;
  T *const p = reinterpret_cast<T*>(memory + plan.at.p), *const ds = reinterpret_cast<T*>(
                                                             memory + plan.at.ds);
  const void *const scores_k = plan.scores.pack(ctx, a.k, memory + plan.at.scores_k, scratch),
                    *const v = plan.by_v.pack(ctx, a.v, memory + plan.at.v, scratch),
                    *const k = plan.by_k.pack(ctx, a.k, memory + plan.at.k, scratch);
  std::fill_n(a.dk, s.keys * s.d, T{0});
  std::fill_n(a.dv, s.keys * s.dv, T{0});
  for (int64_t first = 0; first < s.queries; first += plan.cut.rows) {
    const int64_t rows = std::min(plan.cut.rows, s.queries - first);
    const T *q = a.q + first * s.d, *dy = a.dy + first * s.dv, *y = a.y + first * s.dv;
    plan.scores.run(ctx, rows, q, p, scores_k, scratch);
    in_isa<ScaleLoop>(p, rows * s.keys, scale);
    plan.by_v.run(ctx, rows, dy, ds, v, scratch);
    for (int64_t r = 0; r < rows; ++r) {
      T *const row = p + r * s.keys, log_sum = a.log_sums[first + r];
      int64_t seen = causal ? std::min(s.keys, first + r + 1) : s.keys;
      if (log_sum == -std::numeric_limits<T>::infinity()) seen = 0;
      mask.apply(pair, first + r, row, seen);
      if (seen > 0) zip_elements<ExpOfDifference, 1, 0>(row, &log_sum, row, seen);
      std::fill(row + seen, row + s.keys, T{0});
      const T sum = in_isa<ProductLoop>(dy + r * s.dv, y + r * s.dv, s.dv);
      in_isa<ScoreGradientLoop>(ds + r * s.keys, static_cast<const T*>(row), seen, sum, scale);
      std::fill(ds + r * s.keys + seen, ds + (r + 1) * s.keys, T{0});
    }
    plan.by_k.run(ctx, rows, ds, a.dq + first * s.d, k, scratch);
    plan.into_k.run(ctx, rows, ds, q, a.dk, scratch);
    plan.into_v.run(ctx, rows, p, dy, a.dv, scratch);
  }
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const auto& state = ctx.state<State<T>>();
  const auto shape = AttentionShape::of(ctx.input(kQ), ctx.input(kV));
  const AttentionMask mask(ctx.input(kMask), shape);
  const auto input = [&](int i) { return ctx.input(i).data<T>(); };
  const auto output = [&](int i) { return ctx.output(i).template mutable_data<T>(); };
  const Arrays<T> arrays{input(kDy),      input(kQ), input(kK), input(kV), input(kY),
                         input(kLogSums), output(0), output(1), output(2)};
  if (shape.batch * shape.heads == 0) return;
  const auto plan = state.plan_of(shape);
  const T scale = static_cast<T>(attention_scale(state.scale, shape.d));
  plan->cut.run(ctx, plan->at.memory.bytes(), [&](int64_t pair, uint8_t* memory) {
    go_back(ctx, *plan, mask, state.causal, scale, pair, arrays.of(pair, shape), memory);
  });
}

}  // namespace

Op attention_gradient_op() {
  return {.name = "AttentionGradient",
          .inputs = {"dy", "q", "k", "v", "mask", "y", "log_sums"},
          .outputs = {"dq", "dk", "dv"},
          .attrs = attention_attrs(),
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>, nullptr, State<float>::make},
                      {DeviceKind::cpu, DType::f64, cpu<double>, nullptr, State<double>::make}}};
}

AttentionGradients attention_gradient(const AttentionBackward& of) {
  const auto outputs =
      all_outputs(add_node({.op = "AttentionGradient",
                            .inputs = {of.dy, of.q, of.k, of.v, of.mask, of.y, of.log_sums},
                            .attrs = {{"causal", of.causal}, {"scale", of.scale}}},
                           Origin::here()));
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace troupe
