// simplify: graphs before and after it, as text, and the bits of both.
#include <bit>
#include <limits>

#include "tests/support/pass_text.hpp"

namespace troupe {
namespace {

std::string input(const std::string& dtype, const std::string& shape = "[3]") {
  return "x = Placeholder() dtype=" + dtype + " shape=" + shape + "\n";
}

void check_left(const std::string& lines, const std::vector<std::string>& fetches = {"y"},
                const std::vector<std::string>& feeds = {"x"}) {
  CHECK(after(simplify, lines, fetches, feeds) == lines);
}

// Values that arithmetic treats specially; repeated to fill the shape.
Tensor awkward(DType dtype, const Shape& shape) {
  Tensor out = Tensor::zeros(dtype, shape);
  const auto fill = [&]<class T>(const std::vector<T>& values) {
    for (int64_t i = 0; i < out.size(); ++i)
      out.mutable_data<T>()[i] = values[static_cast<size_t>(i) % values.size()];
  };
  const auto floats = [&]<class T>(T nan) {
    using limits = std::numeric_limits<T>;
    fill(std::vector<T>{nan, -nan, T{-0.0}, T{0.0}, limits::infinity(), -limits::infinity(),
                        limits::denorm_min(), -limits::denorm_min(), limits::max(), T(1.5)});
  };
  const auto integers = [&]<class T>() {
    using limits = std::numeric_limits<T>;
    fill(std::vector<T>{limits::min(), limits::max(), T(0), T(-1), T(7)});
  };
  switch (dtype) {
    case DType::f32:
      floats(std::bit_cast<float>(0x7fc12345u));  // quiet, with a payload
      break;
    case DType::f64:
      floats(std::bit_cast<double>(0x7ff8123456789abcu));
      break;
    case DType::i32:
      integers.operator()<int32_t>();
      break;
    case DType::i64:
      integers.operator()<int64_t>();
      break;
    case DType::u8:
      integers.operator()<uint8_t>();
      break;
    default:
      for (int64_t i = 0; i < out.size(); i += 2) out.mutable_data<bool>()[i] = true;
  }
  return out;
}

// x is fed, `lines` compute y from it, and a reader of y is fetched, since a fetched node keeps its
// name. The pass leaves `left` of the lines, and every bit of the value.
void check_gone(const std::string& x, const std::string& lines, const std::string& left) {
  const std::string all = x + lines + "z = Identity(y)\n";
  CAPTURE(all);
  const auto graph = graph_of(all);
  const Output fed = graph->output("x"), fetched = graph->output("z");
  CHECK(after(simplify, all, {"z"}, {"x"}) == x + left);
  Shape shape = fed.shape();
  for (int d = 0; d < shape.ndim(); ++d) shape.set(d, shape[d] < 0 ? 12 : shape[d]);
  const Tensor value = awkward(fed.dtype(), shape);
  const auto call = rewrite(simplify, call_graph(*graph, {fetched}, {fed})).call;
  CHECK(same_bits(evaluate(*graph, {fetched}, {{fed, value}})[0],
                  evaluate(*call.graph, call.fetches, {{call.feeds[0], value}})[0]));
}

void check_gone(const std::string& x, const std::string& lines) {
  check_gone(x, lines, "z = Identity(x)\n");
}

}  // namespace

TEST_CASE("x * 1, 1 * x and x / 1 are x, to the bit") {
  for (const std::string dtype : {"f32", "f64", "i32", "i64", "u8"})
    for (const std::string shape : {"[]", "[1]", "[12]"}) {
      const std::string elements = shape == "[12]" ? "{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}" : "{1}";
      const std::string one = "one = Constant() value=" + dtype + shape + " " + elements + "\n";
      check_gone(input(dtype, "[12]"), one + "y = Multiply(x, one)\n");
      check_gone(input(dtype, "[2, 12]"), one + "y = Multiply(one, x)\n");
      check_gone(input(dtype, "[12]"), one + "y = Divide(x, one)\n");
    }
  check_gone(input("f32", "[-1, 3]"),
             "one = Constant() value=f32[3] {1, 1, 1}\ny = Multiply(x, one)\n");
}

TEST_CASE("a factor that is not 1 everywhere, or makes the result wider, stays") {
  check_left(input("f32") + "c = Constant() value=f32[3] {1, 1, 1.5}\ny = Multiply(x, c)\n");
  check_left(input("f32", "[1]") + "c = Constant() value=f32[2] {1, 1}\ny = Multiply(x, c)\n");
  check_left(input("f32", "[-1]") + "c = Constant() value=f32[2] {1, 1}\ny = Multiply(x, c)\n");
  check_left(input("f32", "[]") + "c = Constant() value=f32[1] {1}\ny = Multiply(x, c)\n");
  check_left(input("f32") + "one = Constant() value=f32[] {1}\ny = Divide(one, x)\n");
}

TEST_CASE("x - 0 and x + -0 of floats are x, x + 0 is not: it makes 0 of -0") {
  for (const std::string dtype : {"f32", "f64"}) {
    const std::string zero = "zero = Constant() value=" + dtype + "[] {0}\n";
    const std::string minus = "zero = Constant() value=" + dtype + "[] {-0}\n";
    check_gone(input(dtype, "[12]"), zero + "y = Subtract(x, zero)\n");
    check_gone(input(dtype, "[12]"), minus + "y = Add(x, zero)\n");
    check_gone(input(dtype, "[12]"), minus + "y = Add(zero, x)\n");
    check_left(input(dtype) + zero + "y = Add(x, zero)\nz = Identity(y)\n", {"z"});
    check_left(input(dtype) + minus + "y = Subtract(x, zero)\nz = Identity(y)\n", {"z"});
    check_left(input(dtype) + zero + "y = Subtract(zero, x)\nz = Identity(y)\n", {"z"});
  }
  for (const std::string dtype : {"i32", "i64", "u8"}) {
    const std::string zero = "zero = Constant() value=" + dtype + "[] {0}\n";
    check_gone(input(dtype, "[12]"), zero + "y = Add(x, zero)\n");
    check_gone(input(dtype, "[12]"), zero + "y = Subtract(x, zero)\n");
  }
}

TEST_CASE("-(-x) is x, and -(-(-x)) is -x") {
  for (const std::string dtype : {"f32", "f64", "i32", "i64"}) {
    check_gone(input(dtype, "[12]"), "a = Negate(x)\ny = Negate(a)\n");
    check_gone(input(dtype, "[12]"), "a = Negate(x)\nb = Negate(a)\ny = Negate(b)\n",
               "y = Negate(x)\nz = Identity(y)\n");
  }
}

TEST_CASE("a reshape of a reshape is one, and none where the shape comes back") {
  check_gone(input("f32", "[2, 6]"), "a = Reshape(x) shape=[3, 4]\ny = Reshape(a) shape=[12]\n",
             "y = Reshape(x) shape=[12]\nz = Identity(y)\n");
  check_gone(input("f32", "[2, 6]"), "a = Reshape(x) shape=[12]\ny = Reshape(a) shape=[-1, 6]\n");
  check_gone(input("f32", "[2, 6]"), "y = Reshape(x) shape=[2, 6]\n");
  // A node that may refuse its values in a step stays.
  check_left(input("f32", "[-1]") +
             "a = Reshape(x) shape=[3, -1]\nb = Reshape(a) shape=[2, -1]\ny = Square(b)\n");
}

TEST_CASE("a transpose of a transpose is one, and none where the order comes back") {
  check_gone(input("f32", "[2, 3, -1]"),
             "a = Transpose(x) permutation={1, 2, 0}\ny = Transpose(a) permutation={0, 2, 1}\n",
             "y = Transpose(x) permutation={1, 0, 2}\nz = Identity(y)\n");
  check_gone(input("f32", "[2, 6]"),
             "a = Transpose(x) permutation={}\ny = Transpose(a) permutation={}\n");
  check_gone(input("f32", "[2, 6]"), "y = Transpose(x) permutation={0, -1}\n");
  check_gone(input("f32", "[12]"), "y = Transpose(x) permutation={}\n");
  check_gone(input("f32", "[2, 1, 2]"),
             "a = Transpose(x) permutation={}\nb = Transpose(a) permutation={1, 2, 0}\n"
             "y = Transpose(b) permutation={1, 0, 2}\n");
}

TEST_CASE("a cast to its own dtype goes, and one to a dtype that holds all and back") {
  for (const std::string dtype : {"f32", "f64", "i32", "i64", "u8", "bool"})
    check_gone(input(dtype, "[12]"), "y = Cast(x) dtype=" + dtype + "\n");
  const std::vector<std::pair<std::string, std::vector<std::string>>> holds = {
      {"f32", {"f64"}},
      {"i32", {"i64", "f64"}},
      {"u8", {"i32", "i64", "f32", "f64"}},
      {"bool", {"u8", "i32", "i64", "f32", "f64"}}};
  for (const auto& [dtype, wider] : holds)
    for (const std::string& to : wider)
      check_gone(input(dtype, "[12]"),
                 "a = Cast(x) dtype=" + to + "\ny = Cast(a) dtype=" + dtype + "\n");
  for (const auto& [dtype, to] : std::vector<std::pair<std::string, std::string>>{
           {"f64", "f32"}, {"i64", "f64"}, {"i32", "f32"}, {"f32", "i64"}, {"i64", "i32"}})
    check_left(input(dtype) + "a = Cast(x) dtype=" + to + "\ny = Cast(a) dtype=" + dtype +
                   "\nz = Identity(y)\n",
               {"z"});
}

TEST_CASE("what passes its input on goes: identity, stop_gradient, a concat of one part") {
  check_gone(input("bool", "[-1, 3]"), "y = Identity(x)\n");
  check_gone(input("f32", "[-1, 3]"), "a = StopGradient(x)\ny = WithGradient(a)\n");
  check_gone(input("f32", "[-1, 3]"), "y = Concat(x) axis=1\n");
  check_gone(input("f32", "[2, 3]"), "y = BroadcastTo(x) shape=[2, 3]\n");
  check_left(input("f32", "[3]") + "y = BroadcastTo(x) shape=[2, 3]\n");
}

TEST_CASE("a node stays whose name is fetched or fed, whose run is waited for, or on its device") {
  check_left(input("f32") + "y = Identity(x)\n", {"y"});
  check_left(input("f32") + "y = Identity(x)\nz = Square(y)\n", {"z"}, {"y"});
  check_left(input("f32") + "y = Identity(x)\nz = Square(x) after y\n", {"z"});
  check_left(input("f32") + "w = Square(x)\ny = Identity(x) after w\nz = Square(y)\n", {"z"});
  check_left(input("f32") + "y = Identity(x)\nz = Square(x) with y\nv = Add(y, z)\n", {"v"});
  check_left(input("f32") + "w = Square(x)\ny = Identity(w) on \"/device:cpu:1\"\nz = Square(y)\n",
             {"z"});
}

TEST_CASE("no rule looks through what is fed, or what runs after something") {
  check_left(input("f32") + "a = Negate(x)\ny = Negate(a)\nz = Square(y)\n", {"z"}, {"x", "a"});
  check_left(input("f32") + "w = Square(x)\na = Negate(x) after w\ny = Negate(a)\nz = Square(y)\n",
             {"z"});
  check_left(
      input("f32") + "one = Constant() value=f32[] {1}\ny = Multiply(x, one)\nz = Square(y)\n",
      {"z"}, {"x", "one"});
}

}  // namespace troupe
