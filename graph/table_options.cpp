// Texts and checks of the options of tables.
#include "graph/table_options.hpp"

#include <cmath>

#include "graph/attr_text.hpp"
#include "troupe/error.hpp"

namespace troupe {
namespace {

constexpr int64_t kRowsMaxLeast = 64;  // one for each group of rows

const char* word_of(FirstRows::Kind kind) {
  static const char* const words[] = {"constant", "uniform", "normal"};
  return words[static_cast<size_t>(kind)];
}

FirstRows::Kind kind_of(LineReader& line) {
  for (const auto kind :
       {FirstRows::Kind::constant, FirstRows::Kind::uniform, FirstRows::Kind::normal})
    if (line.take(word_of(kind))) return kind;
  throw line.expected("constant, uniform or normal");
}

template <class... Parts>
Error bad_table(const Parts&... parts) {
  return Error(Errc::invalid_argument, "a table of rows that are made on first touch ", parts...);
}

}  // namespace

std::string describe(const TableOptions& o) {
  return detail::concat(word_of(o.first.kind), " ", exact_text(o.first.a), " ",
                        exact_text(o.first.b), " seeded ", o.first.seed, " forget_after ",
                        o.forget_after, " rows_max ", o.rows_max);
}

TableOptions table_options_from_text(std::string_view text) {
  TableOptions o;
  try {
    LineReader line(text);
    o.first.kind = kind_of(line);
    o.first.a = line.real();
    o.first.b = line.real();
    line.expect("seeded");
    o.first.seed = line.integer();
    line.expect("forget_after");
    o.forget_after = line.integer();
    line.expect("rows_max");
    o.rows_max = line.integer();
    if (!line.at_end()) throw line.expected("the end");
  } catch (const Error& e) {
    throw Error(Errc::invalid_argument, "the options \"", text, "\" of a table: ", e.what());
  }
  return o;
}

void check_table(DType dtype, const Shape& shape, const TableOptions& o) {
  if (!is_wide_float(dtype)) throw bad_table("wants f32 or f64, got ", dtype);
  if (!shape.is_known() || shape.ndim() < 2)
    throw bad_table("wants a known shape [rows, columns...], got ", shape);
  int64_t room = kTableElementsMax;
  for (const int64_t size : shape) {
    if (size < 1) throw bad_table("wants at least one row and one column, got ", shape);
    if (size > room)
      throw bad_table(
          "has at most 2^56 elements, as they are counted in 64 bits with room for "
          "sums; got ",
          shape, ": take fewer rows, such as a hash of the index modulo a smaller number");
    room /= size;
  }
  const FirstRows& f = o.first;
  if (!std::isfinite(f.a) || !std::isfinite(f.b))
    throw bad_table("wants finite first values, got ", f.a, " and ", f.b);
  if (f.kind == FirstRows::Kind::uniform && f.a > f.b)
    throw bad_table("draws uniform first values from a to b, got ", f.a, " and ", f.b);
  if (f.kind == FirstRows::Kind::normal && f.b < 0)
    throw bad_table("wants a standard deviation of at least 0, got ", f.b);
  if (o.forget_after < 0)
    throw bad_table("forgets a row after a number of updates, or never (0), got ", o.forget_after);
  if (o.rows_max != 0 && o.rows_max < kRowsMaxLeast)
    throw bad_table(
        "keeps at most 64 rows or more, one for each group of rows, or any number (0), got ",
        o.rows_max);
}

}  // namespace troupe
