// patiently(): how long an action that fails for lack of a process is repeated.
#include "actors/async/patience.hpp"

#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

// The number of tries, and the final error, of an action that fails `failures` times.
std::pair<int, Errc> done(std::chrono::milliseconds patience, int failures, Errc why,
                          bool full = false) {
  int tries = 0;
  const Errc ended = code_of([&] {
    patiently(
        patience,
        [&] {
          if (tries++ < failures) throw Error(why, "it is not there");
        },
        [](const Error&) { return true; }, full);
  });
  return {tries, ended};
}

TEST_CASE("what a lost process makes fail is done again, for ever if that was asked for") {
  using std::chrono::milliseconds;
  const std::pair ok(3, Errc::ok);
  for (const Errc lost : {Errc::peer_lost, Errc::stale}) {
    CHECK(done(milliseconds(20'000), 2, lost) == ok);
    CHECK(done(milliseconds::max(), 2, lost) == ok);
    CHECK(done(milliseconds(0), 2, lost) == std::pair(1, lost));
  }
  CHECK(done(milliseconds::max(), 2, Errc::bad_data) == std::pair(1, Errc::bad_data));
  CHECK(done(milliseconds::max(), 2, Errc::out_of_memory) == std::pair(1, Errc::out_of_memory));
  CHECK(done(milliseconds::max(), 2, Errc::out_of_memory, /*full=*/true) == ok);
}

}  // namespace
}  // namespace troupe
