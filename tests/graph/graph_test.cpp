// Graph::add: names, scopes, attributes, and the exact text of every refusal.
#include <doctest/doctest.h>

#include "graph/device_name.hpp"
#include "graph/op.hpp"
#include "tests/support/engine/toy_ops.hpp"

using namespace troupe;

namespace {

std::string refusal(const std::function<void(Graph&)>& build) {
  Graph graph(toy_ops());
  source(graph, "x");
  source(graph, "i", {2}, DType::i32);
  source(graph, "w", {3, 4});
  const size_t before = graph.nodes().size();
  std::string text = error_of([&] { build(graph); });
  CHECK(graph.nodes().size() == before);  // a refused node leaves no trace
  return text;
}

// The refusal of a node that reads these outputs, without the words that name the node.
std::string refused_node(const char* op, const std::vector<std::string>& inputs, const char* name,
                         const Attrs& attrs = {}) {
  const std::string text = refusal([&](Graph& g) {
    std::vector<Output> outputs;
    for (const std::string& input : inputs) outputs.push_back(g.output(input));
    apply(g, op, outputs, name, attrs);
  });
  const std::string head = detail::concat(op, " node ", name, " made at train.cpp:42");
  CHECK(text.starts_with(head));
  const size_t colon = text.compare(head.size(), 2, ": ") == 0 ? 2 : 0;
  return text.substr(head.size() + colon);
}

}  // namespace

TEST_CASE("a node has its op's outputs, with inferred types") {
  Graph graph(toy_ops());
  const Output a = source(graph, "a", {2, 3}), b = source(graph, "b", {3, -1});
  const Output c = apply(graph, "MatMul", {a, b}, "fc1");
  CHECK(c.name() == "fc1");
  CHECK(c.dtype() == DType::f32);
  CHECK(c.shape() == Shape{2, -1});
  CHECK(graph.node(c.node).line == 42);
  CHECK(graph.node(c.node).attr<bool>("transpose_a") == false);
  CHECK_THROWS_AS(graph.node(c.node).attr<bool>("axis"), InternalError);
  CHECK(graph.find("fc1")->id == c.node);
  CHECK(graph.find("fc2") == nullptr);
}

TEST_CASE("a variadic output has as many as the op infers") {
  Graph graph(toy_ops());
  const Output y = apply(graph, "Halves", {source(graph, "x")});
  CHECK(graph.node(y.node).outputs.size() == 2);
  CHECK(graph.output("Halves:1").index == 1);
  CHECK(graph.output("Halves").is(y));
}

TEST_CASE("outputs are found by name, and what is not there is named") {
  Graph graph(toy_ops());
  source(graph, "fc1/x");
  const Origin line{"train.cpp", 9};
  CHECK(error_of([&] { graph.output("fc1/X", line); }) ==
        "output() called at train.cpp:9: the graph has no node \"fc1/X\"; did you mean fc1/x?");
  CHECK(error_of([&] { graph.output("fc1/x:1", line); }) ==
        "output() called at train.cpp:9: the Source node fc1/x made at train.cpp:1 has no output "
        "1; it has 1");
  CHECK(error_of([&] { graph.output("fc1/x:one", line); }) ==
        "output() called at train.cpp:9: \"fc1/x:one\" is no output; write a node's name, or "
        "name:index");
  CHECK(error_of([&] { graph.output("fc1/X"); }).find("graph_test.cpp:") != std::string::npos);
}

TEST_CASE("names are made unique in their scopes") {
  Graph graph(toy_ops());
  CHECK(source(graph, "").name() == "Source");
  CHECK(source(graph, "").name() == "Source_1");
  CHECK(source(graph, "Source_2").name() == "Source_2");
  CHECK(source(graph, "").name() == "Source_3");
  {
    const auto outer = graph.scope({.name = "tower0"});
    CHECK(source(graph, "").name() == "tower0/Source");
    const auto inner = graph.scope({.name = "fc1"});
    CHECK(source(graph, "x").name() == "tower0/fc1/x");
  }
  CHECK(source(graph, "x").name() == "x");
}

TEST_CASE("a refused node takes no name") {
  Graph graph(toy_ops());
  source(graph, "a");
  CHECK_FALSE(error_of([&] { apply(graph, "Concat", {}, "a"); }).empty());
  CHECK(source(graph, "a").name() == "a_1");
}

