// safetensors and JSON from untrusted files: tables of refusals with their texts.
#include "data/files/safetensors.hpp"

#include "data/files/json.hpp"
#include "tests/support/refusal.hpp"
#include "chaos/sim_disk.hpp"

namespace troupe {
namespace {

std::string le64(uint64_t n) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(n >> (8 * i) & 255);
  return out;
}
std::string file_of(const std::string& header, size_t data_bytes) {
  return le64(header.size()) + header + std::string(data_bytes, '\1');
}

// Two tensors of `size` floats each: "a" and another one.
std::string two(int size, const std::string& a, const std::string& name, const std::string& b) {
  const std::string type = R"("dtype":"F32","shape":[)" + std::to_string(size) + "]";
  return R"({"a":{)" + type + R"(,"data_offsets":)" + a + R"(},")" + name + R"(":{)" + type +
         R"(,"data_offsets":)" + b + "}}";
}

void write(SimDisk& disk, const std::string& bytes) {
  auto file = disk.create("d/f");
  file->write(std::as_bytes(std::span(bytes)));
}
std::string refusal(const std::string& bytes) {
  SimDisk disk;
  write(disk, bytes);
  return error_text(Errc::bad_data, [&] { SafetensorsReader reader(disk, "d/f"); });
}

TEST_CASE("what is written is read back, in whole and in part") {
  const Tensor a = Tensor::of<float>({1, 2, 3, 4, 5, 6}, Shape{2, 3}),
               b = Tensor::of<int64_t>({7}, Shape{});
  const Tensor none = Tensor::zeros(DType::u8, Shape{0, 4});
  SimDisk disk;
  std::string bytes =
      safetensors_header({{"a", a}, {"none", none}, {"b", b}}, {{"k", "v \"\n\xc3\xa4"}});
  CHECK(bytes.size() % 8 == 0);
  bytes.append(static_cast<const char*>(a.raw()), 24).append(static_cast<const char*>(b.raw()), 8);
  write(disk, bytes);
  SafetensorsReader reader(disk, "d/f");
  CHECK(reader.metadata().at("k") == "v \"\n\xc3\xa4");
  REQUIRE(reader.entries().size() == 3);
  CHECK(reader.find("a")->shape == Shape{2, 3});
  Tensor into = Tensor::zeros(DType::f32, Shape{5});
  reader.read(*reader.find("a"), 2, 3, into, 1);
  CHECK(same_bits(into, Tensor::of<float>({0, 3, 4, 5, 0}, Shape{5})));
  CHECK(reader.find("c") == nullptr);
}

TEST_CASE("a header may name tensors in another order than their elements have") {
  SimDisk disk;
  write(disk, file_of(two(1, "[4,8]", "b", "[0,4]"), 8));
  const SafetensorsReader reader(disk, "d/f");
  CHECK(reader.entries()[0].name == "b");
  CHECK(reader.find("a")->end == reader.find("b")->end + 4);
}

// A reader that looks through all names for each one takes minutes.
TEST_CASE("a header of very many tensors and very much metadata is read") {
  constexpr int kTensors = 120'000, kTexts = 40'000;
  const auto name = [](int i) { return std::to_string(1'000'000 + i); };
  std::string header = R"({"__metadata__":{)";
  for (int i = 0; i < kTexts; ++i)
    header += detail::concat(i > 0 ? "," : "", "\"", name(i), "\":\"", i, "\"");
  header += "}";
  for (int i = 0; i < kTensors; ++i)
    header += detail::concat(",\"", name(i), R"(":{"dtype":"U8","shape":[],"data_offsets":[)", i,
                             ",", i + 1, "]}");
  SimDisk disk;
  write(disk, file_of(header + "}", kTensors));
  const SafetensorsReader reader(disk, "d/f");
  int wrong = 0;
  for (int i = 0; i < kTensors; ++i) {
    const SafetensorsEntry* const entry = reader.find(name(i));
    wrong += !entry || entry != &reader.entries()[static_cast<size_t>(i)];
  }
  for (int i = 0; i < kTexts; ++i) wrong += reader.metadata().at(name(i)) != std::to_string(i);
  CHECK(wrong == 0);
}

TEST_CASE("a damaged safetensors file is refused with place, content and reason") {
  const std::string one = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  SimDisk disk;
  write(disk, file_of(one, 8));
  CHECK_NOTHROW(SafetensorsReader(disk, "d/f"));
  struct Case {
    const char* name;
    std::string bytes;
    const char* text;
  };
  const std::vector<Case> cases = {
      {"empty", "", "d/f: expected at least 8 bytes, found 0"},
      {"one byte short of a length", std::string(7, '\0'), "expected at least 8 bytes, found 7"},
      {"no header", le64(0), "at byte 8: expected '{'"},
      {"one byte more than the file", le64(one.size() + 9) + one + "12345678",
       "at byte 0: expected a header of at most 62 bytes (the file has 70), found 63"},
      {"length 2^31", le64(uint64_t{1} << 31) + one, "found 2147483648"},
      {"length 2^32 - 1", le64(0xffffffffU) + one, "found 4294967295"},
      {"length 2^63", le64(uint64_t{1} << 63) + one, "found 9223372036854775808"},
      {"length 2^64 - 1", le64(UINT64_MAX) + one, "found 18446744073709551615"},
      {"header cut short", file_of(one.substr(0, 20), 0),
       "at byte 28: found the end: syntax error"},
      {"data one byte short", file_of(one, 7), "expected a whole number from 0 to 7, found 8"},
      {"data one byte long", file_of(one, 9),
       "the tensors end at byte 70, but the file has 71 bytes"},
      {"overlap", file_of(two(2, "[0,8]", "b", "[4,12]"), 12), "tensor \"b\" begins at byte"},
      {"hole", file_of(two(1, "[0,4]", "b", "[8,12]"), 12), "without overlaps or holes"},
      {"a hole at the front",
       file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8), "holes"},
      {"a key twice", file_of(two(1, "[0,4]", "a", "[4,8]"), 8), "the key \"a\" stands twice"},
      {"unknown dtype", file_of(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8),
       "a.dtype: expected one of F32, F64, I32, I64, U8, BOOL, I8, F16, BF16, found \"F33\""},
      {"offsets reversed", file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
       "a.data_offsets: the end 0 is before the begin 8"},
      {"three offsets", file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", 8),
       "expected two offsets, found 3"},
      {"a negative offset",
       file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8),
       "from 0 to 8, found -8"},
      {"shape and offsets disagree",
       file_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
       "a.data_offsets: expected 12 bytes for f32[3], found 8"},
      {"a negative size", file_of(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
       "a.shape[0]: expected a whole number"},
      {"a size with a fraction",
       file_of(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8), "found 2.0"},
      {"a product that overflows",
       file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8),
       "more than 2^58 elements"},
      {"nine dimensions",
       file_of(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1),
       "at most 8 dimensions"},
      {"NaN", file_of(R"({"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}})", 8),
       "found 'N': syntax error while parsing value"},
      {"an unknown member",
       file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8),
       "unknown member \"x\""},
      {"a missing member", file_of(R"({"a":{"dtype":"F32","shape":[2]}})", 8),
       "expected a member \"data_offsets\", found none"},
      {"metadata that is no text", file_of(R"({"__metadata__":{"k":1}})", 0),
       "__metadata__.k: expected a string, found a number"},
      {"invalid UTF-8", file_of("{\"a\xff\":1}", 0),
       "found byte 255: syntax error while parsing object key - invalid string: ill-formed UTF-8"},
      {"text after the header", file_of(one + "x", 8), "found 'x': syntax error"},
      {"nested too deep",
       file_of("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", 0),
       "nested deeper than 32"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const std::string text = refusal(c.bytes);
    CHECK(text.starts_with("d/f: "));
    has(text, c.text);
  }
}

