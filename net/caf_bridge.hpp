// CAF inside our link: a middleman that neither listens nor dials, with a random node id, and the
// scribe through which its bytes (BASP) enter and leave a link. Owner: the mesh. Every member of a
// scribe runs in CAF's network thread.
#pragma once

#include <caf/actor_system_config.hpp>

#include "net/seams.hpp"

namespace troupe {

// Puts our middleman into a configuration; CAF's own heartbeats stay off. `rng` draws the node id.
void load_network(caf::actor_system_config& config, Rng& rng);
// The same on CAF's deterministic multiplexer (caf::io::network::test_multiplexer), for
// simulations.
void load_test_network(caf::actor_system_config& config, Rng& rng);

}  // namespace troupe
