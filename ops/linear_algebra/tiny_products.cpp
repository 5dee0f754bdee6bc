// Loops for many small products. A product takes one of two forms:
// - rows: c[i, :] = the sum over k of a[i, k] * b[k, :], from k = 0 on; vectors run along n.
// - dots: c[i, j] = the dot product of row i of a and column j of b; vectors run along k.
// Operands that lie otherwise are copied, and a narrow, tall c is made as its transpose, whose rows
// are long.
#include "ops/linear_algebra/tiny_products.hpp"

#include <cstring>

#include "devices/kernel_call.hpp"
#include "devices/threads/isa.hpp"

namespace troupe {
namespace {

constexpr int64_t kTiny = 8;
constexpr int64_t kDotsFrom = 16;  // shorter sums fill no vector

// Where element [i, j] of a matrix lies: at i * row + j * column.
struct Steps {
  int64_t row, column;
};

// One product as the loops see it.
struct Form {
  int64_t m, k, n;
  Steps a, b;
  bool dots = false;
  bool copies_a = false, copies_b = false;
  bool swapped = false;  // transpose(c) = transpose(b) * transpose(a): a is the second operand
  bool turns = false;    // and c is a transposed copy

  Form(const MatmulProducts::Sizes& s, bool transpose_a, bool transpose_b)
      : m(s.m),
        k(s.k),
        n(s.n),
        a(transpose_a ? Steps{1, s.m} : Steps{s.k, 1}),
        b(transpose_b ? Steps{1, s.k} : Steps{s.n, 1}) {
    if (n < m && n <= kTiny) {
      swapped = true;
      std::swap(m, n);
      const Steps of_a = a;
      a = {b.column, b.row};
      b = {of_a.column, of_a.row};
      turns = m > 1;
    }
    const bool rows_lie = n == 1 || b.column == 1;
    dots = k >= kDotsFrom && (n <= kTiny || !rows_lie);
    copies_a = dots && a.column != 1;
    copies_b = dots ? b.row != 1 : !rows_lie;
  }
  // The steps of the matrices that the loops read: given, or copied.
  Steps read_a() const { return copies_a ? Steps{k, 1} : a; }
  Steps read_b() const { return !copies_b ? b : dots ? Steps{1, k} : Steps{n, 1}; }
  // Elements of the copies.
  int64_t scratch() const {
    return (copies_a ? m * k : 0) + (copies_b ? k * n : 0) + (turns ? m * n : 0);
  }
};

// `count` products whose operands stand in a row. A step of 0: one matrix for all.
template <class T>
struct TinyProducts {
  const T *a, *b;
  int64_t step_a, step_b;
  T *c, *scratch;
  int64_t count;
};

template <class T>
void copy_matrix(const T* from, Steps of_from, T* to, Steps of_to, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      to[i * of_to.row + j * of_to.column] = from[i * of_from.row + j * of_from.column];
}

// c [n] = or += the sum of a[k] * b[k, :] over kSum rows.
template <int kSum, bool kAdds, class T>
void sum_rows(const T* a, int64_t a_column, const T* b, int64_t b_row, T* c, int64_t n) {
  T factor[kSum];
  for (int k = 0; k < kSum; ++k) factor[k] = a[k * a_column];
  TROUPE_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    T sum = kAdds ? c[j] : factor[0] * b[j];
    for (int k = kAdds ? 0 : 1; k < kSum; ++k) sum += factor[k] * b[k * b_row + j];
    c[j] = sum;
  }
}

// The same for a number of rows from 1 to kMost.
template <int kMost, bool kAdds, class T>
void sum_some_rows(int64_t rows, const T* a, int64_t a_column, const T* b, int64_t b_row, T* c,
                   int64_t n) {
  if constexpr (kMost > 1)
    if (rows < kMost) return sum_some_rows<kMost - 1, kAdds>(rows, a, a_column, b, b_row, c, n);
  sum_rows<kMost, kAdds>(a, a_column, b, b_row, c, n);
}

// Four dot products of x with rows of y, in a fixed order: 16 partial sums, folded in halves, each
// half with what is left for its width; the last up to three products come last.
template <class T>
class FourDots {
  typedef T Sixteen __attribute__((vector_size(16 * sizeof(T))));
  typedef T Eight __attribute__((vector_size(8 * sizeof(T))));
  typedef T Four __attribute__((vector_size(4 * sizeof(T))));

