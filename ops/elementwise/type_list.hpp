// Types of the arguments and results of a function as the text of an attribute: "f32[2, -1] i64[]".
// Implemented in ops/elementwise/type_list.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

std::string text_of(const std::vector<TensorType>& types);
std::optional<std::vector<TensorType>> types_of(std::string_view text);  // nullopt: it is no list

}  // namespace troupe
