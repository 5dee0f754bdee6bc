// read_csv() of troupe/data.hpp: RFC 4180 tables of numbers with a header line.
#include <charconv>
#include <cmath>
#include <optional>

#include "data/lines.hpp"
#include "troupe/data.hpp"

namespace troupe {
namespace {

// Splits a line into its fields; quoted fields without their quotes. A field with a line end is
// refused: no number has one.
void split(const Lines& lines, std::string_view line, std::vector<std::string>& fields) {
  size_t count = 0;
  const auto add = [&](std::string_view text) {
    if (count == fields.size()) fields.emplace_back();
    fields[count++].assign(text);
  };
  for (size_t at = 0;;) {
    if (at < line.size() && line[at] == '"') {
      std::string text;
      for (++at;; ++at) {
        if (at >= line.size())
          throw lines.wrong("field ", count + 1, " begins with a quote that never ends");
        if (line[at] == '"') {
          if (at + 1 >= line.size() || line[at + 1] != '"') break;
          ++at;  // two quotes stand for one
        }
        text += line[at];
      }
      add(text);
      ++at;
      if (at < line.size() && line[at] != ',')
        throw lines.wrong("field ", count, ": expected ',' after the closing quote, found '",
                          line[at], "'");
    } else {
      const size_t end = std::min(line.find(',', at), line.size());
      add(line.substr(at, end - at));
      at = end;
    }
    if (at >= line.size()) break;
    ++at;
  }
  fields.resize(count);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  // from_chars does not accept a plus; after a plus it would accept a minus.
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

template <class T>
std::optional<T> number(std::string_view field) {
  const std::string_view text = trimmed(field);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

float feature(const Lines& lines, const std::string& field, size_t column,
              const std::string& name) {
  const std::optional<double> value = number<double>(field);
  const auto narrow = value ? static_cast<float>(*value) : 0.0F;
  if (!value || !std::isfinite(narrow))
    throw lines.wrong("column ", column + 1, " (", name, "): expected a finite number, found '",
                      field.substr(0, 40), "'");
  return narrow;
}

int64_t whole_label(const Lines& lines, const std::string& field, const CsvOptions& options) {
  std::optional<int64_t> value = number<int64_t>(field);
  if (!value)  // "3.0" is a whole number too
    if (const auto real = number<double>(field);
        real && *real == std::floor(*real) && std::abs(*real) < 1e15)
      value = static_cast<int64_t>(*real);
  if (!value || *value < 0 || (options.classes > 0 && *value >= options.classes))
    throw lines.wrong(
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
  Lines lines(path, options.bytes_max);
  std::string_view line;
  std::vector<std::string> names, fields;
  if (!lines.next(line))
    throw Error(Errc::bad_data, path, ": expected a header line, found an empty file");
  split(lines, line, names);
  if (names.size() < 2)
    throw lines.wrong("expected a header of at least one feature and the label, found ",
                      names.size(), " columns");
  std::vector<float> features, real_labels;
  std::vector<int64_t> whole_labels;
  int64_t n = 0;
  while (lines.next(line)) {
    split(lines, line, fields);
    if (fields.size() != names.size())
      throw lines.wrong("expected ", names.size(), " fields as in the header, found ",
                        line.empty() ? 0 : fields.size());
    for (size_t i = 0; i + 1 < fields.size(); ++i)
      features.push_back(feature(lines, fields[i], i, names[i]));
    if (options.label_dtype == DType::i64)
      whole_labels.push_back(whole_label(lines, fields.back(), options));
    else
      real_labels.push_back(feature(lines, fields.back(), fields.size() - 1, names.back()));
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
