// Json: a strict reader of RFC 8259 text from untrusted files, and a writer. A value is plain data.
//
// Stricter than most: one value and white space, no duplicate keys, valid UTF-8, depth at most 32.
// Numbers keep their text, so that 64-bit integers stay exact. Numbers that JSON does not have
// (NaN) are refused.
// Owner: the caller. Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/error.hpp"

namespace troupe {

struct Json {
  enum Kind : uint8_t { null, boolean, number, string, array, object } kind = null;
  std::string text = {};               // of a string; of a number as written; "true" or "false"
  std::vector<Json> items = {};        // of an array; the values of an object
  std::vector<std::string> keys = {};  // of an object, in the order of the file

  const Json* find(std::string_view key) const;  // nullptr if there is none
};

// Throws: Error(bad_data) with `file`, the offset (of the text in the file: `base` + position),
// expected and found.
Json parse_json(std::string_view text, const std::string& file, int64_t base = 0);

std::string json_quote(std::string_view text);  // with the quotes

// Typed access to one object of a file; each error names the file and the path of the member.
class JsonReader {
 public:
  JsonReader(const Json& json, std::string file, std::string path = {})
      : json_(json), file_(std::move(file)), path_(std::move(path)) {}

  // Throw: Error(bad_data) if the member is missing or of another kind.
  JsonReader member(std::string_view key) const;
  std::string string(std::string_view key) const { return member(key).as_string(); }
  int64_t i64(std::string_view key, int64_t least = INT64_MIN, int64_t most = INT64_MAX) const {
    return member(key).as_i64(least, most);
  }
  uint64_t u64(std::string_view key) const { return member(key).as_u64(); }
  std::vector<JsonReader> array(std::string_view key) const { return member(key).as_array(); }
  // Throws: Error(bad_data) for a member that is not among `keys`.
  void only(std::initializer_list<std::string_view> keys) const;

  std::string as_string() const;
  int64_t as_i64(int64_t least = INT64_MIN, int64_t most = INT64_MAX) const;
  uint64_t as_u64() const;
  double as_f64() const;
  std::vector<JsonReader> as_array() const;
  // The values of an object, by Json::keys; member() of each would look through all keys each time.
  std::vector<JsonReader> as_members() const;
  bool is(Json::Kind kind) const { return json_.kind == kind; }
  const Json& json() const { return json_; }

  template <class... Parts>
  Error error(const Parts&... parts) const {
    return Error(Errc::bad_data, file_, ": ", path_.empty() ? "the top" : path_, ": ",
                 detail::concat(parts...));
  }

 private:
  void expect(Json::Kind kind) const;

  const Json& json_;
  std::string file_, path_;
};

}  // namespace troupe
