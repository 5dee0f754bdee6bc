// TensorScatterAdd, Sub, Max, Min and Update, and the gradient of the last one.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCase of(std::string name, std::string op, Tensor x, Tensor indices, Tensor updates,
          Tensor expected) {
  return Case(std::move(op), std::move(name), {x, indices, updates}, {expected});
}

OpCase exact(OpCase c) {
  c.as_written = true;
  c.smooth = false;
  return c;
}

const char* const kOps[] = {"TensorScatterAdd", "TensorScatterSub", "TensorScatterMax",
                            "TensorScatterMin", "TensorScatterUpdate"};

// For each op: rows, one of them named twice; single elements; one long row.
std::vector<OpCase> ordinary() {
  const Tensor x = matrix({{1, 2}, {3, 4}, {5, 6}}), rows = i32(matrix({{2}, {0}, {2}}));
  const Tensor updates = matrix({{4, 7}, {0, 9}, {3, 1}});
  const Tensor square = matrix({{0, 1}, {2, 3}}), elements = i64(matrix({{1, 0}, {0, 1}}));
  const Tensor line = full({1, 40}, 20), first = i32(matrix({{0}})), numbers = iota({1, 40});
  const Tensor below = matrix({{9, 5}});
  return {
      of("rows", "TensorScatterAdd", x, rows, updates, matrix({{1, 11}, {3, 4}, {12, 14}})),
      of("rows", "TensorScatterSub", x, rows, updates, matrix({{1, -7}, {3, 4}, {-2, -2}})),
      of("rows", "TensorScatterMax", x, rows, updates, matrix({{1, 9}, {3, 4}, {5, 7}})),
      of("rows", "TensorScatterMin", x, rows, updates, matrix({{0, 2}, {3, 4}, {3, 1}})),
      of("rows", "TensorScatterUpdate", x, rows, updates, matrix({{0, 9}, {3, 4}, {3, 1}})),
      of("elements", "TensorScatterAdd", square, elements, vector({10, 20}),
         matrix({{0, 21}, {12, 3}})),
      of("elements", "TensorScatterSub", square, elements, vector({10, 20}),
         matrix({{0, -19}, {-8, 3}})),
      of("elements", "TensorScatterMax", square, elements, vector({10, -20}),
         matrix({{0, 1}, {10, 3}})),
      of("elements", "TensorScatterMin", square, elements, vector({10, -20}),
         matrix({{0, -20}, {2, 3}})),
      of("elements", "TensorScatterUpdate", square, elements, vector({0, 1}),
         matrix({{0, 1}, {0, 3}})),
      of("a long row", "TensorScatterAdd", line, first, numbers, iota({1, 40}, 20)),
      of("a long row", "TensorScatterSub", line, first, numbers, iota({1, 40}, 20, -1)),
      of("a long row", "TensorScatterMax", line, first, iota({1, 40}, 21), iota({1, 40}, 21)),
      of("a long row", "TensorScatterMin", line, first, iota({1, 40}, 21), line),
      of("a long row", "TensorScatterUpdate", line, first, numbers, numbers),
      of("bits", "TensorScatterUpdate", vector({1, 0}), i32(matrix({{1}})), vector({1}),
         vector({1, 1})),
      of("only the last of equal indices counts", "TensorScatterUpdateGradient", x, rows,
         zeros({3, 2}), matrix({{0, 0}, {1, 2}, {5, 6}})),
      of("elements", "TensorScatterUpdateGradient", square, elements, zeros({2}), vector({2, 1})),
      of("all of x, twice", "TensorScatterUpdateGradient", below, zeros({2, 0}, DType::i32),
         zeros({2, 1, 2}), values({2, 1, 2}, {0, 0, 9, 5}))};
}

