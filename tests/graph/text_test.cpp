// The text form: the same graph comes back, and every broken text is refused with its line.
#include <cmath>
#include <limits>

#include "tests/support/engine/toy_ops.hpp"
#include "tests/support/refusal.hpp"

using namespace troupe;

namespace {

std::string reread(const std::string& text) { return to_text(*graph_from_text(text, toy_ops())); }

std::string refusal(const std::string& lines) {
  return error_of([&] { graph_from_text("troupe graph 1\n" + lines, toy_ops()); });
}

}  // namespace

TEST_CASE("a graph reads back as it was written") {
  Graph graph(toy_ops());
  const Output x = source(graph, "x", {-1, 3});
  Output y;
  {
    const auto scope = graph.scope(
        {.name = "fc1", .device = "/job:worker/task:1", .replica = 2, .control_inputs = {x.node}});
    y = apply(graph, "Halves", {x});
    graph.add({.op = "Draw"}, {"a \"quoted\"\\path.cpp", 7});
  }
  const auto scope = graph.scope({.colocate_with = "fc1/Halves"});
  apply(graph, "Add", {y, Output{&graph, y.node, 1}}, "sum");
  const std::string text = to_text(graph);
  CHECK(text ==
        "troupe graph 1\n"
        "x = Source() dtype=f32 shape=[-1, 3] at \"train.cpp\":1\n"
        "fc1/Halves = Halves(x) on \"/job:worker/task:1\" after x at \"train.cpp\":42\n"
        "fc1/Draw = Draw() replica=2 on \"/job:worker/task:1\" after x at \"a "
        "\\\"quoted\\\"\\\\path.cpp\":7\n"
        "sum = Add(fc1/Halves, fc1/Halves:1) with fc1/Halves at \"train.cpp\":42\n");
  CHECK(reread(text) == text);
}

TEST_CASE("attributes of every kind keep their bits") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const float odd_nan = std::nanf("1234");
  const std::vector<Tensor> tensors = {
      Tensor::of<float>(
          {0.1f, -0.0f, 1e-45f, 3.4028235e38f, INFINITY, -INFINITY, odd_nan, -odd_nan}, {2, 2, 2}),
      Tensor::of<double>({0.1, 5e-324, 1.7976931348623157e308, nan, -nan}, {5}),
      Tensor::of<int32_t>({INT32_MIN, INT32_MAX}, {2}),
      Tensor::of<int64_t>({INT64_MIN, INT64_MAX}, {2}),
      Tensor::of<uint8_t>({0, 255}, {2, 1}),
      Tensor::of<bool>({true, false}, {2}),
      Tensor::scalar(1.5f),
      Tensor::zeros(DType::f64, {0, 3}),
  };
  for (const Tensor& tensor : tensors) {
    CAPTURE(tensor);
    Graph graph(toy_ops());
    apply(graph, "Everything", {}, "e",
          {{"b", true},
           {"d", DType::u8},
           {"i", INT64_MIN},
           {"l", std::vector<int64_t>{-1, INT64_MAX}},
           {"r", 0.1 + 0.2},
           {"s", Shape{}},
           {"t", std::string("a \"b\" \\ \n\r\t\x01\x7f \xc3\xa9")},
           {"v", tensor}});
    const std::string text = to_text(graph);
    const auto copy = graph_from_text(text, toy_ops());
    CHECK(to_text(*copy) == text);
    CHECK(same_bits(copy->node(0).attr<Tensor>("v"), tensor));
    CHECK(copy->node(0).attr<double>("r") == 0.1 + 0.2);
    CHECK(copy->node(0).attr<std::string>("t") == graph.node(0).attr<std::string>("t"));
    CHECK(copy->node(0).attr<std::vector<int64_t>>("l") == std::vector<int64_t>{-1, INT64_MAX});
  }
}

TEST_CASE("blank lines, comments and foreign line ends are read over, defaults are filled in") {
  CHECK(reread("troupe graph 1\r\n\r\n# a comment\r\n  x = Source()\r\n") ==
        "troupe graph 1\nx = Source() dtype=f32 shape=[2]\n");
}

