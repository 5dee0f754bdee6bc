// The update of a slice. Mean and optimizer pass over memory once, or twice for an optimizer that
// needs norms first; the mean is made in blocks that stay in the first-level cache.
#include "training/rules/update.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "devices/threads/isa.hpp"
#include "devices/threads/lanes.hpp"
#include "graph/base/mutant.hpp"
#include "graph/base/repeat_rows.hpp"
#include "training/rules/row_prefetch.hpp"
#include "training/rules/optimizer.hpp"
#include "training/rules/row_slices.hpp"
#include "training/rules/row_store.hpp"

namespace troupe {
namespace {

constexpr int64_t kBlock = 1024;  // elements; in f64 four to six arrays of 8 KiB
// The least work of a job, in elements: about 20 us.
constexpr int64_t kUpdateJob = int64_t{128} << 10, kLookJob = int64_t{512} << 10;

// Calls f(begin, end) for parts of [0, n), each of whole blocks except the last. There are at most
// as many parts as jobs of `least` elements.
template <class F>
void in_jobs(Lanes* lanes, int64_t n, int64_t least, const F& f) {
  const int64_t jobs = n / least;
  if (!lanes || jobs < 2) return f(int64_t{0}, n);
  const int64_t part = ((n + jobs - 1) / jobs + kBlock - 1) / kBlock * kBlock;
  const auto one = [&](int64_t job) {
    if (job * part < n) f(job * part, std::min(n, (job + 1) * part));
  };
  const auto call = [](const void* context, int64_t job) {
    (*static_cast<const decltype(one)*>(context))(job);
  };
  lanes->run(jobs, call, &one);
}

// sum = (a + b) / count, where `a` may be `sum`.
struct MeanLoop {
  template <class T>
  static void run(const T* a, const T* b, T count, T* sum, int64_t n) {
    if (count == 1) {
      TROUPE_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
    } else {
      TROUPE_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) sum[i] = (a[i] + b[i]) / count;
    }
  }
};

// Sum in the order of `gradients`, then one division, which goes with the last sum.
template <class T>
const T* mean_block(std::span<const Contribution> gradients, int64_t begin, int64_t n, T* sum) {
  const T* so_far = gradients[0].gradient.values.data<T>() + begin;
  for (size_t k = 1; k < gradients.size(); ++k) {
    const bool last = k + 1 == gradients.size();
    const T count = static_cast<T>(last ? gradients.size() : 1);
    in_isa<MeanLoop>(so_far, gradients[k].gradient.values.data<T>() + begin, count, sum, n);
    so_far = sum;
  }
  return so_far;
}

// The arrays that one update reads and writes, and their blocks.
template <class T>
struct Update {
  std::span<const Contribution> gradients;
  const T* old_values;
  T* values;
  std::array<T*, kOptimizerAccumulatorsMax> accumulators = {};
  int64_t size;

  Update(std::span<const Contribution> pushed, const Tensor& from, Tensor& to, SliceValues& state)
      : gradients(pushed),
        old_values(from.data<T>()),
        values(to.mutable_data<T>()),
        size(to.size()) {
    for (size_t s = 0; s < state.optimizer_accumulators.size(); ++s)
      accumulators[s] = state.optimizer_accumulators[s].second.mutable_data<T>();
  }

  // Calls f(elements, arrays) for each block of [begin, end) in order, with the mean of the
  // gradients as its gradient.
  template <class F>
  void first_pass(int64_t begin, int64_t end, F f) const {
    alignas(64) std::array<T, kBlock> sum;
    blocks(begin, end, kBlock, [&](int64_t at, int64_t n, OptimizerArrays<T>& a) {
      a.gradient = mean_block(gradients, at, n, sum.data());
      f(n, a);
    });
  }
  template <class F>
  void second_pass(F f) const {
    blocks(0, size, kBlock, [&](int64_t, int64_t n, OptimizerArrays<T>& a) { f(n, a); });
  }
  // For elementwise optimizers: a single gradient needs no blocks.
  template <class F>
  void only_pass(int64_t begin, int64_t end, F f) const {
    if (gradients.size() > 1) return first_pass(begin, end, f);
    blocks(begin, end, end - begin, [&](int64_t at, int64_t n, OptimizerArrays<T>& a) {
      a.gradient = gradients[0].gradient.values.data<T>() + at;
      f(n, a);
    });
  }

