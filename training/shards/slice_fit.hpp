// Slices, and the values and requests that fit them.
// Owner: none, plain functions. Thread: any.
#pragma once

#include <string>

#include "training/parameters/layout.hpp"
#include "training/parameters/messages.hpp"
#include "training/parameters/outcome.hpp"
#include "training/rules/update.hpp"

namespace troupe {

// Throws: Error(invalid_argument) for a slice that no shard can hold.
void check_slice(const Slice& slice);
// ok if the values have the slice's type. `what`: the subject of the refusal. Shared values fit:
// the first update copies them before it writes.
Outcome check_values(const Slice& slice, const Tensor& values, const char* what);
// Why the push cannot be one of the slice; ok if it can. `read`: rows whose indices a read has
// checked.
Outcome check_push(const Slice& slice, const Push& push, const RowsRead& read);
// True if the values that the pull asks for can be in its codec.
bool may_be_coded(const Slice& slice, const Pull& pull);
// True if the indices of the pull have the type and row size to name rows of the slice.
bool may_name_rows(const Slice& slice, const Pull& pull);
// The same of their values. Requires: may_name_rows().
bool names_rows(const Slice& slice, const Pull& pull);
// The refusal of a pull whose indices name no rows of the slice.
std::string no_rows(const Slice& slice, const Pull& pull);

}  // namespace troupe
