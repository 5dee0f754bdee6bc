// Sort, Argsort, TopK, Unique, Bincount, SearchSorted and InTopK; TakeAlong with its gradient,
// which the gradients of TopK and Sort use.
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

const Table sort_table("Sort puts lines in order, and gradients back", [] {
  OpCases cases = {.errors = errors("Sort")};
  for (const Ordered& t : tables())
    cases.values.push_back({.name = t.name,
                            .op = "Sort",
                            .inputs = {t.x},
                            .attrs = t.attrs,
                            .expected = {t.sorted},
                            .smooth = t.smooth});
  return cases;
});

const Table argsort_table("Argsort says where Sort found them", [] {
  OpCases cases = {.errors = errors("Argsort")};
  for (const Ordered& t : tables())
    cases.values.push_back(Case("Argsort", t.name, {t.x}, {i64(t.at)}, t.attrs));
  return cases;
});

Attrs k(int64_t k) { return {{"k", k}}; }
Attrs along(int64_t axis) { return {{"axis", axis}}; }

const Table top_k_table("TopK chooses the greatest, greatest first", [] {
  return table_of(
      "TopK",
      {Case("of a vector", {vector({3, 1, 4, 1, 5, 9, 2, 6})},
            {vector({9, 6, 5}), i64(vector({5, 7, 4}))}, k(3)),
       Case("of each line", {values({2, 2, 3}, {1, 2, 3, 6, 5, 4, 7, 9, 8, 10, 12, 11})},
            {values({2, 2, 2}, {3, 2, 6, 5, 9, 8, 12, 11}),
             i64(values({2, 2, 2}, {2, 1, 0, 1, 1, 2, 1, 2}))},
            k(2)),
       Case("negative numbers", {matrix({{-1, -3, -2}, {0.5, -0.5, 2}})},
            {matrix({{-1, -2}, {2, 0.5}}), i64(matrix({{0, 2}, {2, 0}}))}, k(2)),
       Case("of equals the first ones first", {vector({2, 7, 7, 2, 7, 2, 2})},
            {vector({7, 7, 7, 2, 2}), i64(vector({1, 2, 4, 0, 3}))}, k(5))
           .rough(),
       Case("all of them", {vector({1, 3, 2})}, {vector({3, 2, 1}), i64(vector({1, 2, 0}))}, k(3)),
       Case("NaN is the greatest", {vector({1, NAN, INFINITY, NAN, -INFINITY})},
            {vector({NAN, NAN, INFINITY, 1}), i64(vector({1, 3, 2, 0}))}, k(4))
           .rough(),
       Case("the ends of i64", {Tensor::of<int64_t>({0, INT64_MIN, INT64_MAX}, {3})},
            {Tensor::of<int64_t>({INT64_MAX, 0}, {2}), i64(vector({2, 0}))}, k(2))
           .as_typed(),
       Case("none of them", {vector({1, 2})}, {zeros({0}), zeros({0}, DType::i64)}, k(0)),
       Case("size one", {vector({5})}, {vector({5}), i64(vector({0}))}, k(1)),
       Case("empty", {zeros({0, 3})}, {zeros({0, 2}), zeros({0, 2}, DType::i64)}, k(2))},
      {Refused({scalar(1)}, "wants lines to choose from, [..., n], got a scalar", k(1)),
       Refused({zeros({4, 2})},
               "wants a k from 0 to the size of the last dimension, got 3 for [4, 2]", k(3)),
       Refused({zeros({2})}, "wants a k from 0 to the size of the last dimension, got -1", k(-1)),
       Refused({booleans(zeros({2}))},
               "has no kernel for bool; cast to one of f32, f64, i32, i64, u8", k(1))});
});

