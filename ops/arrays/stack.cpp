// stack and unstack: concat and split along a new dimension.
#include "ops/elementwise/composition.hpp"
#include "troupe/ops.hpp"

namespace troupe {

Output stack(const std::vector<Output>& parts, int64_t axis, Origin at) {
  if (parts.empty()) throw refused("stack", at, "there are no parts; pass at least one");
  std::vector<Output> expanded;
  for (const Output& part : parts) expanded.push_back(expand_dims(part, axis, at));
  return concat(expanded, axis, at);
}

std::vector<Output> unstack(Output x, int64_t axis, int64_t count, Origin at) {
  if (!x.defined())
    throw refused("unstack", at, "its input is an undefined Output; pass the result of an op");
  const Shape& shape = x.shape();
  const int64_t own = axis < 0 ? axis + shape.ndim() : axis;
  const bool there = own >= 0 && own < shape.ndim();  // if not, split throws
  if (count < 0) count = there ? shape[static_cast<int>(own)] : 1;
  if (count < 0)
    throw refused("unstack", at, "the size of ", shape, " along axis ", axis,
                  " is not known; say how many parts there are");
  if (count == 0)
    throw refused("unstack", at, "there is nothing along axis ", axis, " of ", shape,
                  "; it makes at least one part");
  std::vector<Output> parts;
  for (const Output& part : split(x, count, axis, at)) parts.push_back(squeeze(part, {axis}, at));
  return parts;
}

}  // namespace troupe
