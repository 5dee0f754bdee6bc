// read_csv: accepted files, and the text of every refusal.
#include "tests/support/temp_file.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/data.hpp"

namespace troupe {
namespace {

Dataset read(const std::string& text, const CsvOptions& options = {}) {
  return read_csv(TempFile("csv", text).path(), options);
}

TEST_CASE("tables are read whatever their line ends, quotes and packing") {
  const Tensor features = Tensor::of<float>({1, -2.5F, 0, 1e3F}, Shape{2, 2});
  const Tensor labels = Tensor::of<int64_t>({3, 0}, Shape{2});
  const std::string plain = "a,b,label\n1,-2.5,3\n0,1e3,0\n";
  for (const std::string& text :
       {plain, std::string("a,b,label\r\n1,-2.5,3\r\n0,1e3,0\r\n"),
        std::string("a,b,label\n1,-2.5,3\n0,1e3,0"),
        std::string("\xef\xbb\xbf\"a\nname\",b,label\n1,-2.5,3\n0,1e3,0"),
        std::string("\"a, \"\"quoted\"\"\",b,label\n\"1\", -2.5 ,\"3\"\n+0,1E+3,0.0\n"),
        gzip(plain)}) {
    CAPTURE(text);
    const Dataset d = read(text);
    CHECK(same_bits(d.features, features));
    CHECK(same_bits(d.labels, labels));
  }
  CHECK(same_bits(read("a,y\n1,0.5\n", {.label_dtype = DType::f32}).labels,
                  Tensor::of<float>({0.5F}, Shape{1})));
}

TEST_CASE("long tables that span many reads come back whole") {
  std::string text = "x,label\n";
  for (int i = 0; i < 200'000; ++i) text += std::to_string(i) + "," + std::to_string(i % 7) + "\n";
  const Dataset d = read(text);
  REQUIRE(d.size() == 200'000);
  for (int64_t i = 0; i < d.size(); ++i) {
    REQUIRE(d.features.data<float>()[i] == static_cast<float>(i));
    REQUIRE(d.labels.data<int64_t>()[i] == i % 7);
  }
}

TEST_CASE("a table that is not one is refused with line, expected and found") {
  struct Case {
    const char* name;
    std::string text;
    const char* message;
    CsvOptions options = {};
  };
  const std::vector<Case> cases = {
      {"empty", "", "expected a header line, found an empty file"},
      {"an empty .gz", gzip(""), "expected a header line, found an empty file"},
      {"only a header", "a,label\n", "expected records after the header, found none"},
      {"one column", "a\n1\n",
       "line 1: expected a header of at least one feature and the label, found 1 columns"},
      {"a short row", "a,b,label\n1,2,3\n1,2\n",
       "line 3: expected 3 fields as in the header, found 2"},
      {"a long row", "a,b,label\n1,2,3,4\n", "line 2: expected 3 fields as in the header, found 4"},
      {"an empty line", "a,b,label\n\n1,2,3\n",
       "line 2: expected 3 fields as in the header, found 0"},
      {"an empty field", "a,b,label\n1,,3\n",
       "line 2: column 2 (b): expected a finite number, found ''"},
      {"a word", "a,b,label\n1,two,3\n",
       "line 2: column 2 (b): expected a finite number, found 'two'"},
      {"two signs", "a,label\n+-5,3\n",
       "line 2: column 1 (a): expected a finite number, found '+-5'"},
      {"NaN", "a,label\nnan,3\n", "line 2: column 1 (a): expected a finite number, found 'nan'"},
      {"infinity", "a,label\ninf,3\n",
       "line 2: column 1 (a): expected a finite number, found 'inf'"},
      {"too large for f32", "a,label\n1e39,3\n",
       "line 2: column 1 (a): expected a finite number, found '1e39'"},
      {"a label of 255",
       "a,label\n1,255\n",
       "line 2: label: expected a whole number from 0 to 9, found '255'",
       {.classes = 10}},
      {"a negative label", "a,label\n1,-1\n",
       "line 2: label: expected a whole number from 0, found '-1'"},
      {"a label with a fraction", "a,label\n1,1.5\n",
       "line 2: label: expected a whole number from 0, found '1.5'"},
      {"an open quote", "a,label\n\"1,2\n", "line 2: field 1 begins with a quote that never ends"},
      {"text after a quote", "a,label\n\"1\"2,3\n",
       "line 2: field 1: expected ',' after the closing quote, found '2'"},
      {"a .gz cut short", gzip("a,label\n1,2\n").substr(0, 22), "the .gz is cut short"},
      {"more than the limit",
       "a,label\n1,2\n",
       "more than 4 unpacked bytes; read it in parts",
       {.bytes_max = 4}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    check_error(
        Errc::bad_data, [&] { read(c.text, c.options); }, "test-csv: ", c.message);
  }
}

TEST_CASE("a packed table that is cut or has any bit flipped is refused, or has its rows") {
  const std::string packed = gzip("a,b,label\n1,2,0\n3,4,1\n");
  const auto rows = [](const std::string& bytes) -> int64_t {
    try {
      return read_csv(TempFile("csv", bytes).path()).labels.size();
    } catch (const Error& e) {
      CHECK(e.code() == Errc::bad_data);
      return 2;
    }
  };
  for (size_t i = 0; i < packed.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = packed;
      bytes[i] = static_cast<char>(bytes[i] ^ 1 << bit);
      CAPTURE(i);
      CAPTURE(bit);
      CHECK(rows(bytes) == 2);
    }
  for (size_t n = 1; n < packed.size(); ++n) {
    CAPTURE(n);
    CHECK_THROWS_AS(read_csv(TempFile("csv", packed.substr(0, n)).path()), Error);
  }
}

TEST_CASE("a line without end is refused before memory runs out") {
  const std::string bomb = gzip("a,label\n" + std::string(20 << 20, '1'));
  CHECK_THROWS_WITH_AS(read(bomb), doctest::Contains("line 2 is longer than 16777216 bytes"),
                       Error);
}

}  // namespace
}  // namespace troupe
