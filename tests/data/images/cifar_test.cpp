// The reader cifar: records of its binary files.
#include "data/images/readers.hpp"
#include "tests/support/fake_files.hpp"
#include "tests/support/records.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"

namespace troupe {
namespace {

// Labels, and pixels whose planes are counted from `red`, 50 and 100 on.
std::string record(const std::string& labels, int red) {
  std::string out = labels;
  for (const int first : {red, 50, 100})
    for (int i = 0; i < 1024; ++i) out += static_cast<char>(first + i % 7);
  return out;
}

std::string labels(std::initializer_list<int> numbers) {
  std::string out;
  for (const int n : numbers) out += static_cast<char>(n);
  return out;
}

Stage stage(const FakeFiles& files, int64_t classes = 10) {
  return cifar_stage({{"paths", std::vector<std::string>{"*.bin*"}}, {"classes", classes}}, files);
}

TEST_CASE("records of all files have interleaved pixels and their labels") {
  const FakeFiles files(FileMap{{"1.bin", record(labels({3}), 0) + record(labels({9}), 10)},
                                {"2.bin.gz", gzip(record(labels({0}), 20))}});
  const Stage cifar = stage(files);
  CHECK(cifar->fields() ==
        Fields{{"image", {DType::u8, {32, 32, 3}}}, {"label", {DType::i64, {}}}});
  const auto records = records_of(cifar);
  REQUIRE(records.size() == 3);
  const Record second = records[1]->make();
  CHECK(second[1].item<int64_t>() == 9);
  const auto pixels = second[0].values<uint8_t>();
  REQUIRE(pixels.size() == 3072);
  for (size_t i = 0; i < 1024; ++i) {
    CHECK(pixels[3 * i] == 10 + i % 7);
    CHECK(pixels[3 * i + 1] == 50 + i % 7);
    CHECK(pixels[3 * i + 2] == 100 + i % 7);
  }
  CHECK(records[1]->place() == "1.bin: record 1");
  CHECK(records[2]->place() == "2.bin.gz: record 0");
  CHECK(records[2]->make()[1].item<int64_t>() == 0);
}

TEST_CASE("CIFAR-100 has a coarse label, too") {
  const FakeFiles files(FileMap{{"a.bin", record(labels({19, 99}), 0)}});
  const Stage cifar = stage(files, 100);
  CHECK(cifar->fields()[2] == Field{"coarse_label", {DType::i64, {}}});
  const Record made = records_of(cifar)[0]->make();
  CHECK(made[1].item<int64_t>() == 99);
  CHECK(made[2].item<int64_t>() == 19);
  CHECK(made[0].data<uint8_t>()[1] == 50);
}

TEST_CASE("files that are not CIFAR's are refused with file and record") {
  const auto refused = [](const std::string& bytes, int64_t classes = 10) {
    const FakeFiles files(FileMap{{"a.bin", bytes}});
    return error_text(Errc::bad_data, [&] {
      for (const Lazy& record : records_of(stage(files, classes))) record->make();
    });
  };
  const std::string good = record(labels({1}), 0);
  has(refused(good + good.substr(0, 100)),
      "a.bin: at byte 3073: expected a record of 3073 bytes, found 100; the file is cut short");
  has(refused(""), "expected a record of 3073 bytes, found 0");
  has(refused(good + record(labels({10}), 0)),
      "a.bin: record 1: expected a class from 0 to 9, found 10; is it a file of CIFAR-10?");
  has(refused(record(labels({20, 0}), 0), 100), "expected a class from 0 to 19, found 20");
  const FakeFiles any(FileMap{{"a.bin", good}});
  check_invalid([&] { stage(any, 20); }, "cifar has 10 or 100 classes, not 20");
  const FakeFiles none(FileMap{{"a.txt", ""}});
  check_error(
      Errc::io, [&] { stage(none); }, "no file matches the pattern *.bin*");
}

}  // namespace
}  // namespace troupe
