// Narrow elements: f16, bf16 and i8, which are stored in fewer bits than they are computed in. The
// f16 and bf16 kernels of an op that computes in f32 widen their inputs, run the op's own f32
// kernel, and round its result once. The i8 kernel uses the i32 kernel, whose result is taken
// modulo 2^8. Ops that only move elements work by element size and need none of this.
#pragma once

#include "devices/kernel_call.hpp"
#include "troupe/op.hpp"

namespace troupe {

// f32 for f16 and bf16, i32 for i8, none for other dtypes.
DType computed_as(DType dtype);

// Converts n elements to and from computed_as(dtype). Requires: that is not none.
void widen(DType dtype, const void* from, void* to, int64_t n);
void narrow(DType dtype, const void* from, void* to, int64_t n);

// Converts all elements of a tensor, in jobs. `to` has the shape of `from`.
void widen_all(const KernelContext& ctx, const Tensor& from, Tensor& to);
// finishes: `to` is output 0 of a kernel with Kernel::finishes.
void narrow_all(const KernelContext& ctx, const Tensor& from, Tensor& to, bool finishes = false);

// Adds f16 and bf16 kernels for each f32 kernel of the op that lacks them.
void add_narrow_kernels(Op& op);

// Returns `kernels` and one for i8, for an op that compares, chooses, or whose i32 result modulo
// 2^8 is the i8 result. Requires: one of `kernels` is a plain CPU kernel for i32.
std::vector<Kernel> with_i8(std::vector<Kernel> kernels);

// A node with a narrow dispatch dtype, computed with wider elements: converts whole inputs and
// outputs through scratch memory. Requires: its op has a CPU kernel for computed_as(dtype).
class WidenedNode final : public KernelState {
 public:
  explicit WidenedNode(const Node& node);
  void run(KernelContext& ctx) const;  // any thread

 private:
  DType dtype_ = DType::none;
  Node node_;  // with wider outputs
  NodeView view_;
};

}  // namespace troupe
