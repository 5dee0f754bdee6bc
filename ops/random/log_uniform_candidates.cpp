// LogUniformCandidates: candidates for a sampled loss, from classes numbered by decreasing
// frequency (Zipf): P(class k) = log((k + 2) / (k + 1)) / log(classes + 1).
//   ops/random/candidates.hpp describes true_ids, ids and the expected counts. Class k is drawn by
//   a u with floor((classes + 1)^u) = k + 1. Expected counts are f32 or f64 by attribute dtype.
#include "ops/random/candidates.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 0);
  const DType dtype = ctx.attr<DType>("dtype");
  if (!is_wide_float(dtype))
    throw ctx.error("expected counts are f32 or f64, not ", dtype, "; name one of them");
  return {DType::i64, dtype, dtype};
}

template <class Context>
int64_t checked_classes(const Context& ctx) {
  const int64_t classes = ctx.template attr<int64_t>("classes");
  constexpr int64_t kMost = int64_t{1} << 50;  // exact in f64, like the distance of neighbours
  if (classes < 1 || classes > kMost)
    throw ctx.error("wants a number of classes from 1 to 2^50, got ", classes);
  return classes;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_candidate_attrs(ctx);
  const int64_t classes = checked_classes(ctx), count = ctx.attr<int64_t>("count");
  if (ctx.attr<bool>("unique") && count > classes)
    throw ctx.error("cannot draw ", count, " unique candidates of ", classes,
                    " classes; ask for fewer, or not for unique ones");
  return candidate_shapes(ctx, ctx.input(0));
}

struct LogUniform {
  explicit LogUniform(int64_t classes)
      : classes(classes), log_range(std::log(static_cast<double>(classes) + 1)) {}
  int64_t at(double u) const {
    const auto k = static_cast<int64_t>(std::exp(u * log_range)) - 1;
    return std::clamp<int64_t>(k, 0, classes - 1);
  }
  double probability(int64_t k) const {
    return std::log1p(1 / (static_cast<double>(k) + 1)) / log_range;
  }
  int64_t classes;
  double log_range;
};

void cpu(KernelContext& ctx) {
  const int64_t classes = checked_classes(ctx);
  const LogUniform distribution(classes);
  if (ctx.attr<DType>("dtype") == DType::f32)
    run_candidates<float>(ctx, ctx.input(0), classes, distribution);
  else
    run_candidates<double>(ctx, ctx.input(0), classes, distribution);
}

}  // namespace

Op log_uniform_candidates_op() {
  return {.name = "LogUniformCandidates",
          .inputs = {"true_ids", kPathInput},
          .outputs = {"ids", "true_expected", "expected"},
          .attrs = candidate_attrs(
              {{"classes", AttrKind::integer}, {"dtype", AttrKind::dtype, DType::f32}}),
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "its input is an integer",
          .kernels = {{DeviceKind::cpu, DType::i64, cpu}},
          .dispatch = -1,
          .stateful = true};
}

Candidates log_uniform_candidates(Output true_ids, int64_t classes, int64_t count,
                                  CandidateOptions options, DType dtype, Origin at) {
  Attrs attrs = candidate_node_attrs(count, options);
  attrs.emplace("classes", classes);
  attrs.emplace("dtype", dtype);
  return to_candidates(add_drawing(
      {.op = "LogUniformCandidates", .inputs = {true_ids}, .attrs = std::move(attrs)}, at));
}

}  // namespace troupe
