// push_rows_once: graphs before and after it, as text.
#include "tests/support/pass_text.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

std::string placeholder_text(const std::string& name, const std::string& dtype,
                             const std::string& shape) {
  return name + " = Placeholder() dtype=" + dtype + " shape=" + shape + "\n";
}

std::string push_text(const std::string& values, int64_t indices_per_row, int64_t row_size) {
  return detail::concat("p = PushRowGradient(ids, ", values, ") indices_per_row=", indices_per_row,
                        " optimizer=\"", describe(sgd(1)),
                        "\" parameter=\"w\" replica=0 row_size=", row_size, "\n");
}

// The gradient g of a sum of x over `axes`, and the rows that repeat it.
struct Sum {
  std::string x, axes, g, rows;
  bool keep_dims = false;

  std::string inputs() const {
    return placeholder_text("ids", "i64", "[-1]") + placeholder_text("x", "f32", x) +
           placeholder_text("g", "f32", g);
  }
  std::string repeated(const std::string& mean = "false", const std::string& sum_after = "",
                       const std::string& rows_after = "") const {
    return "d = ReduceGradient(g, x) axes=" + axes +
           " keep_dims=" + (keep_dims ? "true" : "false") + " mean=" + mean + sum_after +
           "\nr = Reshape(d) shape=" + rows + rows_after + "\n";
  }
};

std::string after_pass(const std::string& lines, const std::vector<std::string>& more_feeds = {}) {
  std::vector<std::string> feeds = {"ids", "x", "g"};
  feeds.insert(feeds.end(), more_feeds.begin(), more_feeds.end());
  const auto graph = graph_of(lines);
  Output push;
  for (const auto& node : graph->nodes())
    if (node->name == "p") push = {graph.get(), node->id, 0};
  return text_of(
      rewrite(push_rows_once, call_graph(*graph, {push}, outputs_of(*graph, feeds))).call);
}

void check_once(const Sum& sum, int64_t indices_per_row, int64_t row_size) {
  CHECK(after_pass(sum.inputs() + sum.repeated() + push_text("r", 1, 0)) ==
        sum.inputs() + push_text("g", indices_per_row, row_size));
}

void check_left(const std::string& lines, const std::vector<std::string>& more_feeds = {}) {
  CHECK(after_pass(lines, more_feeds) == lines);
}

const Sum kNumbers = {.x = "[5, 4]", .axes = "{1}", .g = "[5]", .rows = "[20]"};

}  // namespace

TEST_CASE("a row that the gradient of a sum repeats is pushed once") {
  check_once(kNumbers, 4, 1);
  check_once({.x = "[-1, 4]", .axes = "{-1}", .g = "[-1, 1]", .rows = "[-1]", .keep_dims = true}, 4,
             1);
  check_once({.x = "[5, 4, 3]", .axes = "{1}", .g = "[5, 3]", .rows = "[20, 3]"}, 4, 3);
  check_once({.x = "[-1, 2, 4, 3]", .axes = "{1, 2}", .g = "[-1, 3]", .rows = "[-1, 3]"}, 8, 3);
  check_once({.x = "[5, 4]", .axes = "{}", .g = "[]", .rows = "[20]"}, 20, 1);  // over all axes
}

TEST_CASE("rows that are not repeated one after the other, or nobody knows how often, stay") {
  for (const Sum& sum : {
           Sum{.x = "[5, 4, 3]", .axes = "{0}", .g = "[4, 3]", .rows = "[20, 3]"},
           Sum{.x = "[5, 4, 3]", .axes = "{2}", .g = "[5, 4]", .rows = "[20, 3]"},  // within rows
           Sum{.x = "[2, 5, 4]", .axes = "{0, 2}", .g = "[5]", .rows = "[40]"},
           Sum{.x = "[5, -1]", .axes = "{1}", .g = "[5]", .rows = "[-1]"},
       })
    check_left(sum.inputs() + sum.repeated() + push_text("r", 1, 0));
}

TEST_CASE("rows that are divided, fed, or run after another node are pushed as they are") {
  const std::string push = push_text("r", 1, 0), first = "f = Square(g)\n";
  check_left(kNumbers.inputs() + kNumbers.repeated("true") + push);
  check_left(kNumbers.inputs() + kNumbers.repeated() + push, {"d"});
  check_left(kNumbers.inputs() + kNumbers.repeated() + push, {"r"});
  check_left(kNumbers.inputs() + first + kNumbers.repeated("false", " after f") + push);
  check_left(kNumbers.inputs() + first + kNumbers.repeated("false", "", " after f") + push);
}

TEST_CASE("what minimize() makes of a sum of gathered rows pushes each row once") {
  Graph g;
  const Output w = parameter("w", constant(g, Tensor::zeros(DType::f32, {9, 3})));
  const Output ids = placeholder(g, DType::i64, {5, 4}, "ids");
  const Output update =
      minimize(reduce_sum(square(reduce_sum(gather(w, ids), {.axes = {1}}))), sgd(1));
  const Rewritten after = rewrite(push_rows_once, call_graph(g, {update}, {ids}));
  int pushes = 0;
  for (const auto& node : after.call.graph->nodes()) {
    if (node->op->name != "PushRowGradient") continue;
    ++pushes;
    CHECK(after.call.graph->node(node->inputs[1].node).op->name == "Multiply");  // of the square
    CHECK(node->attr<int64_t>("indices_per_row") == 4);
    CHECK(node->attr<int64_t>("row_size") == 3);
  }
  CHECK(pushes == 1);
}

}  // namespace troupe
