// Mounts a tmpfs in a mount namespace, as root or in a user namespace.
#include "apps/troupe/chaos/small_disk.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "troupe/error.hpp"

using troupe::detail::concat;

namespace {

bool write_file(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  const bool good = fd >= 0 && write(fd, text.data(), text.size()) == std::ssize(text);
  if (fd >= 0) close(fd);
  return good;
}

// A mount namespace of our own. Returns false, with errno, if there is none to be had.
bool own_mounts() {
  if (unshare(CLONE_NEWNS) == 0) return true;
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  return write_file("/proc/self/setgroups", "deny") &&
         write_file("/proc/self/uid_map", concat(user, " ", user, " 1")) &&
         write_file("/proc/self/gid_map", concat(group, " ", group, " 1"));
}

}  // namespace

std::string SmallDisk::mount(const std::string& folder, int mib) {
  const auto failed = [](const char* what) { return concat(what, ": ", std::strerror(errno)); };
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return "no folder " + folder + ": " + error.message();
  if (!own_mounts()) return failed("no mount namespace of its own");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return failed("no private mounts");
  if (::mount("troupe-chaos", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV,
              concat("mode=0700,size=", mib, "m").c_str()) != 0)
    return failed("no tmpfs may be mounted");
  folder_ = std::filesystem::absolute(folder);
  return {};
}

bool SmallDisk::fill() {
  const int fd = open((folder_ + "/.full").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  struct statvfs now {};
  off_t size = 0;
  // Others write meanwhile, so that what was free a moment ago may be too much.
  for (int i = 0; i < 100 && fstatvfs(fd, &now) == 0 && now.f_bavail > 0; ++i) {
    const auto part = static_cast<off_t>(now.f_bavail * now.f_frsize);
    if (posix_fallocate(fd, size, part) == 0) size += part;
  }
  close(fd);
  return size > 0;
}

void SmallDisk::free() { unlink((folder_ + "/.full").c_str()); }

void SmallDisk::clear() {
  if (folder_.empty()) return;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored))
    std::filesystem::remove_all(entry.path(), ignored);
}
