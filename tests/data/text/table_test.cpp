// The reader csv: fields of every kind, missing values, and tables that it refuses.
#include <cmath>

#include "tests/data/text/reading.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"

namespace troupe {
namespace {

using Names = std::vector<std::string>;

SourceArgs with(SourceArgs args, const SourceArgs& more) {
  for (const auto& [name, value] : more) args[name] = value;
  return args;
}

// A stage over a table, which lives as long as the file.
struct Csv {
  Csv(const std::string& text, const SourceArgs& args)
      : file("table", text), stage(read_stage("csv", with(args, {{"path", file.path()}}))) {}
  Record record(size_t i) const { return all_records(stage).at(i); }
  const TempFile file;
  const Stage stage;
};

std::string refused(Errc code, const std::string& text, const SourceArgs& args) {
  return error_text(code, [&] { Csv(text, args); });
}

TEST_CASE("columns are numbers, categories, text and a label, by the names of the header") {
  const SourceArgs args = {{"text", Names{"note"}},
                           {"categories", Names{"colour"}},
                           {"ignore", Names{"id"}},
                           {"label", std::string("class")}};
  const std::string text =
      "id,class,size,colour,note\nx,3,1.5,red,\"a, \"\"b\"\"\nc\"\ny,0,-2, blue,\nz,1.0,+3,red,é\n";
  for (const std::string& bytes : {text, gzip(text)}) {
    const Csv csv(bytes, args);
    CHECK(csv.stage->fields() == Fields{{"size", {DType::f32, {}}},
                                        {"colour", {DType::i64, {}}},
                                        {"note", {DType::u8, {-1}}},
                                        {"label", {DType::i64, {}}}});
    const std::vector<Record> all = all_records(csv.stage, 2);
    REQUIRE(all.size() == 3);
    CHECK(same_bits(all[0][0], Tensor::scalar<float>(1.5F)));
    CHECK(same_bits(all[1][0], Tensor::scalar<float>(-2)));
    CHECK(same_bits(all[0][1], Tensor::scalar<int64_t>(1)));
    CHECK(same_bits(all[1][1], Tensor::scalar<int64_t>(0)));  // " blue" comes before "red"
    CHECK(same_bits(all[2][1], Tensor::scalar<int64_t>(1)));
    CHECK(text_of(all[0][2]) == "a, \"b\"\nc");
    CHECK(text_of(all[1][2]).empty());
    CHECK(text_of(all[2][2]) == "é");
    CHECK(same_bits(all[0][3], Tensor::scalar<int64_t>(3)));
    CHECK(same_bits(all[2][3], Tensor::scalar<int64_t>(1)));
    const auto stream = csv.stage->open(0);
    stream->next();
    CHECK(stream->next()->place() == csv.file.path() + ": record 1");
  }
}

TEST_CASE("stacked columns are one field of features, in the order of the header") {
  const Csv csv("y;a;s;b\n0.5;1;u;2\n7;3;v;4\n", {{"separator", std::string(";")},
                                                  {"stack", true},
                                                  {"text", Names{"s"}},
                                                  {"label", std::string("y")},
                                                  {"label_type", std::string("f32")}});
  CHECK(csv.stage->fields() == Fields{{"features", {DType::f32, {2}}},
                                      {"s", {DType::u8, {-1}}},
                                      {"label", {DType::f32, {}}}});
  CHECK(same_bits(csv.record(1)[0], Tensor::of<float>({3, 4}, {2})));
  CHECK(same_bits(csv.record(0)[2], Tensor::scalar<float>(0.5F)));
}

TEST_CASE("codes follow a given list, and a label may be a category") {
  const Csv csv("x,size,kind\n1,large,b\n2,small,a\n",
                {{"categories", Names{"size", "kind"}},
                 {"size.values", Names{"small", "medium", "large"}},
                 {"label", std::string("kind")}});
  CHECK(csv.record(0)[1].item<int64_t>() == 2);
  CHECK(csv.record(1)[1].item<int64_t>() == 0);
  CHECK(csv.record(0)[2].item<int64_t>() == 1);
  CHECK(csv.stage->fields()[2].name == "label");
  has(refused(Errc::bad_data, "size\nlarge\ntiny\n",
              {{"categories", Names{"size"}}, {"size.values", Names{"large"}}}),
      "line 3: column 1 (size): the category \"tiny\" is not among the 1 of size.values");
}

TEST_CASE("missing numbers are refused, or become the mean, zero or NaN") {
  const std::string text = "a,c\n1,u\nNA,v\n4, ?\n,u\n";
  const auto column = [&](const char* missing) {
    const Csv csv(text, {{"missing", std::string(missing)}, {"categories", Names{"c"}}});
    std::vector<float> out;
    for (const Record& r : all_records(csv.stage)) out.push_back(r[0].item<float>());
    return out;
  };
  CHECK(column("mean") == std::vector<float>{1, 2.5F, 4, 2.5F});
  CHECK(column("zero") == std::vector<float>{1, 0, 4, 0});
  CHECK(column("nan")[2] == 4);
  CHECK(std::isnan(column("nan")[3]));
  has(refused(Errc::bad_data, text, {{"text", Names{"c"}}}),
      "line 3: column 1 (a): expected a number, found \"NA\"; say missing = mean, zero or nan");
  has(refused(Errc::bad_data, "a,c\n1,\n", {{"categories", Names{"c"}}}),
      "line 2: column 2 (c): expected a category, found \"\"");
  has(refused(Errc::bad_data, "a,b\n,1\n?,2\n", {{"missing", std::string("mean")}}),
      "column 1 (a) has no number, so no mean");
  const Csv other("a\n-\n2\n", {{"missing", std::string("zero")}, {"missing_words", Names{"-"}}});
  CHECK(other.record(0)[0].item<float>() == 0);
  has(refused(Errc::bad_data, "a,y\n1,\n",
              {{"missing", std::string("zero")},
               {"label", std::string("y")},
               {"label_type", std::string("f32")}}),
      "column 2 (y): expected a number, found \"\"; each record wants a label");
}

TEST_CASE("tables that do not fit are refused with line and column") {
  struct Case {
    const char* name;
    std::string text;
    const char* message;
    SourceArgs args = {};
  };
  const SourceArgs label = {{"label", std::string("b")}};
  const std::vector<Case> cases = {
      {"empty", "", "expected a header line, found an empty file"},
      {"only a header", "a,b\n", "expected records after the header, found none"},
      {"a short row", "a,b\n1,2\n3\n", "line 3: expected 2 fields as in the header, found 1"},
      {"an empty line", "a,b\n\n1,2\n", "line 2: expected 2 fields as in the header, found 0"},
      {"a word", "a,b\n1,two\n",
       "line 2: column 2 (b): expected a finite number, found \"two\"; name columns of words"},
      {"too large for f32", "a\n1e39\n", "line 2: column 1 (a): expected a finite number"},
      {"a real label", "a,b\n1,0.5\n",
       "line 2: column 2 (b): expected a whole number as label, found \"0.5\"", label},
      {"a column twice", "a,b,a\n1,2,3\n", "line 1: the header has the column \"a\" twice"},
      {"an open quote", "a,b\n1,2\n3,\"x\n4,5\n",
       "line 3: field 2 begins with a quote that never ends"},
      {"Latin-1 text",
       "a,b\n1,caf\xe9\n",
       "line 2: column 2 (b): byte 3 is not UTF-8",
       {{"text", Names{"b"}}}},
      {"a Latin-1 category",
       "a,b\n1,caf\xe9\n",
       "line 2: column 2 (b): the category is not UTF-8",
       {{"categories", Names{"b"}}}},
      {"the line after one of two lines",
       "a,b\n1,\"x\ny\"\nz,q\n",
       "line 4: column 1 (a): expected a finite number, found \"z\"",
       {{"text", Names{"b"}}}},
      {"no number to stack",
       "b\nx\n",
       "no column has numbers to stack",
       {{"text", Names{"b"}}, {"stack", true}}},
      {"cut short", gzip("a,b\n1,2\n").substr(0, 20), "the .gz is cut short"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const std::string text = refused(Errc::bad_data, c.text, c.args);
    has(text, "test-table: ");
    has(text, c.message);
  }
}

TEST_CASE("arguments of csv that do not fit are refused") {
  const auto invalid = [](const SourceArgs& args, const std::string& text = "a,label\n1,2\n") {
    return refused(Errc::invalid_argument, text, args);
  };
  has(invalid({{"text", Names{"c"}}}), "test-table has no column \"c\"; its header has a label");
  has(invalid({{"label", std::string("c")}, {"ignore", Names{"label"}}}), "has no column \"c\"");
  has(invalid({{"text", Names{"a"}}, {"ignore", Names{"a"}}}),
      "csv: the column a stands in several of text, categories, ignore and label");
  has(invalid({{"label", std::string("a")}}), "is called label, as is another column");
  has(invalid({{"ignore", Names{"a", "label"}}}), "csv: ignore leaves no column of ");
  has(invalid({{"separator", std::string("ab")}}), "csv wants one character as separator");
  has(invalid({{"missing", std::string("median")}}), "mean, zero or nan, got \"median\"");
  has(invalid({{"label_type", std::string("i32")}}), "csv wants label_type = i64 or f32");
  has(invalid({{"categories", Names{"a"}}, {"a.values", Names{"x", "x"}}}),
      "csv: a.values has \"x\" twice");
  has(invalid({{"b.values", Names{"x"}}}), "csv has no argument b.values; it takes ");
  CHECK(code_of([] { read_stage("csv", {{"path", std::string("no-such.csv")}}); }) == Errc::io);
}

}  // namespace
}  // namespace troupe
