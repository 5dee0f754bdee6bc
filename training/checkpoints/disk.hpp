// Disk: the seam to the file system. Production is real_disk(); tests put
// tests/support/simulation/sim_disk.hpp in its place, which fails, tears and loses what was not
// synced. Calls block; keep them off actor threads.
//
// Every call throws Error(io) with operation, path, reason and remedy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe {

class ReadFile {
 public:
  virtual ~ReadFile() = default;
  virtual int64_t size() const = 0;  // when it was opened
  virtual void read(int64_t offset,
                    std::span<std::byte> into) = 0;  // all of it; throws at the end of the file
};

class WriteFile {
 public:
  virtual ~WriteFile() = default;                            // closes
  virtual void write(std::span<const std::byte> bytes) = 0;  // appends
  virtual void sync() = 0;                                   // what was written survives a crash
};

class Disk {
 public:
  virtual ~Disk() = default;
  virtual void make_dirs(const std::string& dir) = 0;  // with parents; it may be there already
  virtual std::vector<std::string> list(
      const std::string& dir) = 0;  // names of files, sorted; {} if there is no such directory
  virtual std::unique_ptr<ReadFile> open(
      const std::string& path) = 0;  // a regular file; follows no symbolic link
  virtual std::unique_ptr<WriteFile> create(
      const std::string& path) = 0;  // empties an existing one
  virtual void rename(const std::string& from, const std::string& to) = 0;  // replaces `to`
  // Throws, and `from` stays, if `to` is there.
  virtual void rename_new(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& path) = 0;   // nothing to do if it is not there
  virtual void sync_dir(const std::string& dir) = 0;  // names in it survive a crash
  virtual int64_t free_bytes(const std::string& dir) = 0;
  // Hexadecimal digits and dashes that no other call has got, of this process or of another one.
  virtual std::string unique() = 0;
};

Disk& real_disk();

// Keeps a directory of the real disk for one user at a time, while this lives. It is advice: only
// those who ask for it are kept out. No file is left behind.
class FolderLock {
 public:
  explicit FolderLock(const std::string& dir);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  // False: somebody else has it. On a file system that locks no directories it is always true.
  bool held() const { return held_; }

 private:
  int fd_;
  bool held_;
};

// Writes temp file + fsync + rename + fsync of the directory: after a crash there is the old file,
// or the whole new one. On an error the temp file is removed as far as that is possible, and the
// old file is untouched.
class AtomicFile {
 public:
  // replace: what one writer writes again and again. NAME.temp is its temp file, so that one that
  // is killed leaves at most that.
  // refuse: what is written once. Somebody may have frozen while it wrote a file of that name, and
  // go on at any moment: so each has a temp file of its own, NAME.UNIQUE.temp, and commit() throws
  // for whoever comes second.
  enum class IfThere { replace, refuse };

  AtomicFile(Disk& disk, std::string dir, std::string name, IfThere if_there);
  ~AtomicFile();  // removes the temp file unless commit() was reached
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void write(std::span<const std::byte> bytes);
  void write(const std::string& text) { write(std::as_bytes(std::span(text))); }
  void commit();

  static constexpr const char* kTempSuffix = ".temp";

 private:
  Disk& disk_;
  std::string dir_, path_, temp_;
  IfThere if_there_;
  std::unique_ptr<WriteFile> file_;
  bool committed_ = false;
};

std::string read_text(Disk& disk, const std::string& path,
                      int64_t bytes_max);  // Throws: Error(bad_data) when larger.

}  // namespace troupe
