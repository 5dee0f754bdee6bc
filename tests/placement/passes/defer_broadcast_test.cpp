// defer_broadcast: graphs before and after it, as text, and the bits of both.
#include "placement/passes/defer_broadcast.hpp"

#include "ops/gradients.hpp"
#include "tests/support/pass_text.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

const std::string kLikes =
    "x = Placeholder() dtype=f32 shape=[4, 16, 16, 64]\n"
    "g = Placeholder() dtype=f32 shape=[4, 64]\n";
const std::string kMean = "d = ReduceGradient(g, x) axes={1, 2} keep_dims=false mean=true\n";
const std::string kShare =
    "d/small = Reshape(g) shape=[4, 1, 1, 64]\n"
    "d/count = Constant() value=f32[] {256}\n"
    "d/share = Divide(d/small, d/count)\n";

std::string deferred_text(const std::string& lines, const std::vector<std::string>& fetches,
                          const std::vector<std::string>& feeds) {
  const auto graph = graph_of(lines);
  return text_of(defer_broadcast(call_of(*graph, fetches, feeds)).call);
}

void check_left(const std::string& lines, const std::vector<std::string>& fetches = {"z"},
                const std::vector<std::string>& feeds = {"x", "g"}) {
  CHECK(deferred_text(lines, fetches, feeds) == lines);
}

// Checks that `lines` become `wanted` and that the fetches keep their bits.
void check_deferred(const std::string& lines, const std::string& wanted,
                    const std::vector<std::string>& fetches = {"z"}) {
  CHECK(deferred_text(lines, fetches, {"x", "g"}) == wanted);
  const auto graph = graph_of(lines);
  const CallGraph before = call_of(*graph, fetches, {"x", "g"});
  const CallGraph after = defer_broadcast(call_of(*graph, fetches, {"x", "g"})).call;
  check_same_fetches(before, after, [](const Shape& shape, DType) {
    Tensor value = Tensor::empty(DType::f32, shape);
    for (int64_t k = 0; k < value.size(); ++k)
      value.mutable_data<float>()[k] = static_cast<float>((k * 7919) % 1009) / 1013 - 0.4f;
    return value;
  });
}

}  // namespace

TEST_CASE("the gradient of a mean is not broadcast for who reads it element by element") {
  check_deferred(kLikes + kMean + "z = Multiply(x, d)\n",
                 kLikes + kShare + "z = Multiply(x, d/share)\n");
}

TEST_CASE("that of a sum, with its dimensions kept, is read as it is") {
  const std::string likes =
      "x = Placeholder() dtype=f32 shape=[4, 16, 16, 64]\n"
      "g = Placeholder() dtype=f32 shape=[4, 1, 1, 64]\n";
  check_deferred(likes +
                     "d = ReduceGradient(g, x) axes={1, 2} keep_dims=true mean=false\n"
                     "z = Multiply(d, x)\n",
                 likes + "z = Multiply(g, x)\n");
}

TEST_CASE("what would be cut for the parts of a concatenation is cut while it is small") {
  const std::string parts =
      "a = Slice(x) begin={0, 0, 0, 0} size={4, 16, 16, 24}\n"
      "b = Slice(x) begin={0, 0, 0, 24} size={4, 16, 16, 40}\n";
  check_deferred(kLikes + parts + kMean +
                     "c = ConcatGradient(d, a, b) axis=-1\n"
                     "y = Multiply(a, c)\nz = Add(b, c:1)\n",
                 kLikes + parts + kShare +
                     "c/part0 = Slice(d/share) begin={0, 0, 0, 0} size={4, 1, 1, 24}\n"
                     "y = Multiply(a, c/part0)\n"
                     "c/part1 = Slice(d/share) begin={0, 0, 0, 24} size={4, 1, 1, 40}\n"
                     "z = Add(b, c/part1)\n",
                 {"y", "z"});
}

TEST_CASE(
    "a value stays broadcast for a reader that needs it whole, or does not know its size else") {
  check_left(
      kLikes + kMean + "y = Multiply(x, d)\nz = Cumsum(d) axis=0 exclusive=false reverse=false\n",
      {"y", "z"});
  check_left(kLikes + kMean + "z = Square(d)\n");
  check_left(kLikes + kMean + "z = Multiply(d, d)\n");
  check_left(kLikes + kMean + "z = Multiply(x, d)\n", {"z", "d"});
  // Slices along an axis that was repeated.
  check_left(kLikes +
                 "a = Slice(x) begin={0, 0, 0, 0} size={4, 8, 16, 64}\n"
                 "b = Slice(x) begin={0, 8, 0, 0} size={4, 8, 16, 64}\n" +
                 kMean +
                 "c = ConcatGradient(d, a, b) axis=1\ny = Multiply(a, c)\nz = Add(b, c:1)\n",
             {"y", "z"});
}

