// Disk: the seam to the file system. Production uses real_disk(); tests use
// tests/support/simulation/sim_disk.hpp, which fails, tears and loses data that was not synced.
// Calls block; keep them off actor threads.
//
// Every call throws Error(io) with operation, path, reason and remedy.
// Owner: static (real_disk()), or a test; files: the caller. Thread: any; a file one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace troupe {

class ReadFile {
 public:
  virtual ~ReadFile() = default;
  virtual int64_t size() const = 0;  // at the time it was opened
  virtual void read(int64_t offset,
                    std::span<std::byte> into) = 0;  // all of it; throws at the end of the file
};

class WriteFile {
 public:
  virtual ~WriteFile() = default;                            // closes
  virtual void write(std::span<const std::byte> bytes) = 0;  // appends
  virtual void sync() = 0;  // makes the bytes written so far survive a crash
};

class Disk {
 public:
  virtual ~Disk() = default;
  virtual void make_dirs(const std::string& dir) = 0;  // with parents; existing ones are fine
  virtual std::vector<std::string> list(
      const std::string& dir) = 0;  // names of files, sorted; {} if there is no such directory
  virtual std::unique_ptr<ReadFile> open(
      const std::string& path) = 0;  // a regular file; follows no symbolic link
  virtual std::unique_ptr<WriteFile> create(
      const std::string& path) = 0;  // empties an existing one
  virtual void rename(const std::string& from, const std::string& to) = 0;  // replaces `to`
  // Throws, and leaves `from` in place, if `to` exists.
  virtual void rename_new(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& path) = 0;   // does nothing if it does not exist
  virtual void sync_dir(const std::string& dir) = 0;  // makes the names in it survive a crash
  virtual int64_t free_bytes(const std::string& dir) = 0;
  // Hexadecimal digits and dashes that no other call returns, in this process or another.
  virtual std::string unique() = 0;
};

Disk& real_disk();

// Reserves a directory of the real disk for one user at a time, while this lives. The lock is
// advisory: it excludes only users that ask for it. No file is left behind.
class FolderLock {
 public:
  explicit FolderLock(const std::string& dir);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  // False: another user has it. Always true on a file system that cannot lock directories.
  bool held() const { return held_; }
  // Call before each use: if the directory was removed or renamed, and another one has its name,
  // that one is reserved, too. Does nothing while no directory has the name. Throws: Error(io) if
  // another user has it.
  void keep() const;

 private:
  bool take(int fd) const;

  const std::string dir_;
  mutable std::mutex mutex_;      // guards the next one
  mutable std::vector<int> fds_;  // of all directories that had the name, the newest last
  bool held_ = false;
};

// Writes a temp file, syncs it, renames it and syncs the directory: after a crash there is the old
// file or the whole new one. On an error the temp file is removed if possible, and the old file is
// untouched.
class AtomicFile {
 public:
  // replace: for a file that one writer writes again and again. Its temp file is NAME.temp, so a
  // writer that is killed leaves at most that one behind.
  // refuse: for a file that is written once. Another writer of the same name may have frozen and go
  // on at any moment, so each has its own temp file, NAME.UNIQUE.temp, and commit() throws for the
  // second.
  // last_stays: for a file that anybody may write at any time. Each writer has its own temp file,
  // as with refuse, and the last commit() stays.
  enum class IfThere { replace, refuse, last_stays };

  AtomicFile(Disk& disk, std::string dir, std::string name, IfThere if_there);
  ~AtomicFile();  // removes the temp file unless commit() succeeded
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