 public:
  static void run(const T* x, const T* const (&y)[4], int64_t n, T (&out)[4]) {
    Sixteen sixteen[4] = {};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) add(x, y, i, sixteen);
    Eight eight[4];
    for (int r = 0; r < 4; ++r)
      eight[r] = __builtin_shufflevector(sixteen[r], sixteen[r], 0, 1, 2, 3, 4, 5, 6, 7) +
                 __builtin_shufflevector(sixteen[r], sixteen[r], 8, 9, 10, 11, 12, 13, 14, 15);
    if (i + 8 <= n) {
      add(x, y, i, eight);
      i += 8;
    }
    Four four[4];
    for (int r = 0; r < 4; ++r)
      four[r] = __builtin_shufflevector(eight[r], eight[r], 0, 1, 2, 3) +
                __builtin_shufflevector(eight[r], eight[r], 4, 5, 6, 7);
    if (i + 4 <= n) {
      add(x, y, i, four);
      i += 4;
    }
    const Four low = __builtin_shufflevector(four[0], four[1], 0, 1, 4, 5) +
                     __builtin_shufflevector(four[0], four[1], 2, 3, 6, 7);
    const Four high = __builtin_shufflevector(four[2], four[3], 0, 1, 4, 5) +
                      __builtin_shufflevector(four[2], four[3], 2, 3, 6, 7);
    const Four all = __builtin_shufflevector(low, high, 0, 2, 4, 6) +
                     __builtin_shufflevector(low, high, 1, 3, 5, 7);
    std::memcpy(out, &all, sizeof(all));
    for (; i < n; ++i)
      for (int r = 0; r < 4; ++r) out[r] += x[i] * y[r][i];
  }

 private:
  template <class V>
  static void add(const T* x, const T* const (&y)[4], int64_t i, V (&sums)[4]) {
    V of_x, of_y;
    std::memcpy(&of_x, x + i, sizeof(V));
    for (int r = 0; r < 4; ++r) {
      std::memcpy(&of_y, y[r] + i, sizeof(V));
      sums[r] += of_x * of_y;
    }
  }
};

template <class T>
void multiply_by_rows(const Form& f, const T* a, const T* b, T* c) {
  const Steps of_a = f.read_a();
  const int64_t b_row = f.read_b().row;
  for (int64_t i = 0; i < f.m; ++i, a += of_a.row, c += f.n) {
    const int64_t first = std::min(f.k, kTiny);
    sum_some_rows<kTiny, false>(first, a, of_a.column, b, b_row, c, f.n);
    for (int64_t k = first; k < f.k; k += kTiny)
      sum_some_rows<kTiny, true>(std::min(f.k - k, kTiny), a + k * of_a.column, of_a.column,
                                 b + k * b_row, b_row, c, f.n);
  }
}

template <class T>
void multiply_by_dots(const Form& f, const T* a, const T* b, T* c) {
  const int64_t a_row = f.read_a().row, b_column = f.read_b().column;
  for (int64_t i = 0; i < f.m; ++i, a += a_row, c += f.n)
    for (int64_t j = 0; j < f.n; j += 4) {
      const int64_t count = std::min<int64_t>(4, f.n - j);
      const T* columns[4];
      for (int64_t r = 0; r < 4; ++r) columns[r] = b + (j + std::min(r, count - 1)) * b_column;
      T four[4];
      FourDots<T>::run(a, columns, f.k, four);
      if (count == 4) {
        std::memcpy(c + j, four, sizeof(four));
      } else {
        for (int64_t r = 0; r < count; ++r) c[j + r] = four[r];
      }
    }
}