 private:
  template <class F>
  void blocks(int64_t begin, int64_t end, int64_t block, F f) const {
    for (; begin < end; begin += block) {
      OptimizerArrays<T> a;
      a.before = old_values + begin;
      a.values = values + begin;
      for (size_t s = 0; s < accumulators.size(); ++s)
        a.accumulators[s] = accumulators[s] ? accumulators[s] + begin : nullptr;
      f(begin, std::min(block, end - begin), a);
    }
  }
};

template <class T>
void apply_blocks(const Optimizer& optimizer, std::span<const Contribution> gradients,
                  const Tensor& from, Tensor& to, SliceValues& state, Lanes* lanes) {
  const Update<T> update(gradients, from, to, state);
  const int64_t t = state.version + 1, age = t - state.accumulators_since;
  if (!wants_whole_parameter(optimizer)) {
    const OptimizerUpdate<T> each(optimizer, t, age);
    return in_jobs(lanes, update.size, kUpdateJob,
                   [&](int64_t begin, int64_t end) { update.only_pass(begin, end, each); });
  }
  LambUpdate<T> lamb(optimizer, t, age);
  update.first_pass(0, update.size,
                    [&](int64_t n, const OptimizerArrays<T>& a) { lamb.moments(n, a); });
  update.second_pass([&](int64_t n, const OptimizerArrays<T>& a) { lamb.step(n, a); });
}

// Updates rows of `width` elements, shorter than a block and not adjacent: gathers them in blocks,
// as vectorised loops want them. `before`: receives the rows' old values, or null.
template <class T>
class RowBlocks {
 public:
  RowBlocks(const OptimizerUpdate<T>& update, const OptimizerArrays<T>& arrays, size_t accumulators,
            int64_t width)
      : update_(update), arrays_(arrays), accumulators_(accumulators), width_(width) {}

  void run(std::span<const int64_t> indices, const T* gradient, T* before) {
    const int64_t most = std::max<int64_t>(1, kBlock / width_);
    while (!indices.empty()) {
      const auto now = indices.first(std::min(indices.size(), static_cast<size_t>(most)));
      const int64_t n = static_cast<int64_t>(now.size()) * width_;
      OptimizerArrays<T> block;
      block.gradient = gradient;
      block.values = fetch(now, arrays_.values, rows_[0]);
      for (size_t s = 0; s < accumulators_; ++s)
        block.accumulators[s] = fetch(now, arrays_.accumulators[s], rows_[s + 1]);
      if (before) std::copy_n(block.values, n, before);
      update_(n, block);
      put(now, block.values, arrays_.values);
      for (size_t s = 0; s < accumulators_; ++s)
        put(now, block.accumulators[s], arrays_.accumulators[s]);
      indices = indices.subspan(now.size());
      gradient += n;
      if (before) before += n;
    }
  }

 private:
  using Block = std::array<T, kBlock>;
  T* fetch(std::span<const int64_t> indices, const T* from, Block& to) const {
    T* at = to.data();
    if (width_ == 1) {
      for (const int64_t index : indices) *at++ = from[index];
    } else {
      const RowPrefetch<T> ahead(from, width_, indices);
      for (size_t i = 0; i < indices.size(); ++i) {
        ahead.reached(i);
        at = std::copy_n(from + indices[i] * width_, width_, at);
      }
    }
    return to.data();
  }
  void put(std::span<const int64_t> indices, const T* from, T* to) const {
    if (width_ == 1) {
      for (const int64_t index : indices) to[index] = *from++;
    } else {
      for (const int64_t index : indices) {
        std::copy_n(from, width_, to + index * width_);
        from += width_;
      }
    }
  }