const Table take_along_table(
    "TakeAlong chooses along an axis, and its gradient adds what it chose", [] {
      const Tensor x = matrix({{1, 2, 3}, {4, 5, 6}});
      const Tensor i = i64(matrix({{2, 0}, {1, 1}}));
      return table_of(
          "TakeAlong",
          {Case("along the last axis", {x, i}, {matrix({{3, 1}, {5, 5}})}),
           Case("along the first axis", {x, i32(matrix({{1, 0, 1}}))}, {matrix({{4, 2, 6}})},
                along(0)),
           Case("in the middle", {iota({2, 3, 2}), i32(values({2, 1, 2}, {2, 0, 1, 1}))},
                {values({2, 1, 2}, {4, 1, 8, 9})}, along(1)),
           Case("of bool", {booleans(vector({1, 0})), i64(vector({1, 0, 1}))},
                {booleans(vector({0, 1, 0}))}),
           Case("size one", {vector({7}), i32(vector({0}))}, {vector({7})}),
           Case("no indices into nothing", {zeros({2, 0}), zeros({2, 0}, DType::i32)},
                {zeros({2, 0})}),
           Case("TakeAlongGradient", "sums", {matrix({{10, 20}, {30, 40}}), i, x},
                {matrix({{20, 0, 10}, {0, 70, 0}})}),
           Case("TakeAlongGradient", "sums along the first axis",
                {matrix({{1, 2}, {3, 4}, {5, 6}}), i32(matrix({{0, 1}, {0, 0}, {1, 1}})),
                 zeros({2, 2})},
                {matrix({{4, 4}, {5, 8}})}, along(0)),
           Case("TakeAlongGradient", "nothing is added",
                {zeros({0}), zeros({0}, DType::i64), zeros({2})}, {zeros({2})})},
          {Refused({x, i64(zeros({3, 1}))},
                   "wants indices with the sizes of [2, 3] but along axis 1, got [3, 1]"),
           Refused({x, i64(zeros({3}))}, "but along axis 1, got ["),
           Refused({x, i}, "axis 2 is not there", along(2)),
           Refused({x, matrix({{0}, {0}})}, "wants indices of i32 or i64, got f64; cast them"),
           Refused({x, i64(matrix({{0}, {3}}))}, "index 3 (number 1 of 2) is not in [0, 3)")
               .in_step(),
           Refused("TakeAlongGradient", {matrix({{0}, {0}}), i64(matrix({{0}, {-1}})), x},
                   "index -1 (number 1 of 2) is not in [0, 3)")
               .in_step(),
           Refused("TakeAlongGradient", {zeros({2, 3}), i, x},
                   "wants a dy for each index, got [2, 3] for [2, 2]"),
           Refused("TakeAlongGradient", {zeros({3, 2}), i64(zeros({3, 2})), x},
                   "wants indices with the sizes of [2, 3] but along axis 1, got [3, 2]"),
           Refused("TakeAlongGradient", {zeros({2, 2}), i, f32(x)},
                   "dy and x_like must have one dtype, got f64 and f32")});
    });

Attrs length(int64_t n) { return {{"length", n}}; }

const Table bincount_table("Bincount counts small numbers", [] {
  return table_of(
      "Bincount",
      {Case("a vector", {i32(vector({1, 3, 1, 0, 1}))}, {i64(vector({1, 3, 0, 1, 0}))}, length(5)),
       Case("a matrix", {i32(matrix({{0, 2}, {2, 2}}))}, {i64(vector({1, 0, 3}))}, length(3)),
       Case("a scalar", {i32(scalar(0))}, {i64(vector({1}))}, length(1)),
       Case("up to the greatest", {i32(vector({4, 0, 4}))}, {i64(vector({1, 0, 0, 0, 2}))}),
       Case("nothing, up to the greatest", {zeros({0}, DType::i32)}, {zeros({0}, DType::i64)}),
       Case("nothing to count", {zeros({0}, DType::i32)}, {i64(vector({0, 0}))}, length(2))},
      {Refused({i32(vector({1}))}, "wants a length of at least 0, or -1 for as many as there are",
               length(-2)),
       Refused({i32(vector({1, 2}))}, "index 2 (number 1 of 2) is not in [0, 2)", length(2))
           .in_step(),
       Refused({i32(vector({1, -3}))}, "index -3 (number 1 of 2) is not in [0, 2)").in_step(),
       Refused({vector({1})}, "has no kernel for f64; cast to one of i32, i64", length(2))});
});

