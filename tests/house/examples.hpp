// Small files that keep or break a rule, and what the rule has to say of each.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/house/source.hpp"

namespace troupe {

struct Example {
  const char* name;
  std::string path;
  std::string text;
  std::string expected;  // part of the only finding; empty: none
};

// `rule` takes a Source and returns its findings.
template <class Rule>
void check_examples(const std::vector<Example>& examples, Rule rule) {
  for (const Example& e : examples) {
    CAPTURE(e.name);
    const std::vector<Violation> found = rule(Source{e.path, e.text});
    std::string all;
    for (const Violation& v : found) all += to_string(v) + "\n";
    CAPTURE(all);
    CHECK(found.size() == (e.expected.empty() ? 0u : 1u));
    CHECK(all.find(e.expected) != std::string::npos);
  }
}

}  // namespace troupe
