// Attention: y = softmax(scale * q * transpose(k) + mask) * v for each (batch, head); the softmax
// is over the keys, and 0 if the query sees no key (Vaswani et al. 2017).
//   q: [b, heads, queries, d]   k: [b, heads, keys, d]   v: [b, heads, keys, dv], f32 or f64
//   mask: bool (true: the query sees the key), or numbers to add; broadcasts to
//   [b, heads, queries, keys]. With `causal`, query i sees keys 0 to i at most.
//   y: [b, heads, queries, dv]   log_sums: log of the sums of the softmax [b, heads, queries],
//   saved for the gradient; -infinity if the query sees no key
// The scores of one block of queries are in memory at a time. For f32, products run in oneDNN.
#include "ops/nn/attention.hpp"

namespace troupe {
namespace {

enum Inputs { kQ, kK, kV, kMask };

std::vector<DType> infer_dtypes(const InferContext& ctx) { return attention_dtypes(ctx, kQ, 2); }

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const AttentionShape shape = require_attention(ctx, kQ);
  return {shape.y(), shape.log_sums()};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  if (ctx.output_gradient(1).defined())
    throw Error(Errc::invalid_argument, describe(ctx.node()),
                ": log_sums are saved for the gradient of y, and have none");
  const Output dy = ctx.output_gradient(0), q = ctx.input(kQ), k = ctx.input(kK), v = ctx.input(kV);
  const Output mask = ctx.input(kMask);
  const bool causal = ctx.attr<bool>("causal");
  const double scale = ctx.attr<double>("scale");
  const AttentionGradients d =
      attention_gradient({dy, q, k, v, mask, ctx.output(0), ctx.output(1), causal, scale});
  if (mask.dtype() == DType::boolean) return {d.dq, d.dk, d.dv, Output{}};
  // Pruned unless the gradient of the mask is used.
  const Output weights = AttentionByOps{q, k, mask, causal, scale}.weights();
  const Output sums = reduce_sum(dy * ctx.output(0), {.axes = {-1}, .keep_dims = true});
  const Output dscores = weights * (matmul(dy, v, {.transpose_b = true}) - sums);
  return {d.dq, d.dk, d.dv, sum_to_like(dscores, mask)};
}

// Offsets in a job's memory.
struct Pieces {
  JobMemory memory;
  int64_t k = 0, v = 0, scores = 0, scratch = 0;
};

template <class T>
struct Plan {
  AttentionShape shape;
  AttentionCut cut;
  StepProduct<T> by_k, by_v;  // q to scores, powers to y
  Pieces at;

