// Element-wise ops: kernels made from one function of one element, and their kernel tables. Such a
// function is a struct with a static `apply`. The ops stand in ops/elementwise/, family by family.
// The code around the loops is in ops/support/elementwise.cpp, compiled once for all functions.
//
// Every kernel here, except those with a bool result, may write over input 0, so it takes its input
// pointers before it makes the output. Integers wrap around.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "devices/threads/isa.hpp"
#include "graph/op.hpp"
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

struct Subtract {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(wrapping<T>(a) - wrapping<T>(b));
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

// kA or kB is 1.
template <class F, int kA, int kB, class T, class R>
void zip_elements(const T* a, const T* b, R* c, int64_t n) {
  in_isa<ZipLoop<F, kA, kB>>(a, b, c, n);
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

// n elements of one input, y = f(x); `node` has the attributes. y may be x.
using Map = void(const Node& node, const void* x, void* y, int64_t n);

// n elements of two inputs, c = f(a, b); c may be a.
struct Zip {
  using Run = void(const void* a, const void* b, void* c, int64_t n);
  Run* both;        // both inputs advance
  Run* a_alone;     // b is one element, for all of a
  Run* b_alone;     // a is one element, for all of b
  int64_t in, out;  // bytes of an element of the inputs, and of the output
};

bool same_sizes(const Tensor& a, const Tensor& b);

// The kernels, and the same functions for elements in a row (Kernel::elements). An element of x has
// `in` bytes, one of y `out` bytes.
void run_map(KernelContext& ctx, Map* map, int64_t in, int64_t out);
void map_elements_of(const ElementRun& run, Map* map, int64_t out);
void run_zip(KernelContext& ctx, const Zip& zip);
void zip_elements_of(const ElementRun& run, const Zip& zip);

// F::apply(x), or F::apply(x, arguments...) of an F whose `arguments<T>(node)` are an array.
template <class F, class T, class R>
void map_any(const Node& node, const void* x, void* y, int64_t n) {
  if constexpr (requires { F::template arguments<T>(node); })
    std::apply(
        [&](auto... arguments) {
          map_elements<F>(static_cast<const T*>(x), static_cast<R*>(y), n, arguments...);
        },
        F::template arguments<T>(node));
  else
    map_elements<F>(static_cast<const T*>(x), static_cast<R*>(y), n);
}

template <class F, int kA, int kB, class T, class R>
void zip_any(const void* a, const void* b, void* c, int64_t n) {
  zip_elements<F, kA, kB>(static_cast<const T*>(a), static_cast<const T*>(b), static_cast<R*>(c),
                          n);
}
template <class F, class T, class R>
constexpr Zip zip_of = {zip_any<F, 1, 1, T, R>, zip_any<F, 1, 0, T, R>, zip_any<F, 0, 1, T, R>,
                        sizeof(T), sizeof(R)};

// c = F::apply(a, b). F::check(ctx, b, size of b), if F has it, may throw before anything is
// written; it is not called if a is empty.
template <class F, class T, class R>
void run_binary(KernelContext& ctx) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  const T* pb = static_cast<const T*>(b.raw());
  const int64_t n = a.size();
  if constexpr (requires { F::check(ctx, pb, n); })
    if (n > 0) F::check(ctx, pb, b.size());
  if constexpr (!is_whole<F>)
    if (n == 1 && b.size() == 1 && b.ndim() <= a.ndim()) {  // scalars, without the frame
      const T* pa = static_cast<const T*>(a.raw());
      R* c = static_cast<R*>(ctx.output_in_place().mutable_raw());
      *c = F::apply(*pa, *pb);
      return;
    }
  run_zip(ctx, zip_of<F, T, R>);
}

template <class F, class T, class R = T>
void binary_elements(const ElementRun& run) {
  zip_elements_of(run, zip_of<F, T, R>);
}

// ---- tables ----

template <Map* kMap, class T, class R = T>
Kernel map_kernel(DType dtype = dtype_of<T>) {
  return {.dtype = dtype,
          .run = [](KernelContext& ctx) { run_map(ctx, kMap, sizeof(T), sizeof(R)); },
          .elements = [](const ElementRun& run) { map_elements_of(run, kMap, sizeof(R)); }};
}

template <class F, class... Ts>
std::vector<Kernel> unary_kernels() {
  return {map_kernel<map_any<F, Ts, Ts>, Ts>()...};
}

// Kernels of functions with a bool result.
template <class F, class... Ts>
std::vector<Kernel> predicate_kernels() {
  return {map_kernel<map_any<F, Ts, bool>, Ts, bool>()...};
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
