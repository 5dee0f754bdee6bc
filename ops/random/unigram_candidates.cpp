// UnigramCandidates: candidates for a sampled loss, drawn by the frequency of each class: P(class
// k) = weights[k]^distortion / (the sum of these).
//   weights: [classes], f32 or f64, not negative   the expected counts have their dtype
// ops/random/candidates.hpp describes true_ids, ids and the expected counts. Class k is drawn if it
// is the first class at which the sum of classes 0 to k, added up in f64, exceeds u times the whole
// sum.
#include <algorithm>

#include "ops/random/candidates.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 0);
  return {DType::i64, ctx.dtype(1), ctx.dtype(1)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  if (!is_floating(ctx.dtype(1)))
    throw ctx.error("wants weights of f32 or f64, got ", ctx.dtype(1), "; cast them");
  check_candidate_attrs(ctx);
  if (ctx.input(1).ndim() != 1) throw ctx.error("wants weights [classes], got ", ctx.input(1));
  return candidate_shapes(ctx, ctx.input(0));
}

class Unigram {
 public:
  template <class T>
  Unigram(const KernelContext& ctx, const T* weights, int64_t classes) {
    const double distortion = ctx.attr<double>("distortion");
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) {
      if (!(weights[k] >= 0 && std::isfinite(weights[k])))
        throw ctx.error("wants finite weights of at least 0, got ", weights[k], " (number ", k,
                        " of ", classes, ")");
      // A class of weight 0 is never drawn, for any distortion.
      const double part =
          weights[k] > 0 ? std::pow(static_cast<double>(weights[k]), distortion) : 0;
      if (part > 0) last_ = k;
      drawn_ += part > 0;
      parts_.push_back(part);
      sums_.push_back(sum += part);
    }
    if (!std::isfinite(sum))
      throw ctx.error("the weights, to the power of ", distortion, ", add up to ", sum,
                      "; scale them down");
  }
  int64_t classes_to_draw() const { return drawn_; }
  int64_t at(double u) const {
    const auto it = std::upper_bound(sums_.begin(), sums_.end(), u * sums_.back());
    return std::min<int64_t>(it - sums_.begin(), last_);  // rounding may bring u up to 1
  }
  double probability(int64_t k) const { return parts_[static_cast<size_t>(k)] / sums_.back(); }

 private:
  std::vector<double> parts_;  // weights of the classes, distorted
  std::vector<double> sums_;   // sums over classes 0 to k
  int64_t drawn_ = 0;          // number of classes with a part above 0
  int64_t last_ = 0;           // the last such class
};

template <class T>
void run(KernelContext& ctx) {
  const int64_t classes = ctx.input(1).size();
  const Unigram distribution(ctx, ctx.input(1).data<T>(), classes);
  check_candidate_count(ctx, distribution.classes_to_draw());
  run_candidates<T>(ctx, ctx.input(0), classes, distribution);
}

}  // namespace

Op unigram_candidates_op() {
  return {.name = "UnigramCandidates",
          .inputs = {"true_ids", "weights", kPathInput},
          .outputs = {"ids", "true_expected", "expected"},
          .attrs = candidate_attrs({{"distortion", AttrKind::real, 1.0}}),
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "what is drawn is a number of a class",
          .kernels = {{DeviceKind::cpu, DType::f32, run<float>},
                      {DeviceKind::cpu, DType::f64, run<double>}},
          .dispatch = 1,
          .stateful = true};
}

Candidates unigram_candidates(Output true_ids, Output weights, int64_t count,
                              CandidateOptions options, double distortion, Origin at) {
  Attrs attrs = candidate_node_attrs(count, options);
  attrs.emplace("distortion", distortion);
  return to_candidates(add_drawing(
      {.op = "UnigramCandidates", .inputs = {true_ids, weights}, .attrs = std::move(attrs)}, at));
}

}  // namespace troupe
