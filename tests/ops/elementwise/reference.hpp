// References of element-wise ops: a row has the function in long double, and of integers in 128
// bits. From it come the op's table (op_cases.hpp) and a sweep over its dtypes, that counts units
// in the last place and compares zeros with their signs.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/op_cases.hpp"

namespace troupe {

using Real = long double;
__extension__ typedef __int128 Whole;

constexpr double kRounded = 0.501;  // units: IEEE 754 rounds, and so does the reference
constexpr double kAnyError = INFINITY;

// `In` is Real or Whole, as often as the op has inputs.
template <class... In>
struct Row {
  using List = std::vector<double>;
  static constexpr size_t kInputs = sizeof...(In);

  std::string op;
  std::function<Real(In...)> real = {};  // none: the op is not of floats
  // Numbers of each input among which the op is smooth in every combination; at least four.
  std::vector<List> at = {};
  List odd = {};  // others for the sweep, beside those that all rows have
  double ulps = 4;
  std::function<Whole(std::array<Whole, kInputs>)> whole = {};  // none: not of integers
  bool logical = false;                                         // the result is bool
  bool signs = true;                                            // of zeros
  Tensor refused = i32(zeros({2}));
  std::function<bool(Whole)> takes = [](Whole) { return true; };  // as the last integer
  Attrs attrs = {};
  bool twice = true;
  double gradient_tolerance = 1e-6;
};
using Unary = Row<Real>;
using Binary = Row<Real, Real>;

// f of integers, too. Integers of a row wrap around.
template <class F>
Unary of_numbers(Unary row, F f) {
  row.real = [f](Real x) -> Real { return f(x); };
  row.whole = [f](std::array<Whole, 1> x) -> Whole { return f(x[0]); };
  row.refused = booleans(zeros({2}));
  return row;
}
template <class F>
Binary of_numbers(Binary row, F f) {
  row.real = [f](Real a, Real b) -> Real { return f(a, b); };
  row.whole = [f](std::array<Whole, 2> x) -> Whole { return f(x[0], x[1]); };
  row.refused = booleans(zeros({2}));
  return row;
}
// A row for integers alone.
template <class Row, class F>
Row of_integers(Row row, F f) {
  row.whole = [f](std::array<Whole, Row::kInputs> x) -> Whole { return std::apply(f, x); };
  row.refused = zeros({2});
  return row;
}

// How far `got` is from `wanted`, in units in the last place of what is nearest to it.
template <class T>
double units_apart(T got, Real wanted, bool signs) {
  using Limits = std::numeric_limits<T>;
  const T nearest = static_cast<T>(wanted);
  if (std::isnan(nearest)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(wanted) || std::isnan(got)) return got == nearest ? 0 : INFINITY;
  if (signs && nearest == 0 && std::signbit(got) != std::signbit(nearest)) return INFINITY;
  const T size = std::min(std::abs(nearest), Limits::max());
  const T unit = size < Limits::max() ? std::nextafter(size, Limits::max()) - size
                                      : size - std::nextafter(size, T{0});
  // Past the greatest number, infinity is one unit on.
  const Real most = static_cast<Real>(Limits::max()) + unit;
  const auto bounded = [&](Real x) { return std::min(std::max(x, -most), most); };
  return static_cast<double>(std::abs(bounded(got) - bounded(wanted)) / unit);
}

template <class T>
std::vector<T> ends_of() {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_same_v<T, bool>)
    return {false, true};
  else if constexpr (std::is_integral_v<T>)
    return {Limits::min(), T(Limits::min() + 1), T(-2),        T(-1), 0, 1, 2, 3, 7, 31, 64,
            100,           T(Limits::max() - 1), Limits::max()};
  else
    return {0,
            T(-0.0),
            1,
            -1,
            Limits::infinity(),
            -Limits::infinity(),
            Limits::quiet_NaN(),
            Limits::max(),
            Limits::lowest(),
            Limits::min(),
            Limits::denorm_min(),
            -Limits::denorm_min(),
            Limits::epsilon(),
            T(0.1),
            T(-0.5),
            T(2.5),
            T(-3),
            T(1e-10),
            T(-1e-20),
            T(1e30),
            T(-1e30),
            10,
            -10,
            100,
            -100,
            1000,
            -1000};
}

