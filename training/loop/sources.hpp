// The sources that a training reads, for the manifests of its checkpoints: a resumed training goes
// on at a step of its sources, which is another place in other ones.
// Owner: none, plain functions. Thread: any.
#pragma once

#include <string>
#include <vector>

#include "troupe/training.hpp"

namespace troupe {

// Adds those of a tower, each once: "2 replicas: " and the text of the source, without prefetch()
// and repeat() at its end, which change no record.
void add_sources(const Tower& tower, std::vector<std::string>& to);

// A warning for people that names the first difference; empty if there is none, or if it is not
// known which sources were read `before`.
std::string source_change(const std::vector<std::string>& before,
                          const std::vector<std::string>& now);

}  // namespace troupe
