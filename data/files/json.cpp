// nlohmann's reader takes the text apart; Builder holds it to the bounds of json.hpp.
#include "data/files/json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace troupe {
namespace {

constexpr size_t kDepthMax =
    32;  // our files need five; deeper nesting would only exhaust the stack
// A value takes about a hundred bytes of memory, and two of text.
constexpr int64_t kValuesMax = 1'000'000;

const char* name_of(Json::Kind kind) {
  static const char* const names[] = {"null",     "true or false", "a number",
                                      "a string", "an array",      "an object"};
  return names[kind];
}

// Receives nlohmann's events and builds the value that they describe. Numbers keep their text: a
// whole one of 64 bits comes as such, any other one with its digits.
class Builder {
 public:
  Builder(std::string_view text, const std::string& file, int64_t base)
      : text_(text), file_(file), base_(base) {}
  Json result() { return std::move(root_); }

  bool null() { return add(Json::null, "null"); }
  bool boolean(bool value) { return add(Json::boolean, value ? "true" : "false"); }
  bool number_integer(int64_t value) { return add(Json::number, std::to_string(value)); }
  bool number_unsigned(uint64_t value) { return add(Json::number, std::to_string(value)); }
  bool number_float(double, const std::string& text) { return add(Json::number, text); }
  bool string(std::string& text) { return add(Json::string, std::move(text)); }
  bool binary(nlohmann::json::binary_t&) { return false; }  // JSON has none
  bool start_array(size_t) { return open(Json::array); }
  bool start_object(size_t) { return open(Json::object); }
  bool end_array() { return close(); }
  bool end_object() { return close(); }
  bool key(std::string& key) {
    if (!open_.back().keys.insert(key).second)
      throw Error(Errc::bad_data, file_, ": the key ", json_quote(key), " stands twice");
    open_.back().value->keys.push_back(std::move(key));
    return true;
  }
  Error wrong(size_t at, std::string_view why) const {
    std::string found = "the end";
    if (at < text_.size()) {
      const auto c = static_cast<unsigned char>(text_[at]);
      found = c > 0x20 && c < 0x7f ? "'" + std::string(1, static_cast<char>(c)) + "'"
                                   : "byte " + std::to_string(c);
    }
    return Error(Errc::bad_data, file_, ": at byte ", base_ + static_cast<int64_t>(at), ": found ",
                 found, ": ", why);
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& e) {
    // Without its head, "[json...] parse error at line 1, column 2: ", and its tail, which repeats
    // the text.
    std::string_view text = e.what();
    constexpr std::string_view kHead = "column ", kTail = "; last read: '";
    if (const size_t head = text.find(kHead); head != text.npos)
      text.remove_prefix(text.find(": ", head) + 2);
    if (e.id == kOutOfRange) text = "the number is beyond the range of f64";
    throw wrong(position - 1, text.substr(0, text.find(kTail)));
  }

 private:
  static constexpr int kOutOfRange = 406;  // nlohmann's number for it
  struct Open {
    Json* value;
    std::set<std::string> keys = {};
  };

  Json& place() {
    if (++values_ > kValuesMax)
      throw Error(Errc::bad_data, file_, ": more than ", kValuesMax, " values");
    return open_.empty() ? root_ : open_.back().value->items.emplace_back();
  }
  bool add(Json::Kind kind, std::string text) {
    place() = {.kind = kind, .text = std::move(text)};
    return true;
  }
  bool open(Json::Kind kind) {
    if (open_.size() > kDepthMax)
      throw Error(Errc::bad_data, file_, ": nested deeper than ", kDepthMax);
    Json& value = place();
    value.kind = kind;
    open_.push_back({&value});  // which stays where it is: nothing joins its siblings until it ends
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string_view text_;
  const std::string& file_;
  const int64_t base_;
  Json root_;
  std::vector<Open> open_;
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
  Builder builder(text, file, base);
  // nlohmann takes a zero byte for the end, and passes over a byte order mark.
  const size_t no_json = text.starts_with("\xef") ? 0 : text.find('\0');
  if (no_json != text.npos) throw builder.wrong(no_json, "it begins no token");
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.result();
}

std::string json_quote(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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

std::vector<JsonReader> JsonReader::as_members() const {
  expect(Json::object);
  std::vector<JsonReader> out;
  out.reserve(json_.items.size());
  for (size_t i = 0; i < json_.items.size(); ++i)
    out.emplace_back(json_.items[i], file_,
                     path_.empty() ? json_.keys[i] : path_ + "." + json_.keys[i]);
  return out;
}

}  // namespace troupe