// Every combination of numbers as one tensor for each input.
template <class T, size_t kInputs>
std::array<std::vector<T>, kInputs> combined(const std::vector<T>& numbers) {
  std::array<std::vector<T>, kInputs> all;
  if constexpr (kInputs == 1) {
    all[0] = numbers;
  } else {
    for (const T a : numbers)
      for (const T b : numbers) {
        all[0].push_back(a);
        all[1].push_back(b);
      }
  }
  return all;
}

template <class Row>
Tensor result_of(const Row& row, const std::vector<Tensor>& inputs) {
  Graph graph;
  NodeSpec spec{.op = row.op, .attrs = row.attrs};
  FedValues feeds;
  for (const Tensor& x : inputs) {
    spec.inputs.push_back(placeholder(graph, x.dtype(), x.shape()));
    feeds.insert_or_assign(spec.inputs.back(), x);
  }
  return evaluate(graph.add(spec), feeds);
}

template <class T>
Tensor tensor_of(const std::vector<T>& list) {
  Tensor tensor = Tensor::empty(dtype_of<T>, Shape{static_cast<int64_t>(list.size())});
  for (size_t i = 0; i < list.size(); ++i) static_cast<T*>(tensor.mutable_raw())[i] = list[i];
  return tensor;
}

// All of `numbers` with each other, in T: the worst is within row.ulps; integers are exact.
template <class T, class Row>
void sweep(const Row& row, const std::vector<T>& numbers) {
  auto xs = combined<T, Row::kInputs>(numbers);
  if constexpr (!std::is_floating_point_v<T>)
    for (size_t i = xs[0].size(); i-- > 0;)
      if (!row.takes(static_cast<Whole>(xs.back()[i])))
        for (auto& x : xs) x.erase(x.begin() + static_cast<int64_t>(i));
  std::vector<Tensor> inputs;
  for (const auto& x : xs) inputs.push_back(tensor_of<T>(x));
  const Tensor y = result_of(row, inputs);
  double worst = 0;
  std::string where;
  for (size_t i = 0; i < xs[0].size(); ++i) {
    double apart = 0;
    std::string got;
    if constexpr (std::is_floating_point_v<T>) {
      Real wanted;
      if constexpr (Row::kInputs == 1)
        wanted = row.real(xs[0][i]);
      else
        wanted = row.real(xs[0][i], xs[1][i]);
      const T value = row.logical ? T(y.data<bool>()[i]) : y.data<T>()[i];
      apart = units_apart(value, wanted, row.signs);
      got = detail::concat(value, " instead of ", static_cast<double>(wanted));
    } else {
      std::array<Whole, Row::kInputs> x;
      for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<Whole>(xs[k][i]);
      const Whole wanted = row.whole(x);
      const bool same = row.logical ? y.data<bool>()[i] == (wanted != 0)
                                    : y.data<T>()[i] == static_cast<T>(wanted);
      apart = same ? 0 : INFINITY;
      got = "another integer";
    }
    if (apart <= worst) continue;
    worst = apart;
    where = detail::concat(+xs[0][i], " and ", +xs.back()[i], ": ", got);
  }
  CHECK_MESSAGE(worst <= (std::is_floating_point_v<T> ? row.ulps : 0), row.op, " in ", dtype_of<T>,
                " is ", worst, " units off at ", where);
}

template <class T>
std::vector<T> dense_numbers() {  // of all sizes, and many between -10 and 10
  std::vector<T> list = ends_of<T>();
  for (int k = std::numeric_limits<T>::min_exponent; k < std::numeric_limits<T>::max_exponent;
       k += 3)
    for (const T sign : {T{1}, T{-1}})
      list.push_back(sign * std::ldexp(T(0.5) + T(0.499) * std::abs(std::sin(T(k))), k));
  for (int i = 0; i < 500; ++i) list.push_back(10 * std::sin(T(1.7) * T(i)));
  return list;
}