  const OptimizerUpdate<T>& update_;
  const OptimizerArrays<T>& arrays_;
  const size_t accumulators_;
  const int64_t width_;
  alignas(64) std::array<Block, kOptimizerAccumulatorsMax + 1> rows_;
};

// Subtracts `change` from each indexed value, one after the other: an index may repeat.
template <class T>
void lower_each(T change, std::span<const int64_t> indices, T* values) {
  const int64_t* at = indices.data();
  size_t left = indices.size();
  for (; left >= 4; left -= 4, at += 4) {  // four at a time: the loop is as costly as its body
    values[at[0]] -= change;
    values[at[1]] -= change;
    values[at[2]] -= change;
    values[at[3]] -= change;
  }
  for (; left > 0; --left, ++at) values[*at] -= change;
}

// SGD of rows, one after the other: an index may repeat. Each row of the gradient is for `times`
// indices.
template <bool kKept>
struct DescendLoop {
  template <class T>
  static void run(T rate, const int64_t* indices, int64_t n, int64_t times, int64_t width,
                  const T* gradient, T* values, T* before) {
    // Rows lie anywhere in memory: those of later indices are asked for, and the processor itself
    // goes on with the lines of a long one.
    constexpr int64_t kAhead = 4, kLine = 64 / sizeof(T), kLines = 16;
    const int64_t asked = std::min(width, kLine * kLines);
    for (int64_t i = 0; i < n; gradient += width)
      for (const int64_t end = i + times; i < end; ++i) {
        if (i + kAhead < n)
          for (int64_t j = 0; j < asked; j += kLine)
            __builtin_prefetch(values + indices[i + kAhead] * width + j, 1);
        T* const row = values + indices[i] * width;
        TROUPE_INDEPENDENT
        for (int64_t j = 0; j < width; ++j) {
          const T x = row[j];
          if (kKept) before[j] = x;
          row[j] = x - rate * gradient[j];
        }
        if (kKept) before += width;
      }
  }
};

// The same for rows of one element.
template <class T>
void descend_elements(T rate, const Gradient& rows, T* values, T* before) {
  const auto times = static_cast<size_t>(rows.indices_per_row());
  const T* gradient = rows.values.data<T>();
  for (auto left = rows.rows(); !left.empty(); left = left.subspan(times)) {
    const T change = rate * *gradient++;
    if (!before) {
      lower_each(change, left.first(times), values);
      continue;
    }
    for (const int64_t index : left.first(times)) {
      const T x = values[index];
      *before++ = x;
      values[index] = x - change;
    }
  }
}

template <class T>
void descend(T rate, const Gradient& rows, T* values, T* before) {
  const int64_t width = rows.row_size(), times = rows.indices_per_row();
  if (width == 1) return descend_elements(rate, rows, values, before);
  const auto indices = rows.rows();
  const auto n = static_cast<int64_t>(indices.size());
  const T* const gradient = rows.values.data<T>();
  if (before)
    in_isa<DescendLoop<true>>(rate, indices.data(), n, times, width, gradient, values, before);
  else
    in_isa<DescendLoop<false>>(rate, indices.data(), n, times, width, gradient, values, before);
}

// Updates rows of `values` in place. `before`: null, or memory for the old values of these rows.
// Requires: a row for each index, except for SGD.
template <class T>
void apply_rows(const Optimizer& optimizer, const Gradient& rows, Tensor& values,
                SliceValues& state, T* before) {
  if (optimizer.kind == "sgd") {
    const T rate = static_cast<T>(learning_rate_at(optimizer, state.version + 1));
    return descend(rate, rows, values.mutable_data<T>(), before);
  }
  OptimizerArrays<T> all;
  all.values = values.mutable_data<T>();
  for (size_t s = 0; s < state.optimizer_accumulators.size(); ++s)
    all.accumulators[s] = state.optimizer_accumulators[s].second.mutable_data<T>();
  const OptimizerUpdate<T> update(optimizer, state.version + 1,
                                  state.version + 1 - state.accumulators_since);
  const T* gradient = rows.values.data<T>();
  const int64_t width = rows.row_size();
  if (width < 64)
    return RowBlocks<T>(update, all, state.optimizer_accumulators.size(), width)
        .run(rows.rows(), gradient, before);
  for (const int64_t index : rows.rows()) {
    OptimizerArrays<T> row;
    row.gradient = gradient;
    row.values = all.values + index * width;
    for (size_t s = 0; s < state.optimizer_accumulators.size(); ++s)
      row.accumulators[s] = all.accumulators[s] + index * width;
    if (before) before = std::copy_n(row.values, width, before);
    update(width, row);
    gradient += width;
  }
}

// Memory for new values beside `from`.
Tensor new_values(const Tensor& from, const UpdateMeans& means) {
  Buffer* const shared = means.segments && means.segments->has_readers()
                             ? means.segments->try_allocate(from.byte_size())
                             : nullptr;
  return shared ? adopt(shared, from.dtype(), from.shape())
                : Tensor::empty(from.dtype(), from.shape());
}

// Updates the rows of `gradient`. If the values are shared, copies them; otherwise updates in place
// and, with `keep_previous`, saves the old contents of the touched rows. `read`: those contents if
// a read has already taken them, or undefined.
template <class T>
bool apply_by_rows(const Optimizer& optimizer, const Gradient& rows, bool keep_previous,
                   SliceValues& state, const Tensor& read, const UpdateMeans& means) {
  const bool in_place = may_be_written(state.values);
  if (!in_place) {
    Tensor from = state.values;
    Tensor to =
        may_be_written(state.previous) ? std::move(state.previous) : new_values(from, means);
    std::memcpy(to.mutable_raw(), from.raw(), static_cast<size_t>(from.byte_size()));
    apply_rows<T>(optimizer, rows, to, state, nullptr);
    state.values = std::move(to);
    state.previous = std::move(from);
    state.previous_rows = {};
  } else if (keep_previous) {
    Tensor& before = state.previous_rows.values;
    const Shape shape{rows.indices.size(), rows.row_size()};
    if (read.defined()) {
      before = read;
    } else if (!may_be_written(before) || before.shape() != shape) {
      before = Tensor::empty(dtype_of<T>, shape);
    }
    apply_rows<T>(optimizer, rows, state.values, state,
                  read.defined() ? nullptr : before.mutable_data<T>());
    state.previous_rows.indices = rows.indices;
    state.previous.reset();
  } else {
    apply_rows<T>(optimizer, rows, state.values, state, nullptr);
  }
  if (!in_place || keep_previous) state.previous_version = state.version;
  ++state.version;
  return in_place;
}

// Last to first: the first saved copy of a row that repeats is its oldest, and must win.
template <class T>
void put_back(std::span<const int64_t> indices, const Tensor& before, Tensor& values) {
  const int64_t width = before.dim(1);
  const T* from = before.data<T>() + before.size();
  T* to = values.mutable_data<T>();
  for (size_t i = indices.size(); i-- > 0;) {
    from -= width;
    std::copy_n(from, width, to + indices[i] * width);
  }
}

template <class T>
bool is_finite(T x) {
  if constexpr (sizeof(T) == 8)
    return (std::bit_cast<uint64_t>(x) & 0x7ff0000000000000u) != 0x7ff0000000000000u;
  else
    return (std::bit_cast<uint32_t>(x) & 0x7f800000u) != 0x7f800000u;
}

struct LookLoop {
  template <class T>
  static bool run(const T* values, int64_t n) {
    using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    Bits bad = 0;  // no branch in the loop, so that it is vectorised
    for (int64_t i = 0; i < n; ++i) bad |= static_cast<Bits>(!is_finite(values[i]));
    return bad != 0;
  }
};

template <class T>
std::optional<int64_t> find_not_finite(const T* values, int64_t n, Lanes* lanes) {
  std::atomic<bool> bad{false};
  in_jobs(lanes, n, kLookJob, [&](int64_t begin, int64_t end) {
    if (in_isa<LookLoop>(values + begin, end - begin)) bad.store(true, std::memory_order_relaxed);
  });
  if (!bad.load(std::memory_order_relaxed)) return std::nullopt;
  return std::find_if_not(values, values + n, is_finite<T>) - values;
}

template <class T>
std::optional<std::string> find_not_finite_of(const Gradient& gradient, Lanes* lanes) {
  const T* values = gradient.values.data<T>();
  const auto at = find_not_finite(values, gradient.values.size(), lanes);
  if (!at) return std::nullopt;
  int64_t element = *at;
  if (gradient.by_rows()) {
    const int64_t row = *at / gradient.row_size() * gradient.indices_per_row();
    element =
        gradient.rows()[static_cast<size_t>(row)] * gradient.row_size() + *at % gradient.row_size();
  }
  return detail::concat("element ", element, " is ", values[*at]);
}

}  // namespace

