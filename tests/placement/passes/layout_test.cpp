// layout: graphs before and after it, as text, and the bits of both.
#include "placement/passes/layout.hpp"

#include <algorithm>

#include "tests/support/pass_text.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// Images, and programs written for an order of dimensions that convolutions do not have.
const std::string kX = "x = Placeholder() dtype=f32 shape=[2, 4, 5, 3]\n";
const std::string kBlock =
    "x = Placeholder() dtype=f32 shape=[2, 3, 4, 5]\nf = Placeholder() dtype=f32 shape=[3]\n";
const std::string kIn = " permutation={0, 3, 1, 2}\n", kOut = " permutation={0, 2, 3, 1}\n";

std::string moved(const std::string& lines, const std::vector<std::string>& fetches = {"z"},
                  const std::vector<std::string>& feeds = {"x"}) {
  const auto graph = graph_of(lines);
  return text_of(layout(call_of(*graph, fetches, feeds)).call);
}

void check_left(const std::string& lines, const std::vector<std::string>& fetches = {"z"},
                const std::vector<std::string>& feeds = {"x"}) {
  CHECK(moved(lines, fetches, feeds) == lines);
}

Tensor numbers(DType dtype, const Shape& shape) {
  const Tensor all = Tensor::zeros(DType::f32, shape);
  Tensor floats = all;
  for (int64_t i = 0; i < all.size(); ++i)
    floats.mutable_data<float>()[i] = static_cast<float>((i * 7919) % 101) / 16 - 3;
  Graph graph;
  return evaluate(cast(constant(graph, floats), dtype));
}

// Checks that `lines` become `wanted` and that the fetches keep their bits.
void check_moved(const std::string& lines, const std::string& wanted,
                 const std::vector<std::string>& fetches = {"z"},
                 const std::vector<std::string>& feeds = {"x"}) {
  CHECK(moved(lines, fetches, feeds) == wanted);
  const auto graph = graph_of(lines);
  const CallGraph before = call_of(*graph, fetches, feeds);
  const CallGraph after = layout(call_of(*graph, fetches, feeds)).call;
  check_same_fetches(before, after, [](const Shape& shape, DType dtype) {
    std::vector<int64_t> dims(shape.begin(), shape.end());
    for (int64_t& size : dims) size = size < 0 ? 2 : size;
    return numbers(dtype, Shape(dims));
  });
}

}  // namespace

TEST_CASE("what is computed between a transpose and its opposite is computed without them") {
  for (const std::string batch : {"2", "-1"}) {
    const std::string x = "x = Placeholder() dtype=f32 shape=[" + batch + ", 4, 5, 3]\n";
    check_moved(x + "a = Transpose(x)" + kIn + "b = Relu(a)\nc = Exp(b)\nd = Transpose(c)" + kOut +
                    "z = Square(d)\n",
                x + "b = Relu(x)\nc = Exp(b)\nz = Square(c)\n");
  }
}

TEST_CASE("a block with a shortcut, written for NCHW, keeps the transposes at its borders") {
  // BiasAdd stands for an op that wants the channels last.
  check_moved(kBlock + "in0 = Transpose(x)" + kOut + "c0 = BiasAdd(in0, f)\nn0 = Transpose(c0)" +
                  kIn + "r0 = Relu(n0)\nin1 = Transpose(r0)" + kOut +
                  "c1 = BiasAdd(in1, f)\nn1 = Transpose(c1)" + kIn +
                  "s = Add(n1, r0)\nr1 = Relu(s)\nz = Exp(r1)\n",
              kBlock + "in0 = Transpose(x)" + kOut +
                  "c0 = BiasAdd(in0, f)\nr0 = Relu(c0)\nc1 = BiasAdd(r0, f)\ns = Add(c1, r0)\n"
                  "r1 = Relu(s)\nr1/transposed = Transpose(r1)" +
                  kIn + "z = Exp(r1/transposed)\n",
              {"z"}, {"x", "f"});
}

