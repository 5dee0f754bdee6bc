// The schedule of checkpoints, the count of recoveries, the backoff and the progress of a training.
#include <doctest/doctest.h>

#include "actors/async/backoff.hpp"
#include "training/loop/checkpoint_schedule.hpp"
#include "training/loop/progress_meter.hpp"
#include "training/loop/recoveries.hpp"

namespace troupe {
namespace {

TEST_CASE("a backoff waits 20 ms after a failure, then twice as long each time, up to a second") {
  const int64_t waits[] = {0, 20, 40, 80, 160, 320, 640, 1000, 1000};
  for (int i = 0; i < 9; ++i) CHECK(Backoff::wait(i).count() == waits[i]);
  Backoff b;
  const Backoff::Millis now{100};
  CHECK(b.due(now));
  CHECK(b.failed(now));
  CHECK(!b.failed(now));
  CHECK(!b.due(now + Backoff::Millis(39)));
  CHECK(b.due(now + Backoff::Millis(40)));
  b.succeeded();
  CHECK(b.failed(now));
}

TEST_CASE("checkpoints are due at multiples and at the end, each once") {
  CheckpointSchedule s(true, 4);
  s.go_to(5);
  CHECK(s.next(10) == 8);
  CHECK(s.next(7) == 7);
  CHECK(!s.due(6, 10));
  CHECK(s.due(8, 10));
  CHECK(s.due(7, 7));
  s.begin(8);
  CHECK(s.open());
  s.captured();
  CHECK(!s.due(8, 10));
  CHECK(s.next(10) == 10);
  CHECK(s.end(true));
  CHECK(!s.end(true));  // answered already
  CHECK(s.written() == 8);
  CHECK(!CheckpointSchedule(false, 4).due(4, 4));
  CHECK(CheckpointSchedule(true, 0).next(10) == 10);
}

TEST_CASE("a checkpoint that failed is due again or passed over, and the one before is kept") {
  CheckpointSchedule s(true, 2);
  s.go_to(4);
  s.begin(6);
  s.captured();
  s.end(false);
  CHECK(s.written() == 4);
  SUBCASE("repeated") {
    s.repeat();
    CHECK(s.due(6, 9));
  }
  SUBCASE("passed over") {
    s.pass_over();
    CHECK(!s.due(6, 9));
    CHECK(s.newest() == 6);
  }
  SUBCASE("when only links were lost") {
    s.keep(9);
    CHECK(!s.due(6, 9));
    s.keep(6);  // the last one
    CHECK(s.due(6, 6));
  }
}

TEST_CASE("a loss counts as a recovery if a replica went back, and in a row until a new step") {
  Recoveries r;
  r.lost();
  CHECK(r.begin() == 1);
  CHECK(!r.end());  // all shards are as they were
  CHECK(r.count() == 0);
  r.lost();
  r.lost();
  CHECK(r.begin() == 2);
  r.went_back(3);
  r.went_back(1);
  CHECK(r.count() == 2);
  CHECK(r.end() == 3);
  CHECK(r.count() == 2);
  r.reached(1);
  CHECK(r.begin() == 1);
  r.reached(1);
  CHECK(r.begin() == 2);
  CHECK(r.farthest() == 1);
}

TEST_CASE("progress tells rate and remaining time since training began, once for each step") {
  const auto begin = ProgressMeter::Time::clock::now();
  ProgressMeter meter(/*steps=*/30, /*examples_per_step=*/8, /*first=*/10, begin);
  const auto first = meter.next(
      10, [] { return 2.5; }, begin);
  REQUIRE(first);
  CHECK(first->steps == 30);
  CHECK(first->loss == 2.5);
  CHECK(first->examples_per_second == 0);
  const auto unread = [] {
    FAIL("the loss of steps that are reported already is not wanted");
    return 0.0;
  };
  CHECK(!meter.next(10, unread, begin + std::chrono::seconds(1)));
  const auto later = meter.next(
      15, [] { return 2.0; }, begin + std::chrono::seconds(2));
  REQUIRE(later);
  CHECK(later->examples_per_second == 20);
  CHECK(later->remaining.count() == 6);
  CHECK(meter.next(
      12, [] { return 2.0; }, begin + std::chrono::seconds(3)));  // steps are done again
}

}  // namespace
}  // namespace troupe