TEST_CASE("control inputs that are named twice count once, in their first order") {
  Graph graph(toy_ops());
  std::vector<int32_t> all;
  for (int i = 0; i < 100; ++i) all.push_back(source(graph, "s").node);
  const std::vector<int32_t> some(all.begin(), all.begin() + 60);
  std::vector<int32_t> twice = all;
  twice.insert(twice.end(), some.rbegin(), some.rend());
  const auto scope = graph.scope({.control_inputs = some});
  const Output y = graph.add({.op = "Draw", .control_inputs = twice});
  CHECK(graph.node(y.node).control_inputs == all);
}

TEST_CASE("scopes give device, replica, colocation, control inputs and origin") {
  Graph graph(toy_ops());
  const Output a = source(graph, "a"), b = source(graph, "b");
  {
    const auto outer =
        graph.scope({.device = "/job:worker/task:1", .replica = 3, .control_inputs = {a.node}});
    const auto inner = graph.scope({.device = "/device:cpu:1",
                                    .colocate_with = "b",
                                    .control_inputs = {b.node, a.node},
                                    .origin = Origin{"user.cpp", 7}});
    const Node& node = graph.node(graph.add({.op = "Draw", .control_inputs = {b.node}}).node);
    CHECK(node.device == "/job:worker/task:1/device:cpu:1");
    CHECK(node.attr<int64_t>("replica") == 3);
    CHECK(node.colocate_with == "b");
    CHECK(node.control_inputs == std::vector<int32_t>{a.node, b.node});
    CHECK(describe(node) == "Draw node Draw made at user.cpp:7");
    CHECK(graph.replica() == 3);
    const auto innermost = graph.scope({.device = "", .colocate_with = ""});
    CHECK(graph.node(source(graph, "free").node).device.empty());
    CHECK(graph.node(source(graph, "free").node).colocate_with.empty());
    CHECK(graph.node(graph.add({.op = "Draw", .attrs = {{"replica", 9}}}).node)
              .attr<int64_t>("replica") == 9);
  }
  CHECK(graph.replica() == 0);
  CHECK(graph.node(source(graph, "after").node).control_inputs.empty());
}

TEST_CASE("an unknown op is refused with the nearest name") {
  CHECK(refusal([](Graph& g) { apply(g, "Matmul", {}, "fc1"); }) ==
        "node fc1 made at train.cpp:42: there is no op \"Matmul\"; did you mean MatMul?");
}

TEST_CASE("a name that none is near to is refused with where the names are") {
  CHECK(refusal([](Graph& g) { apply(g, "Wombat", {}, "fc1"); }) ==
        "node fc1 made at train.cpp:42: there is no op \"Wombat\"; troupe ops lists those that are "
        "built in, and others come with ops_with() or a plugin");
  CHECK(refusal([](Graph& g) {
          (void)g.output("nowhere", {"train.cpp", 9});
        }) ==
        "output() called at train.cpp:9: the graph has no node \"nowhere\"; to_text() and troupe "
        "graph show those there are");
}

TEST_CASE("a wrong number of inputs is refused with their names") {
  CHECK(refused_node("Add", {"x"}, "sum") == "wants 2 inputs (a, b), got 1");
  CHECK(refused_node("Stop", {}, "s") == "wants 1 input (x), got 0");
  CHECK(refused_node("Source", {"x"}, "s") == "wants no inputs, got 1");
  CHECK(refused_node("Concat", {}, "c", {{"axis", 0}}) == "wants at least 1 input (x...), got 0");
}