std::vector<OpCase> extremes() {
  const Tensor x = vector({NAN, 1, 2}), at = i32(matrix({{0}, {1}, {2}})),
               updates = vector({5, NAN, INFINITY}), twice = i32(matrix({{0}, {0}}));
  return {exact(of("NaN and infinity", "TensorScatterAdd", x, at, updates,
                   vector({NAN, NAN, INFINITY}))),
          exact(of("NaN and infinity", "TensorScatterSub", x, at, updates,
                   vector({NAN, NAN, -INFINITY}))),
          exact(of("NaN and infinity", "TensorScatterMax", x, at, updates,
                   vector({NAN, NAN, INFINITY}))),
          exact(of("NaN and infinity", "TensorScatterMin", x, at, updates, vector({NAN, NAN, 2}))),
          exact(of("NaN and infinity", "TensorScatterUpdate", x, at, updates, updates)),
          exact(of("u8 wraps around", "TensorScatterAdd", u8(vector({250})), twice,
                   u8(vector({4, 3})), u8(vector({1})))),
          exact(of("u8 wraps around", "TensorScatterSub", u8(vector({5})), twice,
                   u8(vector({4, 3})), u8(vector({254})))),
          exact(of("i32 wraps around", "TensorScatterSub", i32(vector({-2147483648.0})), twice,
                   i32(vector({1, 1})), i32(vector({2147483646})))),
          exact(of("the order of the indices", "TensorScatterAdd", f32(vector({1e8})), twice,
                   f32(vector({1, -1e8})), f32(vector({0}))))};
}

const Table table("tensor_scatter functions change slices of x", [] {
  OpCases all = {.values = ordinary()};
  for (OpCase& c : extremes()) all.values.push_back(std::move(c));
  const Tensor x = zeros({3, 2}), two = zeros({2, 1}, DType::i32);
  for (const char* op : kOps) {
    all.values.push_back(of("no indices", op, matrix({{1, 0}}), zeros({0, 1}, DType::i32),
                            zeros({0, 2}), matrix({{1, 0}})));
    all.values.push_back(of("nothing to change", op, zeros({0, 2}), zeros({0, 1}, DType::i64),
                            zeros({0, 2}), zeros({0, 2})));
    all.values.push_back(
        of("empty rows", op, zeros({2, 0}), i32(matrix({{1}})), zeros({1, 0}), zeros({2, 0})));
    all.values.push_back(of("size one", op, vector({2}), i32(vector({0})), scalar(2),
                            vector({op == kOps[0]   ? 4.0
                                    : op == kOps[1] ? 0.0
                                                    : 2.0})));
    all.values.back().smooth = false;  // the two values tie
    all.errors.push_back(
        Refused(op, {x, two, zeros({2, 3})},
                "updates [2, 3] are not the slices of [3, 2] that indices [2, 1] name"));
    all.errors.push_back(Refused(op, {x, two, f32(zeros({2, 2}))},
                                 "x and updates must have one dtype, got f64 and f32"));
    all.errors.push_back(Refused(op, {x, zeros({2, 1}), zeros({2, 2})},
                                 "wants indices of i32 or i64, got f64; cast them"));
    all.errors.push_back(Refused(op, {x, i32(matrix({{0}, {3}})), zeros({2, 2})},
                                 "coordinate 0 of index number 1 of 2 is 3, which is not in [0, 3)")
                             .in_step());
  }
  all.errors.push_back(Refused("TensorScatterAdd", {booleans(x), two, booleans(zeros({2, 2}))},
                               "has no kernel for bool"));
  all.errors.push_back(
      Refused("TensorScatterUpdateGradient", {x, two, zeros({3, 2})},
              "updates [3, 2] are not the slices of [3, 2] that indices [2, 1] name"));
  all.errors.push_back(Refused("TensorScatterUpdateGradient", {x, two, f32(zeros({2, 2}))},
                               "dy and updates_like must have one dtype, got f64 and f32"));
  all.values.push_back(of("no indices", "TensorScatterUpdateGradient", vector({1}),
                          zeros({0, 1}, DType::i32), zeros({0}), zeros({0})));
  return all;
});

}  // namespace

TEST_CASE("all that are greatest share the gradient of tensor_scatter_max") {
  Graph graph;
  const Output x = constant(graph, vector({1, 5}));
  const Output updates = constant(graph, vector({1, 1, 0}));
  const Output y = tensor_scatter_max(x, constant(graph, i32(matrix({{0}, {0}, {1}}))), updates);
  const auto slopes = gradients({y}, {x, updates}, {constant(graph, vector({6, 4}))});
  CHECK(same_bits(evaluate(slopes[0]), vector({2, 4})));
  CHECK(same_bits(evaluate(slopes[1]), vector({2, 2, 0})));
}

}  // namespace troupe
