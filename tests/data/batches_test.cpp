// Batches: every record once per epoch (I9), pure functions, and a prefetcher that agrees with
// them.
#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>

#include "troupe/data.hpp"

namespace troupe {
namespace {

Dataset counting(int64_t n) {
  Dataset d{Tensor::empty(DType::f32, Shape{n, 2}), Tensor::empty(DType::i64, Shape{n})};
  for (int64_t i = 0; i < n; ++i) {
    d.features.mutable_data<float>()[2 * i] = static_cast<float>(i);
    d.features.mutable_data<float>()[2 * i + 1] = static_cast<float>(-i);
    d.labels.mutable_data<int64_t>()[i] = 10 * i;
  }
  return d;
}

std::vector<int64_t> sorted(std::vector<int64_t> v) {
  std::sort(v.begin(), v.end());
  return v;
}
std::vector<int64_t> all(int64_t n) {
  std::vector<int64_t> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return v;
}

TEST_CASE(
    "each epoch has every record exactly once over all steps and replicas, whatever is left over") {
  for (int64_t n : {1, 7, 12, 100})
    for (int64_t replicas : {1, 3})
      for (int64_t batch_size : {1, 4, 200}) {
        CAPTURE(n);
        CAPTURE(replicas);
        CAPTURE(batch_size);
        const Batches batches(counting(n),
                              {.batch_size = batch_size, .replicas = replicas, .seed = 5});
        for (int64_t epoch = 0; epoch < 3; ++epoch) {
          std::vector<int64_t> seen;
          for (int64_t step = 0; step < batches.steps_per_epoch(); ++step)
            for (int64_t replica = 0; replica < replicas; ++replica)
              for (int64_t r : batches.records(epoch, step, replica)) seen.push_back(r);
          CHECK(sorted(seen) == all(n));
        }
        // The endless run: the records of all steps in order, cut where epochs end.
        std::vector<int64_t> run;
        for (int64_t step = 0; static_cast<int64_t>(run.size()) < 3 * n; ++step)
          for (int64_t replica = 0; replica < replicas; ++replica) {
            const std::vector<int64_t> rows = batches.records_at(step, replica);
            REQUIRE(static_cast<int64_t>(rows.size()) == batch_size);
            run.insert(run.end(), rows.begin(), rows.end());
          }
        for (int64_t epoch = 0; epoch < 3; ++epoch)
          CHECK(sorted({run.begin() + epoch * n, run.begin() + (epoch + 1) * n}) == all(n));
      }
}

TEST_CASE("a batch is the rows its records name") {
  const Batches batches(counting(10), {.batch_size = 4, .replicas = 2, .seed = 1});
  const Batch b = batches.at(3, 1);
  REQUIRE(b.features.shape() == Shape{4, 2});
  for (size_t i = 0; i < 4; ++i) {
    CHECK(b.features.data<float>()[2 * i + 1] == static_cast<float>(-b.records[i]));
    CHECK(b.labels.data<int64_t>()[i] == 10 * b.records[i]);
  }
}

TEST_CASE("the last batch of an epoch is shared among the replicas") {
  const Batches batches(counting(11), {.batch_size = 3, .replicas = 3, .seed = 1});
  CHECK(batches.steps_per_epoch() == 2);
  std::vector<size_t> sizes;
  for (int64_t replica = 0; replica < 3; ++replica)
    sizes.push_back(batches.records(0, 1, replica).size());
  CHECK(sizes == std::vector<size_t>{0, 1, 1});
  CHECK(batches.batch(0, 1, 0).features.shape() == Shape{0, 2});
}

TEST_CASE(
    "the same seed, step and replica give the same records in any order of asking, another seed "
    "others") {
  const Batches::Settings settings{.batch_size = 8, .replicas = 2, .seed = 42};
  const Batches one(counting(100), settings), two(counting(100), settings);
  std::vector<std::vector<int64_t>> forward;
  for (int64_t step = 0; step < 60; ++step) forward.push_back(one.records_at(step, step % 2));
  for (int64_t step = 60; step-- > 0;)
    CHECK(two.records_at(step, step % 2) == forward[static_cast<size_t>(step)]);
  const Batches other(counting(100), {.batch_size = 8, .replicas = 2, .seed = 43});
  CHECK(other.records_at(0, 0) != forward[0]);
  CHECK(one.records(0, 0, 0) != one.records(1, 0, 0));
}

TEST_CASE("without shuffling, records come in order") {
  const Batches batches(counting(5), {.batch_size = 2, .replicas = 1, .shuffle = false});
  CHECK(batches.records_at(0, 0) == std::vector<int64_t>{0, 1});
  CHECK(batches.records_at(2, 0) == std::vector<int64_t>{4, 0});
}

// 10,000 shuffles of 3 records: each of the 6 orders comes about 1,667 times; 5 standard deviations
// are 186.
TEST_CASE("every order of records is as likely as any other") {
  std::vector<int64_t> count(6);
  const Batches batches(counting(3), {.batch_size = 3, .seed = 9});
  for (int64_t epoch = 0; epoch < 10'000; ++epoch) {
    const std::vector<int64_t> r = batches.records(epoch, 0, 0);
    ++count[static_cast<size_t>(r[0] * 2 + (r[1] > r[2] ? 1 : 0))];
  }
  for (int64_t c : count) CHECK(std::abs(c - 1667) < 186);
}

TEST_CASE("batches that cannot be are refused") {
  CHECK_THROWS_WITH(
      Batches({}, {}),
      "batches want a dataset with at least one record, got none; was its file read?");
  CHECK_THROWS_WITH(
      Batches(counting(0), {}),
      "batches want a dataset with at least one record, got none; was its file read?");
  Dataset bad = counting(3);
  bad.labels = counting(4).labels;
  CHECK_THROWS_WITH(Batches(bad, {}),
                    "the dataset has 3 records, its labels are [4]; give each record one label");
  CHECK_THROWS_WITH(
      Batches(counting(3), {.batch_size = 0}),
      "batches want at least one record and one replica, and at most 1073741824 records a "
      "step, got 0 records for 1 replicas; choose a batch_size and replicas within that");
  const Batches batches(counting(3), {.batch_size = 2, .replicas = 2});
  CHECK_THROWS_WITH(batches.at(0, 2), "there is no replica 2; the batches are for replicas 0 to 1");
  CHECK_THROWS_WITH(batches.at(-1, 0), "there is no step -1; steps count from 0");
  CHECK_THROWS_WITH(batches.batch(0, 1, 0), "there is no step 1 in epoch 0; an epoch has 1 steps");
}

TEST_CASE("a prefetcher gives the batches of its replica, forwards, after jumps and back again") {
  const Batches batches(counting(50), {.batch_size = 4, .replicas = 2, .seed = 3});
  for (int64_t depth : {1, 2, 5}) {
    CAPTURE(depth);
    Prefetch prefetch(batches, 1, 0, depth);
    for (int64_t step : {0, 1, 2, 2, 3, 10, 11, 4, 5, 6, 8, 9, 0, 0, 1000, 1001}) {
      CAPTURE(step);
      const Batch b = prefetch.at(step);
      CHECK(b.records == batches.records_at(step, 1));
      CHECK(same_bits(b.features, batches.at(step, 1).features));
    }
    CHECK_THROWS_WITH(prefetch.at(-5), "there is no step -5; steps count from 0");
    CHECK_THROWS_WITH(prefetch.at(-1), "there is no step -1; steps count from 0");
    CHECK(prefetch.at(7).records == batches.records_at(7, 1));
  }
}

TEST_CASE("a prefetcher stops at any moment") {
  const Batches batches(counting(1000), {.batch_size = 100});
  for (int i = 0; i < 200; ++i) {
    Prefetch prefetch(batches, 0, i, 3);
    if (i % 2 == 0) prefetch.at(i);
  }
  CHECK_THROWS_AS(Prefetch(batches, 1), Error);
  CHECK_THROWS_AS(Prefetch(batches, 0, 0, 0), Error);
}

}  // namespace
}  // namespace troupe
