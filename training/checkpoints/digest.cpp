// SHA-256 by OpenSSL, and the digest of a model's weights.
#include "training/checkpoints/digest.hpp"

#include <algorithm>
#include <array>

#include <openssl/crypto.h>
#include <openssl/evp.h>

namespace troupe {

struct Sha256::Context {
  EVP_MD_CTX* md = nullptr;
  ~Context() { EVP_MD_CTX_free(md); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  // Sessions in static objects write checkpoints after OpenSSL's own clean-up at exit.
  static const int kept = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  TROUPE_CHECK(kept == 1, "OpenSSL cannot be used");
  context_->md = EVP_MD_CTX_new();
  TROUPE_CHECK(context_->md && EVP_DigestInit_ex(context_->md, EVP_sha256(), nullptr) == 1,
               "OpenSSL offers no SHA-256");
}
Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  TROUPE_CHECK(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()) == 1, "SHA-256 failed");
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  TROUPE_CHECK(EVP_DigestFinal_ex(context_->md, digest.data(), &size) == 1, "SHA-256 failed");
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (unsigned int i = 0; i < size; ++i) {
    out += digits[digest[i] >> 4];
    out += digits[digest[i] & 15];
  }
  return out;
}

std::string weights_sha256(std::vector<std::pair<std::string, Tensor>> parameters) {
  std::sort(parameters.begin(), parameters.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  Sha256 sha;
  for (const auto& [name, tensor] : parameters) {
    TROUPE_CHECK(tensor.on_host(), "the digest wants ", name, " on the host");
    sha.add(detail::concat(name, " ", to_string(tensor.dtype()), to_string(tensor.shape()), "\n"));
    sha.add({static_cast<const std::byte*>(tensor.raw()), static_cast<size_t>(tensor.byte_size())});
  }
  return sha.hex();
}

}  // namespace troupe