  Plan(const AttentionShape& s)
      : shape(s), cut(s), by_k(cut.to_keys(s.d)), by_v(cut.over_keys(s.dv)) {
    at.k = at.memory.add(by_k.packed_bytes());
    at.v = at.memory.add(by_v.packed_bytes());
    at.scores = at.memory.add(cut.rows * s.keys * static_cast<int64_t>(sizeof(T)));
    at.scratch = at.memory.add(std::max(by_k.scratch_bytes(), by_v.scratch_bytes()));
  }
};

template <class T>
using State = AttentionState<Plan<T>>;

struct GreatestLoop {
  template <class T>
  static T run(const T* x, int64_t n) {
    return row_max(x, n);
  }
};

// Replaces one row of scores by its powers; the first `seen` keys are visible. Sets the log of
// their sum, and returns the sum; 0 if no key is visible.
template <class T>
T powers_of_row(T* scores, int64_t seen, int64_t keys, T& log_sum) {
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  const T greatest = in_isa<GreatestLoop>(static_cast<const T*>(scores), seen);
  // A NaN is never the greatest, so it must be looked for.
  const bool none =
      greatest == kNone && std::all_of(scores, scores + seen, [](T s) { return s == kNone; });
  const T sum = none || seen == 0
                    ? T{0}
                    : in_isa<RowExpLoop>(static_cast<const T*>(scores), scores, seen, greatest);
  std::fill(scores + (sum == 0 ? 0 : seen), scores + keys, T{0});
  log_sum = sum == 0 ? kNone : greatest + std::log(sum);
  return sum;
}

template <class T>
struct Arrays {
  const T *q, *k, *v;
  T *y, *log_sums;
};

// Computes all queries of one pair (batch, head).
template <class T>
void attend(const KernelContext& ctx, const Plan<T>& plan, const AttentionMask& mask, bool causal,
            T scale, int64_t pair, const Arrays<T>& arrays, uint8_t* memory) {
  const AttentionShape& s = plan.shape;
  const T *q = arrays.q + pair * s.queries * s.d, *k = arrays.k + pair * s.keys * s.d,
          *v = arrays.v + pair * s.keys * s.dv;
  T *y = arrays.y + pair * s.queries * s.dv, *log_sums = arrays.log_sums + pair * s.queries;
  uint8_t* const scratch = memory + plan.at.scratch;
  T* const scores = reinterpret_cast<T*>(memory + plan.at.scores);
  const void *const packed_k = plan.by_k.pack(ctx, k, memory + plan.at.k, scratch),
                    *const packed_v = plan.by_v.pack(ctx, v, memory + plan.at.v, scratch);
  for (int64_t first = 0; first < s.queries; first += plan.cut.rows) {
    const int64_t rows = std::min(plan.cut.rows, s.queries - first);
    plan.by_k.run(ctx, rows, q + first * s.d, scores, packed_k, scratch);
    in_isa<ScaleLoop>(scores, rows * s.keys, scale);
    T sums[128];
    for (int64_t r = 0; r < rows; ++r) {
      T* const row = scores + r * s.keys;
      const int64_t seen = causal ? std::min(s.keys, first + r + 1) : s.keys;
      mask.apply(pair, first + r, row, seen);
      sums[r] = powers_of_row(row, seen, s.keys, log_sums[first + r]);
    }
    plan.by_v.run(ctx, rows, scores, y + first * s.dv, packed_v, scratch);
    for (int64_t r = 0; r < rows; ++r)
      in_isa<ScaleLoop>(y + (first + r) * s.dv, s.dv, sums[r] == 0 ? T{0} : 1 / sums[r]);
  }
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const auto& state = ctx.state<State<T>>();
  const auto shape = AttentionShape::of(ctx.input(kQ), ctx.input(kV));
  const AttentionMask mask(ctx.input(kMask), shape);
  const Arrays<T> arrays{ctx.input(kQ).data<T>(), ctx.input(kK).data<T>(), ctx.input(kV).data<T>(),
                         ctx.output(0).template mutable_data<T>(),
                         ctx.output(1).template mutable_data<T>()};
  if (shape.batch * shape.heads * shape.queries == 0) return;
  const auto plan = state.plan_of(shape);
  const T scale = static_cast<T>(attention_scale(state.scale, shape.d));
  plan->cut.run(ctx, plan->at.memory.bytes(), [&](int64_t pair, uint8_t* memory) {
    attend(ctx, *plan, mask, state.causal, scale, pair, arrays, memory);
  });
}

}  // namespace

Op attention_op() {
  return {.name = "Attention",
          .inputs = {"q", "k", "v", "mask"},
          .outputs = {"y", "log_sums"},
          .attrs = attention_attrs(),
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>, nullptr, State<float>::make},
                      {DeviceKind::cpu, DType::f64, cpu<double>, nullptr, State<double>::make}}};
}

Output scaled_dot_product_attention(Output q, Output k, Output v, AttentionOptions options,
                                    Origin at) {
  constexpr const char* kName = "scaled_dot_product_attention";
  require_defined(kName, at, {q, k, v});
  const double scale = options.scale.value_or(0);
  if (options.scale && !(std::isfinite(scale) && scale != 0))
    throw refused(kName, at, "wants a finite scale that is not 0, got ", scale);
  if (!(options.dropout >= 0 && options.dropout < 1))
    throw refused(kName, at, "wants a dropout in [0, 1), the part that is dropped, got ",
                  options.dropout);
  const auto scope = q.graph->scope({.origin = at});
  const Output mask =
      options.mask.defined() ? options.mask : fill(*q.graph, Shape{}, 1, DType::boolean, "all");
  // Made even with dropout, for its checks of the inputs; it is pruned then.
  const Output y = add_node({.op = "Attention",
                             .inputs = {q, k, v, mask},
                             .attrs = {{"causal", options.causal}, {"scale", scale}}},
                            at);
  if (options.dropout == 0) return y;
  const Output weights = AttentionByOps{q, k, mask, options.causal, scale}.weights();
  return matmul(dropout(weights, options.dropout, options.seed, at), v, {}, at);
}

}  // namespace troupe