TEST_CASE("a text that is no graph is refused") {
  CHECK(error_of([] { graph_from_text("", toy_ops()); }) ==
        "graph text, line 1: expected \"troupe graph 1\", but the text is empty");
  CHECK(error_of([] { graph_from_text("troupe graph 2\n", toy_ops()); }) ==
        "graph text, line 1: the text has version 2, this program reads version 1; write it again "
        "with this program's version of troupe, or read it with the one that wrote it");
  CHECK(error_of([] { graph_from_text("digraph g {\n", toy_ops()); }) ==
        "graph text, line 1: expected \"troupe graph 1\", got \"digraph g {\"; this is no graph");
  CHECK(error_of([] {
          graph_from_text(std::string("\x7f"
                                      "ELF\0\0",
                                      6),
                          toy_ops());
        }).starts_with("graph text, line 1: "));
}

TEST_CASE("a cycle is refused with the way around it") {
  CHECK(refusal("x = Source()\na = Add(x, b)\nb = Stop(c)\nc = Stop(a)\n") ==
        "graph text, line 3: the graph has a cycle: a reads b, which reads c, which reads a; a "
        "node cannot depend on "
        "itself");
  CHECK(refusal("a = Stop(a)\n") ==
        "graph text, line 2: the graph has a cycle: a reads a; a node cannot depend on itself");
  CHECK(refusal("a = Source() after b\nb = Source() after a\n") ==
        "graph text, line 2: the graph has a cycle: a reads b, which reads a; a node cannot depend "
        "on itself");
}

TEST_CASE("missing inputs and wrong order are refused") {
  CHECK(refusal("x = Source()\ny = Stop(X)\n") ==
        "graph text, line 3: y reads \"X\", and there is no such node; did you mean x?");
  CHECK(refusal("y = Stop(x)\nx = Source()\n") ==
        "graph text, line 2: y reads x of line 3; a node stands below those it reads");
  CHECK(refusal("y = Source() with x\n") ==
        "graph text, line 2: y is to stand with x, and there is no such node above it");
}

TEST_CASE("wrong ops, names, attributes and types are refused with their line") {
  CHECK(refusal("x = Sorce()\n") ==
        "graph text, line 2: there is no op \"Sorce\"; did you mean Source?");
  CHECK(refusal("x = Source()\n\nx = Source()\n") ==
        "graph text, line 4: there is already a node called x, in line 2; names are unique");
  CHECK(refusal("x = Source() axis=1\n") ==
        "graph text, line 2: op Source has no attribute \"axis\"");
  CHECK(refusal("x = Source() dtype=f32 dtype=f32\n") ==
        "graph text, line 2: attribute dtype is given twice");
  CHECK(refusal("x = Source() dtype=f8\n") ==
        "graph text, line 2: no dtype is called \"f8\"; there are f32, f64, i32, i64, u8, bool, "
        "i8, f16 and "
        "bf16");
  CHECK(refusal("x = Source()\ny = Add(x)\n") ==
        "graph text, line 3: Add node y: wants 2 inputs (a, b), got 1");
  CHECK(refusal("x = Source()\ny = Stop(x:1)\n") ==
        "graph text, line 3: Stop node y: input 0 (x) is output 1 of the Source node x, which has "
        "1 output");
  CHECK(refusal("x = Source() on \"cpu\"\n")
            .starts_with("graph text, line 2: device name \"cpu\": begins without a slash"));
}

