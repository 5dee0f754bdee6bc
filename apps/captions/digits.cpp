// Finds the files, looks at all digits once, and puts the stages together.
#include "apps/captions/digits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "apps/captions/sentences.hpp"
#include "apps/program/tables.hpp"

using namespace troupe;

namespace {

constexpr int64_t kWindow = 60'000;       // pictures that a draw chooses from
constexpr int64_t kEpochDigits = 48'000;  // in an epoch, at least, by up to so many passes:
constexpr int64_t kPassesMax = 50;
constexpr int64_t kAtOnce = 100;   // scenes, in evaluation
constexpr int64_t kShown = 12;     // scenes for people
constexpr int64_t kTestEvery = 5;  // of a table; a folder has test digits of its own

// Sources of single pictures, and how large they are.
struct Digits {
  Source train, test;
  std::vector<std::pair<Source, std::string>> files;  // whole ones, with the names of their labels
  std::string name;
  int64_t side = 0, canvas = 0;  // of a picture; of a scene that has place for four
  int64_t greatest = 1;
};

std::string find_file(const std::string& folder, const std::string& name) {
  for (const char* end : {"", ".gz"}) {
    const std::filesystem::path path = std::filesystem::path(folder) / (name + end);
    if (std::filesystem::exists(path)) return std::filesystem::absolute(path).string();
  }
  throw Error(Errc::io, folder, " has no ", name, " or ", name,
              ".gz; wanted are MNIST's four IDX files");
}

Digits find_digits(const std::optional<std::string>& data) {
  const std::string path = std::filesystem::absolute(data ? *data : shipped_digits()).string();
  if (std::filesystem::is_directory(path)) {
    const auto part = [&](const std::string& name) {
      return std::pair{find_file(path, name + "-images-idx3-ubyte"),
                       find_file(path, name + "-labels-idx1-ubyte")};
    };
    const auto train = part("train"), test = part("t10k");
    return {.train = Source::idx(train.first, train.second),
            .test = Source::idx(test.first, test.second),
            .files = {{Source::idx(train.first, train.second), train.second},
                      {Source::idx(test.first, test.second), test.second}},
            .name = path,
            .greatest = 255};
  }
  const std::string label = Source::of("csv", {{"path", path}}).records().fields().back().name;
  const Source all = Source::of("csv", {{"path", path}, {"stack", true}, {"label", label}});
  return {.train = all.but_every(kTestEvery),
          .test = all.every(kTestEvery),
          .files = {{all, path}},
          .name = path};
}

int64_t label_of(const Record& record) {
  int64_t out = -1;
  with_type(record[1].dtype(),
            [&]<class T>(T) { out = static_cast<int64_t>(record[1].item<T>()); });
  return out;
}

void check_labels(const Source& file, const std::string& name, const Registry& functions) {
  Source::Records records = file.records(0, functions);
  if (const TensorType& type = records.fields()[1].type; type.shape.ndim() != 0)
    throw Error(Errc::bad_data, name, ": a label is ", type, "; wanted is one number a record");
  for (int64_t number = 1; const auto record = records.next(); ++number)
    if (const int64_t label = label_of(*record); label < 0 || label > 9)
      throw Error(Errc::bad_data, name, ": record ", number, " has the label ", label,
                  "; wanted is a digit, 0 to 9");
}

// How many pictures there are of each digit. Requires: labels are digits.
struct Count {
  std::array<int64_t, 10> of = {};
  int64_t all = 0;
  double greatest = 0;  // pixel, of features
  Shape shape;          // of a picture
};

Count count(const Source& digits, const Registry& functions) {
  Source::Records records = digits.records(0, functions);
  Count out;
  out.shape = records.fields()[0].type.shape;
  while (const auto record = records.next()) {
    ++out.all, ++out.of[static_cast<size_t>(label_of(*record))];
    if ((*record)[0].dtype() == DType::f32)
      for (const float x : (*record)[0].values<float>())
        out.greatest = std::max<double>(out.greatest, x);
  }
  return out;
}

// Adds to `digits` facts of its pictures. Returns the number of training digits and test digits.
std::pair<int64_t, int64_t> look_at(Digits& digits, const SceneOptions& given,
                                    const Registry& functions) {
  for (const auto& [file, name] : digits.files) check_labels(file, name, functions);
  const Count train = count(digits.train.but_every(given.held_out), functions);
  const Count test = count(digits.test, functions);
  for (size_t i = 0; i < train.of.size(); ++i)
    if (train.of[i] == 0)
      throw Error(Errc::bad_data, digits.files[0].second, ": no training picture shows the digit ",
                  i, "; a network needs pictures of all ten");
  if (test.all < given.digits || train.all / given.held_out < given.digits)
    throw Error(Errc::bad_data, digits.name, ": ", train.all, " training pictures and ", test.all,
                " test pictures are too few for a scene of ", given.digits, " in each part");
  const Shape& shape = train.shape;
  const int64_t size = shape.ndim() == 2 ? shape[0] * shape[1] : shape[0];
  digits.side = std::llround(std::sqrt(static_cast<double>(size)));
  if (digits.side * digits.side != size || digits.side < 6)
    throw Error(Errc::bad_data, digits.name, ": a record has ", size,
                " pixels; wanted are square pictures of at least 6 x 6");
  // MNIST's digits have a border of 4 pixels; those that ship have none.
  digits.canvas = shape.ndim() == 2 ? digits.side * 16 / 7 : digits.side * 13 / 4;
  if (shape.ndim() != 2) digits.greatest = std::max<int64_t>(1, std::llround(train.greatest));
  return {train.all, test.all};
}

}  // namespace

