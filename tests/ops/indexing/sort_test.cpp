// Sort and Argsort.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs order(int64_t axis, bool descending) { return {{"axis", axis}, {"descending", descending}}; }

// One set of tables for both: Sort's values, and the indices of Argsort.
struct Ordered {
  const char* name;
  Tensor x;
  Attrs attrs;
  Tensor sorted, at;
  bool smooth = true;
};

std::vector<Ordered> tables() {
  const Tensor x = matrix({{3, 1, 2}, {0.5, 7, -4}});
  return {{"rising", x, {}, matrix({{1, 2, 3}, {-4, 0.5, 7}}), matrix({{1, 2, 0}, {2, 0, 1}})},
          {"falling", x, order(-1, true), matrix({{3, 2, 1}, {7, 0.5, -4}}),
           matrix({{0, 2, 1}, {1, 0, 2}})},
          {"along the first axis", x, order(0, false), matrix({{0.5, 1, -4}, {3, 7, 2}}),
           matrix({{1, 0, 1}, {0, 1, 0}})},
          {"in the middle, falling", values({2, 3, 2}, {1, 6, 3, 4, 2, 5, 12, 7, 10, 9, 11, 8}),
           order(1, true), values({2, 3, 2}, {3, 6, 2, 5, 1, 4, 12, 9, 11, 8, 10, 7}),
           values({2, 3, 2}, {1, 0, 2, 2, 0, 1, 0, 1, 2, 2, 1, 0})},
          {"equals keep their order", vector({2, 1, 2, 1, 2}), order(0, false),
           vector({1, 1, 2, 2, 2}), vector({1, 3, 0, 2, 4}), false},
          {"equals keep their order when it falls", vector({2, 1, 2, 1, 2}), order(0, true),
           vector({2, 2, 2, 1, 1}), vector({0, 2, 4, 1, 3}), false},
          {"NaN is the greatest", vector({NAN, 1, -INFINITY, NAN, INFINITY}), order(0, false),
           vector({-INFINITY, 1, INFINITY, NAN, NAN}), vector({2, 1, 4, 0, 3}), false},
          {"NaN is the first when it falls", vector({1, NAN, -INFINITY, INFINITY}), order(0, true),
           vector({NAN, INFINITY, 1, -INFINITY}), vector({1, 3, 0, 2}), false},
          {"size one", vector({4}), {}, vector({4}), vector({0})},
          {"empty lines", zeros({2, 0}), {}, zeros({2, 0}), zeros({2, 0})},
          {"no lines", zeros({0, 3}), {}, zeros({0, 3}), zeros({0, 3})}};
}

std::vector<OpError> errors(const std::string& op) {
  return {Refused(op, {scalar(1)}, "axis -1 is not there"),
          Refused(op, {zeros({2, 2})},
                  "axis 2 is not there: with 2 dimensions, axes go from -2 to 1", order(2, false)),
          Refused(op, {booleans(zeros({2}))},
                  "has no kernel for bool; cast to one of f32, f64, i32, i64, u8")};
}

OpCases sort_cases() {
  OpCases cases = {.errors = errors("Sort")};
  for (const Ordered& t : tables())
    cases.values.push_back({.name = t.name,
                            .op = "Sort",
                            .inputs = {t.x},
                            .attrs = t.attrs,
                            .expected = {t.sorted},
                            .smooth = t.smooth});
  return cases;
}
const ListedCases listed_sort(sort_cases);

OpCases argsort_cases() {
  OpCases cases = {.errors = errors("Argsort")};
  for (const Ordered& t : tables())
    cases.values.push_back(Case("Argsort", t.name, {t.x}, {i64(t.at)}, t.attrs));
  return cases;
}
const ListedCases listed_argsort(argsort_cases);

}  // namespace

TEST_CASE("Sort puts lines in order, and gradients back") { check(sort_cases()); }

TEST_CASE("Argsort says where Sort found them") { check(argsort_cases()); }

TEST_CASE("0 and -0 are equal, and keep their order") {
  Graph graph;
  const Output x = constant(graph, f32(vector({0.0, -0.0, 0.0, -0.0, -1})));
  CHECK(same_bits(evaluate(sort(x)), f32(vector({-1, 0.0, -0.0, 0.0, -0.0}))));
  CHECK(
      same_bits(evaluate(sort(x, {.descending = true})), f32(vector({0.0, -0.0, 0.0, -0.0, -1}))));
}

TEST_CASE("what sort gives is what argsort finds, in lines of any length") {
  Graph graph;
  for (const int64_t n : {2, 15, 16, 17, 100, 1000})
    for (const bool descending : {false, true}) {
      const Output x = constant(graph, f32(waves({2, n}, 0.1)));
      const SortOptions options = {.descending = descending};
      CHECK(same_bits(evaluate(sort(x, options)), evaluate(take_along(x, argsort(x, options)))));
    }
}

}  // namespace troupe
