// check_op(): it finds the faults of a wrong op, and none in a correct op.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

template <class T>
void cubes(KernelContext& ctx) {
  const Tensor x = ctx.input(0);
  T* y = ctx.output(0, x.shape()).template mutable_data<T>();
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x.data<T>()[i] * x.data<T>()[i] * x.data<T>()[i];
}

Op own_cube() {
  return {.name = "OwnCube",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = [](const InferContext& ctx) { return std::vector{ctx.input(0)}; },
          .gradient =
              [](const GradientContext& ctx) {
                return std::vector{ctx.output_gradient(0) * square(ctx.input(0)) * 3};
              },
          .kernels = {{DeviceKind::cpu, DType::f32, cubes<float>},
                      {DeviceKind::cpu, DType::f64, cubes<double>}}};
}

OpCases good() {
  return {.values = {Case("some", {vector({1, -2})}, {vector({1, -8})}),
                     Case("compared with itself", {matrix({{3, 0.5}})}, {})},
          .errors = {Refused({zeros({2}), zeros({2})}, "wants 1 input (x), got 2")}};
}

// All findings, one a line.
std::string found(const Op& op, const OpCases& cases = good()) {
  std::string text;
  for (const std::string& one : check_op(op, cases)) text += one + "\n";
  return text;
}

bool says(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool there = text.find(part) != text.npos;
  CHECK(there);
  return there;
}

}  // namespace

TEST_CASE("nothing is found in an op that is right") { CHECK(found(own_cube()) == ""); }

TEST_CASE("a gradient without a kernel in f64 to compare it in is named with the remedy") {
  Op op = own_cube();
  op.kernels.pop_back();
  OpCases cases = good();
  for (OpCase& c : cases.values) {
    for (Tensor& x : c.inputs) x = f32(x);
    for (Tensor& y : c.expected) y = f32(y);
  }
  says(found(op, cases), "OwnCube has no kernel for f64, in which its gradient is");
}

TEST_CASE("a wrong value is found with its case, dtype and place") {
  OpCases cases = good();
  cases.values[0].expected = {vector({1, -9})};
  says(found(own_cube(), cases),
       "OwnCube \"some\", f64, shapes known: output 0: at [1]: got -8, expected -9");
}

TEST_CASE("a wrong gradient is found by differences") {
  Op op = own_cube();
  op.gradient = [](const GradientContext& ctx) {
    return std::vector{ctx.output_gradient(0) * square(ctx.input(0)) * 2};
  };
  says(found(op), "OwnCube \"some\", shapes known, gradient for input 0: at [0]: got ");
}

TEST_CASE("a second derivative that is wrong is found though the first is right") {
  Op op = own_cube();
  op.gradient = [](const GradientContext& ctx) {
    return std::vector{ctx.output_gradient(0) * square(stop_gradient(ctx.input(0))) * 3};
  };
  says(found(op), "second derivatives, gradient for input 0");
}

TEST_CASE("a shape that is not the inferred one is found") {
  Op op = own_cube();
  op.infer_shapes = [](const InferContext& ctx) {
    Shape twice = ctx.input(0);
    if (twice.is_known()) twice.set(0, 2 * twice[0]);
    return std::vector{twice};
  };
  says(found(op), "threw: ");
}

TEST_CASE("a kernel whose bits depend on when it runs is found") {
  Op op = own_cube();
  op.kernels[1].run = [](KernelContext& ctx) {
    static double more = 0;
    more += 1e-14;
    const Tensor x = ctx.input(0);
    double* y = ctx.output(0, x.shape()).mutable_data<double>();
    for (int64_t i = 0; i < x.size(); ++i) {
      const double v = x.data<double>()[i];
      y[i] = v * v * v + more;
    }
  };
  says(found(op), "output 0 has other bits the second time");
}

TEST_CASE("a kernel that spoils its input when it runs in place is found") {
  Op op = own_cube();
  op.in_place = true;
  op.kernels[1].run = [](KernelContext& ctx) {
    const Tensor x = ctx.input(0);
    const double* from = x.data<double>();
    const int64_t n = x.size();
    double* y = ctx.output_in_place().mutable_data<double>();
    for (int64_t i = 0; i < n; ++i) y[i] = from[i] * from[i];
    for (int64_t i = 0; i < n; ++i) y[i] *= from[i];
  };
  const std::string text = found(op);
  CHECK(text.find("in place") == std::string::npos);  // x is held, so no output reused its buffer
  op.kernels[1].run = [](KernelContext& ctx) {
    const double* from = ctx.input(0).data<double>();
    const int64_t n = ctx.input(0).size();
    double* y = ctx.output_in_place().mutable_data<double>();
    for (int64_t i = 0; i < n; ++i) y[i] = from[i] * from[i];
    for (int64_t i = 0; i < n; ++i) y[i] *= from[i];
  };
  says(found(op), "shapes known, in place: output 0: at [1]: got 16, expected -8");
}

TEST_CASE("what is refused with another text, or not at all, is found") {
  OpCases cases = good();
  cases.errors = {Refused({zeros({2}), zeros({2})}, "wants the moon"),
                  Refused({zeros({2})}, "wants the sun")};
  const std::string text = found(own_cube(), cases);
  says(text, "OwnCube refusing \"wants the moon\", cpu, shapes known: it was refused with another");
  says(text, "OwnCube refusing \"wants the sun\", cpu, shapes known: nothing was thrown");
}

TEST_CASE("what a kernel throws is a finding with its place") {
  Op op = own_cube();
  op.kernels[0].run = [](KernelContext& ctx) { throw ctx.error("out of order"); };
  const std::string text = found(op);
  says(text, "OwnCube \"some\", f32, shapes known: threw: ");
  says(text, "out of order");
}

TEST_CASE("a table that leaves something out is told of") {
  Op op = own_cube();
  says(found(op, {}), "OwnCube: no case says what it gives\n");
  says(found(op, {}), "OwnCube: no case says what it refuses\n");
  says(found(op, {}), "OwnCube: no smooth case of floating elements tries its gradient\n");
  op.gradient = nullptr;
  says(found(op), "OwnCube: it has no gradient, and no_gradient does not say why\n");
  op.kernels.clear();
  says(found(op), "OwnCube: it has no kernel\n");
  op.name = "no word";
  says(found(op), "no word: threw: op \"no word\": an op's name is");
}

}  // namespace troupe
