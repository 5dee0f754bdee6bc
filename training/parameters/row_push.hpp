// RowPush: within one process, a Push of rows that are not packed: what a client and a shard share
// they need not copy. To another process the same rows go packed, in a Push
// (net/wire/messages.hpp).
#pragma once

#include "net/wire/messages.hpp"

namespace troupe {

// A Push; with `rows`, i64 [n], `gradient` is [n, elements of a row], and these are its rows; or
// [k, elements of a row], each for n / k of them, one after the other (graph/base/repeat_rows.hpp).
struct RowPush : Push {
  Tensor rows = {};
};

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::RowPush)
