// Cumsum, Cumprod and LinearRecurrence.
#include "ops/gradients.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs along(int64_t axis, bool exclusive = false, bool reverse = false) {
  return {{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}};
}

std::vector<OpError> scan_errors(const std::string& op) {
  return {Refused(op, {zeros({2, 3})},
                  "axis 2 is not there: with 2 dimensions, axes go from -2 to 1", along(2)),
          Refused(op, {scalar(1)}, "runs along an axis, and a scalar has none"),
          Refused(op, {u8(zeros({2}))}, "has no kernel for u8")};
}

OpCases scan_cases(const std::string& op, std::vector<OpCase> values) {
  values.push_back(Case("empty", {zeros({2, 0, 3})}, {zeros({2, 0, 3})}, along(1, true)));
  for (OpCase& c : values) c.op = op;
  return {.values = std::move(values), .errors = scan_errors(op)};
}

const Table cumsum_table("Cumsum is a running sum", [] {
  const Tensor x = matrix({{1, 2, 3}, {4, -5, 6}});
  return scan_cases(
      "Cumsum", {
                    Case("rows", {x}, {matrix({{1, 3, 6}, {4, -1, 5}})}),
                    Case("columns", {x}, {matrix({{1, 2, 3}, {5, -3, 9}})}, along(0)),
                    Case("exclusive", {x}, {matrix({{0, 1, 3}, {0, 4, -1}})}, along(1, true)),
                    Case("reverse", {x}, {matrix({{6, 5, 3}, {5, 1, 6}})}, along(-1, false, true)),
                    Case("reverse columns, exclusive", {x}, {matrix({{4, -5, 6}, {0, 0, 0}})},
                         along(-2, true, true)),
                    Case("the axis between", {iota({2, 3, 2})},
                         {values({2, 3, 2}, {0, 1, 2, 4, 6, 9, 6, 7, 14, 16, 24, 27})}, along(1)),
                    Case("size one", {vector({1.5})}, {vector({1.5})}),
                    Case("infinities and NaN", {vector({1, INFINITY, 2, -INFINITY, 3})},
                         {vector({1, INFINITY, INFINITY, NAN, NAN})})
                        .rough(),
                    Case("i32 wraps around", {i32(vector({2147483647, 1, -1}))},
                         {i32(vector({2147483647, -2147483648.0, 2147483647}))})
                        .as_typed(),
                });
});

const Table cumprod_table("Cumprod is a running product, and its gradient minds zeros", [] {
  const Tensor x = matrix({{1, 2, 3}, {4, -5, 6}});
  return scan_cases(
      "Cumprod",
      {
          Case("rows", {x}, {matrix({{1, 2, 6}, {4, -20, -120}})}),
          Case("columns", {x}, {matrix({{1, 2, 3}, {4, -10, 18}})}, along(0)),
          Case("exclusive", {x}, {matrix({{1, 1, 2}, {1, 4, -20}})}, along(1, true)),
          Case("reverse", {x}, {matrix({{6, 6, 3}, {-120, -30, 6}})}, along(-1, false, true)),
          Case("reverse columns, exclusive", {x}, {matrix({{4, -5, 6}, {1, 1, 1}})},
               along(-2, true, true)),
          Case("the axis between", {iota({2, 3, 2}, 1)},
               {values({2, 3, 2}, {1, 2, 3, 8, 15, 48, 7, 8, 63, 80, 693, 960})}, along(1)),
          Case("zeros", {matrix({{2, 0, 3, 4}, {0, 5, 0, 6}, {1, 2, 3, 0}})},
               {matrix({{2, 0, 0, 0}, {0, 0, 0, 0}, {1, 2, 6, 0}})}),
          Case("zeros, exclusive and reverse", {matrix({{2, 0, 3, 4}, {0, 5, 0, 6}, {1, 2, 3, 0}})},
               {matrix({{0, 12, 4, 1}, {0, 0, 6, 1}, {0, 0, 0, 1}})}, along(1, true, true)),
          Case("size one", {vector({1.5})}, {vector({1.5})}),
          Case("infinities and NaN", {vector({2, INFINITY, -1, 0, 3})},
               {vector({2, INFINITY, -INFINITY, NAN, NAN})})
              .rough(),
          Case("i32 wraps around", {i32(vector({65536, 32768, 3, 2}))},
               {i32(vector({65536, -2147483648.0, -2147483648.0, 0}))})
              .as_typed(),
      });
});

