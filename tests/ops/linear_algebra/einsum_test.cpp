// einsum and tensordot.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

BuildCase sums(const std::string& equation) {
  return [=](Graph&, const std::vector<Output>& in) { return std::vector{einsum(equation, in)}; };
}

BuildCase contracted_over(Ints axes_a, Ints axes_b) {
  return [=](Graph&, const std::vector<Output>& in) {
    return std::vector{tensordot(in[0], in[1], axes_a, axes_b)};
  };
}

BuildCase contracted_over(int64_t axes) {
  return [=](Graph&, const std::vector<Output>& in) {
    return std::vector{tensordot(in[0], in[1], axes)};
  };
}

OpCase one(const std::string& equation, const std::vector<Tensor>& inputs, const Tensor& expected) {
  return Case("MatMul", equation, inputs, {expected}).made_by(sums(equation));
}

const Table table("einsum sums products as its equation says", [] {
  OpCases table = table_of(
      "MatMul",
      {
          one("ij,jk->ik", {iota({2, 3}, 1), iota({3, 4}, -5)},
              matrix({{2, 8, 14, 20}, {-7, 8, 23, 38}})),
          one("ij,jk", {iota({2, 3}, 1), iota({3, 4}, -5)},
              matrix({{2, 8, 14, 20}, {-7, 8, 23, 38}})),
          one("ij, kj -> ik", {iota({2, 3}, 1), iota({4, 3}, -3)},
              matrix({{-10, 8, 26, 44}, {-28, 17, 62, 107}})),
          one("ji,jk->ki", {iota({3, 2}, 1), iota({3, 4}, -5)},
              matrix({{7, 4}, {16, 16}, {25, 28}, {34, 40}})),
          one("i,i->", {iota({3}, 1), iota({3}, -1)}, scalar(2)),
          one("ij->ji", {iota({2, 3}, 1)}, matrix({{1, 4}, {2, 5}, {3, 6}})),
          one("ba", {iota({2, 3}, 1)}, matrix({{1, 4}, {2, 5}, {3, 6}})),
          one("bA", {iota({2, 3}, 1)}, matrix({{1, 4}, {2, 5}, {3, 6}})),
          one("ij->", {iota({2, 3}, 1)}, scalar(21)),
          one("ij->j", {iota({2, 3}, 1)}, vector({5, 7, 9})),
          one("ii->i", {iota({3, 3}, 2)}, vector({2, 6, 10})),
          one("ii", {iota({3, 3}, 2)}, scalar(18)),
          one("iii->i", {iota({2, 2, 2}, 1)}, vector({1, 8})),
          one("bii->b", {iota({2, 3, 3}, 1)}, vector({15, 42})),
          one("iij,jk->ik", {iota({2, 2, 3}, 1), iota({3, 4}, -5)},
              matrix({{2, 8, 14, 20}, {-25, 8, 41, 74}})),
          one("i,j->ij", {iota({2}, 1), iota({3}, -1)}, matrix({{-1, 0, 1}, {-2, 0, 2}})),
          one("i,j->ji", {iota({2}, 1), iota({3}, -1)}, matrix({{-1, -2}, {0, 0}, {1, 2}})),
          one("ij,ij->ij", {iota({2, 3}, 1), iota({2, 3}, -2)}, matrix({{-2, -2, 0}, {4, 10, 18}})),
          one("ij,ij->i", {iota({2, 3}, 1), iota({2, 3}, -2)}, vector({-4, 32})),
          one("ij,j->ij", {iota({2, 3}, 1), iota({3}, -2)}, matrix({{-2, -2, 0}, {-8, -5, 0}})),
          one("ij,k->k", {iota({2, 3}, 1), iota({2}, 3)}, vector({63, 84})),
          one(",i->i", {scalar(3), iota({3}, -2)}, vector({-6, -3, 0})),
          one("bij,bjk->bik", {iota({2, 2, 3}, 1), iota({2, 3, 2}, -4)},
              values({2, 2, 2}, {-8, -2, -26, -11, 100, 124, 136, 169})),
          one("bqhd,bkhd->bhqk", {iota({2, 1, 2, 2}, 1), iota({2, 3, 2, 2}, -4)},
              values({2, 2, 1, 3}, {-10, 2, 14, -10, 18, 46, 94, 138, 182, 158, 218, 278})),
          one("abc,cd,de->abe", {iota({1, 2, 2}, 1), iota({2, 2}, -1), iota({2, 3}, -2)},
              values({1, 2, 3}, {2, 7, 12, 6, 15, 24})),
          one("bi,ijk,bk->bj", {iota({2, 2}, 1), iota({2, 2, 3}, -3), iota({2, 3}, -1)},
              matrix({{6, 6}, {104, 293}})),
          one("ijkl,lkjm->im", {iota({2, 1, 3, 2}, 1), iota({2, 3, 1, 2}, -5)},
              matrix({{25, 46}, {25, 82}})),
          one("ijk,lkm->jmil", {iota({2, 2, 2}, 1), iota({2, 2, 2}, -4)},
              values({2, 2, 2, 2},
                     {-8, 4, -32, 12, -5, 7, -21, 23, -20, 8, -44, 16, -13, 15, -29, 31})),
          one("a,b,c->cab", {iota({2}, 1), vector({3}), iota({2}, -3)},
              values({2, 2, 1}, {-9, -18, -6, -12})),
          one("...i->...", {iota({2, 2, 2}, 1)}, matrix({{3, 7}, {11, 15}})),
          one("i...->...i", {iota({2, 1, 3}, 1)}, values({1, 3, 2}, {1, 4, 2, 5, 3, 6})),
          one("...ij,...jk->...ik", {iota({2, 1, 2, 2}, 1), iota({3, 2, 1}, -4)},
              values({2, 3, 2, 1}, {-10, -24, -4, -10, 2, 4, -38, -52, -16, -22, 6, 8})),
          one("...i,...i", {iota({2, 3}, 1), iota({2, 3}, -4)}, vector({-16, 2})),
          one("i...,...j->ij...", {iota({2, 2, 1}, 1), iota({3, 2}, -3)},
              values({2, 2, 2, 3}, {-3, -1, 1, -6,  -2, 2, -2, 0, 2, -4, 0, 4,
                                    -9, -3, 3, -12, -4, 4, -6, 0, 6, -8, 0, 8})),
          one("abcdefgh,abcdefgh->abcdefg",
              {iota({1, 2, 1, 1, 2, 1, 1, 2}, 1), iota({1, 2, 1, 1, 2, 1, 1, 2}, -3)},
              values({1, 2, 1, 1, 2, 1, 1}, {-7, -3, 17, 53})),
          one("ij,jk->ik", {zeros({2, 0}), zeros({0, 3})}, zeros({2, 3})),
          one("ij,jk->ik", {zeros({0, 2}), zeros({2, 3})}, zeros({0, 3})),
          one("ijk,jkl->il", {zeros({2, 0, 3}), zeros({0, 3, 2})}, zeros({2, 2})),
          Case("NaN beside the diagonal is not looked at", {matrix({{1, NAN}, {NAN, 2}})},
               {scalar(3)})
              .rough()
              .made_by(sums("ii")),
          Case("integers wrap around", {i32(vector({65536, 1})), i32(vector({65536, 5}))},
               {i32(scalar(5))})
              .as_typed()
              .made_by(sums("i,i")),
          Case("tensordot over pairs of axes", {iota({2, 3, 2}, 1), iota({2, 4, 3}, -7)},
               {matrix({{116, 224, 332, 440}, {116, 242, 368, 494}})})
              .made_by(contracted_over({1, -3}, {2, 0})),
          Case("tensordot over the last and the first axes",
               {iota({2, 2, 3}, 1), iota({2, 3, 2}, -7)}, {matrix({{-7, 14}, {-79, -22}})})
              .made_by(contracted_over(2)),
          Case("tensordot over no axes", {vector({1, 2}), matrix({{3, 4}})},
               {values({2, 1, 2}, {3, 4, 6, 8})})
              .made_by(contracted_over(0)),
          Case("tensordot of nothing", {zeros({2, 0}), zeros({0, 3, 1})}, {zeros({2, 3, 1})})
              .made_by(contracted_over(1)),
          Case("Multiply", "outer", {vector({1, 2, 3}), vector({4, 5})},
               {matrix({{4, 5}, {8, 10}, {12, 15}})})
              .made_by([](Graph&, const std::vector<Output>& in) {
                return std::vector{outer(in[0], in[1])};
              }),
          Case("Multiply", "outer of nothing", {zeros({0}), vector({4, 5})}, {zeros({0, 2})})
              .made_by([](Graph&, const std::vector<Output>& in) {
                return std::vector{outer(in[0], in[1])};
              }),
      });
  const auto refuse = [&](const std::string& equation, const std::vector<Tensor>& inputs,
                          const std::string& message) {
    table.errors.push_back(Refused("MatMul", inputs, message).made_by(sums(equation)));
  };
  const Tensor x = zeros({2, 3});
  refuse("ij,jk", {x}, "names 2 operands, got 1");
  refuse("i?", {x}, "cannot read \"i?\"");
  refuse("i..j", {x}, "cannot read \"i..j\"");
  refuse("......", {x}, "cannot read \"......\"");
  refuse("ij->i->j", {x}, "cannot read \"i->j\"");
  refuse("ijk", {x}, "which are not the 3 dimensions of \"ijk\"");
  refuse("...ijk", {x}, "which are not the 3 dimensions of");
  refuse("ij->ik", {x}, "the result names \"k\", which no operand has");
  refuse("ij->ii", {x}, "the result names \"i\" twice");
  refuse("...j->j", {x}, "the result has no \"...\", but an operand has");
  refuse("ij,jk", {x, zeros({2, 3})}, " differ");
  refuse("ij,ij->ij", {x, zeros({2, 1})}, " differ");
  refuse("ijk,kjl->il", {zeros({2, 2, 3}), zeros({2, 3, 1})}, " differ");
  refuse("ii", {x}, " differ");
  refuse("...i,...i", {x, zeros({3, 3})}, "do not broadcast");
  for (const auto& [build, message] : std::vector<std::pair<BuildCase, std::string>>{
           {contracted_over({0}, {0, 1}), "sums over axes in pairs, got 1 of a and 2 of b"},
           {contracted_over({2}, {0}), "axis 2 of a is not there"},
           {contracted_over({0, 0}, {0, 1}), "names axis 0 of a twice"},
           {contracted_over({1, 0}, {1, -1}), "names axis 1 of b twice"},
           {contracted_over({1}, {0}), " differ"},
           {contracted_over(3), "cannot sum over 3 axes"}})
    table.errors.push_back(Refused("MatMul", {x, zeros({2, 3})}, message).made_by(build));
  table.errors.push_back(Refused("Multiply", {x, x}, "outer made at ")
                             .made_by([](Graph&, const std::vector<Output>& in) {
                               return std::vector{outer(in[0], in[1])};
                             }));
  return table;
});

}  // namespace

