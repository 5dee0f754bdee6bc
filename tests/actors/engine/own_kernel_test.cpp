// Kernels of one's own that ask for what their node does not have: the run ends with an error that
// says so, and the session goes on.

#include <stdexcept>

#include "tests/support/engine/own_op.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

// y = x, where `asked` is 0; else the kernel asks for an input or output that is not there.
int asked = 0;

void passes_on(KernelContext& ctx) {
  switch (asked) {
    case 1:
      return ctx.set_output(0, ctx.input(2));
    case 2:
      return ctx.set_output(0, ctx.input(-1));
    case 3:
      ctx.output(1);
      return;
    case 4:
      return ctx.set_output(-1, ctx.input(0));
    case 5:
      ctx.output(7, Shape{2});
      return;
    case 6:
      ctx.output(0, Shape{3});
      return;
    default:
      return ctx.set_output(0, ctx.input(0));
  }
}

void passes_on_later(std::shared_ptr<AsyncContext> ctx) { ctx->done({ctx->input(asked)}); }

void writes(KernelContext& ctx) { (asked == 1 ? ctx.output_in_place() : ctx.output()).dtype(); }

struct Program {
  Graph graph{ops_with(
      {own_op("Mine", {.run = passes_on}),
       own_op("Later", {.start = passes_on_later}),
       {.name = "Effect", .inputs = {"x"}, .kernels = {{.run = writes}}, .stateful = true}})};
  Output x = placeholder(graph, DType::f32, {2});
  Tensor value = Tensor::of<float>({1, 2}, {2});

  Output add(const char* op) {
    return graph.add({.op = op, .inputs = {x}, .name = "theirs"}, {"mine.cpp", 7});
  }
};

}  // namespace

TEST_CASE(
    "a kernel that asks for an input or output that is not there is told how many there are") {
  Program p;
  const Output y = p.add("Mine");
  Session session = Session::local(p.graph, {.threads = 1});
  const char* const texts[] = {
      "asks for input 2, but it has 1 input, counted from 0",
      "asks for input -1, but it has 1 input, counted from 0",
      "asks for output 1, but it has 1 output, counted from 0",
      "asks for output -1, but it has 1 output, counted from 0",
      "asks for output 7, but it has 1 output, counted from 0",
      "wants output 0 of shape [3], but the graph says [2]",
  };
  for (asked = 1; asked <= 6; ++asked) {
    CAPTURE(asked);
    const Refusal refusal = refusal_of([&] { session.run({y}, {{p.x, p.value}}); });
    CHECK(refusal.code == (asked < 6 ? Errc::invalid_argument : Errc::kernel_failed));
    has(refusal.text, "Mine node theirs made at mine.cpp:7");
    has(refusal.text, texts[asked - 1]);
    CHECK(refusal.text.find("check failed") == std::string::npos);
  }
  asked = 0;
  CHECK(same_bits(session.run({y}, {{p.x, p.value}})[0], p.value));
}

TEST_CASE("a kernel that finishes later is told the same") {
  Program p;
  const Output y = p.add("Later");
  Session session = Session::local(p.graph, {.threads = 1});
  asked = 1;
  check_invalid(
      [&] {
        session.run({y}, {{p.x, p.value}});
      },
      "Later node theirs made at mine.cpp:7",
      "asks for input 1, but it has 1 input, counted from 0");
  asked = 0;
  CHECK(same_bits(session.run({y}, {{p.x, p.value}})[0], p.value));
}

TEST_CASE("a kernel of a node without outputs has none to write") {
  Program p;
  const int32_t node = p.add("Effect").node;
  const auto scope = p.graph.scope({.control_inputs = {node}});
  const Output y = identity(p.x);
  Session session = Session::local(p.graph, {.threads = 1});
  for (asked = 0; asked < 2; ++asked) {
    CAPTURE(asked);
    check_invalid(
        [&] {
          session.run({y}, {{p.x, p.value}});
        },
        "the kernel of Effect asks for output 0, but it has no outputs");
  }
  asked = 0;
}

