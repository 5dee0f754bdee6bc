// Builds the short tensors of tables of op cases, and checks the tables.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

std::vector<OpCases (*)()>& mutable_listed_cases() {
  static std::vector<OpCases (*)()> list;
  return list;
}

void check_nothing(const std::vector<std::string>& found) {
  std::string text;
  for (const std::string& one : found) text += one + "\n";
  CHECK(text == "");
}

}  // namespace

void check_value(const OpCase& c) { check_nothing(check_value_of(c, builtin_ops())); }
void check_gradient(const OpCase& c) { check_nothing(check_gradient_of(c, builtin_ops())); }
void check_refused(const OpError& e) { check_nothing(check_refusal_of(e, builtin_ops())); }

Case::Case(std::string op, std::string name, std::vector<Tensor> inputs,
           std::vector<Tensor> expected, Attrs attrs)
    : OpCase{.name = std::move(name),
             .op = std::move(op),
             .inputs = std::move(inputs),
             .attrs = std::move(attrs),
             .expected = std::move(expected)} {}

Refused::Refused(std::string op, std::vector<Tensor> inputs, std::string message, Attrs attrs)
    : OpError{.op = std::move(op),
              .inputs = std::move(inputs),
              .attrs = std::move(attrs),
              .message = std::move(message)} {}

Refused& Refused::made_by(BuildCase nodes) {
  build = std::move(nodes);
  return *this;
}

Refused& Refused::in_step() {
  when_run = true;
  return *this;
}

OpCases table_of(const std::string& op, std::vector<OpCase> values, std::vector<OpError> errors) {
  for (OpCase& c : values)
    if (c.op.empty()) c.op = op;
  for (OpError& e : errors)
    if (e.op.empty()) e.op = op;
  return {.values = std::move(values), .errors = std::move(errors)};
}

Tensor scalar(double value) { return Tensor::scalar(value); }

Tensor vector(std::initializer_list<double> list) {
  return Tensor::of<double>(list, Shape{static_cast<int64_t>(list.size())});
}

Tensor in_rows(const Shape& shape, std::initializer_list<std::initializer_list<double>> rows) {
  std::vector<double> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return from_doubles(all, DType::f64, shape);
}

Tensor matrix(std::initializer_list<std::initializer_list<double>> rows) {
  const int64_t n = rows.size() ? static_cast<int64_t>(rows.begin()->size()) : 0;
  return in_rows({static_cast<int64_t>(rows.size()), n}, rows);
}

Tensor values(const Shape& shape, std::initializer_list<double> list) {
  return Tensor::of<double>(list, shape);
}

Tensor zeros(const Shape& shape, DType dtype) { return Tensor::zeros(dtype, shape); }

Tensor full(const Shape& shape, double value) {
  return from_doubles(std::vector<double>(static_cast<size_t>(shape.size()), value), DType::f64,
                      shape);
}

Tensor iota(const Shape& shape, double first, double step) {
  std::vector<double> list;
  for (int64_t i = 0; i < shape.size(); ++i) list.push_back(first + step * static_cast<double>(i));
  return from_doubles(list, DType::f64, shape);
}

Tensor waves(const Shape& shape, double seed) {
  std::vector<double> list;
  for (int64_t i = 0; i < shape.size(); ++i)
    list.push_back(std::sin(1.7 * static_cast<double>(i) + seed));
  return from_doubles(list, DType::f64, shape);
}

void check(const OpCases& cases) {
  for (const OpCase& c : cases.values) {
    check_value(c);
    check_gradient(c);
  }
  for (const OpError& e : cases.errors) check_refused(e);
}

OpCases unary_cases(const std::string& op, const Tensor& refused, std::vector<OpCase> values) {
  const DType in = values[0].inputs[0].dtype(), out = values[0].expected[0].dtype();
  const Attrs attrs = values[0].attrs;
  values.push_back({.name = "empty",
                    .inputs = {zeros({3, 0}, in)},
                    .attrs = attrs,
                    .expected = {zeros({3, 0}, out)}});
  for (OpCase& c : values) c.op = op;
  const DType first = builtin_ops()->get(op).kernels[0].dtype;
  return {.values = std::move(values),
          .errors = {{.op = op,
                      .inputs = {refused},
                      .attrs = attrs,
                      .message = detail::concat("has no kernel for ", refused.dtype(),
                                                "; cast to one of ", first)},
                     {.op = op,
                      .inputs = {zeros({2}, in), zeros({2}, in)},
                      .attrs = attrs,
                      .message = "wants 1 input (x), got 2"}}};
}

OpCases binary_cases(const std::string& op, const Tensor& refused, std::vector<OpCase> values) {
  const DType in = values[0].inputs[0].dtype(), out = values[0].expected[0].dtype();
  const DType other = in == DType::i32 ? DType::i64 : DType::i32;
  values.push_back({.name = "empty",
                    .inputs = {zeros({0, 3}, in), zeros({3}, in)},
                    .expected = {zeros({0, 3}, out)}});
  for (OpCase& c : values) c.op = op;
  OpCases cases = {.values = std::move(values)};
  cases.errors = {{.op = op,
                   .inputs = {zeros({2, 3}, in), zeros({4}, in)},
                   .message = "shapes do not broadcast: [2, 3] and [4]"},
                  {.op = op,
                   .inputs = {zeros({2}, in), zeros({2}, other)},
                   .message = detail::concat("one dtype, got ", in, " and ", other)}};
  if (refused.defined())
    cases.errors.push_back(
        {.op = op,
         .inputs = {refused, refused},
         .message = detail::concat("has no kernel for ", refused.dtype(), "; cast to one of ")});
  return cases;
}

ListedCases::ListedCases(OpCases (*cases)()) { mutable_listed_cases().push_back(cases); }

const std::vector<OpCases (*)()>& listed_cases() { return mutable_listed_cases(); }

void Table::add_test(const char* name, void (*test)(), const char* file, unsigned line) {
  using namespace doctest::detail;  // as TEST_CASE does, which takes no name from elsewhere
  regTest(TestCase(test, file, line, doctest_detail_test_suite_ns::getCurrentTestSuite()) * name);
}

}  // namespace troupe
