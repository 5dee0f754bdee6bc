// Roll: y = x shifted cyclically by shifts[i] along axes[i].
//   y[(i + shift) mod n, ...] = x[i, ...]. Shifts of an axis that is named twice are added.
#include <limits>

#include "ops/support/axes.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const auto& shifts = ctx.attr<std::vector<int64_t>>("shifts");
  const auto& axes = ctx.attr<std::vector<int64_t>>("axes");
  if (shifts.size() != axes.size())
    throw ctx.error("wants one shift for each axis, got ", shifts.size(), " shifts and ",
                    axes.size(), " axes");
  for (int64_t axis : axes) checked_axis(ctx, axis, ctx.input(0).ndim());
  for (int64_t shift : shifts)
    if (shift == std::numeric_limits<int64_t>::min())
      throw ctx.error("the shift ", shift, " has no opposite; take one that is nearer to 0");
  return {ctx.input(0)};
}

// Writing dy for dL/dy:  dx = dy shifted back.
std::vector<Output> gradient(const GradientContext& ctx) {
  std::vector<int64_t> back;
  for (int64_t shift : ctx.attr<std::vector<int64_t>>("shifts")) back.push_back(-shift);
  return {roll(ctx.output_gradient(0), back, ctx.attr<std::vector<int64_t>>("axes"))};
}

struct Rolling {
  Shape shape;
  int last = -1;                        // the last dimension that moves; -1: none
  int64_t shift[Shape::kNdimMax] = {};  // in [0, size)
  int64_t bytes[Shape::kNdimMax] = {};  // of one slice in dimension d

  Rolling(const KernelContext& ctx, const Tensor& x) : shape(x.shape()) {
    const auto& shifts = ctx.attr<std::vector<int64_t>>("shifts");
    const auto& axes = ctx.attr<std::vector<int64_t>>("axes");
    for (size_t i = 0; i < axes.size(); ++i) {
      const int d = checked_axis(ctx, axes[i], shape.ndim());
      const int64_t by = shifts[i] % shape[d];
      shift[d] = (shift[d] + (by < 0 ? by + shape[d] : by)) % shape[d];
    }
    for (int d = 0; d < shape.ndim(); ++d) {
      bytes[d] = size_between(shape, d + 1, shape.ndim()) * size_of(x.dtype());
      if (shift[d] != 0) last = d;
    }
  }

  void write(int d, const char* x, char* y) const {
    const int64_t n = shape[d], slice = bytes[d], by = shift[d];
    if (d == last) {
      std::memcpy(y + by * slice, x, static_cast<size_t>((n - by) * slice));
      std::memcpy(y, x + (n - by) * slice, static_cast<size_t>(by * slice));
      return;
    }
    for (int64_t i = 0; i < n; ++i)
      write(d + 1, x + i * slice, y + (i + by < n ? i + by : i + by - n) * slice);
  }
};

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  if (x.size() == 0) return ctx.set_output(0, x);
  const Rolling rolling(ctx, x);
  if (rolling.last < 0) return ctx.set_output(0, x);
  char* y = static_cast<char*>(ctx.output().mutable_raw());
  rolling.write(0, static_cast<const char*>(x.raw()), y);
}

}  // namespace

Op roll_op() {
  return {.name = "Roll",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"shifts", AttrKind::integers}, {"axes", AttrKind::integers}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output roll(Output x, std::vector<int64_t> shifts, std::vector<int64_t> axes, Origin at) {
  return add_node({.op = "Roll",
                   .inputs = {x},
                   .attrs = {{"shifts", std::move(shifts)}, {"axes", std::move(axes)}}},
                  at);
}

}  // namespace troupe
