// Element-wise ops: kernels made from one function of one element, and their kernel tables. Such an
// op is a struct with a static `apply`; see ops/elementwise/add.cpp (two inputs) and
// ops/elementwise/square.cpp (one).
//
// Every kernel here, except those with a bool result, may write over input 0, so it takes its input
// pointers before it makes the output. Integers wrap around.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <type_traits>

#include "devices/threads/isa.hpp"
#include "ops/support/broadcast.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {

// The unsigned type of an integer, whose arithmetic wraps around by definition; a floating type
// maps to itself.
template <class T, bool = std::is_integral_v<T>>
struct Wrapping {
  using type = std::make_unsigned_t<T>;
};
template <class T>
struct Wrapping<T, false> {
  using type = T;
};
template <class T>
using wrapping = typename Wrapping<T>::type;

// ---- functions that reductions use, too ----

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(wrapping<T>(a) + wrapping<T>(b));
  }
};

struct Multiply {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(wrapping<T>(a) * wrapping<T>(b));
  }
};

struct Maximum {
  template <class T>
  static T apply(T a, T b) {
    return ((a > b) | (a != a)) ? a : b;  // no branch, so that loops are vectorised
  }
};

struct Minimum {
  template <class T>
  static T apply(T a, T b) {
    return ((a < b) | (a != a)) ? a : b;
  }
};

struct LogicalAnd {
  static bool apply(bool a, bool b) { return a & b; }
};

struct LogicalOr {
  static bool apply(bool a, bool b) { return a | b; }
};

// ---- checks of divisions ----

struct Division {
  // Integer division by zero stops the program, so it is refused before.
  template <std::integral T>
  static void check(const KernelContext& ctx, const T* b, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      if (b[i] == 0)
        throw ctx.error("divides an integer by zero: element ", i,
                        " of b; make b positive, or cast to f32");
  }
};

// ---- shape rules ----

inline std::vector<Shape> infer_broadcast(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  return {broadcast_inputs(ctx)};
}

// The result is bool; the two inputs have one dtype.
inline std::vector<DType> infer_comparison(const InferContext& ctx) {
  if (ctx.dtype(0) != ctx.dtype(1))
    throw ctx.error("compares values of one dtype, got ", ctx.dtype(0), " and ", ctx.dtype(1),
                    "; cast one of them");
  return {DType::boolean};
}

// The result is bool, of one input.
inline std::vector<DType> infer_predicate(const InferContext&) { return {DType::boolean}; }

// infer_same_shape for an op with the attribute `alpha`, which must be finite.
inline std::vector<Shape> infer_alpha(const InferContext& ctx) {
  const double alpha = ctx.attr<double>("alpha");
  if (!std::isfinite(alpha)) throw ctx.error("wants a finite alpha, got ", alpha);
  return infer_same_shape(ctx);
}

// ---- leaves, compiled for each instruction set: y may be x, c may be a ----

// A function with `static constexpr bool kWhole = true` is computed in blocks of a fixed length,
// the last one padded with ones, so the result for an element does not depend on its position.
// Functions that call ops/support/vector_math.hpp need this. Other functions round as IEEE 754
// says, or copy.
template <class F>
constexpr bool is_whole = requires {
  F::kWhole;
};
constexpr int kWholeBlock = 64;

// Loads the next `n` <= kWholeBlock elements.
template <class T>
void load_block(T (&to)[kWholeBlock], const T* from, int64_t n) {
  if (n == kWholeBlock) {
    std::memcpy(to, from, sizeof to);
    return;
  }
  std::fill_n(to, kWholeBlock, T{1});
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
}

template <class F>
struct MapLoop {
  template <class T, class R, class... Args>
  static void run(const T* x, R* y, int64_t n, Args... args) {
    if constexpr (is_whole<F>) {
      T in[kWholeBlock];
      R out[kWholeBlock];
      for (int64_t i = 0; i < n; i += kWholeBlock) {
        const int64_t length = std::min<int64_t>(kWholeBlock, n - i);
        load_block(in, x + i, length);
        for (int j = 0; j < kWholeBlock; ++j) out[j] = F::apply(in[j], args...);
        std::memcpy(y + i, out, static_cast<size_t>(length) * sizeof(R));
      }
    } else {
      TROUPE_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) y[i] = F::apply(x[i], args...);
    }
  }
};

