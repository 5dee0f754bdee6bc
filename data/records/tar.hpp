// TarReader: the regular files of a tar archive, in order (POSIX ustar with pax names, GNU long
// names and sizes). Used by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/bytes.hpp"
#include "troupe/error.hpp"

namespace troupe {

struct TarEntry {
  std::string name = {};  // without "./" before it
  int64_t header = 0;     // offsets in the unpacked archive: of the header that holds the size,
  int64_t offset = 0;     // and of the bytes
  int64_t size = 0;
};

class TarReader {
 public:
  // An archive, plain or gzipped. One that is plain and only listed is read `buffer` bytes around
  // each header.
  explicit TarReader(std::shared_ptr<const RandomFile> file, size_t buffer = ByteSource::kBuffer)
      : file_(std::move(file), buffer) {}

  // Goes to the next regular file; false at the end. Throws: Error(io); Error(bad_data) for an
  // archive that is damaged or cut short, and for links and devices, whose content is elsewhere.
  bool next(TarEntry& entry);
  // The bytes of the entry that next() gave; once. Requires: into.size() is its size.
  void read(std::span<char> into);

  bool is_gzip() const { return file_.is_gzip(); }
  const std::string& path() const { return file_.path(); }

 private:
  struct Header;
  bool read_header(Header& header);
  void skip_to(int64_t offset);
  std::string read_names(const Header& header);
  template <class... Parts>
  Error bad(int64_t offset, const Parts&... parts) const {
    return Error(Errc::bad_data, file_.path(), ": at byte ", offset, ": ",
                 detail::concat(parts...));
  }

  ByteSource file_;
  int64_t next_ = 0;  // the offset of the next header
};

}  // namespace troupe
