// fuse: graphs before and after it, as text.
#include "graph/attr_text.hpp"
#include "tests/support/pass_text.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

const std::string kX = "x = Placeholder() dtype=f32 shape=[2, 3]\n";
const std::string kB = "b = Placeholder() dtype=f32 shape=[3]\n";

// The line of a fused node. `program`: the lines after its first one.
std::string fused(const std::string& head, const std::string& outputs, const std::string& program) {
  return head + " outputs=" + outputs + " program=" + quoted(kGraphHead + program);
}

std::string in(int i, const std::string& type) {
  return "in." + std::to_string(i) + " = Placeholder() dtype=" + type + "\n";
}

}  // namespace

TEST_CASE("a chain becomes one node, which has the name, device and origin of its last one") {
  CHECK(after(fuse,
              kX + "a = Exp(x) on \"/device:cpu:0\" at \"train.cpp\":7\n"
                   "y = LeakyRelu(a) alpha=0.25 on \"/device:cpu:0\" at \"train.cpp\":8\n",
              {"y"}) ==
        kX +
            fused("y = Fused(x)", "{2}",
                  in(0, "f32 shape=[2, 3]") + "a = Exp(in.0) at \"train.cpp\":7\n"
                                              "y = LeakyRelu(a) alpha=0.25 at \"train.cpp\":8\n") +
            " on \"/device:cpu:0\" at \"train.cpp\":8\n");
}

TEST_CASE("what nodes of the group read may be a row, a column or a number, and of any dtype") {
  CHECK(after(fuse,
              kX + kB +
                  "c = Placeholder() dtype=f32 shape=[2, 1]\n"
                  "n = Placeholder() dtype=i64 shape=[]\n"
                  "z = BiasAdd(x, b)\n"
                  "p = Greater(z, c)\n"
                  "f = Cast(n) dtype=f32\n"
                  "y = Where(p, z, f)\n",
              {"y"}) == kX + kB +
                            "c = Placeholder() dtype=f32 shape=[2, 1]\n"
                            "n = Placeholder() dtype=i64 shape=[]\n"
                            "f = Cast(n) dtype=f32\n" +
                            fused("y = Fused(x, b, c, f)", "{6}",
                                  in(0, "f32 shape=[2, 3]") + in(1, "f32 shape=[3]") +
                                      in(2, "f32 shape=[2, 1]") + in(3, "f32 shape=[]") +
                                      "z = BiasAdd(in.0, in.1)\n"
                                      "p = Greater(z, in.2)\n"
                                      "y = Where(p, z, in.3)\n") +
                            "\n");
}

TEST_CASE("what others read of a group are outputs of its node, behind that of the last one") {
  CHECK(after(fuse,
              kX + "a = Exp(x)\n"
                   "b = Negate(a)\n"
                   "c = Square(b)\n"
                   "s = Reverse(a) axes={0}\n"
                   "t = Reverse(c) axes={0}\n",
              {"s", "t"}) == kX +
                                 fused("c = Fused(x)", "{3, 1}",
                                       in(0, "f32 shape=[2, 3]") + "a = Exp(in.0)\n"
                                                                   "b = Negate(a)\n"
                                                                   "c = Square(b)\n") +
                                 "\n"
                                 "s = Reverse(c:1) axes={0}\n"
                                 "t = Reverse(c) axes={0}\n");
}

TEST_CASE("branches that meet are one group") {
  const std::string text = after(fuse,
                                 kX + "a = Exp(x)\nb = Square(x)\nc = Negate(a)\nd = Abs(b)\n"
                                      "y = Add(c, d)\n",
                                 {"y"});
  CHECK(text.find("y = Fused(x) outputs={5}") != text.npos);
  CHECK(text.find("\na = ") == text.npos);
}

TEST_CASE("a group ends where another node reads it, so that no node waits for what waits for it") {
  // Reverse needs a, and y needs Reverse.
  check_left(fuse, kX + "a = Exp(x)\ns = Reverse(a) axes={0}\ny = Add(a, s)\n", {"y"});
}

