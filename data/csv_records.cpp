// The functions of CsvRecords.
#include "data/csv_records.hpp"

#include <cmath>

namespace troupe {

bool CsvRecords::next(std::vector<std::string>& fields) {
  std::string_view line;
  if (!lines_.next(line)) return false;
  line_ = lines_.number();
  size_t count = 0;
  const auto field = [&]() -> std::string& {
    if (count == fields.size()) fields.emplace_back();
    return fields[count++];
  };
  size_t bytes = line.size();  // of the record
  const auto next_line = [&] {
    const bool any = lines_.next(line);
    bytes += any ? line.size() + 1 : 0;
    if (!any || bytes > Lines::kLineBytesMax)
      throw wrong("field ", count, " begins with a quote that never ends");
  };
  for (size_t at = 0;;) {
    if (at < line.size() && line[at] == '"') {
      std::string& text = field();
      text.clear();
      for (++at;; ++at) {
        if (at >= line.size()) {
          next_line();
          text += '\n';
          at = std::string_view::npos;  // before the first character
          continue;
        }
        if (line[at] == '"') {
          if (at + 1 >= line.size() || line[at + 1] != '"') break;
          ++at;  // two quotes stand for one
        }
        text += line[at];
      }
      ++at;
      if (at < line.size() && line[at] != separator_)
        throw wrong("field ", count, ": expected '", separator_,
                    "' after the closing quote, found '", line[at], "'");
    } else {
      const size_t end = std::min(line.find(separator_, at), line.size());
      field().assign(line.substr(at, end - at));
      at = end;
    }
    if (at >= line.size()) break;
    ++at;
  }
  fields.resize(count);
  return true;
}

std::string_view trimmed(std::string_view field) {
  while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
  while (!field.empty() && field.back() == ' ') field.remove_suffix(1);
  // After a plus, from_chars() would accept a minus.
  if (field.size() > 1 && field[0] == '+' && field[1] != '-') field.remove_prefix(1);
  return field;
}

std::optional<float> finite_of(std::string_view field) {
  const std::optional<double> value = number_of<double>(field);
  const auto narrow = value ? static_cast<float>(*value) : 0.0F;
  if (!value || !std::isfinite(narrow)) return std::nullopt;
  return narrow;
}

std::optional<int64_t> whole_of(std::string_view field) {
  if (const auto value = number_of<int64_t>(field)) return value;
  const auto real = number_of<double>(field);
  if (!real || *real != std::floor(*real) || std::abs(*real) >= 1e15) return std::nullopt;
  return static_cast<int64_t>(*real);
}

}  // namespace troupe
