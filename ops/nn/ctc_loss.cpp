// CtcLoss: loss[b] = -log of the probability that a path drawn from softmax(logits) gives the
// labels of row b, after repetitions and then blanks are removed (Graves et al. 2006). Labels that
// do not fit into the time give infinity with gradient 0.
//   loss: [batch]
//
// CtcLossGradient: dlogits[t, b, k] = dloss[b] * (softmax(logits)[t, b, k] - P(a path of row b's
// labels is at k at time t)) (Graves et al. 2006, equation 16). It is 0 past a row's time, and for
// labels that do not fit into the time.
//   dloss: [batch]   dlogits: the shape of logits
//
// Both (Graves, Fernandez, Gomez, Schmidhuber, ICML 2006) take
//   logits: [time, batch, classes], f32 or f64   labels: [batch, most]   time_sizes, label_sizes:
//   [batch]   all of i32 or i64
//
// A row of n labels has 2 * n + 1 states: blank, label, blank, ..., label, blank. A path starts in
// one of the first two states and ends in one of the last two. At each time it stays, advances by
// one state, or advances by two, past a blank between different labels.
#include <limits>
#include <vector>

#include "ops/gradients.hpp"
#include "ops/support/indices.hpp"
#include "ops/support/row.hpp"

namespace troupe {
namespace {

struct CtcRow {
  int64_t times = 0;
  std::vector<int64_t> classes;  // of each state
  std::vector<double> log_y;     // [times, states]: log of the probability of the state's class
  int64_t states() const { return static_cast<int64_t>(classes.size()); }
};

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

// `first`: the index of the logits among the inputs; labels and sizes follow.
void require_ctc_dtypes(const InferContext& ctx, int first) {
  for (int i = first + 1; i < first + 4; ++i) {
    require_index_dtype(ctx, i);
    if (ctx.dtype(i) != ctx.dtype(first + 1))
      throw ctx.error("wants labels and sizes of one dtype, got ", ctx.dtype(first + 1), " and ",
                      ctx.dtype(i), "; cast them");
  }
}

// Throws: Error for shapes that do not fit. Returns the batch size, -1 if unknown.
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

// Throws: Error with the row and the value if a size, a label or the blank is out of range, or a
// label equals the blank.
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

// Makes all fields but the values of log_y, which only gets its size. Requires: the values are
// checked.
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

// Returns the log of the probability of the labels. alpha[t, s]: the log of the probability of all
// paths that are in state s at time t (equations 6 and 7).
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

// Turns alpha into the probability that a path of these labels is in state s at time t.
// Requires: log_p, the result of ctc_forward(), is above -infinity.
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

// Sets log_y at one time from its logits. y: scratch for softmax(logits).
template <class T>
void set_log_y(CtcRow& row, int64_t time, const T* logits, int64_t classes, T* y) {
  const double log_sum = static_cast<double>(in_isa<SoftmaxRowLoop>(logits, y, classes));
  double* log_y = row.log_y.data() + time * row.states();
  for (const int64_t k : row.classes) *log_y++ = static_cast<double>(logits[k]) - log_sum;
}

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_ctc_dtypes(ctx, 0);
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  return {Shape{checked_ctc_batch(ctx, 0)}};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  return {ctc_loss_gradient(ctx.output_gradient(0), ctx.input(0), ctx.input(1), ctx.input(2),
                            ctx.input(3), ctx.attr<int64_t>("blank")),
          Output{}, Output{}, Output{}};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_ctc_values(ctx, 0);
  const int64_t batch = ctx.input(0).dim(1), classes = ctx.input(0).dim(2);
  const T* x = ctx.input(0).data<T>();
  std::vector<T> y(static_cast<size_t>(classes));
  std::vector<double> alpha;
  T* loss = ctx.output(0, Shape{batch}).template mutable_data<T>();
  for (int64_t b = 0; b < batch; ++b) {
    CtcRow row = make_ctc_row(ctx, 0, b);
    for (int64_t t = 0; t < row.times; ++t)
      set_log_y(row, t, x + (t * batch + b) * classes, classes, y.data());
    loss[b] = static_cast<T>(0 - ctc_forward(row, alpha));  // 0, not -0, for probability 1
  }
}

std::vector<DType> infer_gradient_dtypes(const InferContext& ctx) {
  require_ctc_dtypes(ctx, 1);
  if (ctx.dtype(0) != ctx.dtype(1))
    throw ctx.error("dloss and logits must have one dtype, got ", ctx.dtype(0), " and ",
                    ctx.dtype(1), "; cast one of them");
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const int64_t batch = checked_ctc_batch(ctx, 1);
  const Shape& dloss = ctx.input(0);
  if (dloss.ndim() != 1 || !may_equal(dloss[0], batch))
    throw ctx.error("wants a dloss for each row, [", batch, "], got ", dloss);
  return {ctx.input(1)};
}

template <class T>
void cpu_gradient(KernelContext& ctx) {
  check_ctc_values(ctx, 1);
  const Shape shape = ctx.input(1).shape();
  const int64_t batch = shape[1], classes = shape[2];
  const T *dloss = ctx.input(0).data<T>(), *x = ctx.input(1).data<T>();
  std::vector<double> alpha;
  Tensor& output = ctx.output(0, shape);
  T* dx = output.mutable_data<T>();
  std::fill_n(dx, output.size(), T{0});
  for (int64_t b = 0; b < batch; ++b) {
    CtcRow row = make_ctc_row(ctx, 1, b);
    const auto at = [&](int64_t t) { return (t * batch + b) * classes; };
    for (int64_t t = 0; t < row.times; ++t) set_log_y(row, t, x + at(t), classes, dx + at(t));
    const double log_p = ctc_forward(row, alpha);
    const bool fits = log_p != -std::numeric_limits<double>::infinity();
    if (fits) ctc_occupancy(row, log_p, alpha);
    for (int64_t t = 0; t < row.times; ++t) {
      T* to = dx + at(t);
      const double* p = alpha.data() + t * row.states();
      if (fits)
        for (const int64_t k : row.classes) to[k] -= static_cast<T>(*p++);
      for (int64_t k = 0; k < classes; ++k) to[k] = fits ? to[k] * dloss[b] : T{0};
    }
  }
}

}  // namespace

