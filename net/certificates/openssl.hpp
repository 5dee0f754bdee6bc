// Owned: objects of OpenSSL, freed with their owner; and the errors that OpenSSL keeps for a
// thread.
//
// Owner: the code that holds them. Thread: any, one at a time.
#pragma once

#include <memory>
#include <string>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

namespace troupe {

template <auto kFree>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
template <class T, auto kFree>
using Owned = std::unique_ptr<T, Freed<kFree>>;

using OwnedBio = Owned<BIO, BIO_free_all>;
using OwnedCertificate = Owned<X509, X509_free>;
using OwnedKey = Owned<EVP_PKEY, EVP_PKEY_free>;
using OwnedContext = Owned<SSL_CTX, SSL_CTX_free>;
using OwnedSsl = Owned<SSL, SSL_free>;

// Readies OpenSSL so that it works also while static objects end. Call it before all else.
void use_openssl();
// The thread's newest error in OpenSSL's words; the errors are forgotten.
std::string openssl_error();

}  // namespace troupe
