// Files of records, and the texts of sources.
#include <span>

#include "data/records/records.hpp"
#include "data/source/readers.hpp"
#include "data/source/spec.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/fake_files.hpp"

namespace troupe::fuzz {
namespace {

constexpr int kRecords = 64;  // that are read of a file

void read_records(const SourceStage& stage) {
  const auto stream = stage.open(0);
  for (int i = 0; i < kRecords; ++i) {
    const Lazy record = stream->next();
    if (!record) return;
    promise(record->make().size() == stage.fields().size(), "a record has all fields");
    record->place();
  }
}

void read_file(std::string_view reader, SourceArgs args, std::string_view bytes) {
  const FileMap one_file = {{"f", std::string(bytes)}};
  const FakeFiles files(one_file);
  for (const SourceReader& one : builtin_readers())
    if (one.name == reader) return read_records(*one.make(args, files));
}

SourceArgs paths() { return {{"paths", std::vector<std::string>{"f"}}}; }

void run_idx(std::string_view bytes) { read_file("idx", {{"images", std::string("f")}}, bytes); }

Seeds idx_seeds() {
  const auto head = [](char dtype, std::initializer_list<char> dims) {
    std::string out = {0, 0, dtype, static_cast<char>(dims.size())};
    for (const char d : dims) out += std::string(3, '\0') + d;
    return out;
  };
  return {head(8, {3, 2}) + "abcdef", head(8, {4}) + "wxyz", head(13, {1, 1}) + "abcd"};
}

void run_csv(std::string_view bytes) {
  Input in(bytes);
  const auto choice = in.number<uint8_t>();
  SourceArgs args = {{"path", std::string("f")}, {"stack", (choice & 1) != 0}};
  if (choice & 2) args["separator"] = std::string(";");
  if (choice & 4) args["missing"] = std::string("mean");
  read_file("csv", args, in.rest());
}

Seeds csv_seeds() {
  return {std::string(1, 0) + "a,b,label\n1,2.5,x\n3,4,\"y, z\"\n",
          std::string(1, 3) + "a;b\n1;2\n\n3;4\n", std::string(1, 4) + "a,b\n1,\n,2\n"};
}

// The first byte chooses the reader.
void run_records(std::string_view bytes) {
  Input in(bytes);
  switch (in.number<uint8_t>() % 4) {
    case 0:
      return read_file("tfrecord", paths(), in.rest());
    case 1:
      return read_file("lines", paths(), in.rest());
    case 2:
      return read_file("documents", paths(), in.rest());
    default:
      return read_file("cifar", paths(), in.rest());
  }
}

Seeds record_seeds() {
  // Length, its checksum, the bytes and theirs: of "hello".
  const std::string record("\x05\0\0\0\0\0\0\0\xea\xb2\x04\x3ehello\xdb\x48\x02\x44", 21);
  Seeds out = {record, "one\ntwo\n", "text", ""};
  out[3].assign(3073, 'c');
  for (size_t i = 0; i < out.size(); ++i) out[i].insert(out[i].begin(), static_cast<char>(i));
  return out;
}

// A tf.train.Example in the record of a source that reads its fields.
void run_example(std::string_view bytes) {
  using Texts = std::vector<std::string>;
  static const Fields inputs = {{"record", {DType::u8, Shape{-1}}}};
  static const SourceStep step = bind_example(inputs, {{"names", Texts{"a", "b", "c"}},
                                                       {"dtypes", Texts{"i64", "f32", "u8"}},
                                                       {"shapes", Texts{"[2]", "[-1]", "[-1]"}}});
  const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
  const Record record = {
      Tensor::of(std::span(first, bytes.size()), Shape{static_cast<int64_t>(bytes.size())})};
  const std::string place = "f: the record at byte 0";
  promise(step.map(SourceCall(inputs, record, 0, place)).size() == 3, "all features are read");
}

// A message's field of bytes, shorter than 128.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

Seeds example_seeds() {
  const auto feature = [](const std::string& name, int kind, const std::string& list) {
    return field(1, field(1, name) + field(2, field(kind, list)));
  };
  const std::string numbers = field(1, "\x01\x7f"), reals = field(1, std::string(8, '@')),
                    texts = field(1, "abc");
  return {field(1, feature("a", 3, numbers) + feature("b", 2, reals) + feature("c", 1, texts))};
}

void run_source(std::string_view bytes) {
  const Spec spec = spec_from_text(std::string(bytes));
  const std::string once = spec_to_text(*spec);
  promise(spec_to_text(*spec_from_text(once)) == once, "a source reads back equal");
  with_seen(spec, std::string(bytes));
  const SourcePlan plan = plan_source(spec);
  batch_size(*plan.stages);
  // Readers of local files alone, and functions that read vocabularies, stay out.
  for (const char* word : {"npy", "npz", "safetensors", "vocabulary"})
    if (bytes.find(word) != bytes.npos) return;
  const FileMap some = {{"f", "1,2\n3,4\n"}, {"g", "one\ntwo\n"}};
  const FakeFiles files(some);
  read_records(*build_stages(*plan.stages, nullptr, files));
}

Seeds source_seeds() {
  const Source lines = Source::of("lines", {{"paths", std::vector<std::string>{"g"}}});
  return {lines.to_text(), lines.shuffle(16, 3).batch(2).repeat(2).prefetch(2, 2).to_text(),
          lines.take(1).cache().skip(0).to_text(),
          Source::of("csv", {{"path", std::string("f")}, {"stack", true}}).batch(1).to_text()};
}

}  // namespace

Target csv_target() { return {"csv", run_csv, csv_seeds}; }
Target example_target() { return {"example", run_example, example_seeds}; }
Target idx_target() { return {"idx", run_idx, idx_seeds}; }
Target records_target() { return {"records", run_records, record_seeds}; }
Target source_target() { return {"source", run_source, source_seeds}; }

}  // namespace troupe::fuzz