TEST_CASE("a part that another value is cut like stays as large as it is") {
  check_left(kLikes +
                 "a = Slice(x) begin={0, 0, 0, 0} size={4, 16, 16, 24}\n"
                 "b = Slice(x) begin={0, 0, 0, 24} size={4, 16, 16, 40}\n" +
                 kMean +
                 "c = ConcatGradient(d, a, b) axis=-1\n"
                 "y = Multiply(a, c)\n"
                 "e = ReduceGradient(g, x) axes={1, 2} keep_dims=false mean=false\n"
                 "s = Cumsum(e) axis=0 exclusive=false reverse=false\n"
                 "f = ConcatGradient(e, c, b) axis=-1\n"
                 "z = Add(b, f:1)\n",
             {"y", "s", "z"});
}

TEST_CASE("what stands in an order or in another place stays broadcast") {
  const std::string mean = kMean.substr(0, kMean.size() - 1);
  const std::string read = "z = Multiply(x, d)\n";
  const std::string first = "r = Square(g)\n";
  check_left(kLikes + first + mean + " after r\n" + read, {"z", "r"});
  check_left(kLikes + kMean + "y = Square(x) after d\n" + read, {"y", "z"});
  check_left(kLikes + mean + " on \"/device:shadow:0\"\n" + read);
  check_left(kLikes + kMean + "z = Multiply(x, d) on \"/device:shadow:0\"\n");
}

TEST_CASE("a reader that is fed does not run, and keeps nothing as large as it is") {
  const std::string read = "y = Multiply(x, d)\n";
  CHECK(deferred_text(kLikes + kMean + read + "z = Add(y, x)\nv = Multiply(d, x)\n", {"z", "v"},
                      {"x", "g", "y"}) ==
        kLikes + kMean + read + "z = Add(y, x)\n" + kShare + "v = Multiply(d/share, x)\n");
}

TEST_CASE("a bias is read as it is, however large") {
  check_left(
      "x = Placeholder() dtype=f32 shape=[2, 16384]\n"
      "l = Placeholder() dtype=f32 shape=[16384]\n"
      "g = Placeholder() dtype=f32 shape=[]\n"
      "d = ReduceGradient(g, l) axes={0} keep_dims=false mean=false\n"
      "z = BiasAdd(x, d)\n",
      {"z"}, {"x", "l", "g"});
}

TEST_CASE("a broadcast like another value starts from the small one") {
  check_deferred(kLikes + kMean + "z = BroadcastLike(d, x)\n",
                 kLikes + kShare + "z = BroadcastLike(d/share, x)\n");
}

TEST_CASE("an op of one's own that broadcasts no input reads them as large as they are") {
  Graph g(ops_with(
      {{.name = "SameShape",
        .inputs = {"x", "y"},
        .outputs = {"z"},
        .infer_shapes =
            [](const InferContext& c) {
              if (c.input(0) != c.input(1)) throw c.error("wants one shape");
              return std::vector{c.input(0)};
            },
        .no_gradient = "nothing is computed",
        .kernels = {{.run = [](KernelContext&) {}, .elements = [](const ElementRun&) {}}}}}));
  const Output x = placeholder(g, DType::f32, {4, 16, 16, 64}, "x");
  const Output dy = placeholder(g, DType::f32, {4, 64}, "g");
  const Output d = reduce_gradient(dy, x, {.axes = {1, 2}});
  const auto read_by = [&](const Output& reader) {
    const CallGraph after = defer_broadcast(call_graph(g, {reader}, {x, dy})).call;
    return after.graph->node(after.fetches[0].node).inputs[1].shape();
  };
  CHECK(read_by(multiply(x, d)) == Shape{4, 1, 1, 64});
  CHECK(read_by(g.add({.op = "SameShape", .inputs = {x, d}})) == x.shape());
}

TEST_CASE("small values, and those that would be read in short runs, stay broadcast") {
  const auto graph = [](const std::string& x, const std::string& g) {
    return "x = Placeholder() dtype=f32 shape=" + x + "\ng = Placeholder() dtype=f32 shape=" + g +
           "\n" + kMean + "z = Multiply(x, d)\n";
  };
  check_left(graph("[1, 8, 8, 64]", "[1, 64]"));
  check_left(graph("[64, 16, 16, 4]", "[64, 4]"));
  check_left(graph("[-1, 16, 16, 64]", "[-1, 64]"));
}

}  // namespace troupe
