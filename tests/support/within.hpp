// Builds nodes in a scope, where a block of its own would say more than the nodes do.
#pragma once

namespace troupe {

// The result of `build`, which is called while `scope` is open.
template <class Scope, class F>
auto within([[maybe_unused]] Scope scope, F&& build) {
  return build();
}

}  // namespace troupe