std::vector<std::pair<std::string, Tensor>> zero_accumulators(const Optimizer& optimizer,
                                                              DType dtype, int64_t n) {
  std::vector<std::pair<std::string, Tensor>> out;
  for (const std::string& name : optimizer_accumulators(optimizer))
    out.emplace_back(name, Tensor::zeros(dtype, Shape{n}));
  return out;
}

// `indices` keeps its memory alive and unchanged, so equal addresses mean equal rows.
bool RowsRead::has(const Gradient& rows) const {
  return indices.defined() && rows.row_size() == row_size && rows.indices.raw() == indices.raw() &&
         rows.indices.size() == indices.size();
}

Tensor room_of(const Gradient& gradient, const ShardMemory& memory) {
  const bool ours =
      !gradient.by_rows() && gradient.values.unique() && fills_block_of(memory, gradient.values);
  return ours ? gradient.values : Tensor{};
}

bool apply_mean(const Optimizer& optimizer, std::span<const Contribution> gradients,
                bool keep_previous, SliceValues& state, UpdateMeans means) {
  TROUPE_CHECK(!gradients.empty(), "an update wants gradients");
  for (auto& [name, accumulator] : state.optimizer_accumulators) make_writable(accumulator);
  const DType dtype = state.values.dtype();
  const auto by_rows = [](const Contribution& c) { return c.gradient.by_rows(); };
  Tensor read = std::exchange(state.read.values, {});
  if (state.read.version != state.version || gradients.size() != 1 || !by_rows(gradients[0]) ||
      !state.read.has(gradients[0].gradient))
    read.reset();
  const auto repeats = [&](const Contribution& c) {
    return by_rows(c) && c.gradient.indices_per_row() > 1;
  };
  std::vector<Contribution> all;
  if ((gradients.size() > 1 || optimizer.kind != "sgd") &&
      std::any_of(gradients.begin(), gradients.end(), repeats)) {
    all.assign(gradients.begin(), gradients.end());
    for (Contribution& c : all)
      if (repeats(c)) c.gradient.values = repeat_rows(c.gradient.values, c.gradient.indices.size());
    gradients = all;
  }
  if (state.table) {
    const int64_t t = state.version + 1, age = t - state.accumulators_since;
    state.table->update(optimizer, mean_by_rows(gradients), t, age, keep_previous);
    if (keep_previous) state.previous_version = state.version;
    state.version = t;
    return true;
  }
  const bool rows_suffice = !wants_whole_parameter(optimizer);
  if (rows_suffice && std::all_of(gradients.begin(), gradients.end(), by_rows)) {
    const Gradient mean = mean_by_rows(gradients);
    return dtype == DType::f64
               ? apply_by_rows<double>(optimizer, mean, keep_previous, state, read, means)
               : apply_by_rows<float>(optimizer, mean, keep_previous, state, read, means);
  }
  if (std::any_of(gradients.begin(), gradients.end(), by_rows)) {  // others pushed all elements
    if (all.empty()) all.assign(gradients.begin(), gradients.end());
    for (Contribution& c : all)
      if (by_rows(c)) c.gradient = with_all_rows(c.gradient, state.values.size());
    gradients = all;
  }
  const bool in_place = !keep_previous && may_be_written(state.values);
  Tensor from = in_place ? Tensor{} : state.values;
  Tensor to = in_place                         ? std::move(state.values)
              : means.room.defined()           ? means.room.reshaped(from.shape())
              : may_be_written(state.previous) ? std::move(state.previous)
                                               : new_values(from, means);
  const Tensor& source = in_place ? to : from;
  if (to.dtype() == DType::f64)
    apply_blocks<double>(optimizer, gradients, source, to, state, means.lanes);
  else
    apply_blocks<float>(optimizer, gradients, source, to, state, means.lanes);
  state.values = !in_place && mutant(Mutant::update_in_lost_copy) ? from : std::move(to);
  if (!in_place) {
    state.previous = std::move(from);
    state.previous_rows = {};
    state.previous_version = state.version;
  }
  ++state.version;
  return in_place;
}

