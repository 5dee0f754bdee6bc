// Lanes: every job once, whatever the number of helpers, with several callers, nested, and with
// errors.
#include "devices/lanes.hpp"

#include <doctest/doctest.h>

#include <set>
#include <stdexcept>
#include <string>

#include "troupe/error.hpp"

namespace troupe {
namespace {

TEST_CASE("every job runs exactly once, for any number of helpers") {
  for (int helpers : {0, 1, 3}) {
    CAPTURE(helpers);
    Lanes lanes(helpers);
    CHECK(lanes.size() == helpers + 1);
    for (uint32_t jobs : {0u, 1u, 2u, 7u, 100u}) {
      std::vector<std::atomic<int>> times(jobs);
      lanes.run(jobs, [&](uint32_t job, int) { ++times[job]; });
      for (const auto& t : times) CHECK(t == 1);
    }
  }
}

TEST_CASE("without helpers the caller runs the jobs in order") {
  Lanes lanes(0);
  std::vector<uint32_t> order;
  lanes.run(4, [&](uint32_t job, int slot) {
    CHECK(slot == thread_slot());
    order.push_back(job);
  });
  CHECK(order == std::vector<uint32_t>{0, 1, 2, 3});
}

TEST_CASE("several callers at once each get their own jobs done") {
  Lanes lanes(2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller)
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 2000; ++round) {
        int64_t parts[8] = {};
        lanes.run(8, [&](uint32_t job, int) { parts[job] = caller * 1000 + round + job; });
        int64_t sum = 0;
        for (int64_t part : parts) sum += part;
        wrong += sum != 8 * (caller * 1000 + round) + 28;
      }
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("a job may run jobs itself") {
  Lanes lanes(2);
  std::atomic<int> count{0};
  lanes.run(4, [&](uint32_t, int) { lanes.run(5, [&](uint32_t, int) { ++count; }); });
  CHECK(count == 20);
}

TEST_CASE("no two threads work under one slot number at a time") {
  Lanes lanes(3);
  std::vector<std::atomic<int>> busy(4096);
  std::atomic<int> clashes{0};
  for (int round = 0; round < 200; ++round)
    lanes.run(16, [&](uint32_t, int slot) {
      clashes += busy[static_cast<size_t>(slot)]++ != 0;
      busy[static_cast<size_t>(slot)]--;
    });
  CHECK(clashes == 0);
}

TEST_CASE("the error of the lowest job that failed reaches the caller, and the lanes go on") {
  for (int helpers : {0, 2}) {
    CAPTURE(helpers);
    Lanes lanes(helpers);
    for (int round = 0; round < 100; ++round) {
      try {
        lanes.run(16, [&](uint32_t job, int) {
          if (job % 5 == 3) throw std::runtime_error("job " + std::to_string(job));
        });
        FAIL("no error");
      } catch (const std::runtime_error& e) {
        CHECK(std::string(e.what()) == "job 3");
      }
    }
    std::atomic<int> count{0};
    lanes.run(16, [&](uint32_t, int) { ++count; });
    CHECK(count == 16);
  }
}

TEST_CASE("helpers that sleep wake up for the next run") {
  Lanes lanes(1);
  // Both jobs wait for each other, so one of them must be on the helper, however long it has slept.
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> arrived{0};
    lanes.run(2, [&](uint32_t, int) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    CHECK(arrived == 2);
    for (int i = 0; i < round * 100; ++i) std::this_thread::yield();
  }
}

TEST_CASE("more jobs than a run can count are refused") {
  Lanes lanes(1);
  CHECK_THROWS_AS(lanes.run(Lanes::kJobsMax + 1, [](uint32_t, int) {}), InternalError);
  std::atomic<int> count{0};
  lanes.run(2, [&](uint32_t, int) { ++count; });
  CHECK(count == 2);
}

}  // namespace
}  // namespace troupe
