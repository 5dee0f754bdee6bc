// The ops of branches and loops one by one: their refusals, and the choice of Branch. Tests of
// whole branches and loops are in tests/actors/master/session_cond_test.cpp and
// session_while_test.cpp.

#include "devices/memory/heap_memory.hpp"
#include "devices/kernel_call.hpp"
#include "devices/run_context.hpp"
#include "graph/op.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

Output branch(Output index, int64_t branch, int64_t branches, bool otherwise = false) {
  return index.graph->add(
      {.op = "Branch",
       .inputs = {index},
       .attrs = {{"branch", branch}, {"branches", branches}, {"otherwise", otherwise}}});
}

bool taken(Tensor index, int64_t number, int64_t branches, bool otherwise = false) {
  Graph graph;
  const Node& node =
      graph.node(branch(placeholder(graph, index.dtype(), {}), number, branches, otherwise).node);
  HeapMemory memory;
  const Kernel* kernel = find_kernel(node, DeviceKind::cpu);
  return run_kernel(NodeView::make(node, *kernel), {index}, memory, RunContext{})[0].item<bool>();
}

}  // namespace

TEST_CASE("Branch is taken for its own number, and the last one for all that have none") {
  CHECK(taken(Tensor::scalar(true), 1, 2));
  CHECK_FALSE(taken(Tensor::scalar(true), 0, 2));
  CHECK(taken(Tensor::scalar(false), 0, 2));
  CHECK(taken(Tensor::scalar(false), 1, 2, true));
  for (int32_t i : {-5, 3, 1000}) {
    CHECK(taken(Tensor::scalar(i), 2, 3));
    CHECK_FALSE(taken(Tensor::scalar(i), 0, 3));
    CHECK(taken(Tensor::scalar(i), 0, 3, true));
  }
  CHECK(taken(Tensor::scalar<int64_t>(1), 1, 3));
  CHECK_FALSE(taken(Tensor::scalar<int64_t>(1), 2, 3));
}

TEST_CASE("ops of control flow refuse what does not fit together") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {2}, "x"), i = fill(graph, {}, 0, DType::i32);
  check_invalid([&] { branch(x, 0, 1); }, "Branch node Branch made at");
  check_invalid([&] { branch(cast(x, DType::i32), 0, 1); },
                "wants a scalar that says which branch runs");
  check_invalid([&] { branch(i, 2, 2); }, "wants a branch from 0 to 1, got 2");
  check_invalid([&] { graph.add({.op = "Capture", .inputs = {x}}); }, "is in no frame");
  check_invalid(
      [&] {
        graph.add({.op = "LoopVariable", .inputs = {x}, .attrs = {{"shape", Shape{2}}}});
      },
      "is in no frame");
  check_invalid(
      [&] {
        graph.add({.op = "LoopVariable", .inputs = {x}, .attrs = {{"shape", Shape{3}}}});
      },
      "is [3], which its initial value [2] is not");
  check_invalid([&] { graph.add({.op = "Merge", .inputs = {x, i}}); }, "one dtype");
  check_invalid(
      [&] {
        graph.add({.op = "Merge", .inputs = {x, fill(graph, {}, 1)}});
      },
      "one number of dimensions");
  check_invalid(
      [&] {
        graph.add({.op = "Loop", .attrs = {{"iterations_in_flight", int64_t{0}}}});
      },
      "wants 1 to 1024 iterations in flight");
  check_invalid([&] { graph.add({.op = "While", .inputs = {x}}); },
                "a next value for each variable");
  check_invalid([&] { graph.add({.op = "While", .inputs = {x, i}}); }, "variable 0 is f32[2]");
  check_invalid([&] { graph.add({.op = "While", .inputs = {x, x}}); }, "is no variable of a loop");
  check_invalid([&] { graph.add({.op = "Save", .inputs = {}}); }, "wants 1 input");
  check_invalid(
      [&] {
        graph.add({.op = "Restore", .attrs = {{"dtype", DType::f32}}});
      },
      "needs attribute shape");
}

TEST_CASE("Restore takes the values of one Save, of their type") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {2});
  const auto save = [&] { return graph.add({.op = "Save", .inputs = {x}}).node; };
  const int32_t one = save(), other = save();
  const auto restore = [&](DType dtype, const Shape& shape, std::vector<int32_t> after) {
    graph.add({.op = "Restore",
               .attrs = {{"dtype", dtype}, {"shape", shape}},
               .control_inputs = std::move(after)});
  };
  CHECK_NOTHROW(restore(DType::f32, {2}, {one}));
  check_invalid([&] { restore(DType::f32, {2}, {}); },
                "runs after no Save, whose values it could take");
  check_invalid([&] { restore(DType::f32, {2}, {x.node}); }, "runs after no Save");
  check_invalid([&] { restore(DType::f32, {2}, {one, other}); }, "so name that one");
  check_invalid([&] { restore(DType::f32, {3}, {one}); },
                "is f32[3], but the Save node Save made at");
  check_invalid([&] { restore(DType::f64, {2}, {one}); }, "is f64[2], but");
}

TEST_CASE("branches in branches end at a depth that is told") {
  const auto nested = [](int depth) {
    std::string text = "troupe graph 1\np = Placeholder() dtype=bool shape=[]\n";
    for (int i = 0; i < depth; ++i) {
      text += detail::concat("b", i, " = Branch(p) branch=1 branches=2");
      text += i > 0 ? detail::concat(" in b", i - 1, "\n") : "\n";
    }
    return refusal_of([&] { graph_from_text(text); }).text;
  };
  CHECK(nested(100) == "");
  has(nested(300),
      "the Branch node b256 is inside 256 branches and loops, and the most is 255; write a loop");
}

TEST_CASE("a placeholder inside a branch or a loop is refused, as nothing there can be fed") {
  Graph graph;
  const Output yes = fill(graph, {}, 1, DType::boolean), x = fill(graph, {}, 1);
  const std::string why =
      "stands inside a branch or a loop, where nothing can be fed; make it outside";
  const auto inside = [&] { return std::vector<Output>{placeholder(graph, DType::f32, {})}; };
  check_invalid([&] { cond(yes, inside, [&] { return std::vector<Output>{x}; }); }, why);
  check_invalid(
      [&] {
        while_loop([&](const std::vector<Output>&) { return yes; },
                   [&](const std::vector<Output>&) { return inside(); }, {x});
      },
      why);
  has(refusal_of([] {
        graph_from_text(
            "troupe graph 1\np = Placeholder() dtype=bool shape=[]\nb = Branch(p) branch=1 "
            "branches=2\nx = Placeholder() dtype=f32 shape=[] in b\n");
      }).text,
      "graph text, line 4: Placeholder node x: " + why);
}

}  // namespace troupe
