// RowPort: what a ParameterPort is besides, if it takes rows of a gradient as they are. To one that
// is not, PushRowGradient gives them packed (troupe/ops/row_sparse.hpp). Implemented by
// graph/packed_rows.cpp.
#pragma once

#include <string>

#include "troupe/op.hpp"

namespace troupe {

class RowPort {
 public:
  virtual ~RowPort() = default;
  // ParameterPort::push() of rows: `indices`, i64 [n], and `values`, [n, row...], or [k, row...] of
  // which each is for n / k indices, one after the other. Neither is copied for a shard of this
  // process that holds all of the parameter.
  virtual void push_rows(const std::string& parameter, const ParameterStep& at, Tensor indices,
                         Tensor values, ParameterPort::Reply reply) = 0;
};

// Whether k rows can be those of n indices: each of one, or of as many that come after each other.
inline bool may_spread(int64_t k, int64_t n) { return k == n || (k > 0 && n > 0 && n % k == 0); }
// [k, row...] as [n, row...]: each row n / k times. The same tensor if k is n. Requires:
// may_spread(k, n).
Tensor spread_rows(const Tensor& values, int64_t n);

}  // namespace troupe
