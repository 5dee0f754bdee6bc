// A shard of one slice that a session makes and uses.
#pragma once

#include <caf/all.hpp>
#include <doctest/doctest.h>

#include "training/parameters/messages.hpp"

namespace troupe {

inline CreateShard one_shard() {
  SliceSpec slice{.parameter = "w",
                  .dtype = static_cast<uint8_t>(DType::f32),
                  .shape = {4},
                  .size = 4,
                  .optimizer = "sgd(learning rate 0.1)"};
  CreateShard m{.container = "shared", .epoch = 1, .replicas = {0}, .slices = {slice}};
  return m;
}

inline uint64_t use_shard(caf::scoped_actor& session, const caf::actor& service) {
  uint64_t door = 0;
  session->request(service, std::chrono::seconds(30), one_shard())
      .receive([&](const ShardDescription& d) { door = d.door; },
               [](const caf::error& e) { FAIL("no shard: " << caf::to_string(e)); });
  return door;
}

}  // namespace troupe
