// Graphs as protobuf: they read back equal, and bad ones are refused by name. The ops are defined
// by the test.
#include "net/wire/graph_proto.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "net/wire/graph.pb.h"
#include "troupe/op.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

std::vector<Shape> same_shape(const InferContext& ctx) { return {ctx.input(0)}; }

std::shared_ptr<const Registry> test_ops() {
  auto registry = std::make_shared<Registry>();
  registry->add({.name = "Source",
                 .outputs = {"y"},
                 .attrs = {{"dtype", AttrKind::dtype, {}},
                           {"shape", AttrKind::shape, {}},
                           {"value", AttrKind::tensor, Attr{Tensor::scalar<float>(1)}},
                           {"flag", AttrKind::boolean, Attr{true}},
                           {"ratio", AttrKind::real, Attr{0.1}},
                           {"label", AttrKind::text, Attr{std::string("a\xff\n")}},
                           {"axes", AttrKind::integers, Attr{std::vector<int64_t>{-1, 2}}},
                           {"count", AttrKind::integer, Attr{int64_t{-7}}}},
                 .infer_dtypes =
                     [](const InferContext& ctx) { return std::vector{ctx.attr<DType>("dtype")}; },
                 .infer_shapes =
                     [](const InferContext& ctx) { return std::vector{ctx.attr<Shape>("shape")}; },
                 .no_gradient = "a test",
                 .dispatch = -1});
  registry->add({.name = "Sum",
                 .inputs = {"x", "more..."},
                 .outputs = {"y"},
                 .infer_shapes = same_shape,
                 .no_gradient = "a test"});
  registry->add({.name = "Effect",
                 .inputs = {"x"},
                 .infer_shapes = [](const InferContext&) { return std::vector<Shape>(); },
                 .no_gradient = "a test",
                 .stateful = true});
  return registry;
}

std::unique_ptr<Graph> example() {
  auto g = std::make_unique<Graph>(test_ops());
  Output a, b;
  {
    auto scope = g->scope({.name = "tower", .device = "/job:worker/task:1"});
    a = g->add({.op = "Source",
                .attrs = {{"dtype", DType::f32},
                          {"shape", Shape{-1, 3}},
                          {"value", Tensor::of<double>({1, std::nan(""), -0.0}, Shape{3})},
                          {"ratio", std::numeric_limits<double>::denorm_min()}},
                .name = "x"},
               {"dir/prog\xff.cpp", 12});
    b = g->add({.op = "Source",
                .attrs = {{"dtype", DType::f32},
                          {"shape", Shape{2, 3}},
                          {"value", Tensor::of<bool>({true, false}, Shape{2})}}});
  }
  auto scope = g->scope({.colocate_with = "tower/x"});
  const Output s = g->add({.op = "Sum", .inputs = {a, b, a}});
  g->add({.op = "Effect", .inputs = {s}, .control_inputs = {a.node, b.node}});
  return g;
}

void check_equal(const Graph& a, const Graph& b) {
  REQUIRE(a.nodes().size() == b.nodes().size());
  for (size_t i = 0; i < a.nodes().size(); ++i) {
    const Node &x = *a.nodes()[i], &y = *b.nodes()[i];
    CAPTURE(x.name);
    CHECK(x.name == y.name);
    CHECK(x.op->name == y.op->name);
    CHECK(x.control_inputs == y.control_inputs);
    CHECK(x.device == y.device);
    CHECK(x.colocate_with == y.colocate_with);
    CHECK(x.file == y.file);
    CHECK(x.line == y.line);
    CHECK(x.outputs == y.outputs);
    REQUIRE(x.inputs.size() == y.inputs.size());
    for (size_t k = 0; k < x.inputs.size(); ++k) {
      CHECK(x.inputs[k].node == y.inputs[k].node);
      CHECK(x.inputs[k].index == y.inputs[k].index);
    }
    REQUIRE(x.attrs.size() == y.attrs.size());
    for (const auto& attr : x.attrs) {
      const std::string& name = attr.first;
      const Attr& value = attr.second;
      CAPTURE(name);
      const Attr& other = y.attrs.at(name);
      REQUIRE(value.index() == other.index());
      if (const auto* t = std::get_if<Tensor>(&value))
        CHECK(same_bits(*t, std::get<Tensor>(other)));
      else
        CHECK(to_string(value) == to_string(other));
    }
  }
}

std::string refusal(const std::function<void(proto::Graph&)>& damage) {
  proto::Graph g;
  REQUIRE(g.ParseFromString(graph_to_proto(*example())));
  damage(g);
  return error_text(Errc::bad_data, [&] { graph_from_proto(g.SerializeAsString(), test_ops()); });
}

}  // namespace

TEST_CASE("a graph reads back equal, with the same bytes again") {
  const auto g = example();
  const std::string bytes = graph_to_proto(*g);
  const auto back = graph_from_proto(bytes, test_ops());
  check_equal(*g, *back);
  CHECK(graph_to_proto(*back) == bytes);
  CHECK(graph_to_proto(*example()) == bytes);
  CHECK(graph_from_proto(graph_to_proto(Graph(test_ops())), test_ops())->nodes().empty());
}

