// Op cases: tests of an op as tables. A table has four uses: values in every dtype, gradients,
// refusals, completeness.
//
//   const Table table("MatMul multiplies matrices", [] {
//     const Tensor x = matrix({{1, 2, 3}, {4, 5, 6}});
//     return table_of(
//         "MatMul",
//         {Case("2x3 by 3x1", {x, matrix({{1}, {0}, {-1}})}, {matrix({{-2}, {-2}})}),
//          Case("an empty inner dimension", {zeros({2, 0}), zeros({0, 3})}, {zeros({2, 3})})},
//         {Refused({x, x}, "inner sizes differ: [2, 3] times [2, 3]")});
//   });
#pragma once

#include <cmath>  // INFINITY and NAN, for tables
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ops/check/op_check.hpp"
#include "tests/support/evaluate.hpp"
#include "troupe/graph.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/custom_op.hpp"

namespace troupe {

// Short tensors. Tables are written in f64 and converted to the other dtypes.
Tensor scalar(double value);
Tensor vector(std::initializer_list<double> values);
Tensor matrix(std::initializer_list<std::initializer_list<double>> rows);
Tensor values(const Shape& shape, std::initializer_list<double> values);
// The same, with a list for each row of the last dimension or dimensions.
Tensor in_rows(const Shape& shape, std::initializer_list<std::initializer_list<double>> rows);
Tensor zeros(const Shape& shape, DType dtype = DType::f64);
Tensor full(const Shape& shape, double value);
Tensor iota(const Shape& shape, double first = 0,
            double step = 1);                   // first, first + step, ... in row-major order
Tensor waves(const Shape& shape, double seed);  // arbitrary numbers in [-1, 1], all different
inline Tensor i32(const Tensor& tensor) { return converted(tensor, DType::i32); }
inline Tensor i64(const Tensor& tensor) { return converted(tensor, DType::i64); }
inline Tensor u8(const Tensor& tensor) { return converted(tensor, DType::u8); }
inline Tensor f32(const Tensor& tensor) { return converted(tensor, DType::f32); }
inline Tensor booleans(const Tensor& tensor) { return converted(tensor, DType::boolean); }

// Attributes of reductions.
using Ints = std::vector<int64_t>;
inline Attrs over(Ints axes, bool keep_dims = false) {
  return {{"axes", std::move(axes)}, {"keep_dims", keep_dims}};
}

// A row of a table: an OpCase, whose comments tell more of each member. Rows of the table's own op
// leave the op out.
struct Case : OpCase {
  Case(std::string name, std::vector<Tensor> inputs, std::vector<Tensor> expected, Attrs attrs = {})
      : Case("", std::move(name), std::move(inputs), std::move(expected), std::move(attrs)) {}
  Case(std::string op, std::string name, std::vector<Tensor> inputs, std::vector<Tensor> expected,
       Attrs attrs = {});
  Case& made_by(BuildCase nodes) { return set(build, std::move(nodes)); }
  Case& within(double error) { return set(tolerance, error); }
  Case& slopes_within(double error) { return set(gradient_tolerance, error); }
  Case& as_typed() { return set(as_written, true); }
  Case& rough() { return set(smooth, false); }
  Case& once() { return set(twice, false); }

 private:
  template <class Member, class Value>
  Case& set(Member& member, Value value) {
    member = std::move(value);
    return *this;
  }
};

// A row of what is refused: an OpError.
struct Refused : OpError {
  Refused(std::vector<Tensor> inputs, std::string message, Attrs attrs = {})
      : Refused("", std::move(inputs), std::move(message), std::move(attrs)) {}
  Refused(std::string op, std::vector<Tensor> inputs, std::string message, Attrs attrs = {});
  Refused& made_by(BuildCase nodes);
  Refused& in_step();  // when_run
};

// The table of `op`.
OpCases table_of(const std::string& op, std::vector<OpCase> values,
                 std::vector<OpError> errors = {});

// Each of these is one assertion: check_value_of() and its siblings in troupe/custom_op.hpp, which
// list the checks, find no fault.
void check_value(const OpCase& c);
void check_gradient(const OpCase& c);
void check_refused(const OpError& e);

void check(const OpCases& cases);  // all of these for the whole table

// The table of an elementwise op of one input: `values`, which may leave the op's name out, and for
// each of them also an empty tensor, a dtype without a kernel (that of `refused`) and a second
// input.
OpCases unary_cases(const std::string& op, const Tensor& refused, std::vector<OpCase> values);

// The same for two inputs: broadcasting to an empty tensor, shapes that do not fit, two dtypes, and
// a dtype without a kernel (none if `refused` is undefined).
OpCases binary_cases(const std::string& op, const Tensor& refused, std::vector<OpCase> values);

// Puts a table on the list that the completeness test walks. Only the function is noted, so the
// order of initialization does not matter. The completeness test fails for a table that is not
// listed.
struct ListedCases {
  explicit ListedCases(OpCases (*cases)());
};
const std::vector<OpCases (*)()>& listed_cases();

// A table that is listed and that a test case called `name` checks.
class Table {
 public:
  template <class Cases>
  Table(const char* name, Cases cases, const char* file = __builtin_FILE(),
        unsigned line = __builtin_LINE())
      : listed_(cases) {
    add_test(
        name, [] { check(Cases{}()); }, file, line);
  }

 private:
  static void add_test(const char* name, void (*test)(), const char* file, unsigned line);
  ListedCases listed_;
};

}  // namespace troupe