const Table recurrence_table(
    "LinearRecurrence multiplies and adds, one element after the other", [] {
      const auto from = [](int64_t axis, bool reverse) {
        return Attrs{{"axis", axis}, {"reverse", reverse}};
      };
      return table_of(
          "LinearRecurrence",
          {
              Case("a row", {vector({1, 2, 3, 4}), vector({5, 6, 0.5, 7})}, {vector({0, 1, 8, 7})}),
              Case("from the other end", {vector({1, 2, 3, 4}), vector({5, 6, 0.5, 7})},
                   {vector({32, 5, 4, 0})}, from(0, true)),
              Case("columns, with zeros",
                   {matrix({{1, 2}, {3, 4}, {5, 6}, {1, 1}}),
                    matrix({{7, 8}, {0, 2}, {3, 0}, {1, 1}})},
                   {matrix({{0, 0}, {1, 2}, {3, 8}, {14, 6}})}, from(0, false)),
              Case("size one", {vector({2}), vector({3})}, {vector({0})}),
              Case("empty", {zeros({2, 0}), zeros({2, 0})}, {zeros({2, 0})}),
              Case("infinity and NaN", {vector({INFINITY, 1, 1, NAN, 1}), vector({1, -1, 0, 1, 1})},
                   {vector({0, INFINITY, -INFINITY, NAN, NAN})})
                  .rough(),
          },
          {
              Refused({zeros({2, 3}), zeros({2, 1})},
                      "wants u and w of one shape, got [2, 3] and [2, 1]"),
              Refused({zeros({2}), zeros({2})},
                      "axis 1 is not there: with 1 dimensions, axes go from -1 to 0",
                      from(1, false)),
              Refused({scalar(1), scalar(1)},
                      "runs along an axis, and a scalar has none; reshape it to [1]"),
              Refused({i32(zeros({2})), i32(zeros({2}))},
                      "has no kernel for i32; cast to one of f32, f64"),
          });
    });

}  // namespace

TEST_CASE("long scans of f32 lose nothing beside their elements") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{-1, -1});
  const int64_t n = 300000;
  const Tensor row = evaluate(cumsum(x), {{x, f32(full({1, n}, 0.1))}});
  const Tensor column = evaluate(cumsum(x, {.axis = 0}), {{x, f32(full({n, 2}, 0.1))}});
  const float last = static_cast<float>(static_cast<double>(n) * double{0.1F});
  CHECK(row.values<float>().back() == last);
  CHECK(column.values<float>().back() == last);
}

TEST_CASE("scans of many columns are those of each") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{-1, -1});
  const Tensor wide = waves({7, 600}, 0.4);
  for (const bool exclusive : {false, true})
    for (const bool reverse : {false, true}) {
      const ScanOptions rows{.axis = 0, .exclusive = exclusive, .reverse = reverse};
      const ScanOptions columns{.axis = 1, .exclusive = exclusive, .reverse = reverse};
      const FedValues feeds = {{x, wide}};
      CHECK(same_bits(evaluate(cumsum(x, rows), feeds),
                      evaluate(transpose(cumsum(transpose(x), columns)), feeds)));
      CHECK(same_bits(evaluate(cumprod(x, rows), feeds),
                      evaluate(transpose(cumprod(transpose(x), columns)), feeds)));
      CHECK(same_bits(
          evaluate(linear_recurrence(x, x, 0, reverse), feeds),
          evaluate(transpose(linear_recurrence(transpose(x), transpose(x), 1, reverse)), feeds)));
    }
}

}  // namespace troupe
