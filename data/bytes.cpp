// The functions of ByteSource, on zlib, which also reads plain files.
#include "data/bytes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "troupe/error.hpp"

namespace troupe {
namespace {

constexpr int64_t kDeflateRatio =
    1032;  // zlib.net, "Technical Details": one bit of code for 258 bytes, and no better
constexpr unsigned kBuffer = 256 << 10;

int64_t regular_file_size(int fd, const std::string& path) {
  struct stat s {};
  if (::fstat(fd, &s) != 0) throw Error(Errc::io, "cannot read ", path, ": ", std::strerror(errno));
  if (!S_ISREG(s.st_mode))
    throw Error(Errc::io, "cannot read ", path, ": it is not a regular file; name one");
  return s.st_size;
}

// zlib's messages begin with a placeholder for the file name: "<fd:3>: invalid distance".
std::string_view reason(std::string_view text) {
  const size_t end = text.find(">: ");
  return text.substr(0, 4) == "<fd:" && end != text.npos ? text.substr(end + 3) : text;
}

}  // namespace

struct ByteSource::Gzip {
  gzFile file = nullptr;
  ~Gzip() {
    if (file) gzclose_r(file);
  }
};

ByteSource::ByteSource(const std::string& path) : path_(path), gzip_(std::make_unique<Gzip>()) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    throw Error(Errc::io, "cannot open ", path, ": ", std::strerror(errno),
                "; check the path and its permissions");
  int64_t size = 0;
  try {
    size = regular_file_size(fd, path);
  } catch (const Error&) {
    ::close(fd);  // it has no owner yet
    throw;
  }
  gzip_->file = gzdopen(fd, "rb");
  if (!gzip_->file) {
    ::close(fd);
    throw Error(Errc::out_of_memory, "cannot read ", path, ": zlib has no memory; free some");
  }
  gzbuffer(gzip_->file, kBuffer);
  // gzdirect() looks at the first bytes; an empty file counts as plain.
  bytes_max_ = gzdirect(gzip_->file) ? size : size * kDeflateRatio;
}

ByteSource::~ByteSource() = default;

int64_t ByteSource::read(std::span<char> into) {
  size_t done = 0;
  while (done < into.size()) {
    const auto want = static_cast<unsigned>(std::min<size_t>(into.size() - done, 1 << 30));
    const int n = gzread(gzip_->file, into.data() + done, want);
    int code = Z_OK;
    const char* text = gzerror(gzip_->file, &code);
    if (n < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      const int64_t at = offset_ + static_cast<int64_t>(done) + std::max(n, 0);
      if (code == Z_ERRNO) throw Error(Errc::io, "cannot read ", path_, ": ", std::strerror(errno));
      if (code == Z_BUF_ERROR)
        throw Error(Errc::bad_data, path_, ": the .gz is cut short after ", at,
                    " unpacked bytes; fetch it again");
      throw Error(Errc::bad_data, path_, ": the .gz is damaged near unpacked byte ", at, " (",
                  reason(text), "); fetch it again");
    }
    done += static_cast<size_t>(n);
    if (n == 0) break;
  }
  offset_ += static_cast<int64_t>(done);
  return static_cast<int64_t>(done);
}

}  // namespace troupe
