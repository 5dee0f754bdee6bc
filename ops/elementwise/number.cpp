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

using BinaryFunction = Output (*)(Output, Output, Origin);

Output apply(BinaryFunction f, const Operand& a, const Operand& b) {
  const Operand& known = a.value.defined() ? a : b;
  if (!known.value.defined())
    throw Error(Errc::invalid_argument, "an operator at ", a.at.file, ":", a.at.line,
                " got undefined Outputs; pass the results of ops");
  const auto to_output = [&](const Operand& operand) {
    if (!operand.number) return operand.value;
    return number_constant(*known.value.graph, *operand.number, known.value.dtype(), operand.at);
  };
  const Output left = to_output(a);
  return f(left, to_output(b), a.at);
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

Output operator+(Operand a, Operand b) { return apply(add, a, b); }
Output operator-(Operand a, Operand b) { return apply(subtract, a, b); }
Output operator*(Operand a, Operand b) { return apply(multiply, a, b); }
Output operator/(Operand a, Operand b) { return apply(divide, a, b); }
Output operator%(Operand a, Operand b) { return apply(mod, a, b); }
Output operator&(Operand a, Operand b) { return apply(bitwise_and, a, b); }
Output operator|(Operand a, Operand b) { return apply(bitwise_or, a, b); }
Output operator^(Operand a, Operand b) { return apply(bitwise_xor, a, b); }
Output operator-(Operand x) { return negate(x.value, x.at); }
Output operator==(Operand a, Operand b) { return apply(equal, a, b); }
Output operator!=(Operand a, Operand b) { return apply(not_equal, a, b); }
Output operator<(Operand a, Operand b) { return apply(less, a, b); }
Output operator<=(Operand a, Operand b) { return apply(less_equal, a, b); }
Output operator>(Operand a, Operand b) { return apply(greater, a, b); }
Output operator>=(Operand a, Operand b) { return apply(greater_equal, a, b); }

}  // namespace troupe
