// Reads and writes the headers of safetensors files, and reads their elements.
#include "data/files/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "data/files/json.hpp"

namespace troupe {
namespace {

constexpr int64_t kLengthBytes = 8;

struct Name {
  DType dtype;
  const char* text;
};
constexpr std::array<Name, 9> kNames = {{{DType::f32, "F32"},
                                         {DType::f64, "F64"},
                                         {DType::i32, "I32"},
                                         {DType::i64, "I64"},
                                         {DType::u8, "U8"},
                                         {DType::boolean, "BOOL"},
                                         {DType::i8, "I8"},
                                         {DType::f16, "F16"},
                                         {DType::bf16, "BF16"}}};

const char* name_of(DType dtype) {
  for (const Name& n : kNames)
    if (n.dtype == dtype) return n.text;
  throw InternalError("a tensor without elements cannot be stored");
}

DType dtype_of_name(const JsonReader& reader) {
  const std::string text = reader.as_string();
  for (const Name& n : kNames)
    if (text == n.text) return n.dtype;
  throw reader.error("expected one of F32, F64, I32, I64, U8, BOOL, I8, F16, BF16, found ",
                     json_quote(text));
}

Shape shape_of(const JsonReader& reader) {
  const std::vector<JsonReader> dims = reader.as_array();
  if (dims.size() > static_cast<size_t>(Shape::kNdimMax))
    throw reader.error("expected at most ", Shape::kNdimMax, " dimensions, found ", dims.size());
  std::vector<int64_t> sizes;
  int64_t product = 1;
  constexpr int64_t most = int64_t{1} << 58;  // the byte size of the largest element times this
                                              // stays below 2^62
  for (const JsonReader& d : dims) {
    sizes.push_back(d.as_i64(0));
    if (sizes.back() > 0 && product > most / sizes.back())
      throw reader.error("more than 2^58 elements");
    product *= sizes.back();
  }
  return Shape(sizes);
}

SafetensorsEntry entry_of(const std::string& name, const JsonReader& reader, int64_t data_begin,
                          int64_t file_size) {
  reader.only({"dtype", "shape", "data_offsets"});
  SafetensorsEntry e;
  e.name = name;
  e.dtype = dtype_of_name(reader.member("dtype"));
  e.shape = shape_of(reader.member("shape"));
  const JsonReader offsets = reader.member("data_offsets");
  const std::vector<JsonReader> both = offsets.as_array();
  if (both.size() != 2) throw offsets.error("expected two offsets, found ", both.size());
  const int64_t data_size = file_size - data_begin;
  const int64_t begin = both[0].as_i64(0, data_size), end = both[1].as_i64(0, data_size);
  const int64_t bytes = e.shape.size() * size_of(e.dtype);
  if (end < begin) throw offsets.error("the end ", end, " is before the begin ", begin);
  if (end - begin != bytes)
    throw offsets.error("expected ", bytes, " bytes for ", e.dtype, e.shape, ", found ",
                        end - begin);
  e.begin = data_begin + begin;
  e.end = data_begin + end;
  return e;
}

}  // namespace

std::string safetensors_header(const std::vector<std::pair<std::string, Tensor>>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors)
    entries.push_back({name, tensor.dtype(), tensor.shape()});
  return safetensors_header(entries, metadata);
}

std::string safetensors_header(const std::vector<SafetensorsEntry>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::string json = detail::concat("{", json_quote(kSafetensorsMetadata), ":{");
  for (const auto& [key, value] : metadata) {
    if (json.back() != '{') json += ',';
    json += json_quote(key) + ":" + json_quote(value);
  }
  json += '}';
  int64_t at = 0;
  for (const SafetensorsEntry& e : tensors) {
    json += ',' + json_quote(e.name) + ":{\"dtype\":\"" + name_of(e.dtype) + "\",\"shape\":[";
    for (int i = 0; i < e.shape.ndim(); ++i) {
      if (i > 0) json += ',';
      json += std::to_string(e.shape[i]);
    }
    const int64_t end = at + e.shape.size() * size_of(e.dtype);
    json += "],\"data_offsets\":[" + std::to_string(at) + ',' + std::to_string(end) + "]}";
    at = end;
  }
  json += '}';
  while (json.size() % 8 != 0) json += ' ';  // aligns the elements in a mapped file
  std::string out;
  for (int i = 0; i < kLengthBytes; ++i) out += static_cast<char>(json.size() >> (8 * i) & 255);
  return out + json;
}

