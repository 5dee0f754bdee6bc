// Numbers as elements, as constants, and as arguments of operators.
#include "ops/elementwise/number.hpp"

#include <algorithm>
#include <cmath>

#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

Output number_constant(Graph& graph, double number, DType dtype, Origin at) {
  if (!fits(number, dtype))
    throw Error(Errc::invalid_argument, "the number ", number, " at ", at.file, ":", at.line,
                " is no ", dtype,
                " value; cast the other side to f32, or write a number that fits");
  Tensor value = Tensor::empty(dtype, Shape{});
  set_elements(value.mutable_raw(), dtype, number, 1);
  return constant(graph, std::move(value), "", at);
}

// An Operand holds its number as a double, which may be another one than the program wrote.
void want_exact(double number, Origin at) {
  if (!(std::abs(number) >= 0x1p53)) return;
  throw Error(Errc::invalid_argument, "the number ", number, " at ", at.file, ":", at.line,
              " may be rounded, as it is not between -2^53 and 2^53; write ",
              "constant(graph, Tensor::scalar<int64_t>(...))");
}

}  // namespace

bool fits(double number, DType dtype) {
  const auto integer_in = [&](double low, double high) {
    return number >= low && number <= high && number == std::floor(number);
  };
  switch (dtype) {
    case DType::f32:
    case DType::f64:
    case DType::f16:
    case DType::bf16:
      return true;
    case DType::i32:
      return integer_in(-0x1p31, 0x1p31 - 1);
    case DType::i64:
      return integer_in(-0x1p63, 0x1p63 - 1024);  // the greatest double below 2^63
    case DType::u8:
      return integer_in(0, 255);
    case DType::boolean:
      return integer_in(0, 1);
    case DType::i8:
      return integer_in(-128, 127);
    case DType::none:
      break;
  }
  return false;
}

void set_elements(void* elements, DType dtype, double number, int64_t n) {
  with_type(dtype,
            [&]<class T>(T) { std::fill_n(static_cast<T*>(elements), n, static_cast<T>(number)); });
}

Output constant_like(double number, Output like, Origin at) {
  return number_constant(*like.graph, number, like.dtype(), at);
}

std::pair<Output, Output> outputs_of(const char* what, const Operand& a, const Operand& b,
                                     Origin at) {
  if (!a.number && !b.number) return {a.value, b.value};
  const Output& known = a.number ? b.value : a.value;
  if (!known.defined())
    throw Error(Errc::invalid_argument, what, " made at ", at.file, ":", at.line, ": ",
                a.number && b.number ? "both inputs are numbers, which have no dtype; make one of "
                                       "them a constant()"
                                     : "the input beside the number is an undefined Output; pass "
                                       "the result of an op");
  const auto output = [&](const Operand& operand) {
    if (operand.number && known.dtype() == DType::i64) want_exact(*operand.number, at);
    return operand.number ? constant_like(*operand.number, known, at) : operand.value;
  };
  const Output first = output(a);
  return {first, output(b)};
}

Output operator+(Operand a, Operand b) { return add(a, b, a.at); }
Output operator-(Operand a, Operand b) { return subtract(a, b, a.at); }
Output operator*(Operand a, Operand b) { return multiply(a, b, a.at); }
Output operator/(Operand a, Operand b) { return divide(a, b, a.at); }
Output operator%(Operand a, Operand b) { return mod(a, b, a.at); }
Output operator&(Operand a, Operand b) { return bitwise_and(a, b, a.at); }
Output operator|(Operand a, Operand b) { return bitwise_or(a, b, a.at); }
Output operator^(Operand a, Operand b) { return bitwise_xor(a, b, a.at); }
Output operator-(Operand x) { return negate(x.value, x.at); }
Output operator==(Operand a, Operand b) { return equal(a, b, a.at); }
Output operator!=(Operand a, Operand b) { return not_equal(a, b, a.at); }
Output operator<(Operand a, Operand b) { return less(a, b, a.at); }
Output operator<=(Operand a, Operand b) { return less_equal(a, b, a.at); }
Output operator>(Operand a, Operand b) { return greater(a, b, a.at); }
Output operator>=(Operand a, Operand b) { return greater_equal(a, b, a.at); }

}  // namespace troupe
