// What Gru and GruGradient share: the node of the gradient, and which products a step has.
#pragma once

#include <optional>

#include "ops/recurrent.hpp"
#include "troupe/ops/sequences.hpp"

namespace troupe {

// Of one Gru node: what comes back to its y and h, what it has saved, and its inputs.
struct GruBackward {
  Output dy, dh, gates, inner, y, h0, w_h, lengths;
  bool reset_after = true, reverse = false;
};
struct GruGradients {
  Output dprojected;  // [time, batch, 3h]: of x * w_x and of the bias
  Output dh0;         // [batch, h]
  Output h_before;    // [time, batch, h]: h as each step has found it
  Output dinner;      // [time, batch, h]: of what the node saved as `inner`
};
GruGradients gru_gradient(const GruBackward& of);

// The products of a step, or of its way back. With reset_after one makes all of them, else one is
// for r and z, and a second one for n. Of the gates r, z, n of w_h [h, 3h] and rows of `steps`.
template <class T>
struct GruProducts {
  StepProduct<T> first;
  std::optional<StepProduct<T>> second;

  GruProducts(const RecurrentSteps& steps, bool reset_after, bool backward)
      : first(sizes(steps, reset_after ? 3 : 2, backward)) {
    if (!reset_after) second.emplace(sizes(steps, 1, backward));
  }
  int64_t packed_bytes() const {
    return first.packed_bytes() + (second ? second->packed_bytes() : 0);
  }
  int64_t scratch_bytes() const {
    return std::max(first.scratch_bytes(), second ? second->scratch_bytes() : 0);
  }
  void pack(const KernelContext& ctx, const T* w, int64_t hidden, uint8_t* packed,
            uint8_t* scratch) const {
    first.pack(ctx, w, packed, scratch);
    if (second) second->pack(ctx, w + 2 * hidden, packed + first.packed_bytes(), scratch);
  }

 private:
  // Back through a step, gates are among three in memory; r * h and h stand by themselves.
  static StepProductSizes sizes(const RecurrentSteps& s, int gates, bool backward) {
    const int64_t h = s.hidden, many = gates * h;
    return {.rows = s.row_counts(),
            .k = backward ? many : h,
            .n = backward ? h : many,
            .a_step = backward ? 3 * h : h,
            .w_step = 3 * h,
            .transposed = backward};
  }
};

}  // namespace troupe