TEST_CASE("inputs that are not of this graph are refused") {
  CHECK(refusal([](Graph& g) {
          apply(g, "Add", {g.output("x"), Output()}, "sum");
        }) ==
        "Add node sum made at train.cpp:42: input 1 (b) is an undefined Output; pass the result of "
        "an op");
  Graph other(toy_ops());
  const Output foreign = source(other, "y");
  CHECK(refusal([&](Graph& g) {
          apply(g, "Add", {foreign, g.output("x")}, "sum");
        }) ==
        "Add node sum made at train.cpp:42: input 0 (a) comes from another graph; build both nodes "
        "in one Graph");
  CHECK(refusal([](Graph& g) {
          apply(g, "Stop", {Output{&g, 99, 0}}, "s");
        }) ==
        "Stop node s made at train.cpp:42: input 0 (x) names node number 99, but the graph has 3 "
        "nodes");
  CHECK(refusal([](Graph& g) {
          apply(g, "Stop", {Output{&g, 0, 1}}, "s");
        }) ==
        "Stop node s made at train.cpp:42: input 0 (x) is output 1 of the Source node x made at "
        "train.cpp:1, which has 1 "
        "output");
  CHECK(refusal([](Graph& g) {
          g.add({.op = "Source", .name = "s", .control_inputs = {77}}, {"train.cpp", 42});
        }) ==
        "Source node s made at train.cpp:42: names node number 77 as a control input, but the "
        "graph has 3 nodes");
}

TEST_CASE("a node without outputs is refused as an input") {
  Graph graph(toy_ops());
  const Output sink = apply(graph, "Sink", {source(graph, "x")});
  CHECK(error_of([&] { apply(graph, "Stop", {sink}, "s"); }) ==
        "Stop node s made at train.cpp:42: input 0 (x) is the Sink node Sink made at train.cpp:42, "
        "which has no outputs; "
        "name it as a control input to run after it");
}

TEST_CASE("an output that is not there has no type, and is refused") {
  Graph graph(toy_ops());
  const Output sink = apply(graph, "Sink", {source(graph, "x")});
  CHECK(error_of([&] { (void)sink.dtype(); }) ==
        "Sink node Sink made at train.cpp:42 has no output 0; it has none: name it as a control "
        "input");
  CHECK(error_of([&] {
          (void)Output{&graph, 0, 2}.shape();
        }) == "Source node x made at train.cpp:1 has no output 2; it has 1");
  for (int32_t id : {2, -1})
    CHECK(error_of([&] {
            (void)Output{&graph, id, 0}.name();
          }) ==
          detail::concat("the graph has no node number ", id, "; it has 2 nodes, counted from 0"));
}

TEST_CASE("a tensor that no memory could hold is refused with its node") {
  CHECK(refusal([](Graph& g) {
          source(g, "big", {int64_t{1} << 30, int64_t{1} << 30});
        }) ==
        "Source node big made at train.cpp:1: a tensor of shape [1073741824, 1073741824] has more "
        "than 2^59 elements");
}

TEST_CASE("numbers in messages are exact") {
  CHECK(detail::concat(1.0000001, " ", 0.1f, " ", 3.0, " ", 1e300) == "1.0000001 0.1 3 1e+300");
}

TEST_CASE("attributes are checked against the schema") {
  CHECK(refused_node("MatMul", {"w", "w"}, "m", {{"transposeb", true}}) ==
        "has no attribute \"transposeb\"; it has transpose_a, transpose_b, scale; did you mean "
        "transpose_b?");
  CHECK(refused_node("Stop", {"x"}, "s", {{"axis", 1}}) ==
        "has no attribute \"axis\"; it has none at all");
  CHECK(refused_node("Concat", {"x"}, "c") == "needs attribute axis, an integer");
  CHECK(refused_node("Concat", {"x"}, "c", {{"axis", std::string("last")}}) ==
        "attribute axis wants an integer, got a text (\"last\")");
  CHECK(refused_node("Source", {}, "s", {{"dtype", DType::none}}) ==
        "attribute dtype is no dtype; there are f32, f64, i32, i64, u8, bool, i8, f16 and bf16");
  Attrs all = {{"b", true},
               {"d", DType::f32},
               {"i", 1},
               {"l", std::vector<int64_t>{1}},
               {"r", 1},
               {"s", Shape{}},
               {"t", std::string("text")},
               {"v", Tensor()}};
  CHECK(refusal([&](Graph& g) { apply(g, "Everything", {}, "e", all); }) ==
        "Everything node e made at train.cpp:42: attribute v is an undefined tensor; give it a "
        "value");
}

TEST_CASE("an integer is a good number") {
  Graph graph(toy_ops());
  const Output w = source(graph, "w", {3, 3});
  const Output y = apply(graph, "MatMul", {w, w}, "m", {{"scale", 2}});
  CHECK(graph.node(y.node).attr<double>("scale") == 2.0);
}

