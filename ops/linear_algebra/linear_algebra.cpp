// Functions of troupe/ops/linear_algebra.hpp that are graphs of other ops.
#include "ops/elementwise/composition.hpp"
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// As a number from 0. Throws: Error(invalid_argument).
int axis_of(int64_t axis, Output x, const char* name, Origin at) {
  const int ndim = x.shape().ndim();
  if (axis < -ndim || axis >= ndim)
    throw refused("tensordot", at, "axis ", axis, " of ", name, " is not there: ", x.shape(),
                  " has axes from ", -ndim, " to ", ndim - 1);
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

}  // namespace

// outer: c[i, j] = a[i] * b[j].
Output outer(Output a, Output b, Origin at) {
  require_defined("outer", at, {a, b});
  if (a.shape().ndim() != 1 || b.shape().ndim() != 1)
    throw refused("outer", at, "wants two vectors, got ", a.shape(), " and ", b.shape(),
                  "; reshape them");
  return multiply(reshape(a, Shape{a.shape()[0], 1}, at), b, at);
}

Output trace(Output x, int64_t offset, Origin at) {
  return reduce_sum(diagonal(x, {.offset = offset}, at), {.axes = {-1}}, at);
}

// tensordot in Einstein's notation: a pair of axes has one letter.
Output tensordot(Output a, Output b, const std::vector<int64_t>& axes_a,
                 const std::vector<int64_t>& axes_b, Origin at) {
  require_defined("tensordot", at, {a, b});
  if (axes_a.size() != axes_b.size())
    throw refused("tensordot", at, "sums over axes in pairs, got ", axes_a.size(), " of a and ",
                  axes_b.size(), " of b");
  const size_t ndim_a = static_cast<size_t>(a.shape().ndim());
  const size_t ndim_b = static_cast<size_t>(b.shape().ndim());
  std::string of_a(ndim_a, ' '), of_b(ndim_b, ' '), result;
  char next = 'a';
  for (size_t i = 0; i < axes_a.size(); ++i) {
    const int in_a = axis_of(axes_a[i], a, "a", at), in_b = axis_of(axes_b[i], b, "b", at);
    char &letter_a = of_a[static_cast<size_t>(in_a)], &letter_b = of_b[static_cast<size_t>(in_b)];
    if (letter_a != ' ' || letter_b != ' ')
      throw refused("tensordot", at, "names axis ", letter_a != ' ' ? in_a : in_b, " of ",
                    letter_a != ' ' ? "a" : "b", " twice; name each once");
    if (!may_equal(a.shape()[in_a], b.shape()[in_b]))
      throw refused("tensordot", at, "axis ", in_a, " of a, ", a.shape(), ", and axis ", in_b,
                    " of b, ", b.shape(), ", differ in size");
    letter_a = letter_b = next++;
  }
  for (std::string* letters : {&of_a, &of_b})
    for (char& letter : *letters)
      if (letter == ' ') result += letter = next++;
  return einsum(detail::concat(of_a, ",", of_b, "->", result), {a, b}, at);
}

Output tensordot(Output a, Output b, int64_t axes, Origin at) {
  require_defined("tensordot", at, {a, b});
  const int64_t ndim_a = a.shape().ndim();
  if (axes < 0 || axes > ndim_a || axes > b.shape().ndim())
    throw refused("tensordot", at, "cannot sum over ", axes, " axes of ", a.shape(), " and ",
                  b.shape(), "; both must have them");
  std::vector<int64_t> axes_a, axes_b;
  for (int64_t i = 0; i < axes; ++i) {
    axes_a.push_back(ndim_a - axes + i);
    axes_b.push_back(i);
  }
  return tensordot(a, b, axes_a, axes_b, at);
}

// l2_normalize: y = x / sqrt(max(sum(x^2), epsilon)). Where the sum is below epsilon, y is a
// multiple of x, so there is a gradient at 0.
Output l2_normalize(Output x, std::vector<int64_t> axes, double epsilon, Origin at) {
  require_defined("l2_normalize", at, {x});
  if (!is_floating(x.dtype()))
    throw refused("l2_normalize", at, "wants f32 or f64, got ", x.dtype(), "; cast it");
  if (!(epsilon > 0)) throw refused("l2_normalize", at, "wants epsilon > 0, got ", epsilon);
  const Output sum = reduce_sum(square(x, at), {.axes = std::move(axes), .keep_dims = true}, at);
  return divide(x, sqrt(maximum(sum, constant_like(epsilon, sum, at), at), at), at);
}

}  // namespace troupe
