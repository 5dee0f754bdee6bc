// Own ops: the ops and source functions that a process has beside the built-in ones, as a short
// text in its greeting. With it, processes with different registries can name the differing one.
// Owner: none, functions only. Thread: any.
#pragma once

#include <string>

#include "troupe/op.hpp"

namespace troupe {

inline constexpr size_t kOwnOpsMax = 187;  // bytes of the text

// The own ops by name, each with a hash of its schema, and functions with brackets and 0:
// "Cube:1f3a9c04 scene():00000000"; ends in "+" if not all of them fit. An op that replaces a
// built-in op of the same name is included.
std::string own_ops(const Registry& registry);

// The difference of two such texts in words: "only /job:ps/task:0 has Cube". Empty if the texts
// show none: then built-in ops differ, or ops that did not fit.
std::string ops_difference(const std::string& mine, const std::string& my_name,
                           const std::string& theirs, const std::string& their_name);

}  // namespace troupe