TEST_CASE("blocks that follow each other move together") {
  std::string lines = kBlock + "a = Transpose(x)" + kOut, wanted = lines;
  std::string last = "a", plain = "a";
  for (const std::string i : {"0", "1", "2", "3"}) {
    lines += "c" + i + " = BiasAdd(" + last + ", f)\nn" + i + " = Transpose(c" + i + ")" + kIn +
             "r" + i + " = Relu(n" + i + ")\nt" + i + " = Transpose(r" + i + ")" + kOut;
    wanted += "c" + i + " = BiasAdd(" + plain + ", f)\nr" + i + " = Relu(c" + i + ")\n";
    last = "t" + i;
    plain = "r" + i;
  }
  check_moved(lines + "z = Negate(t3)\n", wanted + "z = Negate(r3)\n", {"z"}, {"x", "f"});
}

TEST_CASE("a chain of 300 shortcuts keeps two transposes") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {2, 3, 4, 4}, "x");
  const Output f = placeholder(graph, DType::f32, {3}, "f");
  const auto last = [](Output y) { return transpose(y, {0, 2, 3, 1}); };
  const auto first = [](Output y) { return transpose(y, {0, 3, 1, 2}); };
  Output y = x;
  for (int i = 0; i < 300; ++i) y = relu(first(bias_add(last(y), f)) + y);
  const CallGraph call = layout(call_graph(graph, {reduce_max(y, {.axes = {1}})}, {x, f})).call;
  const auto& nodes = call.graph->nodes();
  CHECK(std::count_if(nodes.begin(), nodes.end(),
                      [](const auto& node) { return node->op->name == "Transpose"; }) == 2);
  CHECK(nodes.size() == 2 + 3 * 300 + 2 + 1);
}

TEST_CASE("transposes of all that is added, where another one reads it, become one") {
  check_moved(kX + "w = Exp(x)\na = Transpose(x)" + kIn + "b = Transpose(w)" + kIn +
                  "s = Add(a, b)\nz = ReduceMax(s) axes={1} keep_dims=false\n",
              kX + "w = Exp(x)\ns = Add(x, w)\ns/transposed = Transpose(s)" + kIn +
                  "z = ReduceMax(s/transposed) axes={1} keep_dims=false\n");
}

TEST_CASE("a number and one for each channel are read as they are, or under another shape") {
  const std::string one = "o = Placeholder() dtype=f32 shape=[]\n";
  check_moved(kX + one + "a = Transpose(x)" + kIn + "b = Multiply(a, o)\nc = Transpose(b)" + kOut +
                  "z = Square(c)\n",
              kX + one + "b = Multiply(x, o)\nz = Square(b)\n", {"z"}, {"x", "o"});
  const std::string channels = "o = Placeholder() dtype=f32 shape=[3, 1, 1]\n";
  check_moved(kX + channels + "a = Transpose(x)" + kIn + "b = Multiply(a, o)\nc = Transpose(b)" +
                  kOut + "z = Square(c)\n",
              kX + channels + "b/beside = Reshape(o) shape=[1, 1, 1, 3]\n" +
                  "b = Multiply(x, b/beside)\nz = Square(b)\n",
              {"z"}, {"x", "o"});
}

TEST_CASE("concatenations, borders and slices move with their axes") {
  check_moved(kX + "w = Exp(x)\na = Transpose(x)" + kIn + "b = Transpose(w)" + kIn +
                  "s = Concat(a, b) axis=1\nt = Transpose(s)" + kOut + "z = Square(t)\n",
              kX + "w = Exp(x)\ns = Concat(x, w) axis=3\nz = Square(s)\n");
  check_moved(kX + "a = Transpose(x)" + kIn +
                  "s = Slice(a) begin={0, 1, 2, 3} size={1, 2, -1, 1}\nt = Transpose(s)" + kOut +
                  "z = Square(t)\n",
              kX + "s = Slice(x) begin={0, 2, 3, 1} size={1, -1, 1, 2}\nz = Square(s)\n");
  check_moved(kX + "a = Transpose(x)" + kIn +
                  "s = Pad(a) back={0, 1, 2, 3} front={0, 1, 0, 2} mode=\"reflect\" value=0\n"
                  "t = Transpose(s)" +
                  kOut + "z = Square(t)\n",
              kX + "s = Pad(x) back={0, 2, 3, 1} front={0, 0, 2, 1} mode=\"reflect\" value=0\n"
                   "z = Square(s)\n");
}