OpCase different(std::string name, Tensor x, Tensor values, Tensor indices, Tensor counts) {
  return Case("Unique", std::move(name), {x}, {values, i64(indices), i64(counts)});
}

const Table unique_table(
    "Unique gives values in the order they appear, their places and their counts", [] {
      return table_of(
          "Unique",
          {different("a vector", vector({3, 1, 3, 7, 1, 3}), vector({3, 1, 7}),
                     vector({0, 1, 0, 2, 1, 0}), vector({3, 2, 1})),
           different("a matrix", matrix({{2, 2}, {1, 2}}), vector({2, 1}), matrix({{0, 0}, {1, 0}}),
                     vector({3, 1})),
           different("size one", vector({5}), vector({5}), vector({0}), vector({1})),
           different("a scalar", scalar(5), vector({5}), scalar(0), vector({1})),
           different("empty", zeros({0, 2}), zeros({0}), zeros({0, 2}), zeros({0})),
           different("NaN is one value", vector({NAN, 1, NAN, INFINITY}),
                     vector({NAN, 1, INFINITY}), vector({0, 1, 0, 2}), vector({2, 1, 1})),
           different("0 and -0 are one value", vector({0.0, -0.0, 1}), vector({0, 1}),
                     vector({0, 0, 1}), vector({2, 1})),
           different("bool", booleans(vector({0, 1, 0})), booleans(vector({0, 1})),
                     vector({0, 1, 0}), vector({2, 1})),
           different("negative i32", i32(vector({-1, 0, -1})), i32(vector({-1, 0})),
                     vector({0, 1, 0}), vector({2, 1})),
           different("u8", u8(vector({255, 0, 255})), u8(vector({255, 0})), vector({0, 1, 0}),
                     vector({2, 1})),
           different("f32", f32(vector({0.5, 0.25, 0.5})), f32(vector({0.5, 0.25})),
                     vector({0, 1, 0}), vector({2, 1}))},
          {Refused({vector({1}), vector({2})}, "wants 1 input (x), got 2")});
    });

Attrs right() { return {{"right", true}}; }

const Table search_table("SearchSorted finds where values belong", [] {
  const Tensor sorted = vector({1, 3, 3, 5});
  const Tensor values_ = vector({0, 1, 2, 3, 5, 6});
  return table_of(
      "SearchSorted",
      {Case("before equals", {sorted, values_}, {i64(vector({0, 0, 1, 1, 3, 4}))}),
       Case("after equals", {sorted, values_}, {i64(vector({0, 1, 1, 3, 4, 4}))}, right()),
       Case("a matrix in one line", {sorted, matrix({{4, 3}, {9, 1}})},
            {i64(matrix({{3, 1}, {4, 0}}))}),
       Case("a scalar", {sorted, scalar(4)}, {i64(scalar(3))}),
       Case("each in its own line", {matrix({{1, 2, 3}, {10, 20, 30}}), matrix({{2, 9}, {2, 20}})},
            {i64(matrix({{2, 3}, {0, 2}}))}, right()),
       Case("in an empty line", {zeros({0}), vector({1, 2})}, {i64(vector({0, 0}))}),
       Case("nothing", {matrix({{1}, {2}}), zeros({2, 0})}, {zeros({2, 0}, DType::i64)}),
       Case("NaN and infinities",
            {vector({-INFINITY, 0, INFINITY, NAN}), vector({NAN, INFINITY, -INFINITY, 1})},
            {i64(vector({3, 2, 0, 2}))}),
       Case("after NaN", {vector({0, NAN}), vector({NAN})}, {i64(vector({2}))}, right())},
      {Refused({zeros({2, 3}), zeros({3, 3})},
               "wants sorted [n], or sorted [..., n] and values [..., m], got "
               "[2, 3] and [3, 3]"),
       Refused({scalar(1), zeros({3})}, "wants sorted [n], or sorted [..., n] and values [..., m]"),
       Refused({zeros({2, 3}), zeros({3})},
               "wants sorted [n], or sorted [..., n] and values [..., m]"),
       Refused({zeros({2}), f32(zeros({2}))},
               "compares values of one dtype, got f64 and f32; cast one"),
       Refused({booleans(zeros({2})), booleans(zeros({2}))}, "has no kernel for bool")});
});

