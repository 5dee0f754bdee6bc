// The fields of records: found by name, checked, and read as text.
#pragma once

#include <string>
#include <string_view>

#include "data/source/stage.hpp"

namespace troupe {

// The number of the field `name`; the number of all fields if there is none.
size_t find_field(const Fields& fields, std::string_view name);
std::string names_of(const Fields& fields);  // "image, label"

// The number of a field by name. `of`: the function that wants it. Throws: Error(invalid_argument)
// that names the fields there are.
size_t field_number(const Fields& fields, std::string_view name, std::string_view of);
// The same for a field of the type `wanted`; -1 in its shape: any size. Throws: also
// Error(invalid_argument) for a field of another type.
size_t field_of(std::string_view function, const Fields& fields, std::string_view name,
                const TensorType& wanted);
// Throws: Error(invalid_argument) for two fields of one name. `of`: the stage that gives them.
void want_distinct(const Fields& fields, std::string_view of);

// A tensor of text, u8, as text.
inline std::string_view text_of(const Tensor& text) {
  return {reinterpret_cast<const char*>(text.data<uint8_t>()), static_cast<size_t>(text.size())};
}

}  // namespace troupe
