// Op cases: tests of an op as tables. One table has four uses: values in every dtype, gradients,
// refusals, completeness.
//
//   OpCases cases() {
//     return {.values = {{.name = "2x3 by 3x1", .op = "MatMul",
//                         .inputs = {matrix({{1, 2, 3}, {4, 5, 6}}), matrix({{1}, {0}, {-1}})},
//                         .expected = {matrix({{-2}, {-2}})}}},
//             .errors = {{.op = "MatMul", .inputs = {zeros({2, 3}), zeros({2, 3})},
//                         .message = "inner sizes differ: [2, 3] times [2, 3]"}}};
//   }
//   const ListedCases listed(cases);  // for tests/ops/completeness_test.cpp
//   TEST_CASE("MatMul multiplies matrices") { check(cases()); }
#pragma once

#include <cmath>  // INFINITY and NAN, for tables
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/evaluate.hpp"
#include "troupe/graph.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {

// Short tensors. Tables are written in f64, which check_value() converts to the other dtypes.
Tensor scalar(double value);
Tensor vector(std::initializer_list<double> values);
Tensor matrix(std::initializer_list<std::initializer_list<double>> rows);
Tensor values(const Shape& shape, std::initializer_list<double> values);
Tensor zeros(const Shape& shape, DType dtype = DType::f64);
Tensor full(const Shape& shape, double value);
Tensor iota(const Shape& shape, double first = 0,
            double step = 1);                   // first, first + step, ... in row-major order
Tensor waves(const Shape& shape, double seed);  // any numbers in [-1, 1] that differ
// `tensor` in another dtype: floats to nearest, from and to bool as 0 and 1. Requires: integers
// that fit.
Tensor converted(const Tensor& tensor, DType dtype);
inline Tensor i32(const Tensor& tensor) { return converted(tensor, DType::i32); }
inline Tensor i64(const Tensor& tensor) { return converted(tensor, DType::i64); }
inline Tensor u8(const Tensor& tensor) { return converted(tensor, DType::u8); }
inline Tensor f32(const Tensor& tensor) { return converted(tensor, DType::f32); }
inline Tensor booleans(const Tensor& tensor) { return converted(tensor, DType::boolean); }

// A graph to check instead of a single node: the outputs it makes of the inputs.
using BuildCase = std::function<std::vector<Output>(Graph&, const std::vector<Output>&)>;

struct OpCase {
  std::string name;
  std::string op = {};  // whose case it is, also when `build` makes the nodes
  std::vector<Tensor> inputs = {};
  Attrs attrs = {};
  std::vector<Tensor> expected = {};
  // |got - expected| <= tolerance * max(1, |expected|); left out: by dtype (1e-5 for f32, 1e-12 for
  // f64). Integers are exact.
  std::optional<double> tolerance = {};
  BuildCase build = {};
  // True: only with the dtypes as written. Else the case runs once for each kernel dtype of the op
  // that can hold it: every tensor with the dtype of the dispatch input is converted.
  bool as_written = false;
  // False: not differentiable here, or so steep that differences say nothing. Has its value checked
  // only.
  bool smooth = true;
  bool twice = true;  // second derivatives are checked, too
  double gradient_tolerance = 1e-6;
};

struct OpError {
  std::string op;
  std::vector<Tensor> inputs = {};
  Attrs attrs = {};
  std::string message;  // a part of the error's text
  BuildCase build = {};
  bool when_run = false;  // depends on values: thrown by the kernel, not while building
};

struct OpCases {
  std::vector<OpCase> values = {};
  std::vector<OpError> errors = {};
};

// The op's output equals `expected`, for every CPU kernel that can hold the case: with shapes known
// while building, with all sizes unknown (-1) until the step, and, if the op is in_place, over the
// memory of input 0. Inferred types fit the values. The shadow accelerator gives the same bits, a
// GPU the same within the tolerance.
void check_value(const OpCase& c);
// gradients() agrees with central differences in f64, shapes known and unknown; so do second
// derivatives. Does nothing for a case that is not smooth or an op without a gradient.
void check_gradient(const OpCase& c);
// Building with known shapes (with `when_run`, running) throws Error(invalid_argument) with
// `message` in its text. So does building or running it with unknown sizes, on accelerators too.
void check_refused(const OpError& e);

// The shadow accelerator, and a GPU where there is one.
const std::vector<std::unique_ptr<Device>>& accelerators();

void check(const OpCases& cases);  // all of these for the whole table

// The table of an op of one element: `values`, which need not name it, and what each of them is
// tried with besides: an empty tensor, a dtype without a kernel (that of `refused`), a second
// input.
OpCases unary_cases(const std::string& op, const Tensor& refused, std::vector<OpCase> values);

// The same of two elements: broadcasting to an empty tensor, shapes that do not fit, two dtypes,
// and a dtype without a kernel (none if `refused` is undefined).
OpCases binary_cases(const std::string& op, const Tensor& refused, std::vector<OpCase> values);

// Puts a table on the list that the completeness test walks. It notes a function and no more, so
// order does not matter; a table that is not listed makes that test fail.
struct ListedCases {
  explicit ListedCases(OpCases (*cases)());
};
const std::vector<OpCases (*)()>& listed_cases();

// Approximately equal, dtype and shape included; NaN equals NaN. Else a text that says where they
// differ.
std::optional<std::string> difference(const Tensor& got, const Tensor& expected,
                                      std::optional<double> tolerance = {});

}  // namespace troupe
