// Faults of certificates and of TLS in words.
// Owner: none, functions only. Thread: any.
#pragma once

#include <string>

#include "net/certificates/openssl.hpp"

namespace troupe {

// A fault that X509_verify_cert() has found in `certificate`, which may be null.
std::string fault_words(int fault, const X509* certificate);
// For SSL_CTX_set_verify(): writes the fault of the other end's certificate to the string that is
// the connection's app data.
int note_fault(int good, X509_STORE_CTX* check);
// The error of the call before, which has failed; the thread's errors are forgotten. `own`: our
// certificate, which the other end may have refused.
std::string tls_error_words(const std::string& own);

}  // namespace troupe
