// The reader csv: a table of numbers, categories and text. One scan puts the columns in memory, as
// codes of categories and means need all records.
#include <algorithm>
#include <cmath>
#include <limits>

#include "data/csv_records.hpp"
#include "data/source/rows.hpp"
#include "data/source/seen.hpp"
#include "data/text/parts.hpp"
#include "data/text/utf8.hpp"
#include "troupe/text.hpp"

namespace troupe {
namespace {

using Names = std::vector<std::string>;

constexpr const char* kLabelField = "label";
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

enum class ColumnKind { number, text, category, whole_label, ignored };

struct Column {
  std::string name;
  size_t index = 0;  // in the header
  ColumnKind kind = ColumnKind::number;
  bool label = false;
  Names listed = {};  // categories that an argument names, by code

  std::vector<float> numbers = {};
  std::vector<int64_t> whole = {};  // labels, or codes of categories in the order they came in
  std::unordered_map<std::string, int64_t, WordHash, std::equal_to<>> codes = {};
  std::string bytes = {};             // of text
  std::vector<int64_t> starts = {0};  // of each text in `bytes`, and the end
};

struct Missing {
  enum class Rule { refuse, mean, zero, nan } rule = Rule::refuse;
  Names words;
};

Missing missing_of(ArgReader& read) {
  const auto rule = read.get<std::string>("missing", "refuse");
  Missing out;
  out.words = read.get<Names>("missing_words", {"", "?", "NA", "NaN", "nan"});
  const std::pair<const char*, Missing::Rule> rules[] = {{"refuse", Missing::Rule::refuse},
                                                         {"mean", Missing::Rule::mean},
                                                         {"zero", Missing::Rule::zero},
                                                         {"nan", Missing::Rule::nan}};
  for (const auto& [name, value] : rules)
    if (rule == name) {
      out.rule = value;
      return out;
    }
  throw Error(Errc::invalid_argument, "csv wants missing = refuse, mean, zero or nan, got ",
              in_quotes(rule));
}

bool is_missing(const Missing& missing, std::string_view field) {
  const std::string_view text = trimmed(field);
  return std::find(missing.words.begin(), missing.words.end(), text) != missing.words.end();
}

template <class... Parts>
Error wrong(const CsvRecords& table, const Column& column, const Parts&... parts) {
  return table.wrong("column ", column.index + 1, " (", column.name, "): ", parts...);
}

// Puts one field behind those of its column.
void add(const CsvRecords& table, const Missing& missing, Column& column,
         const std::string& field) {
  switch (column.kind) {
    case ColumnKind::ignored:
      return;
    case ColumnKind::text:
      if (const size_t at = invalid_utf8(field); at != std::string::npos)
        throw wrong(table, column, "byte ", at, " is not UTF-8; convert the file, with iconv say");
      column.bytes += field;
      column.starts.push_back(static_cast<int64_t>(column.bytes.size()));
      return;
    case ColumnKind::category: {
      if (missing.rule == Missing::Rule::refuse && is_missing(missing, field))
        throw wrong(table, column, "expected a category, found ", in_quotes(field),
                    "; with another rule for missing it is a category of its own");
      if (invalid_utf8(field) != std::string::npos)
        throw wrong(table, column, "the category is not UTF-8; convert the file, with iconv say");
      auto found = column.codes.find(field);
      if (found == column.codes.end()) {
        if (!column.listed.empty())
          throw wrong(table, column, "the category ", in_quotes(field), " is not among the ",
                      column.listed.size(), " of ", column.name, ".values");
        found = column.codes.emplace(field, static_cast<int64_t>(column.codes.size())).first;
      }
      column.whole.push_back(found->second);
      return;
    }
    case ColumnKind::whole_label: {
      const std::optional<int64_t> value = whole_of(field);
      if (!value)
        throw wrong(table, column, "expected a whole number as label, found ", in_quotes(field),
                    "; say label_type = f32 for others, or name the column in categories");
      column.whole.push_back(*value);
      return;
    }
    case ColumnKind::number:
      if (is_missing(missing, field)) {
        if (missing.rule == Missing::Rule::refuse || column.label)
          throw wrong(table, column, "expected a number, found ", in_quotes(field),
                      column.label ? "; each record wants a label"
                                   : "; say missing = mean, zero or nan to fill it in");
        column.numbers.push_back(missing.rule == Missing::Rule::zero ? 0 : kNaN);
        return;
      }
      const std::optional<float> value = finite_of(field);
      if (!value)
        throw wrong(table, column, "expected a finite number, found ", in_quotes(field),
                    "; name columns of words in text, categories or ignore");
      column.numbers.push_back(*value);
  }
}

// Codes by the order of the categories' bytes instead of by the order they came in.
void sort_codes(Column& column) {
  std::vector<const std::string*> sorted;
  for (const auto& [name, code] : column.codes) sorted.push_back(&name);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return *a < *b; });
  std::vector<int64_t> final_codes(sorted.size());
  for (size_t i = 0; i < sorted.size(); ++i)
    final_codes[static_cast<size_t>(column.codes.find(*sorted[i])->second)] =
        static_cast<int64_t>(i);
  for (int64_t& code : column.whole) code = final_codes[static_cast<size_t>(code)];
}