TEST_CASE(
    "what a kernel passes on has the shape that the rule gives it, also where sizes were open") {
  static Shape made;
  const auto makes = [](KernelContext& ctx) {
    const int first = ctx.node().op->in_place ? 1 : 0;
    if (first > 0) ctx.output_in_place();  // input 0 is gone
    ctx.set_output(first, Tensor::zeros(DType::f32, made));
  };
  const Kernel kernel{.dtype = DType::f32, .run = makes};
  // y: [b, n, 3] for x: [b, n]. The number of rows of Counted depends on values.
  const auto rule = [](const InferContext& ctx) {
    return std::vector{Shape{ctx.input(0)[0], ctx.input(0)[1], 3}};
  };
  Op made_op = own_op("Made", kernel), counted = own_op("Counted", kernel);
  made_op.infer_shapes = counted.infer_shapes = rule;
  counted.value_shapes = true;
  Op both = own_op("Both", kernel);  // and x itself, in place
  both.outputs = {"x_again", "y"};
  both.in_place = true;
  both.infer_shapes = [](const InferContext& ctx) {
    return std::vector{ctx.input(0), Shape{ctx.input(0)[0], ctx.input(0)[1], 3}};
  };
  Graph graph(ops_with({made_op, counted, both}));
  const Output x = placeholder(graph, DType::f32, {-1, 2});
  const Tensor value = Tensor::zeros(DType::f32, {4, 2});
  Session session = Session::local(graph, {.threads = 1});
  const auto result = [&](const Output& y, const Shape& shape) {
    made = shape;
    return refusal_of([&] {
      const Tensor got = session.run({y}, {{x, value}})[0];
      CHECK(got.shape() == shape);
    });
  };
  const Output y = graph.add({.op = "Made", .inputs = {x}, .name = "made"});
  const Output rows = graph.add({.op = "Counted", .inputs = {x}, .name = "counted"});
  const Output second{&graph, graph.add({.op = "Both", .inputs = {x + 1}, .name = "both"}).node, 1};
  for (const Output& of : {y, second}) {
    CAPTURE(of.name());
    CHECK(result(of, {4, 2, 3}).code == Errc::ok);
    for (const Shape& wrong : {Shape{4, 2}, Shape{4, 3, 2}, Shape{4, 2, 3, 1}}) {
      const Refusal refusal = result(of, wrong);
      CHECK(refusal.code == Errc::kernel_failed);
      has(refusal.text, "gave f32" + to_string(wrong) + " as output " + std::to_string(of.index) +
                            ", which is to be f32[-1, 2, 3]");
    }
    const Refusal other = result(of, {5, 2, 3});
    CHECK(other.code == Errc::kernel_failed);
    has(other.text, "gave f32[5, 2, 3] as output " + std::to_string(of.index) +
                        ", which by its inputs is to be f32[4, 2, 3]");
    CHECK(result(of, {4, 2, 3}).code == Errc::ok);
  }
  CHECK(result(rows, {1, 2, 3}).code == Errc::ok);
  CHECK(result(rows, {1, 3, 2}).code == Errc::kernel_failed);
}

TEST_CASE("a kernel that refuses its inputs runs once, one that throws anything else four times") {
  static int runs = 0;
  static bool refuses = false;
  const Kernel kernel{.dtype = DType::f32, .run = [](KernelContext& ctx) {
                        ++runs;
                        if (refuses) throw ctx.error("no such record");
                        throw std::runtime_error("the file is gone");
                      }};
  Graph graph(ops_with({own_op("Reads", kernel)}));
  const Output x = placeholder(graph, DType::f32, {2});
  const Output y = graph.add({.op = "Reads", .inputs = {x}, .name = "reads"});
  Session session = Session::local(graph, {.threads = 1});
  const auto refusal = [&] {
    runs = 0;
    return refusal_of([&] { session.run({y}, {{x, Tensor::zeros(DType::f32, {2})}}); });
  };
  const Refusal failed = refusal();
  CHECK(runs == 4);
  CHECK(failed.code == Errc::kernel_failed);
  has(failed.text, "node reads on /job:local/task:0/device:cpu:0 failed 4 times: ");
  has(failed.text, "the file is gone");
  refuses = true;
  const Refusal refused = refusal();
  CHECK(runs == 1);
  CHECK(refused.code == Errc::invalid_argument);
  has(refused.text, "no such record");
}

TEST_CASE("a kernel that has taken its input over and throws before it writes runs again with it") {
  static int throws = 0;
  Op op = own_op("Twice", {.run = [](KernelContext& ctx) {
                   const float* x = ctx.input(0).data<float>();
                   const int64_t n = ctx.input(0).size();
                   float* y = ctx.output_in_place().mutable_data<float>();
                   if (throws > 0 && throws--) throw std::runtime_error("a busy lock");
                   for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];
                 }});
  op.in_place = true;
  for (const Shape& shape : {Shape{3}, Shape{-1}}) {
    Graph graph(ops_with({op}));
    const Output x = placeholder(graph, DType::f32, shape);
    const Output y = graph.add({.op = "Twice", .inputs = {cumsum(x)}});
    Session session = Session::local(graph, {.threads = 1});
    for (const int times : {0, 1, 3}) {
      throws = times;
      const Tensor out = session.run({y}, {{x, Tensor::of<float>({1, 2, 3}, {3})}})[0];
      CHECK(throws == 0);
      CHECK(out.data<float>()[0] == 2);
      CHECK(out.data<float>()[2] == 12);
    }
  }
}

TEST_CASE("a device has memory") {
  Program p;
  for (const int64_t bytes : {-1, 0}) {
    const Refusal refusal =
        refusal_of([&] { Session::local(p.graph, {.threads = 1, .memory_budget_bytes = bytes}); });
    CHECK(refusal.code == Errc::invalid_argument);
    CHECK(refusal.text == detail::concat("ProcessOptions::memory_budget_bytes is ", bytes,
                                         "; wants at least 1 byte; for no limit give more than the "
                                         "machine has"));
  }
}

}  // namespace troupe