Op ctc_loss_op() {
  return {.name = "CtcLoss",
          .inputs = {"logits", "labels", "time_sizes", "label_sizes"},
          .outputs = {"loss"},
          .attrs = {{"blank", AttrKind::integer, int64_t{0}}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = float_kernels(cpu<float>, cpu<double>),
          .precision = Precision::wide};
}

Output ctc_loss(Output logits, Output labels, Output time_sizes, Output label_sizes, int64_t blank,
                Origin at) {
  return add_node({.op = "CtcLoss",
                   .inputs = {logits, labels, time_sizes, label_sizes},
                   .attrs = {{"blank", blank}}},
                  at);
}

Op ctc_loss_gradient_op() {
  return {.name = "CtcLossGradient",
          .inputs = {"dloss", "logits", "labels", "time_sizes", "label_sizes"},
          .outputs = {"dlogits"},
          .attrs = {{"blank", AttrKind::integer, int64_t{0}}},
          .infer_dtypes = infer_gradient_dtypes,
          .infer_shapes = infer_gradient_shapes,
          .no_gradient = "the second derivatives of CTC have no kernel",
          .kernels = float_kernels(cpu_gradient<float>, cpu_gradient<double>)};
}

Output ctc_loss_gradient(Output dloss, Output logits, Output labels, Output time_sizes,
                         Output label_sizes, int64_t blank, Origin at) {
  return add_node({.op = "CtcLossGradient",
                   .inputs = {dloss, logits, labels, time_sizes, label_sizes},
                   .attrs = {{"blank", blank}}},
                  at);
}

}  // namespace troupe
