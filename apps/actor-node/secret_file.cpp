// Draws, writes and removes the secret of a cluster on this machine.
#include "apps/actor-node/secret_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "troupe/cluster.hpp"
#include "troupe/error.hpp"

using troupe::Errc;
using troupe::Error;

SecretFile::SecretFile(std::filesystem::path file) : file_(std::move(file)) {
  std::array<unsigned char, 32> bytes;
  while (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
  }
  constexpr char kDigits[] = "0123456789abcdef";
  for (const unsigned char byte : bytes) {
    text_ += kDigits[byte >> 4];
    text_ += kDigits[byte & 15];
  }
  text_ += '\n';
  std::error_code ignored;
  std::filesystem::remove(file_, ignored);
  if (const std::string error = write(); !error.empty())
    throw Error(Errc::io, error, "; choose another place with --run-dir");
  try {
    troupe::check_secret_file(file_.string());
  } catch (const Error& e) {  // some file systems keep neither owners nor modes
    std::filesystem::remove(file_, ignored);
    throw Error(Errc::bad_configuration, "a secret cannot be kept in ",
                file_.parent_path().string(), " (", e.what(),
                "); choose another place with --run-dir, or give a --secret-file");
  }
}

SecretFile::~SecretFile() {
  std::error_code ignored;
  std::filesystem::remove(file_, ignored);
  explicit_bzero(text_.data(), text_.size());
}

std::string SecretFile::keep() const { return access(file_.c_str(), F_OK) == 0 ? "" : write(); }

// The folder may be one that others can write to: an existing file or a link of that name is not
// written to, and the mode holds from the beginning.
std::string SecretFile::write() const {
  errno = 0;
  const int fd = open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  const bool whole =
      fd >= 0 && ::write(fd, text_.data(), text_.size()) == static_cast<ssize_t>(text_.size());
  const int why = errno ? errno : EIO;
  if (fd >= 0) close(fd);
  if (whole) return "";
  if (fd >= 0) unlink(file_.c_str());
  return troupe::detail::concat("cannot write the secret of the cluster to ", file_.string(), ": ",
                                std::strerror(why));
}