struct TinyLoop {
  template <class T>
  static void run(const Form* form, const TinyProducts<T>* products) {
    const Form f = *form;
    TinyProducts<T> p = *products;
    T* const copy_of_a = p.scratch;
    T* const copy_of_b = copy_of_a + (f.copies_a ? f.m * f.k : 0);
    T* const turned = copy_of_b + (f.copies_b ? f.k * f.n : 0);
    for (; p.count > 0; --p.count, p.a += p.step_a, p.b += p.step_b, p.c += f.m * f.n) {
      if (f.copies_a) copy_matrix(p.a, f.a, copy_of_a, f.read_a(), f.m, f.k);
      if (f.copies_b) copy_matrix(p.b, f.b, copy_of_b, f.read_b(), f.k, f.n);
      const T *a = f.copies_a ? copy_of_a : p.a, *b = f.copies_b ? copy_of_b : p.b;
      T* const c = f.turns ? turned : p.c;
      if (f.dots)
        multiply_by_dots(f, a, b, c);
      else
        multiply_by_rows(f, a, b, c);
      if (f.turns) copy_matrix(c, {1, f.n}, p.c, {f.m, 1}, f.n, f.m);
    }
  }
};

}  // namespace

template <>
bool are_tiny<float>(const MatmulProducts& products) {
  const MatmulProducts::Sizes& s = products.each;
  // Multiplications of a product. Between the two oneDNN reuses what it has read in registers;
  // beyond the second it cuts a product into jobs.
  constexpr double kSmall = 512, kLarge = 1 << 16;
  const double work =
      static_cast<double>(s.m) * static_cast<double>(s.k) * static_cast<double>(s.n);
  const bool vectors = std::min({s.m, s.k, s.n}) == 1 && work <= kLarge;
  return products.count * s.batch > 1 && (vectors || work <= kSmall);
}

template <>
bool are_tiny<double>(const MatmulProducts& products) {
  const MatmulProducts::Sizes& s = products.each;
  return std::min({s.m, s.k, s.n}) <= kTiny;
}

template <class T>
void multiply_tiny(KernelContext& ctx, const MatmulProducts& products, bool transpose_a,
                   bool transpose_b) {
  const MatmulProducts::Sizes& s = products.each;
  const Form form(s, transpose_a, transpose_b);
  const int64_t size_of_c = s.m * s.n, total = products.count * s.batch;
  // A job takes some 20 us: a product costs its multiplications and, above all, its memory.
  constexpr int64_t kJob = 1 << 20;
  const int64_t cost = s.m * s.k * s.n + 4 * (s.m * s.k + s.k * s.n + size_of_c);
  const int64_t of_job = std::max<int64_t>(1, kJob / cost), jobs = (total + of_job - 1) / of_job;
  // Results go on while they are in the nearest cache.
  constexpr int64_t kGroup = 2048;
  const int64_t of_group = std::max<int64_t>(1, kGroup / size_of_c);
  Tensor scratch;
  T* copies = nullptr;
  if (form.scratch() > 0) {
    scratch = ctx.scratch(dtype_of<T>, Shape{jobs, form.scratch()});
    copies = scratch.mutable_data<T>();
  }
  const T *a = ctx.input(0).data<T>(), *b = ctx.input(1).data<T>();
  const int64_t step_a = s.batch_a > 1 ? s.m * s.k : 0, step_b = s.batch_b > 1 ? s.k * s.n : 0;
  T* const c = ctx.output().template mutable_data<T>();
  ctx.parallel(jobs, [&](int64_t job) {
    const int64_t end = std::min(total, (job + 1) * of_job);
    for (int64_t i = job * of_job; i < end;) {
      const int64_t within = i % s.batch;
      const int64_t count = std::min({of_group, end - i, s.batch - within});
      const auto [from_a, from_b] = products.at(i / s.batch);
      const T *at_a = a + from_a + within * step_a, *at_b = b + from_b + within * step_b;
      const TinyProducts<T> some{.a = form.swapped ? at_b : at_a,
                                 .b = form.swapped ? at_a : at_b,
                                 .step_a = form.swapped ? step_b : step_a,
                                 .step_b = form.swapped ? step_a : step_b,
                                 .c = c + i * size_of_c,
                                 .scratch = copies + job * form.scratch(),
                                 .count = count};
      in_isa<TinyLoop>(&form, &some);
      KernelCall::of(ctx).finish(i * size_of_c, count * size_of_c);
      i += count;
    }
  });
}

template void multiply_tiny<float>(KernelContext&, const MatmulProducts&, bool, bool);
template void multiply_tiny<double>(KernelContext&, const MatmulProducts&, bool, bool);

}  // namespace troupe
