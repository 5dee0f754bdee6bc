// Opens a file once, and checks and reads what was opened.
#include "net/certificates/own_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "troupe/error.hpp"

namespace troupe {
namespace {

struct File {
  int fd;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

std::string read_own_file(const std::string& path, std::string_view what, size_t max,
                          Readers readers) {
  // A pipe would block the opening.
  const File opened{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat is {};
  const auto unreadable = [&] {
    return Error(Errc::io, "cannot read the ", what, " ", path, ": ", std::strerror(errno));
  };
  if (opened.fd < 0 || ::fstat(opened.fd, &is) != 0) throw unreadable();
  if (!S_ISREG(is.st_mode))
    throw Error(Errc::bad_configuration, "the ", what, " ", path, " is not a file");
  if (readers == Readers::this_user) {
    if (is.st_uid != ::geteuid() && is.st_uid != 0)
      throw Error(Errc::bad_configuration, "the ", what, " ", path,
                  " belongs to another user; make one of your own");
    if ((is.st_mode & 077) != 0)
      throw Error(Errc::bad_configuration, "others can open the ", what, " ", path, "; chmod 600 ",
                  path);
  }
  std::string out(max, '\0');
  size_t size = 0;
  for (ssize_t n; (n = ::read(opened.fd, out.data() + size, max - size)) != 0;) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw unreadable();
    size += static_cast<size_t>(n);
  }
  out.resize(size);
  return out;
}

}  // namespace troupe
