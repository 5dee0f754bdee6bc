// Own ops: which ops a process has beside the built-in ones, as a short text for its greeting, so
// that processes whose registries differ can say in which op.
#pragma once

#include <string>

#include "troupe/op.hpp"

namespace troupe {

inline constexpr size_t kOwnOpsMax = 187;  // bytes of the text

// "Cube:1f3a9c04 Twice:77aa0b12", by name, each with a hash of its schema; ends in "+" if not all
// of them fit. An op that replaces a built-in one of its name counts.
std::string own_ops(const Registry& registry);

// In which ops two such texts differ, in words: "only /job:ps/task:0 has Cube". Empty if they do
// not: then it is built-in ops that differ, or what did not fit.
std::string ops_difference(const std::string& mine, const std::string& my_name,
                           const std::string& theirs, const std::string& their_name);

}  // namespace troupe
