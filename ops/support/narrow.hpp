// Narrow elements: f16, bf16 and i8, which are stored in fewer bits than they are computed with.
// An op that computes in f32 has kernels for f16 and bf16 that widen what they read, run the op's
// own f32 kernel, and round what it gives, once; of i8, the i32 kernel, whose result is taken
// modulo 2^8. What only moves elements does so by their size, and needs none of this.
#pragma once

#include "devices/kernel_call.hpp"
#include "troupe/op.hpp"

namespace troupe {

// f32 for f16 and bf16, i32 for i8; of other dtypes, none.
DType computed_as(DType dtype);

// n elements to and from those of computed_as(dtype). Requires: it is not none.
void widen(DType dtype, const void* from, void* to, int64_t n);
void narrow(DType dtype, const void* from, void* to, int64_t n);

// The same for all elements of a tensor, by jobs. `to` has the shape of `from`.
void widen_all(const KernelContext& ctx, const Tensor& from, Tensor& to);
// finishes: `to` is output 0 of a kernel that finishes.
void narrow_all(const KernelContext& ctx, const Tensor& from, Tensor& to, bool finishes = false);

// Gives the op kernels for f16 and bf16 beside its f32 kernel, for each that it lacks.
void add_narrow_kernels(Op& op);

// These and one for i8, for an op that compares, chooses, or whose result on i32 modulo 2^8 is that
// on i8. Requires: one of them is a plain CPU kernel for i32.
std::vector<Kernel> with_i8(std::vector<Kernel> kernels);

// A node whose dispatch dtype is narrow, computed with wider elements: its inputs and outputs as a
// whole, through scratch memory. Requires: its op has a CPU kernel for computed_as(dtype).
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
