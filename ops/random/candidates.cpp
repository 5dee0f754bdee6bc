// Candidate samplers: classes drawn for a sampled loss, and the expected count of each class among
// them (Jean et al. 2015; Mnih and Teh 2012).
//   true_ids: any shape, i32 or i64, each in [0, classes)
//   ids: [count], i64   true_expected: the shape of true_ids   expected: [count]
// Draw t uses number t of the stream (RandomNumbers of ops/random/random.hpp), or its 53 upper bits
// as u in [0, 1). If `unique`, a class that was drawn before is rejected and drawn again, and the
// expected count of a class of probability p is 1 - (1 - p)^draws, where draws includes the
// rejected ones; otherwise it is p * count.
//
// LogUniformCandidates: candidates for a sampled loss, from classes numbered by decreasing
// frequency (Zipf): P(class k) = log((k + 2) / (k + 1)) / log(classes + 1).
// Class k is drawn by a u with floor((classes + 1)^u) = k + 1. Expected counts are f32 or f64 by
// attribute dtype.
//
// UnigramCandidates: candidates for a sampled loss, drawn by the frequency of each class: P(class
// k) = weights[k]^distortion / (the sum of these).
//   weights: [classes], f32 or f64, not negative   the expected counts have their dtype
// Draw t is one look into an alias table (Walker 1977; Vose 1991) of as many columns as classes:
// the upper half of bits * classes is a column; its class is drawn if the lower half is below the
// column's threshold, otherwise the other class of the column. The table is made once for the
// weights, and again when they change. Probabilities are exact to some 2^-53 of a column.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>

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

// Classes that were drawn: a hash table, at most half full, with multiplicative hashing and linear
// probing (Knuth, volume 3, 6.4).
class DrawnClasses {
 public:
  explicit DrawnClasses(size_t most) {
    size_t size = 2;
    for (; size < 2 * most; size *= 2) --shift_;
    places_.assign(size, -1);
  }
  // False if it was there already.
  bool insert(int64_t id) {
    size_t at = static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15u >> shift_;
    for (; places_[at] >= 0; at = (at + 1) & (places_.size() - 1))
      if (places_[at] == id) return false;
    places_[at] = id;
    return true;
  }

 private:
  int shift_ = 63;
  std::vector<int64_t> places_;
};

