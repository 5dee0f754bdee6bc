// Files: where readers of sources find their bytes. Everything that such a reader wants of a
// storage is here, so that another one than local folders, or the fake of a test, can stand behind
// it. The readers of npy, npz and safetensors, and vocabularies and merges, are of local files
// alone. Owner: of a RandomFile its users, together. Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// The bytes of one open file, at any offset. For its bytes in order, unpacked if it is gzipped,
// make a ByteSource of it (data/bytes.hpp).
class RandomFile {
 public:
  virtual ~RandomFile() = default;
  virtual const std::string& path() const = 0;
  virtual int64_t size() const = 0;
  // Reads up to `into.size()` bytes from `offset` on; fewer only at the end. Throws: Error(io).
  virtual int64_t read(int64_t offset, std::span<char> into) const = 0;
};

class Files {
 public:
  enum class Kind { none, file, folder };
  struct Entry {
    std::string name;
    bool folder;
  };
  virtual ~Files() = default;
  virtual Kind kind(const std::string& path) const = 0;
  // The entries of a folder, sorted by name. Throws: Error(io) if it cannot be read.
  virtual std::vector<Entry> entries(const std::string& folder) const = 0;
  // Throws: Error(io) if the file cannot be read or is no regular file.
  virtual std::shared_ptr<const RandomFile> open(const std::string& path) const = 0;
};

const Files& local_files();

// The files that `path` names: itself, or all files of a folder, or all that match a pattern with
// `*`, `?` and `[...]`, as of a shell, in any part. Sorted by name; names that begin with a dot
// count only if the pattern begins so. Throws: Error(io) if there is none.
std::vector<std::string> list_files(const Files& files, const std::string& path);
// The files that several paths name, one path after the other; each can be opened. `of`: the
// reader, for messages. Throws: Error(invalid_argument) for no path at all, Error(io).
std::vector<std::string> list_files(const Files& files, const std::vector<std::string>& paths,
                                    std::string_view of);

// `folder`/`name`.
std::string join_path(const std::string& folder, const std::string& name);

}  // namespace troupe