void fill_means(const std::string& path, Column& column) {
  double sum = 0;
  int64_t n = 0;
  for (const float value : column.numbers)
    if (!std::isnan(value)) {
      sum += value;
      ++n;
    }
  if (n == 0)
    throw Error(Errc::bad_data, path, ": column ", column.index + 1, " (", column.name,
                ") has no number, so no mean; name it in ignore");
  const auto mean = static_cast<float>(sum / static_cast<double>(n));
  for (float& value : column.numbers)
    if (std::isnan(value)) value = mean;
}

template <class T>
Tensor tensor_of(const std::vector<T>& values) {
  return Tensor::of<T>(std::span<const T>(values), Shape{static_cast<int64_t>(values.size())});
}

// Number columns as one, [n, columns].
Tensor stacked(const std::vector<Column>& columns, int64_t n) {
  std::vector<const float*> from;
  for (const Column& column : columns)
    if (column.kind == ColumnKind::number && !column.label) from.push_back(column.numbers.data());
  Tensor out = Tensor::empty(DType::f32, Shape{n, static_cast<int64_t>(from.size())});
  auto* to = out.mutable_data<float>();
  for (int64_t row = 0; row < n; ++row)
    for (const float* column : from) *to++ = column[row];
  return out;
}

// The fields and rows of a table.
struct Rows {
  Fields fields = {};
  std::vector<Tensor> columns = {}, starts = {};

  void add(std::string name, TensorType type, Tensor column, Tensor start = {}) {
    fields.push_back({std::move(name), std::move(type)});
    columns.push_back(std::move(column));
    starts.push_back(std::move(start));
  }
  void add(const Column& column) {
    const std::string name = column.label ? kLabelField : column.name;
    switch (column.kind) {
      case ColumnKind::ignored:
        return;
      case ColumnKind::text: {
        Tensor bytes = text_tensor(column.bytes);
        return add(name, {DType::u8, {-1}}, std::move(bytes), tensor_of(column.starts));
      }
      case ColumnKind::category:
      case ColumnKind::whole_label:
        return add(name, {DType::i64, {}}, tensor_of(column.whole));
      case ColumnKind::number:
        return add(name, {DType::f32, {}}, tensor_of(column.numbers));
    }
  }
};