// Fills ids; returns the number of draws. D::at(bits), with 64 random bits, returns a class.
template <class D>
uint64_t draw_candidates(KernelContext& ctx, const D& distribution, std::vector<int64_t>& ids) {
  RandomNumbers random(random_stream(ctx), static_cast<int64_t>(ids.size()));
  if (!ctx.attr<bool>("unique")) {
    for (size_t t = 0; t < ids.size(); ++t) ids[t] = distribution.at(random.bits(t));
    return ids.size();
  }
  DrawnClasses seen(ids.size());
  uint64_t draws = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    do {
      if (draws == kDrawsMax)
        throw ctx.error("found only ", i, " different classes in ", draws,
                        " draws; ask for fewer, or not for unique ones");
      ids[i] = distribution.at(random.bits(draws++));
    } while (!seen.insert(ids[i]));
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
  int64_t at(uint64_t bits) const {
    const double u = static_cast<double>(bits >> 11) * 0x1p-53;
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

// The alias table of some weights.
class Unigram {
 public:
  template <class T>
  Unigram(const KernelContext& ctx, const T* weights, int64_t classes)
      : weights_(reinterpret_cast<const char*>(weights),
                 reinterpret_cast<const char*>(weights + classes)) {
    const double distortion = ctx.attr<double>("distortion");
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) {
      if (!(weights[k] >= 0 && std::isfinite(weights[k])))
        throw ctx.error("wants finite weights of at least 0, got ", weights[k], " (number ", k,
                        " of ", classes, ")");
      // A class of weight 0 is never drawn, for any distortion.
      const double part =
          weights[k] > 0 ? std::pow(static_cast<double>(weights[k]), distortion) : 0;
      drawn_ += part > 0;
      probabilities_.push_back(part);
      sum += part;
    }
    if (!std::isfinite(sum))
      throw ctx.error("the weights, to the power of ", distortion, ", add up to ", sum,
                      "; scale them down");
    fill_columns(sum);
    for (double& p : probabilities_) p /= sum;
  }
  // True if it is the table of these weights.
  template <class T>
  bool is_of(const T* weights, int64_t classes) const {
    const size_t bytes = static_cast<size_t>(classes) * sizeof(T);
    return bytes == weights_.size() && std::memcmp(weights, weights_.data(), bytes) == 0;
  }
  int64_t classes_to_draw() const { return drawn_; }
  int64_t at(uint64_t bits) const {
    const auto product = static_cast<unsigned __int128>(bits) * columns_.size();
    const auto column = static_cast<uint64_t>(product >> 64);
    const Column& c = columns_[column];
    return static_cast<uint64_t>(product) < c.threshold ? static_cast<int64_t>(column) : c.other;
  }
  double probability(int64_t k) const { return probabilities_[static_cast<size_t>(k)]; }

 private:
  struct Column {
    uint64_t threshold = 0;
    int64_t other = 0;
  };

  // A column is filled up by a class that has more than its own: the last of those in class order,
  // and with it the last that has less (Vose 1991).
  void fill_columns(double sum) {
    const auto classes = static_cast<int64_t>(probabilities_.size());
    columns_.resize(probabilities_.size());
    std::vector<double> parts;  // of a column's height
    std::vector<int64_t> less, more;
    for (int64_t k = 0; k < classes; ++k) {
      parts.push_back(probabilities_[static_cast<size_t>(k)] * static_cast<double>(classes) / sum);
      (parts.back() < 1 ? less : more).push_back(k);
    }
    while (!less.empty() && !more.empty()) {
      const int64_t low = less.back(), high = more.back();
      less.pop_back();
      double &of_low = parts[static_cast<size_t>(low)], &of_high = parts[static_cast<size_t>(high)];
      columns_[static_cast<size_t>(low)] = {static_cast<uint64_t>(of_low * 0x1p64), high};
      of_high = of_high + of_low - 1;
      if (of_high < 1) {
        more.pop_back();
        less.push_back(high);
      }
    }
    // Columns that are left are full but for rounding; a class of weight 0 is never drawn.
    const auto greatest = std::max_element(probabilities_.begin(), probabilities_.end());
    for (const auto* left : {&less, &more})
      for (const int64_t k : *left)
        columns_[static_cast<size_t>(k)] = probabilities_[static_cast<size_t>(k)] > 0
                                               ? Column{~uint64_t{0}, k}
                                               : Column{0, greatest - probabilities_.begin()};
  }

  const std::string weights_;  // their bytes
  std::vector<double> probabilities_;
  std::vector<Column> columns_;
  int64_t drawn_ = 0;  // number of classes with a part above 0
};

// The newest table of a node.
class UnigramState final : public KernelState {
 public:
  template <class T>
  std::shared_ptr<const Unigram> of(const KernelContext& ctx, const Tensor& weights) const {
    const T* const at = weights.data<T>();
    {
      const std::lock_guard lock(mutex_);
      if (table_ && table_->is_of(at, weights.size())) return table_;
    }
    auto made = std::make_shared<const Unigram>(ctx, at, weights.size());
    const std::lock_guard lock(mutex_);
    return table_ = std::move(made);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Unigram> table_;
};

std::unique_ptr<KernelState> prepare_unigram(const Node&) {
  return std::make_unique<UnigramState>();
}

template <class T>
void run_unigram(KernelContext& ctx) {
  const auto table = ctx.state<UnigramState>().of<T>(ctx, ctx.input(1));
  check_candidate_count(ctx, table->classes_to_draw());
  run_candidates<T>(ctx, ctx.input(0), ctx.input(1).size(), *table);
}

template <class T>
Kernel unigram_kernel() {
  return {.dtype = dtype_of<T>, .run = run_unigram<T>, .prepare = prepare_unigram};
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
          .stateful = true,
          .properties = &kRandom};
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
          .kernels = {unigram_kernel<float>(), unigram_kernel<double>()},
          .dispatch = 1,
          .stateful = true,
          .properties = &kRandom};
}

Candidates unigram_candidates(Output true_ids, Output weights, int64_t count,
                              CandidateOptions options, double distortion, Origin at) {
  Attrs attrs = candidate_node_attrs(count, options);
  attrs.emplace("distortion", distortion);
  return to_candidates(add_drawing(
      {.op = "UnigramCandidates", .inputs = {true_ids, weights}, .attrs = std::move(attrs)}, at));
}

}  // namespace troupe
