// Shared by scans: attributes, and running results along one axis. Running results of f32 are kept
// in f64, so that a long scan does not lose precision. Each line along the axis is one chain in
// order, so the bits are the same on any thread.
#pragma once

#include "ops/support/axes.hpp"
#include "ops/support/elementwise.hpp"

namespace troupe {

std::vector<AttrSpec> scan_attrs();
Attrs to_attrs(const ScanOptions& options);
ScanOptions scan_options(const Node& node);
std::vector<Shape> infer_scan(const InferContext& ctx);  // for input 0, along "axis"

template <class T>
using running = std::conditional_t<std::is_same_v<T, float>, double, T>;

// A tensor as [outer, n, inner], walked backwards along n if `reverse`.
struct ScanView {
  int64_t outer, n, inner;
  bool reverse;
};
// Requires: x is not empty.
ScanView scan_view(const Shape& x, int64_t axis, bool reverse);

constexpr int64_t kScanColumnsMax = 256;  // running results fit the nearest cache

// Calls run(offset of the first row, elements to the next row, columns) for blocks of columns.
template <class Run>
void for_each_scan(const ScanView& view, Run run) {
  const int64_t step = view.reverse ? -view.inner : view.inner;
  const int64_t first = view.reverse ? (view.n - 1) * view.inner : 0;
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t j = 0; j < view.inner; j += kScanColumnsMax)
      run(o * view.n * view.inner + first + j, step, std::min(kScanColumnsMax, view.inner - j));
}

// Scans rows of `columns` <= kScanColumnsMax, each `step` after the last one; y may be x.
template <class F, bool kExclusive>
struct ScanLoop {
  template <class T>
  static void run(const T* x, T* y, int64_t rows, int64_t step, int64_t columns, T first) {
    using S = running<T>;
    if (columns == 1) {
      S state = first;
      for (int64_t r = 0; r < rows; ++r, x += step, y += step) {
        const S next = F::apply(state, static_cast<S>(*x));
        *y = static_cast<T>(kExclusive ? state : next);
        state = next;
      }
      return;
    }
    S states[kScanColumnsMax];
    std::fill_n(states, columns, S{first});
    for (int64_t r = 0; r < rows; ++r, x += step, y += step) {
      TROUPE_INDEPENDENT
      for (int64_t j = 0; j < columns; ++j) {
        const S next = F::apply(states[j], static_cast<S>(x[j]));
        y[j] = static_cast<T>(kExclusive ? states[j] : next);
        states[j] = next;
      }
    }
  }
};

// y = the running F::apply of x, starting with kFirst.
template <class F, int kFirst, class T>
void run_scan(KernelContext& ctx) {
  const ScanOptions options = scan_options(ctx.node());
  const Shape shape = ctx.input(0).shape();
  const T* x = ctx.input(0).data<T>();
  T* y = ctx.output_in_place().template mutable_data<T>();
  if (shape.size() == 0) return;
  const ScanView view = scan_view(shape, options.axis, options.reverse);
  for_each_scan(view, [&](int64_t at, int64_t step, int64_t columns) {
    if (options.exclusive)
      in_isa<ScanLoop<F, true>>(x + at, y + at, view.n, step, columns, T{kFirst});
    else
      in_isa<ScanLoop<F, false>>(x + at, y + at, view.n, step, columns, T{kFirst});
  });
}

template <class F, int kFirst, class... Ts>
std::vector<Kernel> scan_kernels() {
  return {{DeviceKind::cpu, dtype_of<Ts>, run_scan<F, kFirst, Ts>}...};
}

}  // namespace troupe
