// The function example, against bytes that TensorFlow 2.21 wrote, and messages that do not fit.
#include "data/records/records.hpp"
#include "tests/support/hex.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

using Texts = std::vector<std::string>;

// tf.train.Example with image: the bytes 1 2 3 4, label: -3, weights: 0.5 and -2.
const std::string kExample = from_hex(
    "0a450a110a05696d61676512080a060a04010203040a170a056c6162656c120e1a0c0a0afdffffffffffffffff01"
    "0a170a0777656967687473120c120a0a080000003f000000c0");

const Fields kInputs = {{"record", {DType::u8, {-1}}}, {"key", {DType::i64, {}}}};

Tensor u8(const std::string& bytes) {
  return Tensor::of(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()),
                    Shape{static_cast<int64_t>(bytes.size())});
}

Record parse(const std::string& example, const Texts& names, const Texts& dtypes,
             const Texts& shapes) {
  const SourceStep step =
      bind_example(kInputs, {{"names", names}, {"dtypes", dtypes}, {"shapes", shapes}});
  const Record input = {u8(example), Tensor::scalar<int64_t>(77)};
  const std::string place = "a: the record at byte 0";
  return step.map(SourceCall(kInputs, input, 0, place));
}

// A message's field of bytes, shorter than 128.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string feature(const std::string& name, const std::string& value) {
  return field(1, field(1, name) + field(2, value));
}

TEST_CASE("features of TensorFlow's Example become fields, and other fields stay") {
  const SourceArgs args = {{"names", Texts{"label", "image", "weights"}},
                           {"dtypes", Texts{"i64", "u8", "f32"}},
                           {"shapes", Texts{"[]", "[2, -1]", "2"}},
                           {"fields", Texts{"y", "x", "w"}}};
  CHECK(bind_example(kInputs, args).fields == Fields{{"y", {DType::i64, {}}},
                                                     {"x", {DType::u8, {2, -1}}},
                                                     {"w", {DType::f32, {2}}},
                                                     {"key", {DType::i64, {}}}});
  const Record made =
      parse(kExample, {"label", "image", "weights"}, {"i64", "u8", "f32"}, {"[]", "[2, -1]", "2"});
  REQUIRE(made.size() == 4);
  CHECK(same_bits(made[0], Tensor::scalar<int64_t>(-3)));
  CHECK(same_bits(made[1], Tensor::of<uint8_t>({1, 2, 3, 4}, {2, 2})));
  CHECK(same_bits(made[2], Tensor::of<float>({0.5F, -2}, {2})));
  CHECK(same_bits(made[3], Tensor::scalar<int64_t>(77)));
}

TEST_CASE(
    "lists that are not packed, in parts, or empty are read; unknown fields are passed over") {
  const std::string one = std::string("\x0d", 1) + from_hex("0000803f");  // 1: fixed32 1.0
  const std::string list = field(2, one + one) + field(2, field(1, from_hex("00000040")));
  const std::string unknown =
      from_hex("7801") + from_hex("7900112233445566") + from_hex("77") + field(14, "skip");
  const std::string example =
      field(1, feature("f", unknown + list) + feature("e", field(3, ""))) + field(9, "unknown") +
      field(1, feature("n", field(3, from_hex("0805") + field(1, "\x06\x07"))));
  const Record made = parse(example, {"f", "e", "n"}, {"f32", "i64", "i64"}, {"3", "-1", "-1"});
  CHECK(same_bits(made[0], Tensor::of<float>({1, 1, 2}, {3})));
  CHECK(same_bits(made[1], Tensor::of<int64_t>({}, {0})));
  CHECK(same_bits(made[2], Tensor::of<int64_t>({5, 6, 7}, {3})));
}

TEST_CASE("Examples that do not fit are refused with place and feature") {
  const auto refused = [](const std::string& example, const char* name, const char* dtype,
                          const char* shape) {
    return error_text(Errc::bad_data, [&] { parse(example, {name}, {dtype}, {shape}); });
  };
  has(refused(kExample, "labels", "i64", "[]"),
      "a: the record at byte 0: the Example has no feature labels; it has image, label, weights");
  has(refused("", "a", "u8", "-1"), "the Example has no feature a; it has none");
  has(refused(kExample, "label", "f32", "[]"),
      "feature label has whole numbers, expected floats for f32");
  has(refused(kExample, "weights", "u8", "-1"), "feature weights has floats, expected bytes");
  has(refused(kExample, "image", "i64", "-1"), "feature image has bytes, expected whole numbers");
  has(refused(field(1, feature("a", "")), "a", "i64", "-1"), "feature a has no values, expected");
  has(refused(kExample, "weights", "f32", "[3]"),
      "feature weights has 2 floats, which do not fill the shape [3]");
  has(refused(kExample, "image", "u8", "[3, -1]"), "4 bytes, which do not fill the shape [3, -1]");
  has(refused(kExample, "image", "u8", "[0, -1]"), "4 bytes, which do not fill the shape [0, -1]");
  has(refused(field(1, feature("a", field(1, field(1, "x") + field(1, "y")))), "a", "u8", "-1"),
      "feature a has 2 texts, expected one");
  has(refused(field(1, feature("a", field(2, field(1, "12345")))), "a", "f32", "-1"),
      "it is no tf.train.Example");
}

TEST_CASE("an Example that is damaged anywhere is read or refused, never more") {
  const auto code = [](const std::string& example) {
    return code_of([&] {
      parse(example, {"label", "image", "weights"}, {"i64", "u8", "f32"}, {"[]", "-1", "-1"});
    });
  };
  for (size_t n = 0; n < kExample.size(); ++n) CHECK(code(kExample.substr(0, n)) == Errc::bad_data);
  for (size_t at = 0; at < kExample.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = kExample;
      bad[at] = static_cast<char>(bad[at] ^ 1 << bit);
      const Errc c = code(bad);
      CHECK((c == Errc::ok || c == Errc::bad_data));
    }
  CHECK(code(std::string(12, '\xff')) == Errc::bad_data);
}

TEST_CASE("arguments that do not fit are refused") {
  const auto refused = [](const Texts& names, const Texts& dtypes, const Texts& shapes,
                          const Fields& inputs = kInputs) {
    return error_text(Errc::invalid_argument, [&] {
      bind_example(inputs, {{"names", names}, {"dtypes", dtypes}, {"shapes", shapes}});
    });
  };
  has(refused({"a"}, {"u8", "u8"}, {"1"}), "wants equally many names, dtypes, shapes and fields, ");
  has(refused({"a"}, {"f64"}, {"1"}), "reads u8 (bytes), f32 (floats) and i64");
  has(refused({"a"}, {"u8"}, {"[-1, -1]"}), "at most one -1 in a shape, got [-1, -1]");
  has(refused({"a"}, {"u8"}, {"[a]"}), "wants shapes such as [28, -1], got \"[a]\"");
  has(refused({"a"}, {"u8"}, {"9999999999,9999999999"}), "elements");
  has(refused({"a", "a"}, {"u8", "u8"}, {"1", "1"}), "names the feature a twice");
  has(refused({"a"}, {"u8"}, {"1"}, {{"text", {DType::u8, {-1}}}}),
      "example finds no field record; the records have text");
  has(refused({"a"}, {"u8"}, {"1"}, {{"record", {DType::i64, {}}}}),
      "example wants u8[-1], the field record is i64[]");
}

}  // namespace
}  // namespace troupe
