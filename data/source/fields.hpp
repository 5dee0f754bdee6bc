// field_of(): the field of a certain type that a function of a source works on.
#pragma once

#include <string>
#include <string_view>

#include "data/source/stage.hpp"

namespace troupe {

// The place of the field `name`. `wanted`: its type; -1 in the shape: any size. Throws:
// Error(invalid_argument) naming the function and the fields, if there is none or it has another
// type.
inline size_t field_of(std::string_view function, const Fields& fields, std::string_view name,
                       const TensorType& wanted) {
  const size_t number = field_number(fields, std::string(name), function);
  const TensorType& type = fields[number].type;
  if (type.dtype != wanted.dtype || !may_equal(type.shape, wanted.shape))
    throw Error(Errc::invalid_argument, function, " wants ", wanted.dtype, wanted.shape,
                ", the field ", name, " is ", type.dtype, type.shape);
  return number;
}

}  // namespace troupe