TEST_CASE("garbage is refused at the place where it stands") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"= Source()", "expected a name, got \"= Source()\""},
      {"x Source()", "expected \"=\", got \"Source()\""},
      {"x = Source", "expected \"(\", but the line ends"},
      {"x = Source(", "expected a name, but the line ends"},
      {"x = Source() shape=2", "expected \"[\", got \"2\""},
      {"x = Source() shape=[2", "expected \"]\", but the line ends"},
      {"x = Source() shape=[2, -3]", "a shape has at most 8 sizes from -1 on"},
      {"x = Source() shape=[a]", "expected an integer, got \"a]\""},
      {"x = Source() at train.cpp:1", "expected a text in quotes, got \"train.cpp:1\""},
      {"x = Source() at \"train.cpp", "the text \"\\\"train.cpp\" has no closing quote"},
      {"x = Source() on \"a\\", "the text \"\\\"a\\\\\" has no closing quote"},
      {"x = Source() on \"\\q\"",
       "no escape in a text is \"\\q\"; there are \\\" \\\\ \\n \\r \\t \\xHH"},
      {"x = Source() !", "expected a name, got \"!\""},
      {"e = Everything() v=f32[2] {1}", "a tensor f32[2] has 2 values, got 1"},
      {"e = Everything() v=f32[-1] {1}", "a tensor has known sizes, got [-1]"},
      {"e = Everything() v=u8[1] {256}", "expected a value of u8, got \"256}\""},
      {"e = Everything() b=yes", "expected true or false, got \"yes\""},
      {"e = Everything() b=true1", "expected true or false, got \"true1\""},
      {"e = Everything() i=9223372036854775808",
       "expected an integer, got \"9223372036854775808\""},
      {"e = Everything() i=1x", "expected an integer, got \"1x\""},
      {"e = Everything() i=1 i=1", "attribute i is given twice"},
      {"e = Everything() l={1}r=1", "expected a blank, got \"r=1\""},
      {"e = Everything() l={1,}", "expected an integer, got \"}\""},
      {"e = Everything() r=1e999", "expected a number, got \"1e999\""},
      {"e = Everything() s=[2]x", "expected a blank, got \"x\""},
      {"e = Everything() t=\"a\"x=1", "expected a blank, got \"x=1\""},
      {"e = Everything() v=i32[1] {2147483648}", "expected a value of i32, got \"2147483648}\""},
      {"e = Everything() v=f32[1] {1} {1}", "expected a name, got \"{1}\""},
      {"x = Source()dtype=f32", "expected a blank, got \"dtype=f32\""},
      {"x = Source() on \"/job:ps\" on \"/job:ps\"", "\"on\" stands there twice; once is enough"},
      {"x = Source() with x with x", "\"with\" stands there twice; once is enough"},
      {"x = Source() in x in x", "\"in\" stands there twice; once is enough"},
      {"x = Source() after a after b", "\"after\" stands there twice; once is enough"},
      {"x = Source() after a, b, a", "a stands there twice; once is enough"},
      {"x = Source() at \"a\":1 at \"a\":1", "\"at\" stands there twice; once is enough"},
      {"x = Source() at \"a\":-1", "a line is a number from 0 to 2147483647, got -1"},
      {"x = Source() at \"a\":4294967297",
       "a line is a number from 0 to 2147483647, got 4294967297"},
      {"x = Source() at \"a\":1 junk", "op Source has no attribute \"junk\""},
      {"x = Stop(y:4294967296)", "an output is a number from 0 to 2147483647, got 4294967296"},
      {"x = Stop(y:-1)", "an output is a number from 0 to 2147483647, got -1"},
      {"e = Everything() r=1.0.0", "expected a number, got \"1.0.0\""},
  };
  for (const auto& bad : cases) {
    CAPTURE(bad.first);
    CHECK(refusal(bad.first) == "graph text, line 2: " + bad.second);
  }
}

TEST_CASE("every cut of a graph text is refused or read as a smaller graph") {
  const std::string text =
      "troupe graph 1\nx = Source() shape=[2]\ne = Everything() b=true d=f32 i=1 l={1, 2} r=1.5 "
      "s=[] t=\"a\\x01\" "
      "v=f32[2] {1, nan:7fc00001}\ny = Add(x, x) on \"/job:ps\" after e at \"a.cpp\":3\n";
  for (size_t n = 0; n < text.size(); ++n) {
    CAPTURE(n);
    size_t nodes = 0;
    const Errc code =
        code_of([&] { nodes = graph_from_text(text.substr(0, n), toy_ops())->nodes().size(); });
    CHECK((code == Errc::ok || code == Errc::bad_data));
    CHECK(nodes <= 3);
  }
}

TEST_CASE("DOT shows devices as clusters and control edges dashed") {
  Graph graph(toy_ops());
  const Output x = source(graph, "x");
  graph.add({.op = "Stop", .inputs = {x}, .name = "y", .control_inputs = {x.node}});
  const std::string dot = to_dot(graph, {{1, "/job:ps/task:0/device:cpu:0"}});
  CHECK(dot.find("  n0 [label=\"x\\nSource\"];\n") != dot.npos);
  CHECK(dot.find("  subgraph cluster_0 {\n    label=\"/job:ps/task:0/device:cpu:0\"; style=filled; "
                 "color=\"#dbeafe\";\n"
                 "    n1 [label=\"y\\nStop\"];\n  }\n") != dot.npos);
  CHECK(dot.find("  n0 -> n1 [label=\"f32[2]\"];\n  n0 -> n1 [style=dashed];\n") != dot.npos);
}
