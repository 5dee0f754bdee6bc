// Lanes: every job runs once for any number of helpers, with several callers, nested, with errors,
// and with helpers that come late or never.

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "devices/threads/cores.hpp"
#include "devices/threads/lanes.hpp"
#include "tests/support/helpers.hpp"
#include "tests/support/threads.hpp"
#include "troupe/error.hpp"

namespace troupe {
namespace {

TEST_CASE("every job runs exactly once, for any number of helpers") {
  for (int helpers : {0, 1, 3}) {
    CAPTURE(helpers);
    Helpers lanes(helpers);
    for (int64_t jobs : {0, 1, 2, 7, 100}) {
      std::vector<std::atomic<int>> times(static_cast<size_t>(jobs));
      lanes.run(jobs, [&](int64_t job) { ++times[static_cast<size_t>(job)]; });
      for (const auto& t : times) CHECK(t == 1);
    }
  }
}

TEST_CASE("without helpers the caller runs the jobs in order") {
  Helpers lanes(0);
  std::vector<int64_t> order;
  lanes.run(4, [&](int64_t job) { order.push_back(job); });
  CHECK(order == std::vector<int64_t>{0, 1, 2, 3});
}

TEST_CASE("several callers at once each get their own jobs done") {
  Helpers lanes(2);
  std::atomic<int> wrong{0};
  on_threads(3, [&](int caller) {
    for (int round = 0; round < 2000; ++round) {
      int64_t parts[8] = {};
      lanes.run(8, [&](int64_t job) { parts[job] = caller * 1000 + round + job; });
      int64_t sum = 0;
      for (int64_t part : parts) sum += part;
      wrong += sum != 8 * (caller * 1000 + round) + 28;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a helper goes from a caller without jobs to another that has some") {
  Helpers lanes(1);
  std::atomic<int> arrived{0};
  std::atomic<bool> second_ended{false};
  // The helper is with the first caller when the second one begins; the jobs of the second wait for
  // each other, so one of them must be on the helper.
  std::thread second;
  lanes.run(2, [&](int64_t) {
    if (++arrived == 2)
      second = std::thread([&] {
        std::atomic<int> both{0};
        lanes.run(2, [&](int64_t) {
          ++both;
          while (both < 2) std::this_thread::yield();
        });
        second_ended = true;
      });
    while (arrived < 2) std::this_thread::yield();
  });
  second.join();
  CHECK(second_ended);
}

TEST_CASE("a helper goes to another run only if few enough threads compute") {
  for (const int helpers : {1, 3}) {
    CAPTURE(helpers);
    const auto cores = std::make_shared<Cores>();
    std::thread helper, second;
    std::atomic<int> arrived{0}, both{0};
    std::atomic<bool> second_runs{false}, helped{false};
    std::thread::id last;
    bool asked = false;
    std::optional<Lanes> lanes;
    const auto run = [&](const std::function<void()>& job) {
      lanes->run(
          2, [](const void* f, int64_t) { (*static_cast<const std::function<void()>*>(f))(); },
          &job);
    };
    lanes.emplace(
        helpers,
        [&](int) {
          if (std::exchange(asked, true)) return;
          helper = std::thread([&] {
            cores->lane_enters();
            lanes->help();
            cores->lane_leaves();
            helped = true;
          });
        },
        cores);
    // One more lane and two callers compute. The helper is with the first caller when the second
    // one begins, and the second caller's first job does not end before the other one is the
    // helper's, or the helper has left.
    std::thread([&] { cores->lane_enters(); }).join();
    Cores::Caller first;
    first.take(*cores);
    run([&] {
      if (++arrived == 2)
        second = std::thread([&] {
          Cores::Caller caller;
          caller.take(*cores);
          run([&] {
            second_runs = true;
            if (++both == 2) last = std::this_thread::get_id();
            while (both < 2 && !helped) std::this_thread::yield();
          });
        });
      while (!second_runs) std::this_thread::yield();
    });
    const std::thread::id helps = helper.get_id();
    helper.join();
    second.join();
    CHECK((last == helps) == (helpers == 3));
  }
}

TEST_CASE("a job may run jobs itself") {
  Helpers lanes(2);
  std::atomic<int> count{0};
  lanes.run(4, [&](int64_t) { lanes.run(5, [&](int64_t) { ++count; }); });
  CHECK(count == 20);
}

TEST_CASE("helpers that never come, or come when all is done, change nothing") {
  int asked = 0;
  Lanes lanes(3, [&](int n) { asked += n; });
  for (int round = 0; round < 3; ++round) {
    std::vector<int> times(8);
    const auto job = [](const void* context, int64_t i) {
      ++const_cast<std::vector<int>&>(
          *static_cast<const std::vector<int>*>(context))[static_cast<size_t>(i)];
    };
    lanes.run(8, job, &times);
    CHECK(times == std::vector<int>(8, 1));
    CHECK(asked == 3);  // requested helpers that have not come yet are not requested again
  }
  for (int i = 0; i < 3; ++i) lanes.help();
  const auto nothing = [](const void*, int64_t) {};
  lanes.run(2, nothing, nullptr);
  CHECK(asked == 4);
}

TEST_CASE("the error of the lowest job that failed reaches the caller, and the lanes go on") {
  for (int helpers : {0, 2}) {
    CAPTURE(helpers);
    Helpers lanes(helpers);
    for (int round = 0; round < 100; ++round) {
      try {
        lanes.run(16, [&](int64_t job) {
          if (job % 5 == 3) throw std::runtime_error("job " + std::to_string(job));
        });
        FAIL("no error");
      } catch (const std::runtime_error& e) {
        CHECK(std::string(e.what()) == "job 3");
      }
    }
    std::atomic<int> count{0};
    lanes.run(16, [&](int64_t) { ++count; });
    CHECK(count == 16);
  }
}

TEST_CASE("helpers that sleep wake up for the next run") {
  Helpers lanes(1);
  // The two jobs wait for each other, so one of them must run on the helper, even after a long
  // sleep.
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> arrived{0};
    lanes.run(2, [&](int64_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    CHECK(arrived == 2);
    for (int i = 0; i < round * 100; ++i) std::this_thread::yield();
  }
}

TEST_CASE("more jobs than a run can count are refused") {
  Helpers lanes(1);
  CHECK_THROWS_AS(lanes.run(Lanes::kJobsMax + 1, [](int64_t) {}), InternalError);
  std::atomic<int> count{0};
  lanes.run(2, [&](int64_t) { ++count; });
  CHECK(count == 2);
}

}  // namespace
}  // namespace troupe
