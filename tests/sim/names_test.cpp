// Names that ./dev sim accepts.
#include <algorithm>

#include "tests/support/simulation/simulation.hpp"

namespace troupe {

TEST_CASE("every simulated cluster has a name of its own") {
  auto names = sim::scenario_names();
  REQUIRE(!names.empty());
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

}  // namespace troupe
