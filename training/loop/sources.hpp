// The sources that a training reads, for the manifests of its checkpoints: a resumed training goes
// on at a step of its sources, which is another place in other ones.
// Owner: none, plain functions. Thread: any.
#pragma once

#include <string>
#include <vector>

#include "troupe/training.hpp"

namespace troupe {

struct SourceUse {
  // Each source once: "2 replicas: " and its text, without prefetch() and repeat() at its end,
  // which change no record.
  std::vector<std::string> texts;
  bool ends = false;  // one of them does
};
SourceUse sources_of(const std::vector<const Tower*>& towers);

// A warning for people that names the first difference; empty if there is none, or if it is not
// known which sources were read `before`.
std::string source_change(const std::vector<std::string>& before,
                          const std::vector<std::string>& now);

}  // namespace troupe
