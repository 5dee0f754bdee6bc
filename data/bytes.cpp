// ByteSource: a buffer over a file, and zlib's inflate() over the buffer.
#include "data/bytes.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "data/files/deflate.hpp"
#include "data/reading.hpp"
#include "troupe/error.hpp"

namespace troupe {
namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib.h, inflateInit2: the largest window, in gzip's frame

}  // namespace

// The bytes of the file that are read and not used yet.
struct ByteSource::Packed {
  Packed(const RandomFile& of, size_t size) : file(of), buffer(std::max<size_t>(size, 2)) {
    gzip = has_magic();
    if (gzip && inflateInit2(&z, kGzipWindow) != Z_OK)
      throw Error(Errc::out_of_memory, "cannot read ", file.path(),
                  ": zlib has no memory; free some");
    in_member = gzip;
  }
  ~Packed() {
    if (gzip) inflateEnd(&z);
  }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  size_t left() const { return end - at; }
  // Reads on until `wanted` bytes are there or the file ends; returns how many there are.
  size_t fill(size_t wanted) {
    while (left() < wanted) {
      std::memmove(buffer.data(), buffer.data() + at, left());
      end -= at;
      at = 0;
      Reading::moved();
      const int64_t n = file.read(next, std::span(buffer).subspan(end));
      if (n == 0) break;
      next += n;
      end += static_cast<size_t>(n);
    }
    return left();
  }
  bool has_magic() { return fill(2) >= 2 && buffer[at] == '\x1f' && buffer[at + 1] == '\x8b'; }

  const RandomFile& file;
  std::vector<char> buffer;
  size_t at = 0, end = 0;
  int64_t next = 0;  // the place in the file of the byte after the buffer
  bool gzip = false, in_member = false;
  z_stream z{};
};

ByteSource::ByteSource(const std::string& path) : ByteSource(local_files().open(path)) {}

ByteSource::ByteSource(std::shared_ptr<const RandomFile> file, size_t buffer)
    : file_(std::move(file)), packed_(std::make_unique<Packed>(*file_, buffer)) {}

ByteSource::~ByteSource() = default;

bool ByteSource::is_gzip() const { return packed_->gzip; }

int64_t ByteSource::bytes_max() const {
  return packed_->gzip ? file_->size() * kDeflateRatio : file_->size();
}

int64_t ByteSource::read(std::span<char> into) {
  const int64_t n = packed_->gzip ? read_gzip(into) : read_plain(into);
  offset_ += n;
  return n;
}

int64_t ByteSource::skip(int64_t count) {
  int64_t done = 0;
  if (!packed_->gzip) {
    const auto buffered = static_cast<int64_t>(packed_->left());
    done = std::min(count, buffered + std::max<int64_t>(file_->size() - packed_->next, 0));
    packed_->at += static_cast<size_t>(std::min(done, buffered));
    packed_->next += std::max<int64_t>(done - buffered, 0);
    offset_ += done;
    return done;
  }
  std::array<char, 16 << 10> unused;
  while (done < count) {
    const auto want = std::min(static_cast<size_t>(count - done), unused.size());
    const int64_t n = read(std::span(unused).first(want));
    if (n == 0) break;
    done += n;
  }
  return done;
}

int64_t ByteSource::read_plain(std::span<char> into) {
  Packed& p = *packed_;
  size_t done = 0;
  while (done < into.size()) {
    const size_t want = into.size() - done;
    if (p.left() == 0 && want >= p.buffer.size()) {  // a copy less
      Reading::moved();
      const int64_t n = file_->read(p.next, into.subspan(done));
      p.next += n;
      done += static_cast<size_t>(n);
      break;
    }
    const size_t n = std::min(want, p.fill(1));
    if (n == 0) break;
    std::memcpy(into.data() + done, p.buffer.data() + p.at, n);
    p.at += n;
    done += n;
  }
  return static_cast<int64_t>(done);
}

int64_t ByteSource::read_gzip(std::span<char> into) {
  Packed& p = *packed_;
  size_t done = 0;
  while (done < into.size()) {
    const int64_t at = offset_ + static_cast<int64_t>(done);
    if (!p.in_member) {
      if (!p.has_magic()) break;  // gzip ignores bytes after its last member, too
      inflateReset(&p.z);
      p.in_member = true;
    }
    if (p.fill(1) == 0)
      throw Error(Errc::bad_data, path(), ": the .gz is cut short after ", at,
                  " unpacked bytes; fetch it again");
    const size_t want = std::min<size_t>(into.size() - done, 1 << 30);
    p.z.next_in = reinterpret_cast<Bytef*>(p.buffer.data() + p.at);
    p.z.avail_in = static_cast<uInt>(p.left());
    p.z.next_out = reinterpret_cast<Bytef*>(into.data() + done);
    p.z.avail_out = static_cast<uInt>(want);
    const int code = inflate(&p.z, Z_NO_FLUSH);
    p.at = p.end - p.z.avail_in;
    done += want - p.z.avail_out;
    if (code == Z_STREAM_END) {
      p.in_member = false;
    } else if (code == Z_MEM_ERROR) {
      throw Error(Errc::out_of_memory, "cannot read ", path(), ": zlib has no memory; free some");
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      throw Error(Errc::bad_data, path(), ": the .gz is damaged near unpacked byte ",
                  offset_ + static_cast<int64_t>(done), " (", p.z.msg ? p.z.msg : "no dictionary",
                  "); fetch it again");
    }
  }
  return static_cast<int64_t>(done);
}

}  // namespace troupe
