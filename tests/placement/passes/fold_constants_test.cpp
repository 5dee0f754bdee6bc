// fold_constants: graphs before and after it, as text.
#include "tests/support/pass_text.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

const std::string kX = "x = Placeholder() dtype=f32 shape=[2]\n";
const std::string kTwo = "two = Constant() value=f32[] {2}\n";

}  // namespace

TEST_CASE("what constants alone make is a constant of the same name, device and origin") {
  CHECK(after(fold_here,
              kX + kTwo +
                  "one = Fill() dtype=f32 shape=[2] value=1\n"
                  "three = Add(two, one) on \"/device:cpu:1\" at \"train.cpp\":12\n"
                  "six = Multiply(three, two)\n"
                  "y = Multiply(x, six)\n",
              {"y", "three"}) ==
        kX + "three = Constant() value=f32[2] {3, 3} on \"/device:cpu:1\" at \"train.cpp\":12\n"
             "six = Constant() value=f32[2] {6, 6}\n"
             "y = Multiply(x, six)\n");
}

TEST_CASE("a kernel that throws leaves its node as it is, and what reads it") {
  check_left(fold_here,
             "one = Constant() value=i32[] {1}\n"
             "none = Constant() value=i32[] {0}\n"
             "bad = Divide(one, none)\n"
             "y = Negate(bad)\n",
             {"y"});
  check_left(fold_here,
             "nan = Constant() value=f32[] {nan}\n"
             "y = CheckFinite(nan) what=\"the start\"\n",
             {"y"});
}

TEST_CASE("random numbers, parameters and placeholders are not folded, nor what reads them") {
  check_left(fold_here,
             kTwo +
                 "r = RandomUniform() dtype=f32 high=1 key=\"\" low=0 replica=0 seed=3 shape=[2]\n"
                 "y = Multiply(r, two)\n",
             {"y"});
  check_left(fold_here, kX + kTwo + "y = Multiply(x, two)\n", {"y"}, {"x"});
}

TEST_CASE("a fed constant is no constant, nor is a fed node made one") {
  check_left(fold_here, kTwo + "y = Square(two)\nz = Negate(y)\n", {"z"}, {"two"});
  check_left(fold_here, kTwo + "y = Square(two)\nz = Negate(y)\n", {"z"}, {"y"});
}

TEST_CASE("a node that runs after others stays, and so does what reads a constant that does") {
  const std::string r =
      "r = RandomUniform() dtype=f32 high=1 key=\"\" low=0 replica=0 seed=3 shape=[2]\n";
  check_left(fold_here, r + kTwo + "y = Square(two) after r\n", {"y"});
  check_left(fold_here, r + "two = Constant() value=f32[] {2} after r\ny = Square(two)\n", {"y"});
  CHECK(after(fold_here, kX + kTwo + "four = Square(two)\ny = Negate(x) after four\n", {"y"}) ==
        kX + "four = Constant() value=f32[] {4}\ny = Negate(x) after four\n");
}

TEST_CASE("what another kind of device computes stays there: its bits may be others") {
  check_left(fold_here,
             "two = Constant() value=f32[] {2} on \"/device:cpu:0\"\n"
             "y = Square(two) on \"/job:worker/task:1/device:cuda:0\"\n",
             {"y"});
}

TEST_CASE("a constant does not grow by much beyond what it is made of") {
  check_left(fold_here, "y = Fill() dtype=f32 shape=[100, 100] value=1\n", {"y"});
  check_left(fold_here, kTwo + "y = BroadcastTo(two) shape=[100, 100]\n", {"y"});
  CHECK(after(fold_here, "y = Fill() dtype=f32 shape=[2] value=1\n", {"y"}) ==
        "y = Constant() value=f32[2] {1, 1}\n");
}

TEST_CASE("the bytes of a large constant are taken over by one reader; all growth is bounded") {
  Graph graph;
  const Output large = constant(graph, Tensor::zeros(DType::f32, {10'000}), "large");
  const Output a = negate(large), b = square(large), sum = reduce_sum(large);
  const auto folded = rewrite(fold_here, call_graph(graph, {a, b, sum}, {})).call;
  const auto op_of = [&](Output y) { return folded.graph->find(y.name())->op->name; };
  CHECK(op_of(a) == "Constant");
  CHECK(op_of(b) == "Square");
  CHECK(op_of(sum) == "Constant");

  Graph many;
  std::vector<Output> fills;
  for (int i = 0; i < 1000; ++i) fills.push_back(fill(many, {2500}, i));  // 10 kB each
  const auto bounded = rewrite(fold_here, call_graph(many, fills, {})).call;
  int64_t constants = 0;
  for (const auto& node : bounded.graph->nodes()) constants += node->op->name == "Constant";
  CHECK(constants == (1 << 20) / 10'000);
}

}  // namespace troupe