TEST_CASE("einsum adds no node that is not needed") {
  Graph graph;
  const auto matrices = [&](const std::string& equation, const Shape& a, const Shape& b) {
    const size_t before = graph.nodes().size();
    const Output result =
        einsum(equation, {placeholder(graph, DType::f32, a), placeholder(graph, DType::f32, b)});
    CHECK(graph.node(result.node).op->name == "MatMul");
    return graph.nodes().size() - before - 2;
  };
  CHECK(matrices("ij,jk->ik", {-1, -1}, {-1, -1}) == 1);
  CHECK(matrices("ij,kj->ik", {2, 3}, {4, 3}) == 1);
  CHECK(matrices("ji,jk->ik", {3, 2}, {3, 4}) == 1);
  CHECK(matrices("bhqd,bhkd->bhqk", {-1, 2, -1, 4}, {-1, 2, -1, 4}) == 1);
  const Output x = placeholder(graph, DType::f32, {2, 3});
  CHECK(einsum("ij->ij", {x}).is(x));
}

TEST_CASE("einsum refuses an undefined operand") {
  CHECK_THROWS_WITH_AS(einsum("i", {Output{}}), doctest::Contains("pass the results of ops"),
                       Error);
  CHECK_THROWS_WITH_AS(einsum("", {}), doctest::Contains("names 1 operands, got 0"), Error);
}

}  // namespace troupe
