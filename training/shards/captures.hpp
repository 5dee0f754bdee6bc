// Captures: requests for a shard's state at a step that some of its slices have not reached yet.
// Owner: Shard. Thread: that of Shard's caller.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "training/parameters/outcome.hpp"
#include "training/parameters/shard_image.hpp"

namespace troupe {

class HeldSlice;

class Captures {
 public:
  using Done = std::function<void(const Outcome&, ShardImage)>;  // the image: if it is ok
  // Above the number of captures that a trainer has waiting at once.
  static constexpr size_t kMax = 8;

  bool full() const { return open_.size() >= kMax; }
  // Captures `image.step` of these slices, of which some are there already.
  void add(const std::map<uint32_t, HeldSlice>& slices, ShardImage image, Done done);
  // The slice has come to another step.
  void moved(const HeldSlice& slice) {
    if (!open_.empty()) look_at(slice);
  }
  void end(const Outcome& why);  // all of them

 private:
  struct Open {
    ShardImage image;
    size_t count = 0;  // slices of the shard
    std::map<uint32_t, SliceState> slices = {};
    Done done;
  };
  static void take(Open& open, const HeldSlice& slice);
  void look_at(const HeldSlice& slice);
  void finish();

  std::vector<Open> open_;
};

}  // namespace troupe
