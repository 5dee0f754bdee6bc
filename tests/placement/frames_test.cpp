// Frames of a graph: captured values, refusals, and that texts, copies and passes keep frames.
#include <algorithm>

#include "graph/frames.hpp"
#include "placement/passes/rewrite.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

using Values = std::vector<Output>;

// for (i = 0; i < n; ++i) x = i > 2 ? x * x * y : x + y + 1, with a gradient.
struct Program {
  Graph graph;
  Output n, x, y, z, dx;
  Program() {
    n = placeholder(graph, DType::f32, {}, "n");
    x = placeholder(graph, DType::f32, {}, "x");
    y = placeholder(graph, DType::f32, {}, "y");
    const Output two = fill(graph, {}, 2);
    z = while_loop([&](const Values& v) { return less(v[0], n); },
                   [&](const Values& v) {
                     const Output next = cond(
                         greater(v[0], two), [&] { return v[1] * v[1] * y; },
                         [&] { return v[1] + y + 1; });
                     return Values{v[0] + 1, next};
                   },
                   {fill(graph, {}, 0), x})[1];
    dx = gradients({z}, {x})[0];
  }
};

int64_t number_of(const Graph& graph, const char* op) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [&](const auto& node) { return node->op->name == op; });
}

// The names of the frames of a node, innermost first.
std::string frames_of(const Graph& graph, const std::string& name) {
  std::string text;
  for (int32_t frame = graph.find(name)->frame; frame >= 0; frame = graph.node(frame).frame)
    text += graph.node(frame).name + " ";
  return text;
}

}  // namespace

TEST_CASE("a node is in the frame that was open, and reads what it captured there") {
  Program p;
  CHECK(frames_of(p.graph, "while/body/cond/branch1/Multiply") ==
        "while/body/cond/branch1 while/again while/Loop ");
  const Node& square = *p.graph.find("while/body/cond/branch1/Multiply");
  CHECK(square.inputs[0].is(square.inputs[1]));
  CHECK(p.graph.node(square.inputs[0].node).op->name == "Capture");
  CHECK(p.graph.node(square.inputs[0].node).control_inputs == std::vector<int32_t>{square.frame});
}

TEST_CASE("a graph with frames reads back from its text as it was written") {
  Program p;
  const std::string text = to_text(p.graph);
  const auto read = graph_from_text(text);
  CHECK(to_text(*read) == text);
  CHECK(frames_of(*read, "while/body/cond/branch1/Multiply") ==
        frames_of(p.graph, "while/body/cond/branch1/Multiply"));
  has(refusal_of([&] {
        graph_from_text(
            "troupe graph 1\nx = Fill() shape=[] value=1 dtype=f32\n"
            "y = Capture(x) in x\n");
      }).text,
      "opens no frame");
}

TEST_CASE("passes keep frames, and numbers of frames, and merge within one only") {
  Program p;
  const auto results = explain_passes(p.graph, {p.z, p.dx}, {p.n, p.x, p.y});
  for (const PassResult& result : results) {
    CAPTURE(result.pass);
    const auto graph = graph_from_text(result.graph);
    CHECK(number_of(*graph, "While") == 2);
    CHECK(number_of(*graph, "LoopVariable") == number_of(p.graph, "LoopVariable"));
    if (result.pass == "fuse") continue;
    CHECK(frames_of(*graph, "while/body/cond/branch1/Multiply") ==
          frames_of(p.graph, "while/body/cond/branch1/Multiply"));
  }
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {}, "x");
  const Output yes = placeholder(graph, DType::boolean, {}, "yes");
  const auto twice = [&] { return exp(x) + exp(x); };
  const Output y = cond(yes, twice, twice);
  const auto passes = explain_passes(graph, {y, exp(x)}, {x, yes});
  const auto merge = std::find_if(passes.begin(), passes.end(),
                                  [](const PassResult& r) { return r.pass == "merge_common"; });
  REQUIRE(merge != passes.end());
  const auto merged = graph_from_text(merge->graph);
  CHECK(number_of(*merged, "Exp") == 3);  // merged from five: one in each branch, one outside
}

TEST_CASE("nodes of one frame alone become one node, in that frame") {
  Program p;
  const PassResult fused = explain_passes(p.graph, {p.z, p.dx}, {p.n, p.x, p.y}).back();
  REQUIRE(fused.pass == "fuse");
  const auto graph = graph_from_text(fused.graph);
  int64_t in_frames = 0;
  for (const auto& node : graph->nodes()) {
    if (node->op->name != "Fused") continue;
    CAPTURE(node->name);
    in_frames += node->frame >= 0;
    const auto program = graph_from_text(node->attr<std::string>("program"));
    for (const auto& part : program->nodes())
      if (part->op->name != "Placeholder") {
        CAPTURE(part->name);
        CHECK(frames_of(p.graph, part->name) == frames_of(*graph, node->name));
      }
  }
  CHECK(in_frames > 0);
}

TEST_CASE("a constant in a branch stays there, and is not folded with what is outside") {
  Graph graph;
  const Output yes = placeholder(graph, DType::boolean, {}, "yes");
  const Output y = cond(
      yes, [&] { return fill(graph, {}, 2) * 3; }, [&] { return fill(graph, {}, 1); });
  const auto after = graph_from_text(explain_passes(graph, {y}, {yes}).back().graph);
  for (const auto& node : after->nodes())
    if (node->op->name == "Fill" || node->op->name == "Constant") {
      CAPTURE(node->name);
      CHECK(node->frame >= 0);
      CHECK(node->control_inputs == std::vector<int32_t>{node->frame});
    }
}

TEST_CASE("what is written in a frame runs after its opener, what is outside of all before it") {
  Graph graph;
  const Output before = group(graph, {}, "before");
  const Output yes = placeholder(graph, DType::boolean, {}, "yes");
  const auto scope = graph.scope({.control_inputs = {before.node}});
  Output inside;
  cond(
      yes, [&] { return inside = fill(graph, {}, 2); }, [&] { return fill(graph, {}, 1); });
  const Node& opener = graph.node(graph.node(inside.node).frame);
  CHECK(opener.control_inputs == std::vector<int32_t>{before.node});
  CHECK(graph.node(inside.node).control_inputs == std::vector<int32_t>{opener.id});
}

TEST_CASE("a value of another frame is refused, and the graph stays as it was") {
  Graph graph;
  const Output yes = placeholder(graph, DType::boolean, {}, "yes");
  const Output x = placeholder(graph, DType::f32, {}, "x");
  Output of_then;
  std::string text;
  cond(
      yes, [&] { return of_then = x * 2; },
      [&] {
        text = refusal_of([&] { (void)(of_then + 1); }).text;
        return x;
      });
  has(text, "which is inside the Branch node cond/branch1");
  has(refusal_of([&] { (void)open_frame(graph, x.node); }).text, "opens no frame");
}

}  // namespace troupe
