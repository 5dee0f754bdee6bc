// The forward-backward algorithm over the states of CTC, in log probabilities, and the checks of
// its inputs. ops/nn/ctc.hpp documents the functions.
#include "ops/nn/ctc.hpp"

#include <limits>

namespace troupe {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

int64_t at(const Tensor& tensor, int64_t i) {
  return tensor.dtype() == DType::i32 ? int64_t{tensor.data<int32_t>()[i]}
                                      : tensor.data<int64_t>()[i];
}

// log(e^a + e^b + e^c).
double log_add(double a, double b, double c = kNever) {
  const double all = a + b + c;
  if (all != all) return all;
  const double max = std::max(std::max(a, b), c);
  if (max == kNever) return max;
  return max + std::log(std::exp(a - max) + std::exp(b - max) + std::exp(c - max));
}

// True if a path may go from state s - 2 to s: past a blank between two different labels.
bool may_skip(const CtcRow& row, int64_t s) {
  const auto i = static_cast<size_t>(s);
  return s % 2 == 1 && s >= 3 && row.classes[i] != row.classes[i - 2];
}

void check_size(const KernelContext& ctx, const char* what, int64_t row, int64_t size,
                int64_t most) {
  if (size < 0 || size > most)
    throw ctx.error("row ", row, " has the ", what, " size ", size, ", which is not in [0, ", most,
                    "]");
}

}  // namespace

void require_ctc_dtypes(const InferContext& ctx, int first) {
  for (int i = first + 1; i < first + 4; ++i) {
    require_index_dtype(ctx, i);
    if (ctx.dtype(i) != ctx.dtype(first + 1))
      throw ctx.error("wants labels and sizes of one dtype, got ", ctx.dtype(first + 1), " and ",
                      ctx.dtype(i), "; cast them");
  }
}

int64_t checked_ctc_batch(const InferContext& ctx, int first) {
  const Shape &logits = ctx.input(first), &labels = ctx.input(first + 1);
  const Shape &times = ctx.input(first + 2), &sizes = ctx.input(first + 3);
  bool fits = logits.ndim() == 3 && labels.ndim() == 2 && times.ndim() == 1 && sizes.ndim() == 1;
  int64_t batch = fits ? logits[1] : -1;
  if (fits)
    for (const int64_t other : {labels[0], times[0], sizes[0]}) {
      fits = fits && may_equal(batch, other);
      batch = std::max(batch, other);
    }
  if (!fits)
    throw ctx.error("wants logits [time, batch, classes], labels [batch, most] and two sizes ",
                    "[batch], got ", logits, ", ", labels, ", ", times, " and ", sizes);
  const int64_t blank = ctx.attr<int64_t>("blank");
  if (blank < 0 || (logits[2] >= 0 && blank >= logits[2]))
    throw ctx.error("blank ", blank, " is none of the ", logits[2], " classes of ", logits,
                    ", counted from 0");
  return batch;
}

void check_ctc_values(const KernelContext& ctx, int first) {
  check_actual_shapes(ctx);
  const Tensor &logits = ctx.input(first), &labels = ctx.input(first + 1);
  const int64_t most = labels.dim(1), classes = logits.dim(2), blank = ctx.attr<int64_t>("blank");
  for (int64_t row = 0; row < labels.dim(0); ++row) {
    const int64_t n = at(ctx.input(first + 3), row);
    check_size(ctx, "time", row, at(ctx.input(first + 2), row), logits.dim(0));
    check_size(ctx, "label", row, n, most);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t label = at(labels, row * most + i);
      if (label < 0 || label >= classes || label == blank)
        throw ctx.error("row ", row, " has the label ", label, ", but labels are in [0, ", classes,
                        ") and not the blank, ", blank);
    }
  }
}

CtcRow make_ctc_row(const KernelContext& ctx, int first, int64_t row) {
  const Tensor& labels = ctx.input(first + 1);
  const int64_t n = at(ctx.input(first + 3), row), blank = ctx.attr<int64_t>("blank");
  CtcRow made;
  made.times = at(ctx.input(first + 2), row);
  for (int64_t i = 0; i < n; ++i) {
    made.classes.push_back(blank);
    made.classes.push_back(at(labels, row * labels.dim(1) + i));
  }
  made.classes.push_back(blank);
  made.log_y.resize(static_cast<size_t>(made.times * made.states()));
  return made;
}

double ctc_forward(const CtcRow& row, std::vector<double>& alpha) {
  const int64_t states = row.states();
  // With zero times, only the empty labelling is possible.
  if (row.times == 0) return states == 1 ? 0 : kNever;
  alpha.assign(row.log_y.size(), kNever);
  for (int64_t s = 0; s < std::min<int64_t>(2, states); ++s)
    alpha[static_cast<size_t>(s)] = row.log_y[static_cast<size_t>(s)];
  for (int64_t t = 1; t < row.times; ++t) {
    const double* before = alpha.data() + (t - 1) * states;
    const double* log_y = row.log_y.data() + t * states;
    double* now = alpha.data() + t * states;
    for (int64_t s = 0; s < states; ++s)
      now[s] = log_y[s] + log_add(before[s], s >= 1 ? before[s - 1] : kNever,
                                  may_skip(row, s) ? before[s - 2] : kNever);
  }
  const double* end = alpha.data() + row.times * states;
  return log_add(end[-1], states > 1 ? end[-2] : kNever);
}

// beta[s]: log of the probability of all continuations after time t from state s.
void ctc_occupancy(const CtcRow& row, double log_p, std::vector<double>& alpha) {
  const int64_t states = row.states();
  std::vector<double> beta(static_cast<size_t>(states), kNever), next(beta);
  for (int64_t t = row.times - 1; t >= 0; --t) {
    for (int64_t s = 0; s < states; ++s) {
      const auto follows = [&](int64_t to) { return next[static_cast<size_t>(to)]; };
      double& b = beta[static_cast<size_t>(s)];
      if (t == row.times - 1)
        b = s >= states - 2 ? 0 : kNever;
      else
        b = log_add(follows(s), s + 1 < states ? follows(s + 1) : kNever,
                    s + 2 < states && may_skip(row, s + 2) ? follows(s + 2) : kNever);
      double& a = alpha[static_cast<size_t>(t * states + s)];
      a = std::exp(a + b - log_p);
    }
    for (size_t s = 0; s < next.size(); ++s)
      next[s] = beta[s] + row.log_y[static_cast<size_t>(t * states) + s];
  }
}

}  // namespace troupe
