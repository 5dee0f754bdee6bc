// Attributes as text that reads back with the same bits: 1.5, "a\nb", f32, [2, -1], {1, 2}, f32[2]
// {0.1, nan}. Implemented in graph/attr_text.cpp.
#pragma once

#include <string>
#include <string_view>

#include "troupe/graph.hpp"
#include "troupe/op.hpp"

namespace troupe {

std::string exact_text(const Attr& attr);
std::string quoted(
    std::string_view text);  // "...", with \" \\ \n \r \t and \xHH for other control characters

// Reads a line from left to right. Each function skips blanks first. Throws: Error(bad_data) saying
// what was expected and what was found; the caller adds the line number.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line), begin_(line.data()) {}

  bool at_end();
  bool take(std::string_view word);  // true if `word` is next
  void expect(std::string_view word);
  void expect_blank();  // a blank must come next, or the end of the line
  std::string name();   // of a node, an op or an attribute
  std::string quoted_text();
  int64_t integer();
  double real();
  Attr attr(AttrKind kind);
  Error expected(std::string_view what);

 private:
  void skip_blanks();
  std::string_view number();  // the characters up to the next blank, comma or bracket
  DType dtype();
  Shape shape();
  Tensor tensor();
  std::string_view rest_;
  const char* const begin_;
};

}  // namespace troupe
