// The functions of Lines, whose buffer begins with the line that is not complete yet, and
// read_lines() of troupe/data.hpp.
#include "data/lines.hpp"

#include <utility>

#include "troupe/data.hpp"

namespace troupe {
namespace {

constexpr size_t kChunk = 256 << 10;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // of UTF-8, as spreadsheets write it

}  // namespace

bool Lines::next(std::string_view& line) {
  for (size_t from = at_;;) {
    const size_t end = buffer_.find('\n', from);
    if (end != std::string::npos) {
      line = std::string_view(buffer_).substr(at_, end - at_);
      at_ = end + 1;
      break;
    }
    from = buffer_.size() - at_;
    buffer_.erase(0, std::exchange(at_, 0));
    check_length(from);
    if (!more()) {
      if (buffer_.empty()) return false;
      line = buffer_;  // the last line has no end
      at_ = buffer_.size();
      break;
    }
  }
  check_length(line.size());
  ++number_;
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (number_ == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  return true;
}

bool Lines::more() {
  const size_t before = buffer_.size();
  buffer_.resize(before + kChunk);
  const int64_t n = file_.read({buffer_.data() + before, kChunk});
  buffer_.resize(before + static_cast<size_t>(n));
  if (file_.offset() > bytes_max_)
    throw Error(Errc::bad_data, path(), ": more than ", bytes_max_,
                " unpacked bytes; read it in parts");
  return n > 0;
}

void Lines::check_length(size_t bytes) const {
  if (bytes > line_bytes_max_)
    throw Error(Errc::bad_data, path(), ": line ", number_ + 1, " is longer than ", line_bytes_max_,
                " bytes");
}

std::vector<std::string> read_lines(const std::string& path, int64_t bytes_max) {
  Lines lines(path, bytes_max);
  std::vector<std::string> out;
  for (std::string_view line; lines.next(line);) out.emplace_back(line);
  if (out.empty()) throw Error(Errc::bad_data, path, " is empty; it should hold lines of text");
  return out;
}

}  // namespace troupe
