// The functions of ops/support/vector_math.hpp in loops.
#include "tests/support/op_cases.hpp"

namespace troupe {

TEST_CASE("no function of the C library depends on where an element stands") {
  using Function = Output (*)(Output, Origin);
  const std::vector<Function> functions = {
      expm1, log1p, log2,  log10, exp2, cbrt,   sin,  cos,      tan,  asin, acos,    atan,    sinh,
      cosh,  asinh, atanh, erf,   erfc, erfinv, selu, softplus, silu, mish, digamma, trigamma};
  for (const DType dtype : {DType::f32, DType::f64}) {
    Graph graph;
    const Output x = placeholder(graph, dtype, Shape{-1});
    std::vector<Output> ys = {acosh(x + 1), elu(x), gelu(x), gelu(x, true)};
    for (const Function f : functions) ys.push_back(f(x, Origin::here()));
    for (const Output& y : ys) {
      CAPTURE(y.name());
      const Tensor alone = evaluate(y, {{x, converted(full({1}, 0.3), dtype)}});
      const Tensor many = evaluate(y, {{x, converted(full({150}, 0.3), dtype)}});
      with_type(dtype, [&]<class T>(T) {
        for (T value : many.values<T>()) CHECK(value == alone.item<T>());
      });
    }
  }
}

}  // namespace troupe
