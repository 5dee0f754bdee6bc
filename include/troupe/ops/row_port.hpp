// RowPort: what a ParameterPort is besides, if it takes rows of a gradient as they are. To one that
// is not, PushRowGradient gives them packed (troupe/ops/row_sparse.hpp).
#pragma once

#include <string>

#include "troupe/op.hpp"

namespace troupe {

class RowPort {
 public:
  virtual ~RowPort() = default;
  // ParameterPort::push() of rows: `indices`, i64 [n], and `values`, [n, row...]. Neither is copied
  // for a shard of this process that holds all of the parameter.
  virtual void push_rows(const std::string& parameter, const ParameterStep& at, Tensor indices,
                         Tensor values, ParameterPort::Reply reply) = 0;
};

}  // namespace troupe
