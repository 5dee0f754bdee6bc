// read_csv() of troupe/data.hpp: RFC 4180 tables of numbers with a header line.
#include "data/csv_records.hpp"
#include "troupe/data.hpp"

namespace troupe {
namespace {

float feature(const CsvRecords& table, const std::string& field, size_t column,
              const std::string& name) {
  const std::optional<float> value = finite_of(field);
  if (!value)
    throw table.wrong("column ", column + 1, " (", name, "): expected a finite number, found '",
                      field.substr(0, 40), "'");
  return *value;
}

int64_t whole_label(const CsvRecords& table, const std::string& field, const CsvOptions& options) {
  const std::optional<int64_t> value = whole_of(field);
  if (!value || *value < 0 || (options.classes > 0 && *value >= options.classes))
    throw table.wrong(
        "label: expected a whole number from 0",
        options.classes > 0 ? detail::concat(" to ", options.classes - 1) : std::string(),
        ", found '", field.substr(0, 40), "'");
  return *value;
}

}  // namespace

Dataset read_csv(const std::string& path, const CsvOptions& options) {
  if (options.label_dtype != DType::i64 && options.label_dtype != DType::f32)
    throw Error(Errc::invalid_argument, "read_csv makes labels of i64 or f32, not ",
                options.label_dtype);
  CsvRecords table(path, options.bytes_max);
  std::vector<std::string> names, fields;
  if (!table.next(names))
    throw Error(Errc::bad_data, path, ": expected a header line, found an empty file");
  if (names.size() < 2)
    throw table.wrong("expected a header of at least one feature and the label, found ",
                      names.size(), " columns");
  std::vector<float> features, real_labels;
  std::vector<int64_t> whole_labels;
  int64_t n = 0;
  while (table.next(fields)) {
    if (fields.size() != names.size())
      throw table.wrong("expected ", names.size(), " fields as in the header, found ",
                        fields.size() == 1 && fields[0].empty() ? 0 : fields.size());
    for (size_t i = 0; i + 1 < fields.size(); ++i)
      features.push_back(feature(table, fields[i], i, names[i]));
    if (options.label_dtype == DType::i64)
      whole_labels.push_back(whole_label(table, fields.back(), options));
    else
      real_labels.push_back(feature(table, fields.back(), fields.size() - 1, names.back()));
    ++n;
  }
  if (n == 0) throw Error(Errc::bad_data, path, ": expected records after the header, found none");
  const Shape shape{n, static_cast<int64_t>(names.size()) - 1};
  return {Tensor::of<float>(std::span<const float>(features), shape),
          options.label_dtype == DType::i64
              ? Tensor::of<int64_t>(std::span<const int64_t>(whole_labels), Shape{n})
              : Tensor::of<float>(std::span<const float>(real_labels), Shape{n})};
}

}  // namespace troupe
