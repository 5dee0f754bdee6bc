// Patterns of names: which names they match, and that stars cost no more than lengths.
#include <doctest/doctest.h>

#include <string>

#include "graph/base/name_pattern.hpp"

namespace troupe {
namespace {

TEST_CASE("a star stands for any text, and the pattern for the whole name") {
  struct Case {
    const char *pattern, *name;
    bool matches;
  };
  for (const Case& c : {Case{"fc1/w", "fc1/w", true},
                        {"fc1/w", "fc1/w2", false},
                        {"fc1", "fc1/w", false},
                        {"*", "", true},
                        {"", "", true},
                        {"", "w", false},
                        {"*", "fc1/w", true},
                        {"fc*", "fc", true},
                        {"*/w", "fc1/w", true},
                        {"*/w", "fc1/w/w", true},
                        {"*/w", "fc1/b", false},
                        {"c*v*w", "conv1/w", true},
                        {"c*v*b", "conv1/w", false},
                        {"a*ab", "aab", true},
                        {"a*ab", "ab", false},
                        {"**w**", "fc1/w", true}}) {
    CAPTURE(c.pattern);
    CAPTURE(c.name);
    CHECK(matches_name(c.pattern, c.name) == c.matches);
  }
}

// A search that tries each place for each star would not end in a lifetime.
TEST_CASE("many stars cost no more than the product of the lengths") {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "a*";
  CHECK(!matches_name(pattern + "b", std::string(1000, 'a')));
  CHECK(matches_name(pattern, std::string(1000, 'a')));
}

}  // namespace
}  // namespace troupe
