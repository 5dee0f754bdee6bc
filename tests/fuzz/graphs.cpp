// Graphs of another process: as protobuf, and as text.
#include <memory>

#include "net/wire/graph_proto.hpp"
#include "tests/fuzz/targets.hpp"
#include "troupe/graph.hpp"
#include "troupe/op.hpp"

namespace troupe::fuzz {
namespace {

void nothing(KernelContext&) {}

// A few ops with all kinds of attributes: the readers know ops only by their registry.
std::shared_ptr<const Registry> some_ops() {
  static const std::shared_ptr<const Registry> ops = [] {
    auto out = std::make_shared<Registry>();
    const std::vector<Kernel> kernels = {{DeviceKind::cpu, DType::none, nothing}};
    Op make{.name = "Make", .outputs = {"y"}, .kernels = kernels, .dispatch = -1};
    make.attrs = {{"dtype", AttrKind::dtype},
                  {"shape", AttrKind::shape},
                  {"flag", AttrKind::boolean, Attr(false)},
                  {"count", AttrKind::integer, Attr(int64_t{1})},
                  {"rate", AttrKind::real, Attr(0.5)},
                  {"text", AttrKind::text, Attr(std::string())},
                  {"sizes", AttrKind::integers, Attr(std::vector<int64_t>())},
                  {"value", AttrKind::tensor, Attr(Tensor::scalar<float>(1))}};
    make.infer_dtypes = [](const InferContext& ctx) {
      return std::vector<DType>{ctx.attr<DType>("dtype")};
    };
    make.infer_shapes = [](const InferContext& ctx) {
      return std::vector<Shape>{ctx.attr<Shape>("shape")};
    };
    out->add(make);
    Op add{.name = "Add", .inputs = {"a", "b"}, .outputs = {"c"}, .kernels = kernels};
    add.infer_shapes = [](const InferContext& ctx) { return std::vector<Shape>{ctx.input(0)}; };
    out->add(add);
    Op split{.name = "Split", .inputs = {"x..."}, .outputs = {"y", "z"}, .kernels = kernels};
    split.infer_shapes = [](const InferContext& ctx) {
      return std::vector<Shape>{ctx.input(0), ctx.input(0)};
    };
    out->add(split);
    return out;
  }();
  return ops;
}

std::unique_ptr<Graph> small_graph() {
  auto graph = std::make_unique<Graph>(some_ops());
  const Output a = graph->add({.op = "Make",
                               .attrs = {{"dtype", DType::f32},
                                         {"shape", Shape{2, -1}},
                                         {"text", std::string("quote \" and \n")},
                                         {"sizes", std::vector<int64_t>{1, -2, 3}}},
                               .name = "a"});
  const Output b = graph->add({.op = "Add", .inputs = {a, a}, .name = "b"});
  const auto scope = graph->scope({.name = "scope", .device = "/job:worker/task:1"});
  graph->add({.op = "Split", .inputs = {a, b, a}, .name = "c", .control_inputs = {b.node}});
  return graph;
}

void run_proto(std::string_view bytes) {
  const auto graph = graph_from_proto(std::string(bytes), some_ops());
  const std::string once = graph_to_proto(*graph);
  promise(graph_to_proto(*graph_from_proto(once, some_ops())) == once, "a graph reads back equal");
}

void run_text(std::string_view bytes) {
  const auto graph = graph_from_text(std::string(bytes), some_ops());
  const std::string once = to_text(*graph);
  promise(to_text(*graph_from_text(once, some_ops())) == once, "a graph reads back equal");
}

Seeds proto_seeds() { return {graph_to_proto(*small_graph()), graph_to_proto(Graph(some_ops()))}; }
Seeds text_seeds() { return {to_text(*small_graph())}; }

}  // namespace

Target graph_proto_target() { return {"graph_proto", run_proto, proto_seeds}; }
Target graph_text_target() { return {"graph_text", run_text, text_seeds}; }

}  // namespace troupe::fuzz
