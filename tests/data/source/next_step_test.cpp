// next_step(): which step a reader of a source makes next.
#include "data/source/next_step.hpp"

#include <doctest/doctest.h>

namespace troupe {
namespace {

using Next = std::optional<NextStep>;

TEST_CASE("a reader does nothing before the first read, and then begins at its step") {
  CHECK(next_step({.depth = 3}) == Next());
  CHECK(next_step({.missing = 500, .depth = 3}) == NextStep{500, true});
  CHECK(next_step({.missing = 0, .depth = 3}) == NextStep{0, true});
}

TEST_CASE("a reader makes as many steps ahead as it may, up to the end of the data") {
  StepsAsked asked = {.at = 5, .newest = 4, .depth = 2};
  CHECK(next_step(asked) == NextStep{5, false});
  asked.at = 6;
  CHECK(next_step(asked) == NextStep{6, false});
  asked.at = 7;
  CHECK(next_step(asked) == Next());
  CHECK(next_step({.at = 6, .newest = 4, .end = 6, .depth = 2}) == Next());
}

TEST_CASE("a step that is waited for comes first; only a near one by way of those before it") {
  StepsAsked asked = {.at = 5, .newest = 9, .depth = 2};
  for (const int64_t near : {5, 6, 7}) {
    asked.missing = near;
    CHECK(next_step(asked) == NextStep{5, false});
  }
  for (const int64_t far : {0, 4, 8, 5'000}) {
    asked.missing = far;
    CHECK(next_step(asked) == NextStep{far, true});
  }
}

}  // namespace
}  // namespace troupe