TEST_CASE("dtypes and shapes that do not fit are refused with the types of all inputs") {
  CHECK(refused_node("Add", {"x", "i"}, "sum") ==
        " (inputs f32[2], i32[2]): inputs must have one dtype, got f32 and i32; cast one of them");
  CHECK(refused_node("MatMul", {"w", "w"}, "fc1/MatMul") ==
        " (inputs f32[3, 4], f32[3, 4]): inner sizes differ: [3, 4] times [3, 4]");
  CHECK(refused_node("MatMul", {"x", "w"}, "m") ==
        " (inputs f32[2], f32[3, 4]): wants two matrices, got [2] and [3, 4]");
}

TEST_CASE("names that would not read back are refused") {
  CHECK(refusal([](Graph& g) { source(g, "my node"); }) ==
        "the Source node my node made at train.cpp:1 cannot be called \"my node\"; a name is "
        "letters, digits and . _ - /, "
        "and begins with a letter, a digit, . or _");
  CHECK(refusal([](Graph& g) {
          (void)g.scope({.name = "a:b"}, {"train.cpp", 9});
        }) ==
        "scope() called at train.cpp:9: a scope cannot be called \"a:b\"; a name is letters, "
        "digits and . _ - /, and begins with "
        "a letter, a digit, . or "
        "_");
}

TEST_CASE("scopes with wrong devices, replicas and partners are refused") {
  const auto refused = [](Graph::ScopeSpec spec) {
    const std::string at = "scope() called at train.cpp:9: ";
    const std::string text = refusal([&](Graph& g) { (void)g.scope(spec, {"train.cpp", 9}); });
    CHECK(text.starts_with(at));
    return text.substr(at.size());
  };
  CHECK(refused({.device = "cpu:0"}) ==
        "device name \"cpu:0\": begins without a slash; write it like "
        "/job:worker/task:0/device:cpu:0, in full or in part");
  CHECK(refused({.replica = -1}) == "a replica is a number from 0, got -1");
  CHECK(refused({.control_inputs = {9}}) ==
        "node number 9 is named as a control input, but the graph has 3 nodes");
  CHECK(refusal([](Graph& g) {
          (void)g.scope({.colocate_with = "y"}, {"train.cpp", 9});
        }) == "scope() called at train.cpp:9: the graph has no node \"y\"; did you mean i?");
}

TEST_CASE("a registry refuses schemas that contradict themselves") {
  const auto refused = [](Op op) {
    Registry registry;
    return error_of([&] { registry.add(std::move(op)); });
  };
  CHECK(refused({.name = "A b"}) == "op \"A b\": an op's name is letters, digits and _");
  CHECK(refused({.name = "A", .inputs = {"x...", "y"}}) ==
        "op \"A\": only the last input may end in \"...\", not x...");
  for (const std::string word : {"on", "in", "with", "after", "at"})
    CHECK(refused({.name = "A", .attrs = {{word}}}) ==
          "op \"A\": no attribute can be called " + word + ", a word of the text form of graphs");
  CHECK(refused({.name = "A", .inputs = {"x"}, .outputs = {"y"}}) ==
        "op \"A\": an op with outputs needs infer_shapes");
  CHECK(refused({.name = "A", .outputs = {"y"}, .infer_shapes = toy::shape_attr}) ==
        "op \"A\": an op with outputs and no inputs needs infer_dtypes");
  CHECK(refused({.name = "A", .attrs = {{"n", AttrKind::integer, Attr(true)}}}) ==
        "op \"A\": the default of attribute n has another type than the attribute");
  CHECK(refused({.name = "A", .attrs = {{"a b", AttrKind::integer}}}) ==
        "op \"A\": the name of an attribute is letters, digits and _, not \"a b\"");
  CHECK(
      refused({.name = "A", .kernels = {{DeviceKind::cpu}}}) ==
      "op \"A\": the kernel for any dtype on cpu has neither of `run` and `start`; give it one of "
      "them");
  CHECK(refused({.name = "A", .dispatch = 1}) ==
        "op \"A\": dispatch names input 1, which there is not");
  Registry twice;
  twice.add({.name = "A"});
  CHECK(error_of([&] { twice.add({.name = "A"}); }) ==
        "op \"A\": there is already an op of this name");
}

