// nan_to_num: numbers in place of NaN and of infinities, made of ops.
#include <limits>

#include "ops/support/elementwise.hpp"
#include "ops/support/refused.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

double largest(DType dtype) {
  double number = 0;
  with_type(dtype,
            [&]<class T>(T) { number = static_cast<double>(std::numeric_limits<T>::max()); });
  return number;
}

}  // namespace

// What is replaced is chosen by Where, which passes no gradient to what it does not choose.
Output nan_to_num(Output x, const NanToNum& numbers, Origin at) {
  require_defined("nan_to_num", at, {x});
  if (!is_floating(x.dtype()))
    throw refused("nan_to_num", at, "wants floats, got ", x.dtype(),
                  ", in which every element is a number; use x itself, or cast it");
  const double most = largest(x.dtype()), infinity = std::numeric_limits<double>::infinity();
  const auto replace = [&](Output which, double number, Output others) {
    return where(which, constant_like(number, x, at), others, at);
  };
  const auto equals = [&](double number) { return equal(x, constant_like(number, x, at), at); };
  const Output above = replace(equals(infinity), numbers.positive.value_or(most), x);
  const Output finite = replace(equals(-infinity), numbers.negative.value_or(-most), above);
  return replace(is_nan(x, at), numbers.nan, finite);
}

}  // namespace troupe