const Table in_top_k_table("InTopK says whether a label is among the best", [] {
  const Tensor logits = matrix({{0.1, 0.5, 0.2}, {3, 3, 1}, {-1, -2, -3}});
  const Tensor labels = i32(vector({2, 1, 2}));
  return table_of(
      "InTopK",
      {Case("the first one", {logits, labels}, {booleans(vector({0, 1, 0}))}, k(1)),
       Case("the first two", {logits, i64(labels)}, {booleans(vector({1, 1, 0}))}, k(2)),
       Case("more than there are classes", {logits, labels}, {booleans(vector({1, 1, 1}))}, k(9)),
       Case("NaN is greater; no label has it",
            {matrix({{NAN, 1, 2}, {NAN, 1, 2}, {INFINITY, 1, -INFINITY}}), i32(vector({2, 0, 2}))},
            {booleans(vector({1, 0, 0}))}, k(2)),
       Case("several leading dimensions",
            {values({2, 2, 2}, {1, 2, 4, 3, 5, 6, 8, 7}), i32(matrix({{1, 1}, {0, 0}}))},
            {booleans(matrix({{1, 0}, {0, 1}}))}, k(1)),
       Case("one class", {matrix({{5}}), i32(vector({0}))}, {booleans(vector({1}))}, k(1)),
       Case("empty", {zeros({0, 3}), zeros({0}, DType::i32)}, {zeros({0}, DType::boolean)}, k(1))},
      {Refused({zeros({3}), labels},
               "wants logits [..., classes] and a label for each row, [...], got [", k(1)),
       Refused({zeros({2, 3}), labels}, "a label for each row, [...], got [2, 3] and [3]", k(1)),
       Refused({logits, labels}, "wants a k of at least 1, got 0", k(0)),
       Refused({logits, logits}, "wants labels of i32 or i64, got f64", k(1)),
       Refused({logits, i32(vector({0, 3, 0}))}, "row 1 has the label 3, but there are 3 classes",
               k(1))
           .in_step()});
});

}  // namespace

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

TEST_CASE("the k greatest of many are the first k of a sort, for any k") {
  Graph graph;
  Tensor numbers = i32(zeros({3, 500}));
  int32_t state = 1;
  for (int64_t i = 0; i < numbers.size(); ++i)
    numbers.mutable_data<int32_t>()[i] = (state = state * 16807 % 2039) % 100;  // many are equal
  const Output x = constant(graph, numbers);
  const Output values = sort(x, {.descending = true}), at = argsort(x, {.descending = true});
  for (int64_t k : {1, 2, 17, 499, 500}) {
    const TopK best = top_k(x, k);
    CHECK(same_bits(evaluate(best.values), evaluate(slice(values, {0, 0}, {-1, k}))));
    CHECK(same_bits(evaluate(best.indices), evaluate(slice(at, {0, 0}, {-1, k}))));
  }
}

TEST_CASE("gather takes what Unique found apart together again") {
  Graph graph;
  Tensor numbers = i64(zeros({5000}));
  int64_t state = 1;
  for (int64_t i = 0; i < numbers.size(); ++i)
    numbers.mutable_data<int64_t>()[i] = (state = state * 16807 % 2147483647) % 1777 << 40;
  const Unique u = unique(constant(graph, numbers));
  const auto got = evaluate(graph, {gather(u.values, u.indices), u.values, u.counts});
  CHECK(same_bits(got[0], numbers));
  CHECK(got[1].dim(0) <= 1777);
  int64_t sum = 0;
  for (const int64_t count : got[2].values<int64_t>()) sum += count;
  CHECK(sum == numbers.size());
}

}  // namespace troupe
