// The JSON parser, and the error texts of JsonReader.
#include "actors/observe/json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

namespace troupe {
namespace {

constexpr int kDepthMax = 32;  // our files need five; deeper nesting would only exhaust the stack
constexpr int64_t kValuesMax =
    1'000'000;  // a value takes about a hundred bytes of memory, and two of text

const char* name_of(Json::Kind kind) {
  static const char* const names[] = {"null",     "true or false", "a number",
                                      "a string", "an array",      "an object"};
  return names[kind];
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file, int64_t base)
      : text_(text), file_(file), base_(base) {}

  Json parse() {
    Json value = parse_value(0);
    skip_space();
    if (at_ != text_.size()) throw wrong("the end");
    return value;
  }

 private:
  Error wrong(const std::string& expected) const {
    std::string found = "the end";
    if (at_ < text_.size()) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      found = c > 0x20 && c < 0x7f ? "'" + std::string(1, static_cast<char>(c)) + "'"
                                   : "byte " + std::to_string(c);
    }
    return Error(Errc::bad_data, file_, ": at byte ", base_ + static_cast<int64_t>(at_),
                 ": expected ", expected, ", found ", found);
  }
  bool done() const { return at_ == text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  void skip_space() {
    while (!done() && (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t')) ++at_;
  }
  void expect(char c) {
    if (done() || text_[at_] != c) throw wrong("'" + std::string(1, c) + "'");
    ++at_;
  }

  Json parse_value(int depth) {
    if (depth > kDepthMax)
      throw Error(Errc::bad_data, file_, ": at byte ", base_ + static_cast<int64_t>(at_),
                  ": nested deeper than ", kDepthMax);
    if (++values_ > kValuesMax)
      throw Error(Errc::bad_data, file_, ": more than ", kValuesMax, " values");
    skip_space();
    switch (peek()) {
      case '{':
        return parse_object(depth);
      case '[':
        return parse_array(depth);
      case '"': {
        Json out;
        out.kind = Json::string;
        out.text = parse_string();
        return out;
      }
      case 't':
        return word("true", Json::boolean);
      case 'f':
        return word("false", Json::boolean);
      case 'n':
        return word("null", Json::null);
      default:
        return parse_number();
    }
  }

  Json word(std::string_view word, Json::Kind kind) {
    if (text_.substr(at_, word.size()) != word) throw wrong(std::string(word));
    at_ += word.size();
    Json out;
    out.kind = kind;
    out.text = std::string(word);
    return out;
  }

  void digits() {
    if (peek() < '0' || peek() > '9') throw wrong("a digit");
    while (peek() >= '0' && peek() <= '9') ++at_;
  }
  Json parse_number() {
    const size_t begin = at_;
    if (peek() == '-') ++at_;
    if (at_ == begin && (peek() < '0' || peek() > '9')) throw wrong("a value");
    if (peek() == '0')
      ++at_;
    else
      digits();
    if (peek() == '.') {
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
    Json out;
    out.kind = Json::number;
    out.text = std::string(text_.substr(begin, at_ - begin));
    return out;
  }

  Json parse_array(int depth) {
    Json out;
    out.kind = Json::array;
    expect('[');
    skip_space();
    if (peek() != ']') {
      for (;;) {
        out.items.push_back(parse_value(depth + 1));
        skip_space();
        if (peek() != ',') break;
        ++at_;
      }
    }
    if (peek() != ']') throw wrong("',' or ']'");
    ++at_;
    return out;
  }

  Json parse_object(int depth) {
    Json out;
    out.kind = Json::object;
    expect('{');
    skip_space();
    std::set<std::string> seen;
    if (peek() != '}') {
      for (;;) {
        skip_space();
        const size_t begin = at_;
        std::string key = parse_string();
        if (!seen.insert(key).second)
          throw Error(Errc::bad_data, file_, ": at byte ", base_ + static_cast<int64_t>(begin),
                      ": the key ", json_quote(key), " stands twice");
        skip_space();
        expect(':');
        out.items.push_back(parse_value(depth + 1));
        out.keys.push_back(std::move(key));
        skip_space();
        if (peek() != ',') break;
        ++at_;
      }
    }
    if (peek() != '}') throw wrong("',' or '}'");
    ++at_;
    return out;
  }

  uint32_t hex4() {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (done() || digit < 0) throw wrong("a hexadecimal digit");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
  }
  static void append_utf8(std::string& out, uint32_t c) {
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += static_cast<char>(0xc0 | c >> 6);
      out += static_cast<char>(0x80 | (c & 63));
    } else if (c < 0x10000) {
      out += static_cast<char>(0xe0 | c >> 12);
      out += static_cast<char>(0x80 | (c >> 6 & 63));
      out += static_cast<char>(0x80 | (c & 63));
    } else {
      out += static_cast<char>(0xf0 | c >> 18);
      out += static_cast<char>(0x80 | (c >> 12 & 63));
      out += static_cast<char>(0x80 | (c >> 6 & 63));
      out += static_cast<char>(0x80 | (c & 63));
    }
  }
  void escape(std::string& out) {
    const char c = peek();
    const std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
    if (const size_t i = from.find(c); !done() && i != std::string_view::npos) {
      out += to[i];
      ++at_;
      return;
    }
    if (c != 'u') throw wrong("an escape");
    ++at_;
    uint32_t code = hex4();
    if (code >= 0xdc00 && code < 0xe000) throw wrong("the first half of a surrogate pair before");
    if (code >= 0xd800 && code < 0xdc00) {
      expect('\\');
      expect('u');
      const uint32_t low = hex4();
      if (low < 0xdc00 || low >= 0xe000) throw wrong("the second half of a surrogate pair before");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    append_utf8(out, code);
  }
  // Reads one character outside ASCII: no stray or missing continuation, no overlong form, no
  // surrogate, at most U+10FFFF.
  void utf8(std::string& out) {
    const auto byte = [&](size_t i) {
      return at_ + i < text_.size() ? static_cast<unsigned char>(text_[at_ + i]) : 0U;
    };
    const unsigned first = byte(0);
    const size_t size = first >= 0xc2 && first < 0xe0   ? 2
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
    bool good = size > 0;
    for (size_t i = 1; i < size; ++i) good = good && (byte(i) & 0xc0) == 0x80;
    if (first == 0xe0) good = good && byte(1) >= 0xa0;
    if (first == 0xed) good = good && byte(1) < 0xa0;
    if (first == 0xf0) good = good && byte(1) >= 0x90;
    if (first == 0xf4) good = good && byte(1) < 0x90;
    if (!good) throw wrong("UTF-8");
    out += text_.substr(at_, size);
    at_ += size;
  }
  std::string parse_string() {
    std::string out;
    expect('"');
    for (;;) {
      if (done()) throw wrong("'\"'");
      const auto c = static_cast<unsigned char>(peek());
      if (c == '"') break;
      if (c < 0x20) throw wrong("an escaped control character");
      if (c == '\\') {
        ++at_;
        escape(out);
      } else if (c < 0x80) {
        out += static_cast<char>(c);
        ++at_;
      } else {
        utf8(out);
      }
    }
    ++at_;
    return out;
  }

  std::string_view text_;
  const std::string& file_;
  int64_t base_;
  size_t at_ = 0;
  int64_t values_ = 0;
};

template <class T>
bool read_number(const std::string& text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

const Json* Json::find(std::string_view key) const {
  const auto it = std::find(keys.begin(), keys.end(), key);
  return it == keys.end() ? nullptr : &items[static_cast<size_t>(it - keys.begin())];
}

Json parse_json(std::string_view text, const std::string& file, int64_t base) {
  return Parser(text, file, base).parse();
}

std::string json_quote(std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string out(1, '"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += hex[c >> 4];
      out += hex[c & 15];
    } else {
      out += c;
    }
  }
  out += '"';
  return out;
}

void JsonReader::expect(Json::Kind kind) const {
  if (json_.kind != kind) throw error("expected ", name_of(kind), ", found ", name_of(json_.kind));
}

JsonReader JsonReader::member(std::string_view key) const {
  expect(Json::object);
  const Json* found = json_.find(key);
  if (!found) throw error("expected a member ", json_quote(key), ", found none");
  return JsonReader(*found, file_,
                    path_.empty() ? std::string(key) : path_ + "." + std::string(key));
}

void JsonReader::only(std::initializer_list<std::string_view> keys) const {
  expect(Json::object);
  for (const std::string& key : json_.keys)
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      throw error("found an unknown member ", json_quote(key));
}

std::string JsonReader::as_string() const {
  expect(Json::string);
  return json_.text;
}

int64_t JsonReader::as_i64(int64_t least, int64_t most) const {
  expect(Json::number);
  int64_t value = 0;
  if (!read_number(json_.text, value) || value < least || value > most)
    throw error("expected a whole number from ", least, " to ", most, ", found ", json_.text);
  return value;
}

uint64_t JsonReader::as_u64() const {
  expect(Json::number);
  uint64_t value = 0;
  if (!read_number(json_.text, value))
    throw error("expected a whole number from 0 to ", UINT64_MAX, ", found ", json_.text);
  return value;
}

double JsonReader::as_f64() const {
  expect(Json::number);
  double value = 0;
  if (!read_number(json_.text, value) || !std::isfinite(value))
    throw error("expected a number, found ", json_.text);
  return value;
}

std::vector<JsonReader> JsonReader::as_array() const {
  expect(Json::array);
  std::vector<JsonReader> out;
  for (size_t i = 0; i < json_.items.size(); ++i)
    out.emplace_back(json_.items[i], file_, path_ + "[" + std::to_string(i) + "]");
  return out;
}

}  // namespace troupe