TEST_CASE("a registry's fingerprint changes with any schema") {
  const auto fingerprint = [](Op op) {
    Registry registry;
    registry.add(std::move(op));
    return registry.fingerprint();
  };
  const uint64_t plain = fingerprint({.name = "A", .inputs = {"x"}});
  CHECK(plain == fingerprint({.name = "A", .inputs = {"x"}}));
  CHECK(plain != fingerprint({.name = "B", .inputs = {"x"}}));
  CHECK(plain != fingerprint({.name = "A", .inputs = {"y"}}));
  CHECK(plain != fingerprint({.name = "A", .inputs = {"x"}, .attrs = {{"n", AttrKind::integer}}}));
  CHECK(fingerprint({.name = "A", .attrs = {{"n", AttrKind::integer, Attr(int64_t{1})}}}) !=
        fingerprint({.name = "A", .attrs = {{"n", AttrKind::integer, Attr(int64_t{2})}}}));
}

TEST_CASE("a kernel is found by device and dispatch dtype, else one for any dtype") {
  Graph graph(toy_ops());
  const Output x = source(graph, "x", {2, 2}), i = source(graph, "i", {2, 2}, DType::i32);
  const Node& f32 = graph.node(apply(graph, "MatMul", {x, x}).node);
  const Node& i32 = graph.node(apply(graph, "MatMul", {i, i}).node);
  const Node& any = graph.node(apply(graph, "Mul", {i, i}).node);
  REQUIRE(find_kernel(f32, DeviceKind::cpu));
  CHECK(find_kernel(f32, DeviceKind::cpu)->dtype == DType::f32);
  CHECK(find_kernel(f32, DeviceKind::cuda) == nullptr);
  CHECK(find_kernel(i32, DeviceKind::cpu) == nullptr);
  CHECK(find_kernel(any, DeviceKind::cpu) != nullptr);
  CHECK(find_kernel(any, DeviceKind::cuda) == nullptr);
  CHECK(dispatch_dtype(graph.node(x.node)) == DType::f32);
}

TEST_CASE("device names read, print, match and merge") {
  for (const char* name : {"", "/job:ps", "/task:3", "/job:ps/task:1/device:cpu:0", "/device:cuda",
                           "/job:a-b_1/device:shadow:2"})
    CHECK(to_string(parse_device_name(name)) == name);
  CHECK(to_string(parse_device_name("/device:GPU:1/job:w")) == "/job:w/device:cuda:1");
  const DeviceName full = parse_device_name("/job:ps/task:1/device:cpu:0");
  CHECK(parse_device_name("").matches(full));
  CHECK(parse_device_name("/job:ps/device:cpu").matches(full));
  CHECK_FALSE(parse_device_name("/job:ps/task:2").matches(full));
  const auto merged = [&](const char* a, const char* b) {
    return to_string(merge(parse_device_name(a), parse_device_name(b)));
  };
  CHECK(merged("/task:2", "/job:ps/task:1/device:cpu:0") == "/job:ps/task:2/device:cpu:0");
  CHECK(merged("/job:worker", "/job:ps/task:1") == "/job:worker");
  CHECK(merged("/device:cuda", "/job:ps/task:1/device:cpu:3") == "/job:ps/task:1/device:cuda");
  CHECK(merged("/job:ps", "/task:1") == "/job:ps/task:1");
}

TEST_CASE("wrong device names are refused, saying which part") {
  const auto refused = [](const char* name) {
    const std::string text = error_of([&] { parse_device_name(name); });
    const size_t from = text.find("\": ") + 3;
    return text.substr(from, text.find("; write it like") - from);
  };
  CHECK(refused("job:ps") == "begins without a slash");
  CHECK(refused("/job:") == "a job is letters, digits, _ and -, got \"\"");
  CHECK(refused("/task:one") == "task wants a number from 0, got \"one\"");
  CHECK(refused("/task:-1") == "task wants a number from 0, got \"-1\"");
  CHECK(refused("/task:99999999999999999999") ==
        "task wants a number from 0, got \"99999999999999999999\"");
  CHECK(refused("/device:tpu:0").starts_with("no device kind is called \"tpu\""));
  CHECK(refused("/job:a/job:b") == "job is given twice");
  CHECK(refused("/host:a") == "does not know \"host:a\"");
  CHECK(refused("/") == "does not know \"\"");
}
