// FirstValues: initial values of slices, which come in pieces, until they are whole.
// Owner: the shard's actor. Thread: that of its state.
#pragma once

#include <cstdint>
#include <map>

#include "devices/memory/memory.hpp"
#include "training/parameters/layout.hpp"
#include "training/parameters/messages.hpp"
#include "training/parameters/outcome.hpp"

namespace troupe {

class FirstValues {
 public:
  // Pieces of a slice follow each other; the one at byte 0 begins anew. Moves the values into
  // `whole` with the last piece, and leaves it undefined before.
  Outcome add(const SetInitial& piece, const Slice& slice, Memory& memory, Tensor& whole);
  void drop(uint32_t slice) { begun_.erase(slice); }
  void clear() { begun_.clear(); }

 private:
  struct Begun {
    Tensor values;
    int64_t bytes = 0;  // have come, from the start on
  };
  std::map<uint32_t, Begun> begun_;  // by slice
};

}  // namespace troupe
