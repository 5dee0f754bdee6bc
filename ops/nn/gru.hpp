// Shared by Gru and GruGradient: the gradient's node, and the products of a time step.
#pragma once

#include <optional>

#include "ops/nn/recurrent.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {

// One Gru node for its gradient: the gradients of y and h, the saved values, and the inputs.
struct GruBackward {
  Output dy, dh, gates, inner, y, h0, w_h, lengths;
  bool reset_after = true, reverse = false;
};
struct GruGradients {
  Output dprojected;  // [time, batch, 3h]: gradient of x * w_x and of the bias
  Output dh0;         // [batch, h]
  Output h_before;    // [time, batch, h]: h before each time step
  Output dinner;      // [time, batch, h]: gradient of the value saved as `inner`
};
GruGradients gru_gradient(const GruBackward& of);

// The products of a time step, or of its gradient, for the gates r, z, n of w_h [h, 3h] and the
// rows of `steps`. With reset_after, one product makes all gates; without it, one makes r and z and
// a second one makes n.
template <class T>
struct GruProducts {
  StepProduct<T> first;
  std::optional<StepProduct<T>> second;

  int64_t hidden;

  GruProducts(const RecurrentSteps& steps, bool reset_after, bool backward)
      : first(gate_product(steps, reset_after ? 3 : 2, 3, backward)), hidden(steps.hidden) {
    if (!reset_after) second.emplace(gate_product(steps, 1, 3, backward));
  }
  int64_t packed_bytes() const {
    return first.packed_bytes() + (second ? second->packed_bytes() : 0);
  }
  int64_t scratch_bytes() const {
    return std::max(first.scratch_bytes(), second ? second->scratch_bytes() : 0);
  }
  struct Packed {
    const void *first, *second;
  };
  Packed pack(const KernelContext& ctx, const T* w, uint8_t* packed, uint8_t* scratch) const {
    const void* one = first.pack(ctx, w, packed, scratch);
    if (!second) return {one, nullptr};
    return {one, second->pack(ctx, w + 2 * hidden, packed + first.packed_bytes(), scratch)};
  }
};

template <class T>
struct GruState final : RecurrentState<GruProducts<T>> {
  bool reset_after = true;
};
template <class T>
std::unique_ptr<KernelState> prepare_gru(const Node& node) {
  auto state = recurrent_state<GruState<T>>(node);
  state->reset_after = node.attr<bool>("reset_after");
  return state;
}

}  // namespace troupe
