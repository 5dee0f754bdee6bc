// TarReader: blocks of 512 bytes, a header and then the content of each entry (POSIX.1-2001, pax,
// "ustar Interchange Format" and "pax Interchange Format"; GNU tar's manual, "Basic Tar Format").
#include "data/records/tar.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

namespace troupe {
namespace {

constexpr int64_t kBlock = 512;
constexpr int64_t kNamesMax = 1 << 20;  // bytes of a header with names; paths are shorter

int64_t padded(int64_t size) { return (size + kBlock - 1) / kBlock * kBlock; }

// A field that ends with its size or a zero byte.
std::string_view text_of(std::string_view field) {
  return field.substr(0, std::min(field.find('\0'), field.size()));
}

// Octal digits between spaces and zero bytes; or, with the highest bit set, the number in base 256
// (GNU). Nothing for other bytes, and for negative numbers.
std::optional<int64_t> number_of(std::string_view field) {
  const auto first = static_cast<unsigned char>(field[0]);
  if (first & 0x80) {
    uint64_t value = first & 0x7f;
    for (const char c : field.substr(1)) {
      if (value >> 55) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return static_cast<int64_t>(value);
  }
  field = text_of(field);
  while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
  while (!field.empty() && field.back() == ' ') field.remove_suffix(1);
  int64_t value = 0;
  if (field.empty()) return value;
  const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), value, 8);
  if (failure != std::errc() || end != field.data() + field.size() || value < 0)
    return std::nullopt;
  return value;
}

// Records "LENGTH KEY=VALUE\n", the length of all of it. False if they are no such records.
bool read_pax(std::string_view text, std::string& path, int64_t& size) {
  while (!text.empty()) {
    size_t length = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<size_t>(end - text.data());
    if (failure != std::errc() || length > text.size() || length < digits + 3 ||
        text[digits] != ' ' || text[length - 1] != '\n')
      return false;
    const std::string_view record = text.substr(digits + 1, length - digits - 2);
    const size_t equals = record.find('=');
    if (equals == record.npos) return false;
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") path = value;
    if (key == "size") {
      int64_t number = 0;
      const auto got = std::from_chars(value.data(), value.data() + value.size(), number);
      if (got.ec != std::errc() || got.ptr != value.data() + value.size() || number < 0)
        return false;
      size = number;
    }
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

struct TarReader::Header {
  std::array<char, kBlock> block;
  int64_t offset = 0, size = 0;

  std::string_view field(size_t at, size_t length) const { return {block.data() + at, length}; }
  char type() const { return block[156]; }
  std::string name() const {
    std::string name(text_of(field(0, 100)));
    // GNU's magic is "ustar ", and other fields are where ustar has the first part of the path.
    const std::string_view folder = text_of(field(345, 155));
    if (field(257, 6) == std::string_view("ustar\0", 6) && !folder.empty())
      name = std::string(folder) + "/" + name;
    return name;
  }
  bool is_zero() const {
    return std::all_of(block.begin(), block.end(), [](char c) { return c == 0; });
  }
  // The sum of all bytes, with spaces in the place of the sum. Old writers add signed bytes.
  bool has_checksum() const {
    int64_t sum = 0, signed_sum = 0;
    for (size_t i = 0; i < block.size(); ++i) {
      const char c = i >= 148 && i < 156 ? ' ' : block[i];
      sum += static_cast<unsigned char>(c);
      signed_sum += static_cast<signed char>(c);
    }
    const auto written = number_of(field(148, 8));
    return written && (*written == sum || *written == signed_sum);
  }
};

void TarReader::skip_to(int64_t offset) {
  if (file_.skip(offset - file_.offset()); file_.offset() < offset)
    throw bad(file_.offset(), "the archive is cut short; fetch it again");
}

bool TarReader::read_header(Header& header) {
  skip_to(next_);
  header.offset = next_;
  if (const int64_t n = file_.read(header.block); n < kBlock)
    throw bad(next_ + n, "the archive is cut short: two blocks of zeros end one; fetch it again");
  if (header.is_zero()) return false;
  if (!header.has_checksum())
    throw bad(next_, "a header has a wrong checksum; the file is damaged or no tar archive");
  const auto size = number_of(header.field(124, 12));
  if (!size || *size > file_.bytes_max())
    throw bad(next_, header.name(), " has a size that the archive cannot hold; it is damaged");
  header.size = *size;
  next_ += kBlock + padded(header.size);
  return true;
}

// The content of a header that is about the next entry.
std::string TarReader::read_names(const Header& header) {
  if (header.size > kNamesMax)
    throw bad(header.offset, "a header with names has ", header.size, " bytes, at most ", kNamesMax,
              " are read; the archive is damaged");
  std::string out(static_cast<size_t>(header.size), '\0');
  read(out);
  return out;
}

void TarReader::read(std::span<char> into) {
  if (const int64_t at = file_.offset(), n = file_.read(into);
      n < static_cast<int64_t>(into.size()))
    throw bad(at + n, "the archive is cut short; fetch it again");
}

bool TarReader::next(TarEntry& entry) {
  std::string long_name;
  int64_t long_size = -1;  // none
  for (Header header; read_header(header);) {
    switch (header.type()) {
      case 'L':  // GNU: the name of the next entry
        long_name = text_of(read_names(header));
        continue;
      case 'x':
        if (!read_pax(read_names(header), long_name, long_size))
          throw bad(header.offset, "a pax header has no records; the archive is damaged");
        continue;
      case 'g':  // pax: defaults, and comments
      case 'K':  // GNU: where the next entry, a link, leads to
        continue;
      case '0':
      case '\0':
      case '7':  // contiguous
        break;
      case '5':  // a folder
        long_name.clear();
        long_size = -1;
        continue;
      default:
        throw bad(header.offset, long_name.empty() ? header.name() : long_name,
                  " is no regular file but of type ", header.type(),
                  "; archive files themselves, without links (tar --hard-dereference -h)");
    }
    entry = {long_name.empty() ? header.name() : long_name, header.offset, header.offset + kBlock,
             long_size < 0 ? header.size : long_size};
    if (entry.name.ends_with('/')) {  // a folder, before there was a type for them
      long_name.clear();
      continue;
    }
    if (entry.size > file_.bytes_max())
      throw bad(header.offset, entry.name, " has a size that the archive cannot hold");
    next_ = entry.offset + padded(entry.size);
    while (entry.name.starts_with("./")) entry.name.erase(0, 2);
    return true;
  }
  return false;
}

}  // namespace troupe
