// HMAC-SHA256 by OpenSSL, and the file of a cluster's secret.
#include "net/link/secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace troupe {
namespace {

constexpr size_t kSecretMin = 16, kSecretMax = 1024;

struct File {
  int fd;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Secret::~Secret() { OPENSSL_cleanse(key_.data(), key_.size()); }

Nonce Secret::draw() const {
  Nonce out;
  for (size_t at = 0; at < out.size(); at += sizeof(uint64_t)) {
    const uint64_t word = rng_.next();
    std::memcpy(out.data() + at, &word, sizeof word);
  }
  return out;
}

Proof Secret::prove(std::string_view label,
                    std::initializer_list<std::span<const std::byte>> parts) const {
  // Sessions in static objects connect after OpenSSL's own clean-up at exit.
  static const int kept = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  TROUPE_CHECK(kept == 1, "OpenSSL cannot be used");
  const auto words = std::as_bytes(std::span(label));
  std::vector<std::byte> text(words.begin(), words.end());
  text.push_back(std::byte{0});
  for (const auto& part : parts) text.insert(text.end(), part.begin(), part.end());
  Proof out;
  unsigned int size = 0;
  const bool made = HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
                         reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                         reinterpret_cast<unsigned char*>(out.data()), &size) != nullptr;
  TROUPE_CHECK(made && size == out.size(), "OpenSSL offers no HMAC-SHA256");
  return out;
}

bool Secret::same(const Proof& a, const Proof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string read_secret(const std::string& file) {
  const char* const named = std::getenv(kSecretVariable);
  if (file.empty() && !named) return "";
  const std::string path = file.empty() ? named : file;
  if (path.empty())
    throw Error(Errc::bad_configuration, kSecretVariable,
                " is empty; let it name the file of the cluster's secret, or unset it");
  // A pipe would block the opening.
  const File opened{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat is {};
  const auto unreadable = [&path] {
    return Error(Errc::io, "cannot read the secret ", path, ": ", std::strerror(errno));
  };
  if (opened.fd < 0 || ::fstat(opened.fd, &is) != 0) throw unreadable();
  if (!S_ISREG(is.st_mode))
    throw Error(Errc::bad_configuration, "the secret ", path, " is not a file");
  if (is.st_uid != ::geteuid() && is.st_uid != 0)
    throw Error(Errc::bad_configuration, "the secret ", path,
                " belongs to another user; make one of your own");
  if ((is.st_mode & 077) != 0)
    throw Error(Errc::bad_configuration, "others can open the secret ", path, "; chmod 600 ", path);
  std::array<char, kSecretMax + 64> bytes;  // with room for a line end
  size_t size = 0;
  for (ssize_t n; (n = ::read(opened.fd, bytes.data() + size, bytes.size() - size)) != 0;) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw unreadable();
    size += static_cast<size_t>(n);
  }
  while (size > 0 && std::isspace(static_cast<unsigned char>(bytes[size - 1]))) --size;
  if (size < kSecretMin || size > kSecretMax)
    throw Error(Errc::bad_configuration, "the secret ", path, " has ", size, " bytes, and wants ",
                kSecretMin, " to ", kSecretMax,
                "; (umask 077; head -c 32 /dev/urandom | base64 >FILE) makes one");
  return {bytes.data(), size};
}

}  // namespace troupe
