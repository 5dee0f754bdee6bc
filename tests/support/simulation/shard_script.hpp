// ShardScript: drives one Shard call by call and keeps its answers. For tests of
// training/shards/shard.hpp.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "training/shards/shard.hpp"

namespace troupe {

inline Tensor vector_of(std::initializer_list<float> values) {
  return Tensor::of<float>(values, Shape{static_cast<int64_t>(values.size())});
}

// Rows of `width` elements.
inline Gradient rows_of(int64_t width, const std::vector<int64_t>& indices,
                        const std::vector<float>& values) {
  const auto n = static_cast<int64_t>(indices.size());
  return {Tensor::of<float>(values, Shape{static_cast<int64_t>(values.size()) / width, width}),
          Tensor::of<int64_t>(indices, Shape{n})};
}

// One parameter "w" of four f32 elements by default.
inline Slice slice_w(uint32_t id = 0,
                     const Optimizer& optimizer = {.kind = "sgd", .learning_rate = 1}) {
  return {.id = id,
          .parameter = "w",
          .dtype = DType::f32,
          .shape = {4},
          .offset = 0,
          .size = 4,
          .optimizer = optimizer};
}

struct ShardScript {
  explicit ShardScript(Shard::Spec spec) : shard(std::move(spec)) {
    shard.set_applied_log([this](const Shard::Applied& a) { applied.push_back(a); });
  }
  // A shard in state `serving`, with `values` in slice 0.
  static ShardScript serving(Aggregation rule, int32_t replicas,
                             Tensor values = vector_of({0, 0, 0, 0}),
                             const Optimizer& optimizer = {.kind = "sgd", .learning_rate = 1}) {
    ShardScript s(
        {.rule = rule, .replicas = replicas_at(replicas, 0), .slices = {slice_w(0, optimizer)}});
    REQUIRE(s.shard.set_initial(1, 0, std::move(values), s.last));
    return s;
  }
  ShardScript(ShardScript&& other) noexcept : shard(std::move(other.shard)) {
    shard.set_applied_log([this](const Shard::Applied& a) { applied.push_back(a); });
  }

  Push make_push(int32_t replica, int64_t step, Gradient gradient) const {
    return {.slice = 0,
            .replica = replica,
            .incarnation = incarnation,
            .step = step,
            .sequence = step,
            .epoch = shard.epoch(),
            .ticket = ticket_of(replica, step),
            .gradient = std::move(gradient)};
  }
  static uint64_t ticket_of(int32_t replica, int64_t step) {
    return 1000 * static_cast<uint64_t>(step + 1) + static_cast<uint64_t>(replica);
  }

  // Returns the actions of the call, which are also kept in `last`.
  ShardActions& push(const Push& p, uint64_t from = 1) {
    last.clear();
    shard.push(p, from, last);
    check_counters();
    return last;
  }
  ShardActions& push(int32_t replica, int64_t step, Gradient gradient) {
    return push(make_push(replica, step, std::move(gradient)));
  }
  ShardActions& pull(int32_t replica, int64_t step, int64_t have = -1) {
    last.clear();
    shard.pull({.slice = 0,
                .replica = replica,
                .step = step,
                .have_version = have,
                .epoch = shard.epoch(),
                .ticket = ticket_of(replica, step)},
               1, last);
    check_counters();
    return last;
  }

  // The result of a capture, once it is done.
  struct Captured {
    bool done = false;
    Outcome outcome;
    ShardImage image;
  };
  std::shared_ptr<const Captured> capture(int64_t step) {
    auto captured = std::make_shared<Captured>();
    shard.capture(shard.epoch(), step, [captured](const Outcome& outcome, ShardImage image) {
      *captured = {true, outcome, std::move(image)};
    });
    return captured;
  }

  // Every gradient is accounted for after every call.
  void check_counters() const {
    const ShardCounters c = shard.counters();
    REQUIRE(c.received == c.ended() + c.held);
    for (const PushRow& row : shard.pushes())
      REQUIRE(row.counts.received == row.counts.ended() + row.held);
    REQUIRE(c.pulls == c.pulls_answered + c.pulls_refused + c.pulls_waiting);
  }
  int64_t refused(PushRefusal reason) const {
    return shard.counters().refused[static_cast<size_t>(reason)];
  }

  Shard shard;
  ShardActions last;
  std::vector<Shard::Applied> applied;
  uint64_t incarnation = 0;
};

// The only action, which must be a T.
template <class T>
const T& only(const ShardActions& actions) {
  REQUIRE(actions.size() == 1);
  REQUIRE(std::holds_alternative<T>(actions[0].message));
  return std::get<T>(actions[0].message);
}

}  // namespace troupe
