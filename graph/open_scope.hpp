// OpenScope: the properties that nodes made in a scope of a graph get; those of outer scopes are
// merged in. Part of the implementation of troupe/graph.hpp.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "troupe/device.hpp"
#include "troupe/graph.hpp"

namespace troupe {

struct Graph::OpenScope {
  // By frame, output and device.
  using Captured = std::map<std::tuple<int32_t, Output, std::string>, Output>;

  std::string prefix;  // "" or "tower0/fc1/"
  DeviceName device;
  int64_t replica = 0;
  std::string colocate_with;
  std::vector<int32_t> control_inputs;
  bool has_origin = false;
  std::string file;
  int line = 0;
  int32_t frame = -1;
  int32_t recompute = -1;
  DType compute = DType::none;
  Route elsewhere;
  std::shared_ptr<Captured> captured;  // since the outermost frame was opened
};

}  // namespace troupe
