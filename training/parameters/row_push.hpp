// RowPush: a Push of unpacked rows within one process, where client and shard share the tensors and
// need no copy. To another process the same rows go packed, in a Push (messages.hpp).
// Owner: a value. Thread: any.
#pragma once

#include "training/parameters/messages.hpp"

namespace troupe {

// With `rows`, i64 [n], `gradient` is [n, elements of a row]: the values of these rows; or it is
// [k, elements of a row], and each of its rows is for n / k consecutive indices
// (graph/base/repeat_rows.hpp).
struct RowPush : Push {
  Tensor rows = {};
};

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::RowPush)
