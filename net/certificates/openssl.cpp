// Readies OpenSSL, and asks for its errors.
#include "net/certificates/openssl.hpp"

#include <openssl/err.h>

#include "troupe/error.hpp"

namespace troupe {

void use_openssl() {
  // Sessions in static objects connect after OpenSSL's own clean-up at exit.
  static const int kept =
      OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_LOAD_SSL_STRINGS, nullptr);
  TROUPE_CHECK(kept == 1, "OpenSSL cannot be used");
}

std::string openssl_error() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* const words = ERR_reason_error_string(code);
  return words ? words : detail::concat("OpenSSL's error ", code);
}

}  // namespace troupe
