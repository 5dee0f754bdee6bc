// Shared by the kernels of recurrent layers: shape rules, lengths, jobs over rows of the batch, and
// the scratch memory of those jobs.
//
// Rows of a batch are independent, so one job takes its rows through all time steps, and no job
// waits for another within the sequence.
#pragma once

#include <array>
#include <initializer_list>

#include "ops/elementwise/composition.hpp"
#include "ops/support/indices.hpp"
#include "ops/linear_algebra/step_product.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {

// ---- shapes ----

enum class RecurrentSize : uint8_t { time, batch, hidden, all_gates };
struct RecurrentInput {
  int input;
  std::initializer_list<RecurrentSize> sizes;
};
struct RecurrentShape {
  int64_t time = -1, batch = -1, hidden = -1, gates = -1;
  int64_t& at(RecurrentSize size) {
    return size == RecurrentSize::time     ? time
           : size == RecurrentSize::batch  ? batch
           : size == RecurrentSize::hidden ? hidden
                                           : gates;
  }
};

// Reads the sizes from the inputs, with `count` gates of `hidden` units each; input `lengths` is
// [batch] or [0]. Throws: Error with `wanted` if the inputs do not fit each other.
RecurrentShape require_recurrent(const InferContext& ctx, int count, int lengths,
                                 const char* wanted, std::initializer_list<RecurrentInput> inputs);

// infer_dtypes for an op with `outputs` outputs of input 0's dtype. All inputs have that dtype,
// except the lengths, input number `lengths`.
std::vector<DType> recurrent_dtypes(const InferContext& ctx, int lengths, size_t outputs);
template <int kLengths, size_t kOutputs>
std::vector<DType> recurrent_dtypes(const InferContext& ctx) {
  return recurrent_dtypes(ctx, kLengths, kOutputs);
}

// `lengths`, or the empty tensor that lstm() and gru() pass if there are none.
Output lengths_or_none(Output lengths, Graph& graph);

// a [t, b, m], b [t, b, n] -> the sum of the outer products of their rows [m, n].
Output summed_products(Output a, Output b);

// `gradient`, or zeros like y if it is undefined.
Output or_zeros(Output gradient, Output y);

// ---- steps ----

struct RecurrentSteps {
  int64_t time = 0, batch = 0, hidden = 0;
  bool reverse = false;
  int64_t rows = 0;  // rows of a job; the last job may have fewer

  // Cuts the batch into at most 8 jobs of at least 8 rows each; of at least 32 rows if the weights
  // are larger than a second-level cache, because each job reads them at each time step. Makes one
  // job if the whole takes less than about 40 us. The cut changes no bits.
  static RecurrentSteps of(int64_t time, int64_t batch, int64_t hidden, int gates, bool reverse) {
    const double weights = static_cast<double>(hidden) * static_cast<double>(hidden) * gates;
    const int64_t rows_min = weights * 4 > (1 << 20) ? 32 : 8;
    int64_t jobs = 1;
    if (weights * static_cast<double>(time) * static_cast<double>(batch) > (1 << 22))
      while (jobs < 8 && batch / (2 * jobs) >= rows_min) jobs *= 2;
    return {time, batch, hidden, reverse, std::max<int64_t>(1, (batch + jobs - 1) / jobs)};
  }
  // For one firing: `all_gates` is [time, batch, gates * hidden], `h0` [batch, hidden].
  static RecurrentSteps of(const Tensor& all_gates, const Tensor& h0, int gates, bool reverse) {
    return of(all_gates.dim(0), h0.dim(0), h0.dim(1), gates, reverse);
  }
  int64_t elements() const { return time * batch * hidden; }
  int64_t jobs() const { return (batch + rows - 1) / rows; }
  std::vector<int64_t> row_counts() const {  // of the jobs
    std::vector<int64_t> counts = {rows};
    if (batch % rows != 0) counts.push_back(batch % rows);
    return counts;
  }
  // place(): the time of time step number `step`. before(): the time of the preceding time step, or
  // -1.
  int64_t place(int64_t step) const { return reverse ? time - 1 - step : step; }
  int64_t before(int64_t place) const {
    return reverse ? (place + 1 < time ? place + 1 : -1) : place - 1;
  }
};

// Rows of one job.
struct RecurrentRows {
  int64_t begin, count;
};