// kA, kB: the steps of the inputs for each element, 0 or 1.
template <class F, int kA, int kB>
struct ZipLoop {
  template <class T, class R>
  static void run(const T* a, const T* b, R* c, int64_t n) {
    if constexpr (is_whole<F>) {
      T in_a[kWholeBlock], in_b[kWholeBlock];
      R out[kWholeBlock];
      std::fill_n(in_a, kWholeBlock, *a);
      std::fill_n(in_b, kWholeBlock, *b);
      for (int64_t i = 0; i < n; i += kWholeBlock) {
        const int64_t length = std::min<int64_t>(kWholeBlock, n - i);
        if constexpr (kA == 1) load_block(in_a, a + i, length);
        if constexpr (kB == 1) load_block(in_b, b + i, length);
        for (int j = 0; j < kWholeBlock; ++j) out[j] = F::apply(in_a[j], in_b[j]);
        std::memcpy(c + i, out, static_cast<size_t>(length) * sizeof(R));
      }
    } else {
      const T first_a = *a, first_b = *b;
      TROUPE_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) c[i] = F::apply(kA ? a[i] : first_a, kB ? b[i] : first_b);
    }
  }
};

// y = F::apply(x, args...), with the same arguments for all elements.
template <class F, class T, class R, class... Args>
void map_elements(const T* x, R* y, int64_t n, Args... args) {
  in_isa<MapLoop<F>>(x, y, n, args...);
}

template <class F, int kA, int kB, class T, class R>
void zip_elements(const T* a, const T* b, R* c, int64_t n) {
  if constexpr (kA + kB == 0) {  // one value is repeated
    in_isa<ZipLoop<F, 1, 1>>(a, b, c, int64_t{1});
    std::fill_n(c + 1, n - 1, *c);
  } else {
    in_isa<ZipLoop<F, kA, kB>>(a, b, c, n);
  }
}

// ---- kernels ----

// Calls part(first element, length) for independent elements, and splits a long row into jobs.
// Requires: n >= 0.
template <class Part>
void in_parts(const KernelContext& ctx, int64_t n, const Part& part) {
  constexpr int64_t kLength = 1 << 16;  // about 20 us of the cheapest functions
  static_assert(kLength % kWholeBlock == 0);
  if (n < 2 * kLength) return part(0, n);
  ctx.parallel((n + kLength - 1) / kLength,
               [&](int64_t job) { part(job * kLength, std::min(kLength, n - job * kLength)); });
}

template <class F, class T, class R = T>
void run_unary(KernelContext& ctx) {
  const T* x = ctx.input(0).data<T>();
  const int64_t n = ctx.input(0).size();
  R* y = ctx.output_in_place().template mutable_data<R>();
  in_parts(ctx, n, [=](int64_t at, int64_t length) { map_elements<F>(x + at, y + at, length); });
}

// y = F::apply(x, alpha), where alpha is the attribute of that name.
template <class F, class T>
void run_alpha(KernelContext& ctx) {
  const T alpha = static_cast<T>(ctx.attr<double>("alpha"));
  const T* x = ctx.input(0).data<T>();
  const int64_t n = ctx.input(0).size();
  T* y = ctx.output_in_place().template mutable_data<T>();
  in_parts(ctx, n,
           [=](int64_t at, int64_t length) { map_elements<F>(x + at, y + at, length, alpha); });
}

inline bool same_sizes(const Tensor& a, const Tensor& b) {
  if (a.ndim() != b.ndim()) return false;
  for (int i = 0; i < a.ndim(); ++i)
    if (a.dim(i) != b.dim(i)) return false;
  return true;
}

template <class F, class T, class R>
void run_broadcast(KernelContext& ctx, const T* a, const T* b) {
  const BroadcastWalk walk = walk_inputs(ctx);
  R* c = ctx.output_in_place().template mutable_data<R>();
  const auto* inner_a = &walk.strides[0][walk.ndim - 1];
  const auto* inner_b = &walk.strides[1][walk.ndim - 1];
  const auto zip = *inner_a ? (*inner_b ? zip_elements<F, 1, 1, T, R> : zip_elements<F, 1, 0, T, R>)
                   : *inner_b ? zip_elements<F, 0, 1, T, R>
                              : zip_elements<F, 0, 0, T, R>;
  for_each_row<2>(walk, [&](int64_t to, const int64_t* at, int64_t n) {
    zip(a + at[0], b + at[1], c + to, n);
  });
}