TEST_CASE("bad graphs are refused with the node and what is wrong") {
  using P = proto::Graph;
  const auto node = [](P& g, int i) { return g.mutable_nodes(i); };
  const auto attr = [](P& g, int i, const std::string& name) -> proto::Attr* {
    for (auto& a : *g.mutable_nodes(i)->mutable_attrs())
      if (a.name() == name) return &a;
    return nullptr;
  };
  struct Case {
    std::function<void(P&)> damage;
    const char* message;
  };
  const Case cases[] = {
      {[](P& g) { g.set_version(kGraphVersion + 1); }, "install a newer one"},
      {[](P& g) { g.set_version(0); }, "have no version"},
      {[](P& g) { g.set_ops(1, "Mystery"); }, "op Mystery is not known here"},
      {[&](P& g) { node(g, 2)->set_op(77); }, "its op is number 77 of 3"},
      {[&](P& g) { node(g, 2)->set_inputs(0, 99); },
       "(Sum): its input is node number 99, but the graph has 4 nodes"},
      {[&](P& g) { node(g, 2)->add_control_inputs(3); }, "the graph has a cycle"},
      {[&](P& g) { node(g, 2)->set_inputs(0, 2); }, "the graph has a cycle"},
      {[&](P& g) {
         node(g, 1)->add_control_inputs(2);
         node(g, 2)->clear_inputs();
         node(g, 2)->clear_input_outputs();
       },
       "which stands behind it"},
      {[&](P& g) { node(g, 2)->set_input_outputs(0, 5); }, "output 5"},
      {[&](P& g) {
         node(g, 2)->clear_inputs();
         node(g, 2)->clear_input_outputs();
       },
       "wants at least"},
      {[&](P& g) { node(g, 2)->clear_input_outputs(); }, "names 3 inputs and 0 outputs"},
      {[&](P& g) { node(g, 1)->set_name("tower/x"); }, "another node has this name"},
      {[&](P& g) { node(g, 1)->set_name(""); }, "it has no name"},
      {[&](P& g) { node(g, 1)->set_name("a b"); }, "a name is letters"},
      {[&](P& g) { node(g, 1)->set_device("/job"); }, "/job"},
      {[&](P& g) { node(g, 1)->set_colocate_with("nobody"); }, "no such node before it"},
      {[&](P& g) { node(g, 1)->set_file(9); }, "its file is number 9"},
      {[&](P& g) { attr(g, 0, "shape")->mutable_shape()->add_dims(int64_t{1} << 62); },
       "past all bounds"},
      {[&](P& g) { attr(g, 0, "shape")->mutable_shape()->set_dims(0, -2); }, "past all bounds"},
      {[&](P& g) {
         for (int i = 0; i < 9; ++i) attr(g, 0, "shape")->mutable_shape()->add_dims(1);
       },
       "11 dimensions"},
      {[&](P& g) { attr(g, 0, "value")->mutable_tensor()->set_dims(0, int64_t{1} << 61); },
       "past all bounds"},
      {[&](P& g) { attr(g, 0, "value")->mutable_tensor()->set_dims(0, 4); },
       "wants 32 bytes of elements, got 24"},
      {[&](P& g) { attr(g, 0, "value")->mutable_tensor()->set_dtype(99); }, "no dtype number 99"},
      {[&](P& g) { attr(g, 1, "value")->mutable_tensor()->set_elements("\1\7", 2); },
       "neither 0 nor 1"},
      {[&](P& g) { attr(g, 0, "dtype")->clear_value(); }, "has no value"},
      {[&](P& g) { attr(g, 0, "dtype")->set_integer(3); }, "wants a dtype"},
      {[&](P& g) { *node(g, 0)->add_attrs() = *attr(g, 0, "dtype"); }, "is given twice"},
      {[&](P& g) { attr(g, 0, "ratio")->set_name("rate"); }, "rate"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.message);
    const std::string text = refusal(c.damage);
    CHECK_MESSAGE(text.find(c.message) != std::string::npos, text);
  }
}

TEST_CASE("cut and damaged bytes are refused or read as another right graph, never more") {
  const std::string bytes = graph_to_proto(*example());
  const auto registry = test_ops();
  CHECK_THROWS_AS((void)graph_from_proto("", registry), Error);
  CHECK_THROWS_AS((void)graph_from_proto("GET / HTTP/1.1", registry), Error);
  std::mt19937 rng(3);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string bad = bytes;
    for (unsigned i = 0; i <= rng() % 3; ++i)
      bad[rng() % bad.size()] ^= static_cast<char>(1u << (rng() % 8));
    if (round % 3 == 0) bad.resize(rng() % bad.size());
    try {
      (void)graph_from_proto(bad, registry);
    } catch (const Error& e) {
      CHECK(e.code() == Errc::bad_data);
      ++refused;
    }
  }
  CHECK(refused > 1000);
}

}  // namespace troupe