// The columns of the header, by the arguments. Every name in an argument is one of the header.
std::vector<Column> read_columns(const CsvRecords& table, const Names& header, ArgReader& read) {
  const auto text = read.get<Names>("text", {}), categories = read.get<Names>("categories", {}),
             ignored = read.get<Names>("ignore", {});
  const auto label = read.get<std::string>(kLabelField, {});
  const auto label_type = read.get<std::string>("label_type", "i64");
  if (label_type != "i64" && label_type != "f32")
    throw Error(Errc::invalid_argument, "csv wants label_type = i64 or f32, got ",
                in_quotes(label_type));
  const auto has = [](const Names& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<Column> columns;
  for (const std::string& name : header) {
    check_utf8(name, detail::concat(table.path(), ": line 1: column ", columns.size() + 1));
    Column column{name, columns.size()};
    if (has({header.begin(), header.begin() + static_cast<int64_t>(columns.size())}, name))
      throw table.wrong("the header has the column ", in_quotes(name), " twice; rename one");
    column.label = !label.empty() && name == label;
    if (name == kLabelField && !label.empty() && !column.label && !has(ignored, name))
      throw Error(Errc::invalid_argument, "csv: the field of the column ", label,
                  " is called label, as is another column; name that one in ignore");
    if (has(text, name) + has(categories, name) + has(ignored, name) > 1 ||
        (column.label && (has(text, name) || has(ignored, name))))
      throw Error(Errc::invalid_argument, "csv: the column ", name,
                  " stands in several of text, categories, ignore and label");
    if (has(ignored, name)) {
      column.kind = ColumnKind::ignored;
    } else if (has(text, name)) {
      column.kind = ColumnKind::text;
    } else if (has(categories, name)) {
      column.kind = ColumnKind::category;
      column.listed = read.get<Names>(name + ".values", {});
      for (const std::string& value : column.listed)
        if (!column.codes.emplace(value, static_cast<int64_t>(column.codes.size())).second)
          throw Error(Errc::invalid_argument, "csv: ", name, ".values has ", in_quotes(value),
                      " twice");
    } else if (column.label && label_type == "i64") {
      column.kind = ColumnKind::whole_label;
    }
    columns.push_back(std::move(column));
  }
  for (const Names& names : {text, categories, ignored, label.empty() ? Names{} : Names{label}})
    for (const std::string& name : names)
      if (!has(header, name))
        throw Error(Errc::invalid_argument, table.path(), " has no column ", in_quotes(name),
                    "; its header has ", detokenize(header, TokenKind::whitespace));
  return columns;
}

}  // namespace

Stage table_stage(const SourceArgs& args, const Files& files) {
  ArgReader read("csv", args);
  const auto path = read.want<std::string>("path");
  const auto separator = read.get<std::string>("separator", ",");
  const auto stack = read.get<bool>("stack", false);
  const Missing missing = missing_of(read);
  if (separator.size() != 1 || separator == "\"" || separator == "\n")
    throw Error(Errc::invalid_argument, "csv wants one character as separator, got ",
                in_quotes(separator));
  CsvRecords table(files.open(path), separator[0]);
  Names fields;
  if (!table.next(fields))
    throw Error(Errc::bad_data, path, ": expected a header line, found an empty file");
  std::vector<Column> columns = read_columns(table, fields, read);
  read.done();
  int64_t n = 0;
  for (; table.next(fields); ++n) {
    if (fields.size() != columns.size())
      throw table.wrong("expected ", columns.size(), " fields as in the header, found ",
                        fields.size() == 1 && fields[0].empty() ? 0 : fields.size());
    for (size_t i = 0; i < columns.size(); ++i) add(table, missing, columns[i], fields[i]);
  }
  if (n == 0) throw Error(Errc::bad_data, path, ": expected records after the header, found none");
  for (Column& column : columns) {
    if (column.kind == ColumnKind::category && column.listed.empty()) sort_codes(column);
    if (column.kind == ColumnKind::number && missing.rule == Missing::Rule::mean)
      fill_means(path, column);
  }
  const auto stacks = [&](const Column& column) {
    return stack && column.kind == ColumnKind::number && !column.label;
  };
  Rows rows;
  if (stack) {
    Tensor features = stacked(columns, n);
    const int64_t width = features.dim(1);
    if (width == 0)
      throw Error(Errc::bad_data, path, ": no column has numbers to stack; leave stack out");
    rows.add("features", {DType::f32, {width}}, std::move(features));
  }
  for (const bool label : {false, true})
    for (const Column& column : columns)
      if (column.label == label && !stacks(column)) rows.add(column);
  if (rows.fields.empty())
    throw Error(Errc::invalid_argument, "csv: ignore leaves no column of ", path);
  return rows_stage(std::move(rows.fields), std::move(rows.columns), path,
                    source_files(files, {path}), std::move(rows.starts));
}

}  // namespace troupe
