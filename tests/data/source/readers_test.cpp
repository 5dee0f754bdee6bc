// Readers of sources, and the arguments that they are given.
#include "data/source/readers.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"

namespace troupe {
namespace {

const SourceReader& reader(std::string_view name) {
  for (const SourceReader& r : builtin_readers())
    if (r.name == name) return r;
  throw Error(Errc::internal, "no reader ", name);
}

std::string idx_u8(const std::vector<char>& dims, const std::string& elements) {
  std::string out = {0, 0, 8, static_cast<char>(dims.size())};
  for (const char d : dims) out += std::string(3, 0) + d;
  return out + elements;
}

TEST_CASE("the reader idx gives an image and a label a record, in every epoch") {
  const TempFile images("images", idx_u8({3, 2}, "abcdef")), labels("labels", idx_u8({3}, "xyz"));
  const Stage stage =
      reader("idx").make({{"images", images.path()}, {"labels", labels.path()}}, local_files());
  CHECK(stage->fields() == Fields{{"image", {DType::u8, {2}}}, {"label", {DType::u8, {}}}});
  for (const int64_t epoch : {0, 7}) {
    const auto stream = stage->open(epoch);
    stream->next();
    const Lazy second = stream->next();
    CHECK(same_bits(second->make()[0], Tensor::of<uint8_t>({'c', 'd'}, {2})));
    CHECK(same_bits(second->make()[1], Tensor::scalar<uint8_t>('y')));
    CHECK(second->place() == images.path() + ": record 1");
    CHECK(stream->next());
    CHECK(!stream->next());
  }
}

TEST_CASE("a number may be written as a whole number") {
  const SourceArgs args = {{"p", int64_t{1}}, {"n", 0.5}};
  ArgReader read("f", args);
  CHECK(read.want<double>("p") == 1);
  CHECK(refusal_of([&] { read.want<int64_t>("n"); }).text ==
        "f wants a whole number as n, got a number");
}

TEST_CASE("arguments that a reader does not have, wants, or has of another type are refused") {
  const auto refused = [](const SourceArgs& args) {
    return refusal_of([&] { reader("idx").make(args, local_files()); }).text;
  };
  CHECK(refused({}) == "idx wants the argument images");
  CHECK(refused({{"images", int64_t{3}}}) == "idx wants a text as images, got a whole number");
  CHECK(refused({{"images", std::string("a")}, {"image", std::string("b")}}) ==
        "idx has no argument image; it takes images, labels");
  const TempFile images("images", idx_u8({3, 1}, "abc")), labels("labels", idx_u8({2}, "xy"));
  has(refused({{"images", images.path()}, {"labels", labels.path()}}), "has 2 records");
}

}  // namespace
}  // namespace troupe