template <class Row>
void sweep(const Row& row) {
  const auto floats = [&]<class T>(T) {
    std::vector<T> numbers = Row::kInputs == 1 ? dense_numbers<T>() : ends_of<T>();
    for (const double x : row.odd) numbers.push_back(static_cast<T>(x));
    for (const auto& list : row.at)
      for (const double x : list) numbers.push_back(static_cast<T>(x));
    sweep<T>(row, numbers);
  };
  for (const Kernel& kernel : builtin_ops()->get(row.op).kernels)
    with_type(kernel.dtype, [&]<class T>(T) {
      if constexpr (std::is_floating_point_v<T>)
        floats(T{});
      else if constexpr (std::is_integral_v<T>)
        sweep<T>(row, ends_of<T>());
    });
}

// The row's table: values, broadcasting, gradients, what is not smooth, and refusals.
template <class Row>
OpCases cases_of(const Row& row) {
  constexpr bool kBinary = Row::kInputs == 2;
  const auto has = [&](DType dtype) {
    for (const Kernel& k : builtin_ops()->get(row.op).kernels)
      if (k.dtype == dtype) return true;
    return false;
  };
  const DType in = row.real ? DType::f64 : has(DType::i32) ? DType::i32 : DType::boolean;
  const DType out = row.logical ? DType::boolean : in;
  const auto value = [&](double a, double b) -> double {
    if constexpr (kBinary)
      return static_cast<double>(
          row.real ? row.real(a, b)
                   : static_cast<Real>(row.whole({static_cast<Whole>(a), static_cast<Whole>(b)})));
    else
      return static_cast<double>(row.real ? row.real(a)
                                          : static_cast<Real>(row.whole({static_cast<Whole>(a)})));
  };
  std::vector<OpCase> values;
  // Elements of the inputs in turn; `shape` is that of the result, a and b say which element.
  const auto add = [&](std::string name, const Shape& of_a, const Shape& of_b, const Shape& shape,
                       auto place_a, auto place_b, const auto& a, const auto& b, bool smooth) {
    const auto filled = [](const Shape& s, const auto& list) {
      std::vector<double> all;
      for (int64_t i = 0; i < s.size(); ++i)
        all.push_back(list[static_cast<size_t>(i) % list.size()]);
      return from_doubles(all, DType::f64, s);
    };
    const Tensor ta = filled(of_a, a), tb = filled(of_b, b);
    std::vector<double> c;
    for (int64_t i = 0; i < shape.size(); ++i)
      c.push_back(value(ta.data<double>()[place_a(i)], tb.data<double>()[place_b(i)]));
    OpCase one{.name = std::move(name),
               .inputs = {converted(ta, in)},
               .attrs = row.attrs,
               .expected = {converted(from_doubles(c, DType::f64, shape), out)},
               .smooth = smooth,
               .twice = row.twice,
               .gradient_tolerance = row.gradient_tolerance};
    if (kBinary) one.inputs.push_back(converted(tb, in));
    values.push_back(std::move(one));
  };
  const auto each = [](int64_t i) { return i; };
  const auto first = [](int64_t) { return 0; };
  const auto& a = row.at[0];
  const auto& b = row.at.back();
  add("a matrix", {2, 2}, {2, 2}, {2, 2}, each, each, a, b, true);
  add("size one", {1}, {1}, {1}, each, each, a, b, true);
  add("a long one", {53}, {53}, {53}, each, each, a, b, false);
  if constexpr (kBinary) {
    const auto column = [](int64_t i) { return i % 2; };
    const auto line = [](int64_t i) { return i / 2; };
    add("rows with a row", {3, 2}, {2}, {3, 2}, each, column, a, b, true);
    add("a column with a row", {3, 1}, {2}, {3, 2}, line, column, a, b, true);
    add("all with a scalar", {4}, {}, {4}, each, first, a, b, true);
    add("a scalar with all", {}, {4}, {4}, first, each, a, b, true);
    add("size one of more dimensions than the other", {4}, {1, 1}, {1, 4}, each, first, a, b, true);
  }
  if (row.real) {
    const std::vector<double> odd = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN};
    const auto pairs = combined<double, 2>(odd);
    const int64_t n = static_cast<int64_t>(kBinary ? pairs[0].size() : odd.size());
    add("zeros, infinities and NaN", {n}, {n}, {n}, each, each, kBinary ? pairs[0] : odd,
        kBinary ? pairs[1] : odd, false);
  }
  return kBinary ? binary_cases(row.op, row.refused, values)
                 : unary_cases(row.op, row.refused, values);
}

}  // namespace troupe
