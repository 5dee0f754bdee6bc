// Writes attributes as text and reads them back. Numbers are the shortest decimals that read back
// exactly (std::to_chars); a NaN with another payload than the default one is written with its
// bits.
#include "graph/attr_text.hpp"

#include <bit>
#include <charconv>
#include <limits>
#include <type_traits>

#include "graph/base/words.hpp"

namespace troupe {
namespace {

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 2, uint16_t,
                                  std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
// The type that std::to_chars and std::from_chars handle.
template <class T>
using Decimal = std::conditional_t<is_half_v<T>, float, T>;

template <class T>
std::string number_text(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else {
    char text[32];
    if constexpr (is_real_v<T>)
      if (value != value) {
        const auto bits = std::bit_cast<BitsOf<T>>(value);
        if (bits == std::bit_cast<BitsOf<T>>(std::numeric_limits<T>::quiet_NaN())) return "nan";
        return "nan:" + std::string(text, std::to_chars(text, text + sizeof text, bits, 16).ptr);
      }
    return {text, std::to_chars(text, text + sizeof text, static_cast<Decimal<T>>(value)).ptr};
  }
}

// False if `text` is not exactly one T.
template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto parse = [&](auto& target, auto... format) {
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), target, format...);
    return !text.empty() && error == std::errc() && end == text.data() + text.size();
  };
  if constexpr (std::is_same_v<T, bool>) {
    value = text == "true";
    return value || text == "false";
  } else {
    if constexpr (is_real_v<T>)
      if (text.starts_with("nan:")) {
        BitsOf<T> bits = 0;
        text.remove_prefix(4);
        if (!parse(bits, 16)) return false;
        value = std::bit_cast<T>(bits);
        return value != value;
      }
    Decimal<T> number{};
    const bool parsed = parse(number);
    value = static_cast<T>(number);
    return parsed;
  }
}

// "{1, 2}"
template <class Values>
std::string list_text(const Values& values) {
  std::string text = "{";
  for (auto value : values) text += (text.size() > 1 ? ", " : "") + number_text(value);
  return text + "}";
}