// c = F::apply(a, b). F::check(ctx, b, size of b), if F has it, may throw before anything is
// written; it is not called if a is empty.
template <class F, class T, class R = T>
void run_binary(KernelContext& ctx) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  const T *pa = a.data<T>(), *pb = b.data<T>();
  const int64_t n = a.size();
  if constexpr (requires { F::check(ctx, pb, n); })
    if (n > 0) F::check(ctx, pb, b.size());
  // The shapes of most nodes; a broadcast walk handles all others.
  const bool same = same_sizes(a, b);
  const bool b_once = !same && b.ndim() <= a.ndim() && b.size() == 1;
  if (!same && !b_once) return run_broadcast<F, T, R>(ctx, pa, pb);
  R* c = ctx.output_in_place().template mutable_data<R>();
  if (n == 1 && !is_whole<F>)
    *c = F::apply(*pa, *pb);
  else if (n > 0 && same)
    in_parts(ctx, n, [=](int64_t at, int64_t length) {
      zip_elements<F, 1, 1>(pa + at, pb + at, c + at, length);
    });
  else if (n > 0)
    in_parts(ctx, n, [=](int64_t at, int64_t length) {
      zip_elements<F, 1, 0>(pa + at, pb, c + at, length);
    });
}

// ---- the same functions for elements of a row (Kernel::elements) ----

template <class F, class T, class R, class... Args>
void map_run(const ElementRun& run, Args... args) {
  const T* x = static_cast<const T*>(run.inputs[0]);
  R* y = static_cast<R*>(run.output);
  map_elements<F>(x, y, run.once[0] ? 1 : run.n, args...);
  if (run.once[0]) std::fill_n(y + 1, run.n - 1, *y);
}

template <class F, class T, class R = T>
void unary_elements(const ElementRun& run) {
  map_run<F, T, R>(run);
}

template <class F, class T>
void alpha_elements(const ElementRun& run) {
  map_run<F, T, T>(run, static_cast<T>(run.node->attr<double>("alpha")));
}

template <class F, class T, class R = T>
void binary_elements(const ElementRun& run) {
  const auto zip = run.once[0]
                       ? (run.once[1] ? zip_elements<F, 0, 0, T, R> : zip_elements<F, 0, 1, T, R>)
                       : (run.once[1] ? zip_elements<F, 1, 0, T, R> : zip_elements<F, 1, 1, T, R>);
  zip(static_cast<const T*>(run.inputs[0]), static_cast<const T*>(run.inputs[1]),
      static_cast<R*>(run.output), run.n);
}

// ---- tables ----

template <class F, class... Ts>
std::vector<Kernel> unary_kernels() {
  return {{.dtype = dtype_of<Ts>, .run = run_unary<F, Ts>, .elements = unary_elements<F, Ts>}...};
}

// Kernels of functions with a bool result.
template <class F, class... Ts>
std::vector<Kernel> predicate_kernels() {
  return {{.dtype = dtype_of<Ts>,
           .run = run_unary<F, Ts, bool>,
           .elements = unary_elements<F, Ts, bool>}...};
}

// Kernels of functions of an element and the attribute `alpha`.
template <class F, class... Ts>
std::vector<Kernel> alpha_kernels() {
  return {{.dtype = dtype_of<Ts>, .run = run_alpha<F, Ts>, .elements = alpha_elements<F, Ts>}...};
}

// A function that may refuse values gets no Kernel::elements.
template <class F, class T, class R = T>
Kernel binary_kernel() {
  Kernel kernel{.dtype = dtype_of<T>, .run = run_binary<F, T, R>};
  if constexpr (!requires(const KernelContext& ctx, const T* b) { F::check(ctx, b, int64_t{1}); })
    kernel.elements = binary_elements<F, T, R>;
  return kernel;
}

template <class F, class... Ts>
std::vector<Kernel> binary_kernels() {
  return {binary_kernel<F, Ts>()...};
}

template <class F, class... Ts>
std::vector<Kernel> comparison_kernels() {
  return {binary_kernel<F, Ts, bool>()...};
}

// `number` as a constant of like's dtype, for gradients.
Output constant_like(double number, Output like, Origin at = Origin::here());

}  // namespace troupe