void pass_update(bool keep_previous, SliceValues& state) {
  if (state.table) {
    state.table->pass(state.version + 1, keep_previous);
    if (keep_previous) state.previous_version = state.version;
  } else if (keep_previous) {
    state.previous = state.values;
    state.previous_rows = {};
    state.previous_version = state.version;
  }
  ++state.version;
}

void make_writable(Tensor& tensor) {
  if (may_be_written(tensor)) return;
  Tensor copy = Tensor::empty(tensor.dtype(), tensor.shape());
  if (tensor.size() > 0)
    std::memcpy(copy.mutable_raw(), tensor.raw(), static_cast<size_t>(tensor.byte_size()));
  tensor = std::move(copy);
}

const Tensor& previous_values(SliceValues& state) {
  if (!state.previous_rows.by_rows()) return state.previous;
  Tensor old = Tensor::empty(state.values.dtype(), state.values.shape());
  std::memcpy(old.mutable_raw(), state.values.raw(), static_cast<size_t>(old.byte_size()));
  TROUPE_CHECK(are_rows(state.previous_rows.rows(), old.size() / state.previous_rows.row_size()),
               "indices that were pushed have changed since; what was fed is not written to");
  const Gradient rows = std::exchange(state.previous_rows, {});  // kept until here if one is thrown
  if (old.dtype() == DType::f64)
    put_back<double>(rows.rows(), rows.values, old);
  else
    put_back<float>(rows.rows(), rows.values, old);
  return state.previous = std::move(old);
}

std::optional<std::string> find_not_finite(const Gradient& gradient, Lanes* lanes) {
  return gradient.values.dtype() == DType::f64 ? find_not_finite_of<double>(gradient, lanes)
                                               : find_not_finite_of<float>(gradient, lanes);
}

}  // namespace troupe
