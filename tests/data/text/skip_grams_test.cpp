// The function skip_grams: windows, subsampling, special tokens, and arguments it refuses.
#include <cmath>
#include <map>

#include "data/random.hpp"
#include "tests/data/text/reading.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

using namespace std::string_literals;
using Ids = std::vector<int64_t>;
using Pairs = std::vector<std::pair<int64_t, int64_t>>;

const Fields kIds = {{"text", {DType::i64, {-1}}}};

std::vector<Record> made(const SourceStep& step, const Tensor& ids, uint64_t key = 1) {
  const Record record = {ids};
  const std::string place = "corpus: line 3";
  const SourceCall call(kIds, record, key, place);
  return step.map ? std::vector<Record>{step.map(call)} : results_of(step.expand(call));
}
std::vector<Record> made(const SourceStep& step, const Ids& ids, uint64_t key = 1) {
  return made(
      step, Tensor::of<int64_t>(std::span<const int64_t>(ids), {static_cast<int64_t>(ids.size())}),
      key);
}

Pairs pairs_of(const SourceArgs& args, const Ids& ids, uint64_t key = 1) {
  Pairs out;
  for (const Record& r : made(bound("skip_grams", kIds, args), ids, key))
    for (int64_t i = 0; i < r[0].size(); ++i)
      out.emplace_back(r[0].data<int64_t>()[i], r[1].data<int64_t>()[i]);
  return out;
}

Ids numbers(int64_t first, int64_t n) {
  Ids out;
  for (int64_t i = 0; i < n; ++i) out.push_back(first + i);
  return out;
}

TEST_CASE("a window of one gives each word with its neighbours, without special tokens") {
  const SourceArgs one = {{"window", int64_t{1}}};
  CHECK(pairs_of(one, {2, 10, 11, 1, 12, 3}) == Pairs{{10, 11}, {11, 10}, {11, 12}, {12, 11}});
  CHECK(pairs_of({{"window", int64_t{1}}, {"first_id", int64_t{0}}}, {0, 3}) ==
        Pairs{{0, 3}, {3, 0}});
  CHECK(pairs_of(one, {10}).empty());
  CHECK(pairs_of(one, {}).empty());
}

TEST_CASE("pairs are records of scalars, or all pairs one record") {
  const SourceStep apart = bound("skip_grams", kIds, {}),
                   together = bound("skip_grams", kIds, {{"per", std::string("record")}});
  CHECK(apart.fields == Fields{{"centre", {DType::i64, {}}}, {"context", {DType::i64, {}}}});
  CHECK(together.fields == Fields{{"centre", {DType::i64, {-1}}}, {"context", {DType::i64, {-1}}}});
  CHECK(!apart.same_count);
  const Ids ids = numbers(4, 50);
  CHECK(made(apart, ids)[0][0].ndim() == 0);
  CHECK(made(together, ids)[0][0].shape() == made(together, ids)[0][1].shape());
  CHECK(made(together, Ids{})[0][0].size() == 0);
  CHECK(pairs_of({}, ids) == pairs_of({{"per", std::string("record")}}, ids));
}

TEST_CASE("a batch of texts gives the pairs of each of them, without the padding") {
  const Fields batch = {{"text", {DType::i64, {-1, -1}}}};
  const SourceStep step = bound("skip_grams", batch, {{"window", int64_t{1}}, {"per", "record"s}});
  const Record pairs =
      made(step, Tensor::of<int64_t>({10, 11, 12, 20, 0, 0, 30, 31, 0}, {3, 3}))[0];
  CHECK(same_bits(pairs[0], Tensor::of<int64_t>({10, 11, 11, 12, 30, 31}, {6})));
  CHECK(same_bits(pairs[1], Tensor::of<int64_t>({11, 10, 12, 11, 31, 30}, {6})));
  CHECK(made(step, Tensor::zeros(DType::i64, {0, 3}))[0][0].size() == 0);
}

