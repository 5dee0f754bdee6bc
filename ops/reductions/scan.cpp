// The attributes and views of scans, documented in ops/reductions/scan.hpp.
#include "ops/reductions/scan.hpp"

namespace troupe {

std::vector<AttrSpec> scan_attrs() {
  return {{"axis", AttrKind::integer, int64_t{-1}},
          {"exclusive", AttrKind::boolean, false},
          {"reverse", AttrKind::boolean, false}};
}

Attrs to_attrs(const ScanOptions& options) {
  return {{"axis", options.axis}, {"exclusive", options.exclusive}, {"reverse", options.reverse}};
}

ScanOptions scan_options(const Node& node) {
  return {node.attr<int64_t>("axis"), node.attr<bool>("exclusive"), node.attr<bool>("reverse")};
}

std::vector<Shape> infer_scan(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  if (ctx.input(0).ndim() == 0)
    throw ctx.error("runs along an axis, and a scalar has none; reshape it to [1]");
  checked_axis(ctx, ctx.attr<int64_t>("axis"), ctx.input(0).ndim());
  return {ctx.input(0)};
}

ScanView scan_view(const Shape& x, int64_t axis, bool reverse) {
  const int d = static_cast<int>(axis < 0 ? axis + x.ndim() : axis);
  return {size_between(x, 0, d), x[d], size_between(x, d + 1, x.ndim()), reverse};
}

}  // namespace troupe
