// Holds the states of slices until a capture has all of its shard.
#include "training/shards/captures.hpp"

#include <utility>

#include "training/shards/held_slice.hpp"

namespace troupe {

void Captures::add(const std::map<uint32_t, HeldSlice>& slices, ShardImage image, Done done) {
  Open& open = open_.emplace_back(
      Open{.image = std::move(image), .count = slices.size(), .done = std::move(done)});
  for (const auto& [id, slice] : slices) take(open, slice);
  finish();
}

void Captures::take(Open& open, const HeldSlice& slice) {
  if (slice.compare_step(open.image.step) == 0)
    open.slices.try_emplace(slice.slice().id, slice.image());
}

void Captures::look_at(const HeldSlice& slice) {
  for (Open& open : open_) take(open, slice);
  finish();
}

void Captures::finish() {
  for (auto it = open_.begin(); it != open_.end();) {
    if (it->slices.size() < it->count) {
      ++it;
      continue;
    }
    Open whole = std::move(*it);
    it = open_.erase(it);
    for (auto& [id, state] : whole.slices) {
      // A replica's own progress is more exact than the step that was asked for; an untrained slice
      // has none.
      if (!state.slice.optimizer) state.next_step = whole.image.step;
      whole.image.slices.push_back(std::move(state));
    }
    whole.done({}, std::move(whole.image));
  }
}

void Captures::end(const Outcome& why) {
  for (const Open& open : std::exchange(open_, {})) open.done(why, {});
}

}  // namespace troupe