TEST_CASE("the size of a window is uniform, and its context is whole") {
  constexpr int64_t n = 20'000, window = 4;
  std::map<int64_t, Ids> distances;  // of contexts, by centre
  for (const auto& [centre, context] : pairs_of({{"window", window}}, numbers(4, n)))
    distances[centre].push_back(context - centre);
  std::map<int64_t, int64_t> sizes;
  for (int64_t i = 4 + window; i < n - window; ++i) {
    const Ids& d = distances[i];
    const auto b = static_cast<int64_t>(d.size()) / 2;
    Ids wanted;
    for (int64_t j = -b; j <= b; ++j)
      if (j != 0) wanted.push_back(j);
    REQUIRE(d == wanted);
    ++sizes[b];
  }
  CHECK(sizes.size() == window);
  // Five standard deviations of a count, sqrt(n * 1/4 * 3/4).
  for (const auto& [b, count] : sizes)
    CHECK(std::abs(static_cast<double>(count) - n / 4.0) < 5 * std::sqrt(n * 3 / 16.0));
}

TEST_CASE("frequent words stay with the square root of threshold over share") {
  // Id 4 is 80 % of the words, 5 is 16 % and 6 is 4 %; t = 0.04 keeps sqrt(0.05), 1/2 and all.
  Ids ids;
  for (int i = 0; i < 2000; ++i)
    for (int j = 0; j < 25; ++j) ids.push_back(j < 20 ? 4 : j < 24 ? 5 : 6);
  std::map<int64_t, double> kept;  // each kept word but the last is a centre with one next to it
  for (const auto& [centre, context] : pairs_of(
           {{"window", int64_t{1}}, {"subsample", 0.04}, {"counts", Ids{0, 0, 0, 0, 80, 16, 4}}},
           ids))
    kept[centre] += 0.5;
  const auto near = [&](int64_t id, double n, double p) {
    CAPTURE(id);
    CAPTURE(kept[id]);
    CHECK(std::abs(kept[id] - n * p) < 2 + 5 * std::sqrt(n * p * (1 - p)));
  };
  near(4, 40'000, std::sqrt(0.05));
  near(5, 8'000, 0.5);
  near(6, 2'000, 1);
}

TEST_CASE("draws depend on the key of the record alone") {
  const Ids ids = numbers(4, 100);
  CHECK(pairs_of({}, ids, 7) == pairs_of({}, ids, 7));
  CHECK(pairs_of({}, ids, 7) != pairs_of({}, ids, 8));
}

TEST_CASE("arguments and ids that do not fit are refused") {
  const auto refused = [](const SourceArgs& args, const Fields& fields = kIds) {
    return error_text(Errc::invalid_argument, [&] { bound("skip_grams", fields, args); });
  };
  has(refused({}, {{"text", {DType::u8, {-1}}}}),
      "skip_grams wants ids, i64 [-1] or a batch of such, but text is u8");
  has(refused({{"window", int64_t{0}}}), "wants a window from 1 to 1048576");
  has(refused({{"per", std::string("word")}}), "per = pair or record, got 5 and \"word\"");
  has(refused({{"subsample", 0.1}}), "counts by id, got 0.1 and 0 counts");
  has(refused({{"counts", Ids{1}}}), "counts by id, got 0 and 1 counts");
  has(refused({{"subsample", 1.5}, {"counts", Ids{1}}}), "a subsample from 0 to 1");
  has(refused({{"subsample", std::nan("")}, {"counts", Ids{1}}}), "a subsample from 0 to 1");
  has(refused({{"subsample", 0.1}, {"counts", Ids{-1}}}), "got a count of -1");
  has(refused({{"first_id", int64_t{-1}}}), "a first_id of at least 0, got -1");
  check_error(
      Errc::bad_data,
      [] {
        pairs_of({{"subsample", 0.1}, {"counts", Ids{1, 1, 1, 1, 1}}}, {4, 5});
      },
      "corpus: line 3: the id 5 has no count; there are 5");
}

}  // namespace
}  // namespace troupe
