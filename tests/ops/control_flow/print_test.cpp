// Print: passes its input on, and prints it to stderr.
#include <doctest/doctest.h>

#include <iostream>
#include <sstream>

#include "graph/op.hpp"
#include "tests/support/op_cases.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

// Captures the output to std::cerr during its lifetime.
class Stderr {
 public:
  Stderr() : before_(std::cerr.rdbuf(text_.rdbuf())) {}
  ~Stderr() { std::cerr.rdbuf(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

OpCases cases() {
  const Attrs quiet = {{"text", std::string("x")}, {"most", int64_t{0}}};
  return table_of("Print",
                  {Case("a matrix", {iota({2, 3})}, {iota({2, 3})}, quiet),
                   Case("nothing", {zeros({0})}, {zeros({0})}, quiet)},
                  {Refused({scalar(1)}, "wants every of at least 1, got 0",
                           {{"text", std::string()}, {"every", int64_t{0}}}),
                   Refused({scalar(1)}, "wants elements of at least 0, got -1",
                           {{"text", std::string()}, {"elements", int64_t{-1}}})});
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Print passes its input on") { check(cases()); }

TEST_CASE("a line of Print names node, run, step, type and the first elements") {
  Graph g;
  const Output y = print(constant(g, f32(vector({1, 2.5, -3, 4}))), "weights", {.elements = 3});
  const Stderr heard;
  evaluate(g, {y}, {}, {.run = 7, .step = 3});
  CHECK(heard.text() == "weights: node=Print run=7 step=3 type=f32[4] values=[1 2.5 -3 ...]\n");
}

TEST_CASE("every and most bound the lines of Print") {
  Graph g;
  const Output y = print(constant(g, booleans(scalar(1))), "flag", {.every = 3, .most = 2});
  const Node& node = g.node(y.node);
  const NodeView view = NodeView::make(node, *find_kernel(node, DeviceKind::cpu));
  HeapMemory memory;
  const Stderr heard;
  for (int64_t run = 0; run < 20; ++run)
    run_kernel(view, {booleans(scalar(1))}, memory, {.run = run});
  CHECK(heard.text() ==
        "flag: node=Print run=0 type=bool[] values=[true]\n"
        "flag: node=Print run=3 type=bool[] values=[true]\n");
}

}  // namespace troupe