TEST_CASE("nothing moves where that would leave as much to transpose") {
  check_left(kX + "a = Transpose(x)" + kIn +
             "b = Relu(a)\nz = ReduceMax(b) axes={1} "
             "keep_dims=false\n");
  check_left(kX + "a = Transpose(x)" + kIn +
                 "b = Relu(a)\nc = Exp(a)\n"
                 "y = ReduceMax(b) axes={1} keep_dims=false\n"
                 "z = ReduceMax(c) axes={2} keep_dims=false\n",
             {"y", "z"});
}

TEST_CASE("a sum stays where it is, as it would add in another order") {
  check_left(kX + "a = Transpose(x)" + kIn +
             "b = ReduceSum(a) axes={1} keep_dims=true\nc = Transpose(b)" + kOut +
             "z = Square(c)\n");
}

TEST_CASE("what is read beside a transposed value is transposed for it where that is less") {
  const std::string x = kX + "o = Placeholder() dtype=f32 shape=[2, 3, 4, 5]\n";
  const std::string sum = x + "a = Transpose(x)" + kIn + "b = Add(a, o)\n";
  check_moved(sum + "c = Multiply(o, b)\nd = Transpose(c)" + kOut + "z = Square(d)\n",
              x + "b/beside = Transpose(o)" + kOut +
                  "b = Add(x, b/beside)\nc = Multiply(b/beside, b)\nz = Square(c)\n",
              {"z"}, {"x", "o"});
  check_left(sum + "z = ReduceMax(b) axes={1} keep_dims=false\n", {"z"}, {"x", "o"});
  // The group moves without the sums, since these would need transposes of o and p.
  const std::string y = x + "p = Placeholder() dtype=f32 shape=[2, 3, 4, 5]\n";
  const std::string sums =
      "s = Add(r, o)\nt = Add(s, p)\nz = ReduceMax(t) axes={1} keep_dims=false\n";
  check_moved(y + "a = Transpose(x)" + kIn + "r = Relu(a)\nd = Transpose(r)" + kOut +
                  "u = Square(d)\n" + sums,
              y + "r = Relu(x)\nr/transposed = Transpose(r)" + kIn + "u = Square(r)\n" +
                  "s = Add(r/transposed, o)\nt = Add(s, p)\n"
                  "z = ReduceMax(t) axes={1} keep_dims=false\n",
              {"u", "z"}, {"x", "o", "p"});
}

TEST_CASE("what is fetched, fed, awaited, a partner, or elsewhere, stays") {
  const std::string lines = kX + "a = Transpose(x)" + kIn + "b = Relu(a)\nc = Transpose(b)" + kOut;
  check_left(lines + "z = Square(c)\n", {"z", "b"});
  check_left(lines + "z = Square(c)\n", {"z"}, {"x", "b"});
  check_left(lines + "y = Square(x) after b\nz = Add(y, c)\n");
  check_left(lines + "y = Square(x) with b\nz = Add(y, c)\n");
  check_left(kX + "a = Transpose(x)" + kIn + "b = Relu(a) on \"/device:cpu:1\"\nc = Transpose(b)" +
             kOut + "z = Square(c)\n");
  check_left(kX + "y = Square(x)\na = Transpose(x)" + kIn +
             "b = Relu(a) after y\nc = Transpose(b)" + kOut + "z = Square(c)\n");
}

}  // namespace troupe