// Bytes of `count` numbers, rounded up to the alignment of a job's memory parts.
template <class T>
int64_t rounded_bytes(int64_t count) {
  return (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
}

// Sizes of a time step's product for `gates` of the `all` gates of w_h [hidden, all * hidden]: from
// h, or with `backward` from the gradients of these gates, which are stored among all gates.
inline StepProductSizes gate_product(const RecurrentSteps& s, int64_t gates, int64_t all,
                                     bool backward) {
  const int64_t h = s.hidden, some = gates * h;
  return {.rows = s.row_counts(),
          .k = backward ? some : h,
          .n = backward ? h : some,
          .a_step = backward ? all * h : h,
          .w_step = all * h,
          .transposed = backward,
          .uses = s.time};
}

// A node's state between firings.
template <class Products>
struct RecurrentState : KernelState {
  ShapeCache<std::array<int64_t, 3>, Products> products;  // by time, batch, hidden
  bool reverse = false;

  // The products for `steps`; make() makes them if there are none yet.
  template <class Make>
  std::shared_ptr<const Products> products_of(const RecurrentSteps& steps, const Make& make) const {
    return products.get({steps.time, steps.batch, steps.hidden}, make);
  }
};
template <class State>
std::unique_ptr<State> recurrent_state(const Node& node) {
  auto state = std::make_unique<State>();
  state->reverse = node.attr<bool>("reverse");
  return state;
}

// One firing: lengths, packed weights and the scratch memory of its jobs.
class RecurrentRun {
 public:
  // Checks the lengths, input number `lengths_input`.
  RecurrentRun(KernelContext& ctx, const RecurrentSteps& steps, int lengths_input);
  const int64_t* lengths() const { return lengths_.data<int64_t>(); }

  // Packs the weights, and gives each job `job_bytes` followed by the scratch memory of the
  // products. Call once, before run(). Returns the argument for the products.
  template <class Products, class T>
  auto pack(const Products& products, const T* weights, int64_t job_bytes) {
    packed_bytes_ = products.packed_bytes();
    job_bytes_ = (job_bytes + products.scratch_bytes() + 63) / 64 * 64;
    memory_ = ctx_.scratch(DType::u8, Shape{packed_bytes_ + job_bytes_ * steps_.jobs()});
    at_ = memory_.mutable_data<uint8_t>();
    return products.pack(ctx_, weights, at_, job_memory(0) + job_bytes);
  }

  // Calls f(rows, memory of the job) for each job.
  template <class F>
  void run(const F& f) const {
    ctx_.parallel(steps_.jobs(), [&](int64_t job) {
      const int64_t begin = job * steps_.rows;
      f(RecurrentRows{begin, std::min(steps_.rows, steps_.batch - begin)}, job_memory(job));
    });
  }

 private:
  uint8_t* job_memory(int64_t job) const { return at_ + packed_bytes_ + job * job_bytes_; }

  KernelContext& ctx_;
  const RecurrentSteps& steps_;
  Tensor lengths_, memory_;
  uint8_t* at_ = nullptr;
  int64_t packed_bytes_ = 0, job_bytes_ = 0;
};

template <class T>
T* elements(uint8_t* memory) {
  return reinterpret_cast<T*>(memory);
}

// Copies h before the time step at `place` for a job's rows: y of the preceding time step, or h0 if
// this is the row's first one. A row without a time step at `place` gets zeros.
template <class T>
void copy_before(const RecurrentSteps& s, const int64_t* lengths, RecurrentRows rows, int64_t place,
                 const T* h0, const T* y, T* to) {
  const int64_t before = s.before(place), h = s.hidden;
  for (int64_t r = rows.begin; r < rows.begin + rows.count; ++r, to += h) {
    if (place >= lengths[r])
      std::fill_n(to, h, T{0});
    else if (before < 0 || before >= lengths[r])
      std::copy_n(h0 + r * h, h, to);
    else
      std::copy_n(y + (before * s.batch + r) * h, h, to);
  }
}

// ---- element-wise parts ----

// Elements are computed in blocks of this size, the last one padded, because libmvec's result for
// one element differs from its result for several.
constexpr int kRecurrentBlock = 32;

template <class T>
using RecurrentBlock = T[kRecurrentBlock];

// Loads the last elements of a row. Not inlined: loops compiled for each instruction set load at
// many places, but reach this once a row.
template <class T>
[[gnu::noinline]] void load_rest(RecurrentBlock<T>& to, const T* from, int64_t n) {
  std::fill_n(to, kRecurrentBlock, T{0});
  std::copy_n(from, n, to);
}

template <class T>
void load(RecurrentBlock<T>& to, const T* from, int64_t n) {
  if (n == kRecurrentBlock)
    std::copy_n(from, kRecurrentBlock, to);
  else
    load_rest(to, from, n);
}
template <class T>
void store(const RecurrentBlock<T>& from, T* to, int64_t n) {
  if (n == kRecurrentBlock)
    std::copy_n(from, kRecurrentBlock, to);
  else
    std::copy_n(from, n, to);
}

template <class T>
T logistic(T x) {
  return 1 / (1 + math::exp(-x));
}

}  // namespace troupe