// Tests the reader alone, without the hash that a checkpoint keeps of its files.
TEST_CASE("a safetensors header with any bit flipped is refused, or says something that fits") {
  const Tensor a = Tensor::of<float>({1, 2, 3}, Shape{3}), b = Tensor::of<double>({4}, Shape{});
  const std::string header = safetensors_header({{"a", a}, {"b", b}}, {{"format", "x"}});
  int read = 0;
  for (size_t i = 0; i < header.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = header;
      bytes[i] = static_cast<char>(bytes[i] ^ 1 << bit);
      bytes += std::string(20, '\1');
      SimDisk disk;
      write(disk, bytes);
      CAPTURE(i);
      CAPTURE(bit);
      try {
        SafetensorsReader reader(disk, "d/f");
        int64_t total = 0;
        for (const SafetensorsEntry& e : reader.entries()) {
          Tensor into = Tensor::zeros(e.dtype, e.shape);
          reader.read(e, 0, e.shape.size(), into, 0);
          total += into.byte_size();
        }
        REQUIRE(total == 20);
        ++read;  // another name, or another type of the same size
      } catch (const Error& e) {
        REQUIRE(e.code() == Errc::bad_data);
        REQUIRE(std::string(e.what()).rfind("d/f: ", 0) == 0);
      }
    }
  CHECK(read > 0);
}

