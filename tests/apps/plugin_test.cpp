// Plugins: loaded ops run like any op, and a refused plugin changes nothing.
#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"
#include "troupe/ops.hpp"
#include "troupe/custom_op.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

std::string plugin(const std::string& name) {
  return binary_dir() + "/tests/plugins/" + name + ".so";
}

// Runs `op` in a new session with the ops of cube.so.
std::vector<Tensor> run_op(const std::string& op) {
  Graph graph(ops_with_plugins({plugin("cube")}));
  const Output x = placeholder(graph, DType::f32, {-1});
  const Output y = graph.add({.op = op, .inputs = {x}, .name = "theirs"});
  const Output dx = op == "Cube" ? gradients({y}, {x})[0] : x;
  ProcessOptions one_lane{.threads = 1};
  Session session = Session::local(graph, one_lane);
  return session.run({y, dx}, {{x, Tensor::of<float>({1, -2, 0.5}, {3})}});
}

}  // namespace

TEST_CASE("an op of a plugin runs and has a gradient") {
  const std::vector<Tensor> got = run_op("Cube");
  CHECK(same_bits(got[0], Tensor::of<float>({1, -8, 0.125}, {3})));
  CHECK(same_bits(got[1], Tensor::of<float>({3, 12, 0.75}, {3})));
}

TEST_CASE("a plugin tells what it has added") {
  Registry registry;
  const Plugin loaded = load_plugin(registry, plugin("cube"));
  CHECK(loaded.ops == std::vector<std::string>{"Cube", "OtherShape", "ThrowsInKernel"});
  CHECK(registry.all().size() == 3);
}

TEST_CASE("a plugin that is refused says why, and adds nothing") {
  struct Case {
    std::string name;
    Errc code;
    std::string text;
  };
  for (const Case& c : {
           Case{"wrong_schema", Errc::bad_configuration, "NoShapes\": an op with outputs needs"},
           Case{"throws", Errc::bad_configuration,
                "could not add its ops: the license has run out"},
           Case{"throws_number", Errc::bad_configuration, "something that is not a std::exception"},
           Case{"name_exists", Errc::bad_configuration,
                "adds an op \"MatMul\", but there is already one"},
           Case{"missing_symbol", Errc::bad_configuration, "nowhere_defined"},
           Case{"other_abi", Errc::bad_configuration, "has ABI version 7, this program has 1"},
           Case{"other_layout", Errc::bad_configuration, "was built with other headers"},
           Case{"no_plugin", Errc::bad_data, "is no plugin of Troupe"},
           Case{"nowhere", Errc::io, "nowhere.so: No such file"},
       }) {
    CAPTURE(c.name);
    Registry registry;
    registry.add(builtin_ops()->get("MatMul"));
    const Refusal refusal = refusal_of([&] { load_plugin(registry, plugin(c.name)); });
    CHECK(refusal.code == c.code);
    has(refusal.text, plugin(c.name));
    has(refusal.text, c.text);
    CHECK(refusal.text.find("--") == std::string::npos);  // programs have no command line
    CHECK(registry.all().size() == 1);
  }
  CHECK(run_op("Cube").size() == 2);
}

TEST_CASE("a plugin that was cut off is refused, wherever it was cut") {
  std::ifstream in(plugin("cube"), std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  const TempFile empty("empty.so", "");
  const TempFile text("text.so", "not a library");
  Registry registry;
  int mapped = 0;  // cuts after the description, so the file is opened as a library
  for (size_t eighth = 1; eighth < 8; ++eighth) {
    CAPTURE(eighth);
    const TempFile cut("cut.so", bytes.substr(0, bytes.size() / 8 * eighth));
    try {
      load_plugin(registry, cut.path());  // its last part may only serve debuggers
    } catch (const Error& e) {
      CHECK((e.code() == Errc::bad_data || e.code() == Errc::bad_configuration));
      mapped += std::string(e.what()).find("is cut short") != std::string::npos;
    }
    registry = {};
  }
  CHECK(mapped > 0);
  CHECK(code_of([&] { load_plugin(registry, empty.path()); }) == Errc::io);
  CHECK(code_of([&] { load_plugin(registry, ""); }) == Errc::invalid_argument);
  CHECK(code_of([&] { load_plugin(registry, text.path()); }) == Errc::bad_data);
  check_error(
      Errc::io, [&] { load_plugin(registry, binary_dir()); },
      "it is a folder; name the shared library in it");
}

TEST_CASE("one plugin twice is refused by the name of its op") {
  check_error(
      Errc::bad_configuration,
      [] {
        ops_with_plugins({plugin("cube"), plugin("cube")});
      },
      "\"Cube\", but there is already one");
}

TEST_CASE("a kernel of a plugin that throws, or makes another shape, fails its step alone") {
  for (int round = 0; round < 2; ++round) {
    check_error(
        Errc::kernel_failed, [] { run_op("ThrowsInKernel"); }, "theirs");
    check_error(
        Errc::kernel_failed, [] { run_op("OtherShape"); }, "theirs");
    CHECK(same_bits(run_op("Cube")[0], Tensor::of<float>({1, -8, 0.125}, {3})));
  }
}

}  // namespace troupe
