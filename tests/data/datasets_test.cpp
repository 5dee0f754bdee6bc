// The digits that ship with the project, and MNIST if its files exist.
#include <sys/stat.h>

#include <cstdlib>
#include <iostream>

#include <doctest/doctest.h>

#include "tests/support/temp_file.hpp"
#include "troupe/data.hpp"

namespace troupe {
namespace {

TEST_CASE("the digits are 1,797 images in [0, 1] with their labels") {
  const Dataset digits = load_digits(source_dir() + "/data/digits.csv.gz");
  CHECK(digits.features.shape() == Shape{1797, 8, 8, 1});
  CHECK(digits.labels.shape() == Shape{1797});
  std::vector<int64_t> count(10);
  for (int64_t label : digits.labels.values<int64_t>()) ++count.at(static_cast<size_t>(label));
  CHECK(count == std::vector<int64_t>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
  CHECK(digits.features.data<float>()[2] == 5.0F / 16);  // "0,0,5,13,..."
  const Dataset last = digits.rows(1797 - 360, 1797);
  CHECK(last.size() == 360);
  CHECK(last.labels.data<int64_t>()[359] == 8);
}

TEST_CASE("digits with pixels or columns that cannot be are refused") {
  std::string header, row;
  for (int i = 0; i < 64; ++i) {
    header += "p,";
    row += i == 5 ? "17," : "0,";
  }
  TempFile dark("digits", header + "label\n" + row + "1\n"), narrow("narrow", "a,label\n1,2\n");
  CHECK_THROWS_WITH_AS(load_digits(dark.path()),
                       doctest::Contains("line 2: expected pixels from 0 to 16, found 17"), Error);
  CHECK_THROWS_WITH_AS(load_digits(narrow.path()),
                       doctest::Contains("expected 64 pixels and a label, found 1 features"),
                       Error);
}

TEST_CASE("MNIST's files are read from a folder") {
  const char* dir = std::getenv("TROUPE_MNIST");
  if (!dir) {
    std::cout << "skipped: TROUPE_MNIST names no folder with MNIST's four files\n";
    return;
  }
  const TrainTest mnist = load_mnist(dir);
  CHECK(mnist.train.features.shape() == Shape{60'000, 28, 28, 1});
  CHECK(mnist.test.features.shape() == Shape{10'000, 28, 28, 1});
  CHECK(mnist.train.labels.data<int64_t>()[0] == 5);
  CHECK(mnist.test.labels.data<int64_t>()[0] == 7);
  double sum = 0;
  for (float x : mnist.train.features.values<float>()) sum += x;
  CHECK(sum / 47'040'000 ==
        doctest::Approx(0.1306604762738429));  // the mean that tutorials normalise with
}

TEST_CASE("MNIST files that do not belong together are refused") {
  const std::string dir = binary_dir() + "/test-mnist";
  ::mkdir(dir.c_str(), 0777);
  CHECK_THROWS_WITH_AS(
      load_mnist(dir),
      doctest::Contains("train-images-idx3-ubyte.gz; put MNIST's four IDX files into"), Error);
  const std::string image =
      std::string("\0\0\x08\x03\0\0\0\x01\0\0\0\x1c\0\0\0\x1c", 16) + std::string(784, '\7');
  const auto write = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(dir + "/" + name, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  };
  write("train-images-idx3-ubyte", image);
  write("train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x02\1\2", 10));
  CHECK_THROWS_WITH_AS(load_mnist(dir),
                       doctest::Contains("expected u8[1], a label for each image, found u8[2]"),
                       Error);
  write("train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x01\xff", 9));
  CHECK_THROWS_WITH_AS(load_mnist(dir),
                       doctest::Contains("record 0: expected a label from 0 to 9, found 255"),
                       Error);
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"})
    std::remove((dir + "/" + name).c_str());
  ::rmdir(dir.c_str());
}

}  // namespace
}  // namespace troupe