TEST_CASE("one node, another device, partner or shape, and an order are left alone") {
  check_left(fuse, kX + "y = Exp(x)\n", {"y"});
  check_left(fuse, kX + "a = Exp(x) on \"/device:cpu:1\"\ny = Negate(a)\n", {"y"});
  check_left(fuse, kX + "a = Exp(x) on \"/device:cuda:0\"\ny = Negate(a) on \"/device:cuda:0\"\n",
             {"y"});
  check_left(fuse,
             kX + "a = Exp(x) on \"/device:shadow:0\"\ny = Negate(a) on \"/device:shadow:0\"\n",
             {"y"});
  check_left(fuse, kX + "a = Exp(x) with x\ny = Negate(a)\n", {"y"});
  check_left(fuse,
             kX + "a = Exp(x)\nc = Negate(a) with a\ny = MatMul(c, c) transpose_a=false "
                  "transpose_b=true\n",
             {"y"});
  check_left(fuse, kX + kB + "a = Exp(b)\ny = Add(x, a)\n", {"y"});
  check_left(fuse, kX + "a = Exp(x)\ny = Negate(a) after x\n", {"y"});
  check_left(fuse, kX + "a = Exp(x)\nb = Negate(a)\ny = Group() after b\n", {"y"});
}

TEST_CASE("what may refuse its values, has state or computes several outputs is left alone") {
  const std::string i = "i = Placeholder() dtype=i32 shape=[2]\n";
  check_left(fuse, i + "a = Negate(i)\ny = Divide(i, a)\n", {"y"});
  check_left(fuse, i + "a = Divide(i, i)\ny = Negate(a)\n", {"y"});
  check_left(fuse, kX + "d = Dropout(x) key=\"\" rate=0.5 replica=0 seed=1\ny = Negate(d)\n",
             {"y"});
  check_left(fuse, kX + "p = Split(x) axis=0 parts=2\ny = Negate(p:1)\n", {"y"});
  // A quotient of floats refuses no value.
  CHECK(after(fuse, kX + "a = Negate(x)\ny = Divide(x, a)\n", {"y"}).find("Fused") !=
        std::string::npos);
}

TEST_CASE("what is fed has the client's value, and what is fetched its name") {
  check_left(fuse, kX + "a = Exp(x)\ny = Negate(a)\n", {"y"}, {"a"});
  check_left(fuse, kX + "a = Exp(x)\ny = Negate(a)\n", {"y", "a"});
  // A fetched node may be the last of a group; the next group begins after it.
  const std::string lines = "a = Exp(x)\nb = Negate(a)\nc = Square(b)\ny = Abs(c)\n";
  const std::string text = after(fuse, kX + lines, {"b", "y"});
  CHECK(text.find("b = Fused(x) outputs={2}") != text.npos);
  CHECK(text.find("y = Fused(b) outputs={2}") != text.npos);
}

TEST_CASE("a product that a group alone reads goes into its node, with all that it reads") {
  const std::string matrices =
      "x = Placeholder() dtype=f32 shape=[-1, 3]\n"
      "w = Placeholder() dtype=f32 shape=[3, 4]\n"
      "b = Placeholder() dtype=f32 shape=[4]\n";
  const std::string product = "p = MatMul(x, w) transpose_a=false transpose_b=false\n";
  CHECK(after(fuse, matrices + product + "z = BiasAdd(p, b)\ny = Relu(z)\n", {"y"}) ==
        matrices +
            fused("y = Fused(x, w, b)", "{5}",
                  in(0, "f32 shape=[-1, 3]") + in(1, "f32 shape=[3, 4]") + in(2, "f32 shape=[4]") +
                      "p = MatMul(in.0, in.1) transpose_a=false transpose_b=false\n"
                      "z = BiasAdd(p, in.2)\n"
                      "y = Relu(z)\n") +
            "\n");
  // The same holds if the group is one node, but not if other nodes read the product or it is
  // fetched.
  CHECK(after(fuse, matrices + product + "y = BiasAdd(p, b)\n", {"y"}).find("Fused(x, w, b)") !=
        std::string::npos);
  check_left(fuse, matrices + product + "y = BiasAdd(p, b)\n", {"y", "p"});
  check_left(fuse,
             matrices + product + "y = BiasAdd(p, b)\ns = ReduceSum(p) axes={} keep_dims=false\n",
             {"y", "s"});
  // The product has another shape than the group: the program would have to wait for all of it.
  check_left(fuse,
             matrices + product +
                 "z = BiasAdd(p, b)\nq = Placeholder() dtype=f32 shape=[2, -1, 4]\ny = Add(q, p)\n",
             {"y", "z"});
}

