// The POSIX file system as a Disk, folder locks, and files that are written atomically.
#include "data/files/disk.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "graph/base/fail_point.hpp"
#include "graph/base/mutant.hpp"
#include "troupe/error.hpp"

namespace troupe {
namespace {

const char* remedy(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space or choose another directory";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; check owner and permissions, or choose another directory";
    case ENOENT:
      return "; check the path";
    case EEXIST:
      return "; another writer was first: does another run use the folder?";
    case ELOOP:
      return "; symbolic links are not followed here";
    case EISDIR:
      return "; no file of ours is one: move it away";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files (ulimit -n)";
    default:
      return "";
  }
}

[[noreturn]] void fail(const char* what, const std::string& path, int error = errno) {
  throw Error(Errc::io, "cannot ", what, " ", path, ": ", std::strerror(error), remedy(error));
}

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

class RealReadFile final : public ReadFile {
 public:
  RealReadFile(Fd fd, std::string path, int64_t size)
      : fd_(std::move(fd)), path_(std::move(path)), size_(size) {}
  int64_t size() const override { return size_; }
  void read(int64_t offset, std::span<std::byte> into) override {
    size_t done = 0;
    while (done < into.size()) {
      const ssize_t n = ::pread(fd_.get(), into.data() + done, into.size() - done,
                                offset + static_cast<int64_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("read", path_);
      if (n == 0)
        throw Error(Errc::io, "cannot read ", path_, ": it ends at byte ",
                    offset + static_cast<int64_t>(done), ", wanted ", into.size(), " bytes from ",
                    offset);
      done += static_cast<size_t>(n);
    }
  }

 private:
  Fd fd_;
  std::string path_;
  int64_t size_;
};

class RealWriteFile final : public WriteFile {
 public:
  RealWriteFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("write to", path_);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
  }
  void sync() override {
    if (::fsync(fd_.get()) != 0) fail("sync", path_);
  }

 private:
  Fd fd_;
  std::string path_;
};

class RealDisk final : public Disk {
 public:
  void make_dirs(const std::string& dir) override {
    for (size_t at = dir.find('/', 1);; at = dir.find('/', at + 1)) {
      const std::string part = dir.substr(0, at);
      if (::mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) fail("make directory", part);
      if (at == std::string::npos) break;
    }
    struct stat s {};
    if (::stat(dir.c_str(), &s) != 0) fail("make directory", dir);
    if (!S_ISDIR(s.st_mode)) fail("make directory", dir, ENOTDIR);
  }

  std::vector<std::string> list(const std::string& dir) override {
    DIR* handle = ::opendir(dir.c_str());
    if (!handle && errno == ENOENT) return {};
    if (!handle) fail("list", dir);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(handle)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
      errno = 0;
    }
    const int error = errno;
    ::closedir(handle);
    if (error != 0) fail("list", dir, error);
    std::sort(names.begin(), names.end());
    return names;
  }

  std::unique_ptr<ReadFile> open(const std::string& path) override {
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd.get() < 0) fail("open", path);
    struct stat s {};
    if (::fstat(fd.get(), &s) != 0) fail("open", path);
    if (!S_ISREG(s.st_mode))
      throw Error(Errc::io, "cannot open ", path, ": it is not a regular file");
    return std::make_unique<RealReadFile>(std::move(fd), path, s.st_size);
  }

  std::unique_ptr<WriteFile> create(const std::string& path) override {
    Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (fd.get() < 0) fail("create", path);
    return std::make_unique<RealWriteFile>(std::move(fd), path);
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail("rename", from + " to " + to);
  }

  void rename_new(const std::string& from, const std::string& to) override {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno == EINVAL || errno == ENOSYS) {  // a file system without that, such as NFS
      if (::link(from.c_str(), to.c_str()) == 0) return remove(from);
      // Without hard links: check, then rename. A file created in between is overwritten.
      if (errno != EEXIST && ::access(to.c_str(), F_OK) != 0) return rename(from, to);
      errno = EEXIST;
    }
    fail("rename", from + " to " + to);
  }

  void remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail("remove", path);
  }

  void sync_dir(const std::string& dir) override {
    Fd fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) fail("open directory", dir);
    if (::fsync(fd.get()) != 0 && errno != EINVAL)
      fail("sync directory", dir);  // EINVAL: the file system does not support it
  }

  int64_t free_bytes(const std::string& dir) override {
    struct statvfs s {};
    if (::statvfs(dir.c_str(), &s) != 0) fail("ask for the free space of", dir);
    return static_cast<int64_t>(s.f_bavail) * static_cast<int64_t>(s.f_frsize);
  }

  std::string unique() override {
    std::random_device draw;
    char text[40];
    std::snprintf(text, sizeof text, "%lx-%08x%08x", static_cast<unsigned long>(::getpid()), draw(),
                  draw());
    return text;
  }
};

}  // namespace

Disk& real_disk() {
  static RealDisk& disk = *new RealDisk;  // never destroyed: static objects may end later
  return disk;
}

FolderLock::FolderLock(const std::string& dir) : dir_(dir) {
  const int fd = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("open directory", dir);
  held_ = take(fd);
}

FolderLock::~FolderLock() {
  for (const int fd : fds_) ::close(fd);
}

bool FolderLock::take(int fd) const {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
    fds_.push_back(fd);
    return true;
  }
  ::close(fd);
  return false;
}

void FolderLock::keep() const {
  struct stat now = {}, its = {};
  const int fd = ::open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;  // the next reader or writer tells the reason
  std::lock_guard lock(mutex_);
  const bool known =
      ::fstat(fd, &now) != 0 || std::any_of(fds_.begin(), fds_.end(), [&](int one) {
        return ::fstat(one, &its) == 0 && its.st_ino == now.st_ino && its.st_dev == now.st_dev;
      });
  if (known) {
    ::close(fd);
    return;
  }
  if (!take(fd))
    throw Error(Errc::io, "another training writes to ", dir_,
                " now: the folder of this one was removed or renamed; put it back, or end one of "
                "both");
}

AtomicFile::AtomicFile(Disk& disk, std::string dir, std::string name, IfThere if_there)
    : disk_(disk),
      dir_(std::move(dir)),
      path_(dir_ + "/" + name),
      temp_(if_there == IfThere::replace ? path_ + kTempSuffix
                                         : detail::concat(path_, ".", disk.unique(), kTempSuffix)),
      if_there_(if_there),
      file_(disk_.create(temp_)) {}

AtomicFile::~AtomicFile() {
  if (committed_) return;
  file_.reset();
  try {
    disk_.remove(temp_);
  } catch (const Error&) {
    // A destructor cannot report it; the next prune removes the file.
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) { file_->write(bytes); }

void AtomicFile::commit() {
  fail_point(FailPoint::file_before_sync);
  if (!mutant(Mutant::file_not_synced)) file_->sync();
  file_.reset();
  fail_point(FailPoint::file_before_rename);
  if (if_there_ == IfThere::refuse)
    disk_.rename_new(temp_, path_);
  else
    disk_.rename(temp_, path_);
  committed_ = true;
  fail_point(FailPoint::file_before_sync_dir);
  if (!mutant(Mutant::folder_not_synced)) disk_.sync_dir(dir_);
}

std::string read_text(Disk& disk, const std::string& path, int64_t bytes_max) {
  const std::unique_ptr<ReadFile> file = disk.open(path);
  if (file->size() > bytes_max)
    throw Error(Errc::bad_data, path, " has ", file->size(), " bytes; expected at most ",
                bytes_max);
  std::string text(static_cast<size_t>(file->size()), '\0');
  file->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace troupe
