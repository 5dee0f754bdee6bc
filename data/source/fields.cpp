// Fields by name, for stages and functions, and for SourceCall and SourceBatch.
#include "data/source/fields.hpp"

#include <algorithm>

namespace troupe {

size_t find_field(const Fields& fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& field) { return field.name == name; });
  return static_cast<size_t>(found - fields.begin());
}

std::string names_of(const Fields& fields) {
  std::string out;
  for (const Field& field : fields) out += (out.empty() ? "" : ", ") + field.name;
  return out;
}

size_t field_number(const Fields& fields, std::string_view name, std::string_view of) {
  const size_t number = find_field(fields, name);
  if (number == fields.size())
    throw Error(Errc::invalid_argument, of, " finds no field ", name, "; the records have ",
                names_of(fields));
  return number;
}

size_t field_of(std::string_view function, const Fields& fields, std::string_view name,
                const TensorType& wanted) {
  const size_t number = field_number(fields, name, function);
  const TensorType& type = fields[number].type;
  if (type.dtype != wanted.dtype || !may_equal(type.shape, wanted.shape))
    throw Error(Errc::invalid_argument, function, " wants ", wanted.dtype, wanted.shape,
                ", the field ", name, " is ", type.dtype, type.shape);
  return number;
}

void want_distinct(const Fields& fields, std::string_view of) {
  for (size_t i = 0; i < fields.size(); ++i)
    if (find_field(fields, fields[i].name) < i)
      throw Error(Errc::invalid_argument, of, " gives two fields of the name ", fields[i].name,
                  "; give one of them another name");
}

const Tensor& SourceCall::operator[](std::string_view field) const {
  const size_t number = find_field(fields_, field);
  if (number == fields_.size())
    throw Error(Errc::invalid_argument, "the records of ", place_, " have no field ", field,
                "; they have ", names_of(fields_));
  return record_[number];
}

Output SourceBatch::operator[](std::string_view field) const {
  const size_t number = find_field(fields_, field);
  if (number == fields_.size())
    throw Error(Errc::invalid_argument, "the source has no field ", field, "; it has ",
                names_of(fields_));
  return outputs_[number];
}

}  // namespace troupe