TEST_CASE("a reduction that alone reads a group goes into its node, which has its name") {
  const std::string z = "z = Placeholder() dtype=f32 shape=[2, 3]\n";
  CHECK(after(fuse,
              kX + z +
                  "d = Subtract(x, z)\nq = Square(d)\n"
                  "l = ReduceMean(q) axes={} keep_dims=false at \"loss.cpp\":4\n",
              {"l"}) ==
        kX + z +
            fused("l = Fused(x, z)", "{4}",
                  in(0, "f32 shape=[2, 3]") + in(1, "f32 shape=[2, 3]") +
                      "d = Subtract(in.0, in.1)\nq = Square(d)\n"
                      "l = ReduceMean(q) axes={} keep_dims=false at \"loss.cpp\":4\n") +
            " at \"loss.cpp\":4\n");
  // The same holds if the group is one node, and for any axes.
  const std::string one = kX + "a = Exp(x)\ns = ReduceMax(a) axes={0} keep_dims=true\n";
  CHECK(after(fuse, one, {"s"}).find("s = Fused(x) outputs={2}") != std::string::npos);
}

TEST_CASE("what others read of a group is written, too, and they wait for the reduction") {
  const std::string sum = "s = ReduceSum(a) axes={0} keep_dims=false\n";
  const std::string program =
      in(0, "f32 shape=[2, 3]") + "a = Exp(in.0)\ns = ReduceSum(a) axes={0} keep_dims=false\n";
  CHECK(after(fuse, kX + "a = Exp(x)\n" + sum + "y = Add(a, s)\n", {"y"}) ==
        kX + fused("a = Fused(x)", "{1, 2}", program) + "\ny = Add(a, a:1)\n");
  // A reduction that is fetched keeps its name.
  CHECK(after(fuse, kX + "a = Exp(x)\nr = Reverse(a) axes={0}\n" + sum, {"r", "s"}) ==
        kX + fused("s = Fused(x)", "{2, 1}", program) + "\nr = Reverse(s:1) axes={0}\n");
  // The second reduction reads the written values.
  CHECK(after(fuse, kX + "a = Exp(x)\n" + sum + "t = ReduceMax(a) axes={} keep_dims=false\n",
              {"s", "t"}) == kX + fused("s = Fused(x)", "{2, 1}", program) +
                                 "\nt = ReduceMax(s:1) axes={} keep_dims=false\n");
}

TEST_CASE(
    "a reduction stands alone behind a product's group, in another place, and if both are "
    "fetched") {
  const std::string sum = "s = ReduceSum(y) axes={0} keep_dims=false";
  const std::string matrices =
      "x = Placeholder() dtype=f32 shape=[3, 3]\n"
      "p = MatMul(x, x) transpose_a=false transpose_b=false\ny = Exp(p)\n";
  CHECK(after(fuse, matrices + sum + "\n", {"s"}).find("\n" + sum + "\n") != std::string::npos);
  check_left(fuse, kX + "y = Exp(x)\n" + sum + "\n", {"y", "s"});
  check_left(fuse, kX + "y = Exp(x)\n" + sum + " on \"/device:cpu:1\"\n", {"s"});
  check_left(fuse, kX + "y = Exp(x)\n" + sum + " after x\n", {"s"});
  check_left(fuse, kX + "y = Exp(x)\n" + sum + "\n", {"s"}, {"y"});
}

TEST_CASE("a node does the work of all that have become part of it") {
  const auto graph = graph_of(kX + "a = Exp(x)\ny = Negate(a)\n");
  const Rewritten result = rewrite(fuse, call_graph(*graph, {graph->output("y")}, {}));
  const Node& node = *result.call.graph->find("y");
  CHECK(does_work_of(node, "a"));
  CHECK(does_work_of(node, "y"));
  CHECK_FALSE(does_work_of(node, "x"));
  CHECK_FALSE(does_work_of(node, "in.0 "));
  CHECK(does_work_of(*result.call.graph->find("x"), "x"));
}