Scenes load_scenes(const SceneOptions& given, const Registry& functions) {
  if (given.digits < 1 || given.digits > kDigitsMax)
    throw Error(Errc::invalid_argument, "--digits wants 1 to ", kDigitsMax, ", got ", given.digits);
  Digits digits = find_digits(given.data);
  const auto [train_digits, test_digits] = look_at(digits, given, functions);
  const int64_t canvas = given.canvas > 0 ? given.canvas : digits.canvas;
  const int64_t passes =
      given.passes > 0 ? given.passes : std::min(kPassesMax, (kEpochDigits - 1) / train_digits + 1);

  // Each `most` pictures in a row make a scene of 1 to `most` digits.
  const auto scenes = [&](const Source& from, int64_t most, int64_t side, uint64_t seed) {
    return from.batch(most, {.drop_last = true})
        .map("scene", {{"canvas", side}, {"digits", most}, {"greatest", digits.greatest}}, seed);
  };
  std::vector<Source> drawn;
  for (int64_t i = 0; i < passes; ++i)
    drawn.push_back(digits.train.but_every(given.held_out)
                        .shuffle(kWindow, given.seed + static_cast<uint64_t>(i)));
  const Source all = passes == 1 ? drawn[0] : Source::interleave(drawn);
  const auto train = [&](int64_t most, int64_t side) {
    return scenes(all, most, side, given.seed).batch(given.batch).prefetch(given.threads);
  };
  const auto asked = [&](const Source& from, int64_t most, int64_t side) {
    return scenes(from.shuffle(kWindow, 1), most, side, 1).batch(kAtOnce).prefetch(given.threads);
  };
  const Source held = digits.train.every(given.held_out);
  const int64_t small = std::max(digits.side, canvas / 2);
  return {.train = train(given.digits, canvas),
          .validation = asked(held, given.digits, canvas),
          .test = asked(digits.test, given.digits, canvas),
          .singles = train(1, small),
          .validation_singles = asked(held, 1, small),
          .shown = scenes(digits.test.shuffle(kWindow, 1), given.digits, canvas, 1).batch(kShown),
          .name = digits.name,
          .canvas = canvas,
          .singles_canvas = small,
          .train_digits = train_digits,
          .test_digits = test_digits};
}
