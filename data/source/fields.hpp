// field_of(): the field that a function of a source works on.
#pragma once

#include <string_view>

#include "troupe/source.hpp"

namespace troupe {

// The place of the field `name`. `wanted`: its type; -1 in the shape: any size. Throws:
// Error(invalid_argument) naming the function and the fields, if there is none or it has another
// type.
inline size_t field_of(std::string_view function, const Fields& fields, std::string_view name,
                       const TensorType& wanted) {
  std::string names;
  for (size_t i = 0; i < fields.size(); ++i) {
    const TensorType& type = fields[i].type;
    if (fields[i].name != name) {
      names += (names.empty() ? "" : ", ") + fields[i].name;
    } else if (type.dtype != wanted.dtype || !may_equal(type.shape, wanted.shape)) {
      throw Error(Errc::invalid_argument, function, " wants ", wanted.dtype, wanted.shape, ", the ",
                  "field ", name, " is ", type.dtype, type.shape);
    } else {
      return i;
    }
  }
  throw Error(Errc::invalid_argument, function, " wants the field ", name, "; the records have ",
              names.empty() ? "none" : names);
}

}  // namespace troupe