SafetensorsReader::SafetensorsReader(Disk& disk, std::string path)
    : SafetensorsReader(disk.open(path), path) {}

SafetensorsReader::SafetensorsReader(std::unique_ptr<ReadFile> file, std::string path)
    : path_(std::move(path)), file_(std::move(file)) {
  const auto wrong = [&](const auto&... parts) {
    return Error(Errc::bad_data, path_, ": ", detail::concat(parts...));
  };
  const int64_t size = file_->size();
  if (size < kLengthBytes) throw wrong("expected at least ", kLengthBytes, " bytes, found ", size);
  std::array<unsigned char, kLengthBytes> raw;
  file_->read(0, std::as_writable_bytes(std::span(raw)));
  uint64_t length = 0;
  for (size_t i = raw.size(); i-- > 0;) length = length << 8 | raw[i];
  const auto most = static_cast<uint64_t>(std::min(size - kLengthBytes, kSafetensorsHeaderMax));
  if (length > most)
    throw wrong("at byte 0: expected a header of at most ", most, " bytes (the file has ", size,
                "), found ", length);
  std::string header(length, '\0');
  file_->read(kLengthBytes, std::as_writable_bytes(std::span(header)));
  if (header.empty() || header[0] != '{') throw wrong("at byte ", kLengthBytes, ": expected '{'");
  parse(header, kLengthBytes + static_cast<int64_t>(length));
}

void SafetensorsReader::parse(const std::string& header, int64_t data_begin) {
  const Json json = parse_json(header, path_, kLengthBytes);
  size_t at_key = 0;
  for (const JsonReader& member : JsonReader(json, path_).as_members()) {
    const std::string& key = json.keys[at_key++];
    if (key != kSafetensorsMetadata) {
      entries_.push_back(entry_of(key, member, data_begin, file_->size()));
      continue;
    }
    if (!member.is(Json::object)) throw member.error("expected an object");
    size_t at_name = 0;
    for (const JsonReader& value : member.as_members())
      metadata_[member.json().keys[at_name++]] = value.as_string();
  }
  std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  for (size_t i = 0; i < entries_.size(); ++i) by_name_.emplace(entries_[i].name, i);
  int64_t at = data_begin;
  for (const SafetensorsEntry& e : entries_) {
    if (e.begin != at)
      throw Error(Errc::bad_data, path_, ": tensor ", json_quote(e.name), " begins at byte ",
                  e.begin, ", expected ", at,
                  ", the end of the one before: tensors must follow each other without overlaps "
                  "or holes");
    at = e.end;
  }
  if (at != file_->size())
    throw Error(Errc::bad_data, path_, ": the tensors end at byte ", at, ", but the file has ",
                file_->size(), " bytes");
}

const SafetensorsEntry* SafetensorsReader::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

void SafetensorsReader::read(const SafetensorsEntry& entry, int64_t offset, int64_t count,
                             Tensor& into, int64_t at) const {
  TROUPE_CHECK(into.dtype() == entry.dtype && offset >= 0 && count >= 0 && at >= 0 &&
                   offset + count <= entry.shape.size() && at + count <= into.size(),
               "a read of ", count, " elements of ", entry.name, " does not fit");
  if (count == 0) return;
  const int64_t unit = size_of(entry.dtype);
  auto* to = static_cast<std::byte*>(into.mutable_raw()) + at * unit;
  file_->read(entry.begin + offset * unit, {to, static_cast<size_t>(count * unit)});
}

}  // namespace troupe
