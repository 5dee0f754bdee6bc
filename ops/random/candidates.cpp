// Candidate samplers: classes drawn for a sampled loss, and the expected count of each class among
// them (Jean et al. 2015; Mnih and Teh 2012).
//   true_ids: any shape, i32 or i64, each in [0, classes)
//   ids: [count], i64   true_expected: the shape of true_ids   expected: [count]
// Draw t uses number t of the stream (RandomNumbers of ops/random/random.hpp). If `unique`, a class
// that was drawn before is rejected and drawn again, and the expected count of a class of
// probability p is 1 - (1 - p)^draws, where draws includes the rejected ones; otherwise it is p *
// count.
//
// LogUniformCandidates: candidates for a sampled loss, from classes numbered by decreasing
// frequency (Zipf): P(class k) = log((k + 2) / (k + 1)) / log(classes + 1).
// Class k is drawn by a u with floor((classes + 1)^u) = k + 1. Expected counts are f32 or f64 by
// attribute dtype.
//
// UnigramCandidates: candidates for a sampled loss, drawn by the frequency of each class: P(class
// k) = weights[k]^distortion / (the sum of these).
//   weights: [classes], f32 or f64, not negative   the expected counts have their dtype
// Class k is drawn if it is the first class at which the sum of classes 0 to k, added up in f64,
// exceeds u times the whole sum.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "ops/random/random.hpp"
#include "ops/support/indices.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<AttrSpec> candidate_attrs(std::vector<AttrSpec> attrs) {
  attrs.push_back({"count", AttrKind::integer});
  attrs.push_back({"unique", AttrKind::boolean, true});
  return with_random_attrs(std::move(attrs));
}

Attrs candidate_node_attrs(int64_t count, const CandidateOptions& options) {
  return {{"count", count}, {"unique", options.unique}, {"seed", options.seed}};
}

Candidates to_candidates(Output first) {
  const auto outputs = all_outputs(first);
  return {outputs[0], outputs[1], outputs[2]};
}

// Throws: Error if an attribute is out of range.
void check_candidate_attrs(const InferContext& ctx) {
  check_random_attrs(ctx);
  const int64_t count = ctx.attr<int64_t>("count");
  if (count < 0) throw ctx.error("wants a count of at least 0 candidates, got ", count);
}

std::vector<Shape> candidate_shapes(const InferContext& ctx, const Shape& true_ids) {
  const Shape drawn{ctx.attr<int64_t>("count")};
  return {drawn, true_ids, drawn};
}

// Throws: Error if more distinct classes are wanted than there are.
void check_candidate_count(const KernelContext& ctx, int64_t classes_to_draw) {
  const int64_t count = ctx.attr<int64_t>("count");
  if (count > classes_to_draw && (ctx.attr<bool>("unique") || classes_to_draw == 0))
    throw ctx.error("cannot draw ", count, " unique candidates of ", classes_to_draw,
                    " classes; ask for fewer, or not for unique ones");
}

// Limit of draws for unique classes, a minute of work; beyond it, the missing classes are too
// unlikely.
constexpr uint64_t kDrawsMax = uint64_t{1} << 30;

// Fills ids; returns the number of draws. D::at(u), with u in [0, 1), returns a class.
template <class D>
uint64_t draw_candidates(KernelContext& ctx, const D& distribution, std::vector<int64_t>& ids) {
  RandomNumbers random(random_stream(ctx), static_cast<int64_t>(ids.size()));
  if (!ctx.attr<bool>("unique")) {
    for (size_t t = 0; t < ids.size(); ++t) ids[t] = distribution.at(random.unit(t));
    return ids.size();
  }
  std::unordered_set<int64_t> seen;
  uint64_t draws = 0;
  for (int64_t& id : ids) {
    do {
      if (draws == kDrawsMax)
        throw ctx.error("found only ", seen.size(), " different classes in ", draws,
                        " draws; ask for fewer, or not for unique ones");
      id = distribution.at(random.unit(draws++));
    } while (!seen.insert(id).second);
  }
  return draws;
}

// D::probability(id): the probability of a class. T: the type of the expected counts.
template <class T, class D>
void run_candidates(KernelContext& ctx, const Tensor& true_ids, int64_t classes,
                    const D& distribution) {
  const auto count = static_cast<size_t>(ctx.attr<int64_t>("count"));
  const bool unique = ctx.attr<bool>("unique");
  with_indices(true_ids, [&](const auto* given) {
    const int64_t n = true_ids.size();
    check_indices(ctx, given, n, classes);
    std::vector<int64_t> ids(count);
    const double draws = static_cast<double>(draw_candidates(ctx, distribution, ids));
    const auto expected = [&](int64_t id) {
      const double p = distribution.probability(id);
      return static_cast<T>(unique ? -std::expm1(draws * std::log1p(-p)) : draws * p);
    };
    int64_t* drawn = ctx.output(0).mutable_data<int64_t>();
    T* of_true = ctx.output(1, true_ids.shape()).template mutable_data<T>();
    T* of_drawn = ctx.output(2).mutable_data<T>();
    std::copy(ids.begin(), ids.end(), drawn);
    for (int64_t i = 0; i < n; ++i) of_true[i] = expected(static_cast<int64_t>(given[i]));
    for (const int64_t id : ids) *of_drawn++ = expected(id);
  });
}

std::vector<DType> infer_log_uniform_dtypes(const InferContext& ctx) {
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

std::vector<Shape> infer_log_uniform(const InferContext& ctx) {
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

void run_log_uniform(KernelContext& ctx) {
  const int64_t classes = checked_classes(ctx);
  const LogUniform distribution(classes);
  if (ctx.attr<DType>("dtype") == DType::f32)
    run_candidates<float>(ctx, ctx.input(0), classes, distribution);
  else
    run_candidates<double>(ctx, ctx.input(0), classes, distribution);
}

std::vector<DType> infer_unigram_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 0);
  return {DType::i64, ctx.dtype(1), ctx.dtype(1)};
}

std::vector<Shape> infer_unigram(const InferContext& ctx) {
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
void run_unigram(KernelContext& ctx) {
  const int64_t classes = ctx.input(1).size();
  const Unigram distribution(ctx, ctx.input(1).data<T>(), classes);
  check_candidate_count(ctx, distribution.classes_to_draw());
  run_candidates<T>(ctx, ctx.input(0), classes, distribution);
}

}  // namespace

Op log_uniform_candidates_op() {
  return {.name = "LogUniformCandidates",
          .inputs = {"true_ids", kPathInput},
          .outputs = {"ids", "true_expected", "expected"},
          .attrs = candidate_attrs(
              {{"classes", AttrKind::integer}, {"dtype", AttrKind::dtype, DType::f32}}),
          .infer_dtypes = infer_log_uniform_dtypes,
          .infer_shapes = infer_log_uniform,
          .no_gradient = "its input is an integer",
          .kernels = {{DeviceKind::cpu, DType::i64, run_log_uniform}},
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

Op unigram_candidates_op() {
  return {.name = "UnigramCandidates",
          .inputs = {"true_ids", "weights", kPathInput},
          .outputs = {"ids", "true_expected", "expected"},
          .attrs = candidate_attrs({{"distortion", AttrKind::real, 1.0}}),
          .infer_dtypes = infer_unigram_dtypes,
          .infer_shapes = infer_unigram,
          .no_gradient = "what is drawn is a number of a class",
          .kernels = float_kernels(run_unigram<float>, run_unigram<double>),
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
