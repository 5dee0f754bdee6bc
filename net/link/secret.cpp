// HMAC-SHA256 by OpenSSL, and the file of a cluster's secret.
#include "net/link/secret.hpp"

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "net/certificates/openssl.hpp"
#include "net/certificates/own_file.hpp"

namespace troupe {
namespace {

constexpr size_t kSecretMin = 16, kSecretMax = 1024;

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
  use_openssl();
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
  // With room for a line end.
  std::string bytes = read_own_file(path, "secret", kSecretMax + 64, Readers::this_user);
  size_t size = bytes.size();
  while (size > 0 && std::isspace(static_cast<unsigned char>(bytes[size - 1]))) --size;
  if (size < kSecretMin || size > kSecretMax)
    throw Error(Errc::bad_configuration, "the secret ", path, " has ", size, " bytes, and wants ",
                kSecretMin, " to ", kSecretMax,
                "; (umask 077; head -c 32 /dev/urandom | base64 >FILE) makes one");
  bytes.resize(size);
  return bytes;
}

}  // namespace troupe