TEST_CASE(
    "a node of several outputs goes into the node of a group, unless that waits for another one") {
  const std::string norm =
      "x = Placeholder() dtype=f32 shape=[6, 3]\n"
      "b = Placeholder() dtype=f32 shape=[3]\n"
      "n = BatchNorm(x, b, b) epsilon=0.001\n";
  CHECK(after(fuse, norm + "y = Relu(n)\nm = Reverse(n:1) axes={0}\n", {"y", "m"}) ==
        norm.substr(0, norm.find("n = ")) +
            fused("y = Fused(x, b)", "{3, 4}",
                  in(0, "f32 shape=[6, 3]") + in(1, "f32 shape=[3]") +
                      "n = BatchNorm(in.0, in.1, in.1) epsilon=0.001\ny = Relu(n)\n") +
            "\nm = Reverse(y:1) axes={0}\n");
  const std::string waits = norm + "v = Reverse(n:2) axes={0}\ny = Add(n, v)\n";
  check_left(fuse, waits, {"y"});
  check_left(fuse, norm + "y = Add(n, n:1)\n", {"y"});
}

TEST_CASE("of two products the later one goes into the node") {
  const std::string lines =
      "x = Placeholder() dtype=f32 shape=[3, 3]\n"
      "p = MatMul(x, x) transpose_a=false transpose_b=false\n"
      "q = MatMul(x, x) transpose_a=true transpose_b=false\n"
      "y = Add(p, q)\n";
  const std::string text = after(fuse, lines, {"y"});
  CHECK(text.find("y = Fused(x, p) outputs={3}") != text.npos);
  CHECK(text.find("\np = MatMul") != text.npos);
}

TEST_CASE("input 0 is one whose memory the result may take over") {
  const std::string text = after(
      fuse, kX + kB + "r = Reverse(x) axes={0}\na = BiasAdd(x, b)\nc = Exp(a)\ny = Add(c, r)\n",
      {"y", "x"});
  CHECK(text.find("y = Fused(r, x, b)") != text.npos);
}

TEST_CASE("a group is bounded, and so is what it reads and what is read of it") {
  std::string lines = kX, before = "x";
  for (int i = 0; i < 100; ++i) {
    lines += detail::concat("n", i, " = Negate(", before, ")\n");
    before = detail::concat("n", i);
  }
  const auto count = [](const std::string& text) {
    size_t n = 0;
    for (size_t at = 0; (at = text.find("= Fused", at)) != text.npos; ++at) ++n;
    return n;
  };
  CHECK(count(after(fuse, lines, {"n99"})) == 3);
  // Twelve values of one chain, all with other readers.
  lines = kX;
  before = "x";
  std::string sums;
  std::vector<std::string> wanted;
  for (int i = 0; i < 12; ++i) {
    lines += detail::concat("n", i, " = Exp(", before, ")\n");
    before = detail::concat("n", i);
    sums += detail::concat("s", i, " = ReduceSum(n", i, ") axes={} keep_dims=false\n");
    wanted.push_back(detail::concat("s", i));
  }
  check_left(fuse, lines + sums, wanted);
}

TEST_CASE("the gradient of relu is one node, and so is what is before it") {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{4, 3}, "x");
  const Output b = placeholder(g, DType::f32, Shape{3}, "b");
  const Output y = relu(bias_add(x, b));
  const Output dy = placeholder(g, DType::f32, Shape{4, 3}, "dy");
  const Output dx = gradients({square(y)}, {x}, {dy})[0];
  const Rewritten result = rewrite(fuse, call_graph(g, {dx}, {x, b, dy}));
  std::vector<std::string> run;
  for (int32_t id : prune(*result.call.graph, result.call.fetches, result.call.feeds)) {
    const Node& node = result.call.graph->node(id);
    if (node.op->name != "Constant" && node.op->name != "Fill") run.push_back(node.op->name);
  }
  CHECK(run == std::vector<std::string>{"Fused"});
}

TEST_CASE("a registry without the fused op has none") {
  auto registry = std::make_shared<Registry>();
  for (const Op* op : builtin_ops()->all())
    if (op->name != "Fused") registry->add(*op);
  const auto graph = graph_from_text(kGraphHead + kX + "a = Exp(x)\ny = Negate(a)\n", registry);
  const CallGraph call = call_graph(*graph, {graph->output("y")}, {});
  const std::string before = text_of(call);
  CHECK(text_of(rewrite(fuse, call_graph(*graph, {graph->output("y")}, {})).call) == before);
}

}  // namespace troupe
