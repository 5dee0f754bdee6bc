// merge_common: graphs before and after it, as text.
#include "tests/support/pass_text.hpp"

namespace troupe {
namespace {

const std::string kX = "x = Placeholder() dtype=f32 shape=[2, 2]\n";

}  // namespace

TEST_CASE("of nodes that compute the same the first one stays, and so on upwards") {
  CHECK(after(merge_common,
              kX + "a = Square(x)\n"
                   "b = Square(x)\n"
                   "c = Negate(a)\n"
                   "d = Negate(b)\n"
                   "y = Add(c, d)\n",
              {"y"}) == kX + "a = Square(x)\n"
                             "c = Negate(a)\n"
                             "y = Add(c, c)\n");
}

TEST_CASE("another attribute, device, partner, order or input is another node") {
  check_left(merge_common,
             kX + "a = MatMul(x, x) transpose_a=false transpose_b=true\n"
                  "b = MatMul(x, x) transpose_a=true transpose_b=false\n"
                  "y = Add(a, b)\n",
             {"y"});
  check_left(merge_common,
             kX + "a = Square(x) on \"/device:cpu:0\"\nb = Square(x)\ny = Add(a, b)\n", {"y"});
  check_left(merge_common, kX + "a = Square(x) with x\nb = Square(x)\ny = Add(a, b)\n", {"y"});
  check_left(merge_common, kX + "a = Square(x) after x\nb = Square(x)\ny = Add(a, b)\n", {"y"});
  check_left(merge_common,
             kX + "z = Negate(x)\na = Subtract(x, z)\nb = Subtract(z, x)\ny = Add(a, b)\n", {"y"});
}

TEST_CASE("constants are merged by their bits: 0 and -0 differ, a NaN equals itself") {
  CHECK(after(merge_common,
              "a = Constant() value=f32[2] {0, nan}\n"
              "b = Constant() value=f32[2] {-0, nan}\n"
              "c = Constant() value=f32[2] {0, nan}\n"
              "d = Constant() value=f64[2] {0, nan}\n"
              "e = Constant() value=f32[2, 1] {0, nan}\n"
              "y = Group() after a, b, c, d, e\n",
              {"y"}) ==
        "a = Constant() value=f32[2] {0, nan}\n"
        "b = Constant() value=f32[2] {-0, nan}\n"
        "d = Constant() value=f64[2] {0, nan}\n"
        "e = Constant() value=f32[2, 1] {0, nan}\n"
        "y = Group() after a, b, d, e\n");
  CHECK(after(merge_common,
              "a = Fill() dtype=f32 shape=[2] value=0\n"
              "b = Fill() dtype=f32 shape=[2] value=-0\n"
              "y = Add(a, b)\n",
              {"y"}) ==
        "a = Fill() dtype=f32 shape=[2] value=0\n"
        "b = Fill() dtype=f32 shape=[2] value=-0\n"
        "y = Add(a, b)\n");
}

TEST_CASE("random numbers, parameters and pushes are never merged") {
  const std::string draw =
      "RandomUniform() dtype=f32 high=1 key=\"\" low=0 replica=0 seed=3 shape=[2]\n";
  check_left(merge_common, "a = " + draw + "b = " + draw + "y = Add(a, b)\n", {"y"});
  for (const Op* op : builtin_ops()->all())
    for (const AttrSpec& attr : op->attrs)
      if (attr.name == "seed") CHECK_MESSAGE(op->stateful, op->name);
}

TEST_CASE("what is fetched keeps its name, whichever node it is computed by") {
  const std::string two = "a = Square(x)\nb = Square(x) at \"train.cpp\":7\n";
  CHECK(after(merge_common, kX + two + "y = Add(a, b)\n", {"y", "a"}) ==
        kX + "a = Square(x)\ny = Add(a, a)\n");
  CHECK(after(merge_common, kX + two + "y = Add(a, b)\n", {"y", "b"}) ==
        kX + "b = Square(x) at \"train.cpp\":7\ny = Add(b, b)\n");
  check_left(merge_common, kX + two, {"a", "b"});
  // A third one is merged with one of them.
  CHECK(after(merge_common, kX + two + "c = Square(x)\ny = Negate(c)\n", {"a", "b", "y"}) ==
        kX + two + "y = Negate(a)\n");
}

TEST_CASE("what is fed has the client's value, and is neither merged nor taken for another") {
  check_left(merge_common, kX + "a = Square(x)\nb = Square(x)\ny = Add(a, b)\n", {"y"}, {"b"});
  check_left(merge_common, kX + "a = Square(x)\nb = Square(x)\ny = Add(a, b)\n", {"y"}, {"a"});
  // a does not run in this call.
  check_left(merge_common, kX + "a = Square(x)\nh = Negate(a)\nb = Square(x)\ny = Add(h, b)\n",
             {"y"}, {"h"});
}

TEST_CASE("nodes of several outputs are merged output by output, and orders follow") {
  CHECK(after(merge_common,
              kX + "a = Split(x) axis=0 parts=2\n"
                   "b = Split(x) axis=0 parts=2\n"
                   "y = Subtract(a:1, b) after b\n",
              {"y"}) == kX + "a = Split(x) axis=0 parts=2\n"
                             "y = Subtract(a:1, a) after a\n");
}

TEST_CASE("a partner stays, and nodes without outputs are not merged") {
  check_left(merge_common,
             kX + "a = Square(x)\nb = Square(x)\nc = Negate(a) with b\ny = Add(b, c)\n", {"y"});
  check_left(merge_common,
             kX + "a = Group() after x\nb = Group() after x\ny = Group() after a, b\n", {"y"});
}

}  // namespace troupe