std::string tensor_text(const Tensor& tensor) {
  std::string text = detail::concat(tensor.dtype(), tensor.shape(), " ");
  with_type(tensor.dtype(), [&]<class T>(T) { text += list_text(tensor.values<T>()); });
  return text;
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += {'\\', 'x', "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string exact_text(const Attr& attr) {
  struct Printer {
    std::string operator()(bool v) const { return number_text(v); }
    std::string operator()(int64_t v) const { return number_text(v); }
    std::string operator()(double v) const { return number_text(v); }
    std::string operator()(const std::string& v) const { return quoted(v); }
    std::string operator()(DType v) const { return to_string(v); }
    std::string operator()(const Shape& v) const { return to_string(v); }
    std::string operator()(const std::vector<int64_t>& v) const { return list_text(v); }
    std::string operator()(const Tensor& v) const { return tensor_text(v); }
  };
  return std::visit(Printer{}, attr);
}

void LineReader::skip_blanks() {
  const size_t next = rest_.find_first_not_of(" \t\r");
  rest_.remove_prefix(next == rest_.npos ? rest_.size() : next);
}

bool LineReader::at_end() {
  skip_blanks();
  return rest_.empty();
}

bool LineReader::take(std::string_view word) {
  skip_blanks();
  if (!rest_.starts_with(word)) return false;
  // A keyword ends where its letters end: "at" is not the beginning of "attach".
  if (is_name_character(word.back()) && rest_.size() > word.size() &&
      is_name_character(rest_[word.size()]))
    return false;
  rest_.remove_prefix(word.size());
  return true;
}

Error LineReader::expected(std::string_view what) {
  constexpr size_t kShown = 24;
  skip_blanks();
  if (rest_.empty()) return Error(Errc::bad_data, "expected ", what, ", but the line ends");
  return Error(Errc::bad_data, "expected ", what, ", got ", quoted(rest_.substr(0, kShown)));
}

void LineReader::expect(std::string_view word) {
  if (!take(word)) throw expected(quoted(word));
}

void LineReader::expect_blank() {
  skip_blanks();
  const bool inside = !rest_.empty() && rest_.data() != begin_;
  if (inside && std::string_view(" \t\r").find(rest_.data()[-1]) == std::string_view::npos)
    throw expected("a blank");
}

std::string LineReader::name() {
  skip_blanks();
  size_t n = 0;
  while (n < rest_.size() && is_name_character(rest_[n])) ++n;
  if (n == 0) throw expected("a name");
  std::string result(rest_.substr(0, n));
  rest_.remove_prefix(n);
  return result;
}

std::string LineReader::quoted_text() {
  skip_blanks();
  if (!rest_.starts_with('"')) throw expected("a text in quotes");
  std::string text;
  for (size_t i = 1; i < rest_.size(); ++i) {
    if (rest_[i] == '"') {
      rest_.remove_prefix(i + 1);
      return text;
    }
    if (rest_[i] != '\\') {
      text += rest_[i];
      continue;
    }
    if (++i == rest_.size()) break;
    const char c = rest_[i];
    unsigned byte = 0;
    if (c == '"' || c == '\\') {
      text += c;
    } else if (c == 'n' || c == 'r' || c == 't') {
      text += c == 'n' ? '\n' : c == 'r' ? '\r' : '\t';
    } else if (c == 'x' && i + 2 < rest_.size() &&
               std::from_chars(&rest_[i + 1], &rest_[i + 1] + 2, byte, 16).ptr ==
                   &rest_[i + 1] + 2) {
      text += static_cast<char>(byte);
      i += 2;
    } else {
      throw Error(Errc::bad_data, "no escape in a text is \"\\", c,
                  "\"; there are \\\" \\\\ \\n \\r \\t \\xHH");
    }
  }
  throw Error(Errc::bad_data, "the text ", quoted(rest_.substr(0, 24)), " has no closing quote");
}

std::string_view LineReader::number() {
  skip_blanks();
  const std::string_view digits = rest_.substr(0, rest_.find_first_of(" \t\r,()[]{}"));
  rest_.remove_prefix(digits.size());
  return digits;
}

int64_t LineReader::integer() {
  const std::string_view before = rest_;
  int64_t value = 0;
  if (parse_number(number(), value)) return value;
  rest_ = before;
  throw expected("an integer");
}

double LineReader::real() {
  const std::string_view before = rest_;
  double value = 0;
  if (parse_number(number(), value)) return value;
  rest_ = before;
  throw expected("a number");
}

DType LineReader::dtype() {
  const std::string word = name();
  try {
    return dtype_from_string(word);
  } catch (const Error& e) {  // the same message, but the file is to blame
    throw Error(Errc::bad_data, e.what());
  }
}

Shape LineReader::shape() {
  std::vector<int64_t> dims;
  expect("[");
  if (!take("]")) {
    do {
      dims.push_back(integer());
      if (dims.back() < -1 || dims.size() > Shape::kNdimMax)
        throw Error(Errc::bad_data, "a shape has at most ", int{Shape::kNdimMax},
                    " sizes from -1 on");
    } while (take(","));
    expect("]");
  }
  return Shape(dims);
}

Tensor LineReader::tensor() {
  const DType dtype = this->dtype();
  const Shape shape = this->shape();
  if (!shape.is_known()) throw Error(Errc::bad_data, "a tensor has known sizes, got ", shape);
  expect("{");
  Tensor result;
  with_type(dtype, [&]<class T>(T) {
    std::vector<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>> values;
    if (!take("}")) {
      do {
        const std::string_view before = rest_;
        T value{};
        if (!parse_number(number(), value)) {
          rest_ = before;
          throw expected(detail::concat("a value of ", dtype));
        }
        values.push_back(value);
      } while (take(","));
      expect("}");
    }
    // The number of values bounds the memory; the shape that the text claims does not.
    if (static_cast<int64_t>(values.size()) != shape.size())
      throw Error(Errc::bad_data, "a tensor ", dtype, shape, " has ", shape.size(), " values, got ",
                  values.size());
    result = Tensor::empty(dtype, shape);
    std::copy(values.begin(), values.end(), result.mutable_data<T>());
  });
  return result;
}

Attr LineReader::attr(AttrKind kind) {
  switch (kind) {
    case AttrKind::boolean: {
      if (take("true")) return true;
      if (take("false")) return false;
      throw expected("true or false");
    }
    case AttrKind::integer:
      return integer();
    case AttrKind::real:
      return real();
    case AttrKind::text:
      return quoted_text();
    case AttrKind::dtype:
      return dtype();
    case AttrKind::shape:
      return shape();
    case AttrKind::integers: {
      std::vector<int64_t> values;
      expect("{");
      if (take("}")) return values;
      do values.push_back(integer());
      while (take(","));
      expect("}");
      return values;
    }
    case AttrKind::tensor:
      return tensor();
  }
  throw InternalError("unknown kind of attribute");
}

}  // namespace troupe