TEST_CASE("JSON is read strictly") {
  for (const char* good :
       {"0", "-1.5e+3", "\"\\u00e4\\ud83d\\ude00\\n\"", " [ 1 , { \"a\" : null } ] ", "[]", "{}",
        "true", "18446744073709551615"})
    CHECK_NOTHROW(parse_json(good, "f"));
  CHECK(parse_json("\"\\u00e4\\ud83d\\ude00\"", "f").text == "\xc3\xa4\xf0\x9f\x98\x80");
  for (const char* bad : {"",
                          " ",
                          "01",
                          "1.",
                          ".5",
                          "+1",
                          "1e",
                          "-",
                          "nul",
                          "[1,]",
                          "{\"a\":1,}",
                          "{a:1}",
                          "[1 2]",
                          "\"\\x\"",
                          "\"\n\"",
                          "\"\\ud800\"",
                          "\"\\udc00\"",
                          "\"\xc0\x80\"",
                          "\"\xed\xa0\x80\"",
                          "\"\xf5\x80\x80\x80\"",
                          "\"\xc3\"",
                          "\"",
                          "[",
                          "{\"a\"",
                          "1 1",
                          "1e400",
                          "\xef\xbb\xbf[]",
                          "// a\n1",
                          "Infinity",
                          "'a'"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_json(bad, "f"), Error);
  }
  std::string many = "[0";
  for (int i = 0; i < 1'000'001; ++i) many += ",0";
  CHECK_THROWS_WITH(parse_json(many + "]", "f"), "f: more than 1000000 values");
  CHECK_THROWS_AS(parse_json({"[]\0x", 4}, "f"), Error);  // no zero byte hides what follows it
  CHECK_THROWS_WITH(parse_json("{\"a\":1,\"b\":{},\"a\":2}", "f"), "f: the key \"a\" stands twice");
}

TEST_CASE("JSON that would exhaust the stack or fill a log is refused in a few words") {
  const auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  CHECK_NOTHROW(parse_json(nested(33), "f"));
  CHECK_THROWS_WITH(parse_json(nested(34), "f"), "f: nested deeper than 32");
  CHECK_THROWS_WITH(parse_json(std::string(1 << 20, '['), "f"), "f: nested deeper than 32");
  const std::string endless = '"' + std::string((1 << 20) - 1, 'x');
  const std::string text = error_text(Errc::bad_data, [&] { parse_json(endless, "f", 8); });
  CHECK(text.starts_with("f: at byte 1048584: "));
  CHECK(text.size() < 200);
}

TEST_CASE("whole numbers of JSON are exact to 64 bits, and refused beyond") {
  const Json json = parse_json(
      "[9223372036854775807,-9223372036854775808,18446744073709551615,18446744073709551616,"
      "-9223372036854775809,1.0,0.1]",
      "f");
  const std::vector<JsonReader> all = JsonReader(json, "f", "x").as_array();
  CHECK(all[0].as_i64() == INT64_MAX);
  CHECK(all[1].as_i64() == INT64_MIN);
  CHECK(all[2].as_u64() == UINT64_MAX);
  CHECK_THROWS_WITH(all[3].as_u64(),
                    "f: x[3]: expected a whole number from 0 to 18446744073709551615, found "
                    "18446744073709551616");
  CHECK_THROWS_AS(all[2].as_i64(), Error);
  CHECK_THROWS_AS(all[4].as_i64(), Error);
  CHECK_THROWS_AS(all[5].as_i64(), Error);
  CHECK(all[6].as_f64() == 0.1);
}

}  // namespace
}  // namespace troupe
