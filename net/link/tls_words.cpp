// The words for what OpenSSL has found.
#include "net/link/tls_words.hpp"

#include <openssl/err.h>

#include "net/certificates/certificate_text.hpp"
#include "net/certificates/certified_name.hpp"
#include "troupe/error.hpp"

namespace troupe {
namespace {

std::string named(const X509* certificate) {
  const auto name = certificate ? CertifiedName::of(certificate) : std::nullopt;
  return name ? "the certificate of " + name->words() : "the certificate";
}

// An alert of the other end about our certificate; null for other errors.
const char* refusal_of_ours(int reason) {
  switch (reason) {
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
      return "its authority (ca.pem) does not sign it";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "it has expired, or the clocks differ";
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
      return "it is not valid there";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return "none was shown";
    default:
      return nullptr;
  }
}

}  // namespace

std::string fault_words(int fault, const X509* certificate) {
  switch (fault) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return detail::concat(named(certificate), " expired on ",
                            time_text(X509_get0_notAfter(certificate)));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return detail::concat(named(certificate), " is valid only from ",
                            time_text(X509_get0_notBefore(certificate)), "; look at the clocks");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return named(certificate) + " is signed by another authority than the one in ca.pem";
    default:
      return detail::concat(named(certificate),
                            " is not valid: ", X509_verify_cert_error_string(fault));
  }
}

int note_fault(int good, X509_STORE_CTX* check) {
  if (good) return good;
  auto* const ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(check, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& to = *static_cast<std::string*>(SSL_get_app_data(ssl));
  to = fault_words(X509_STORE_CTX_get_error(check), X509_STORE_CTX_get_current_cert(check));
  return good;
}

std::string tls_error_words(const std::string& own) {
  const int reason = ERR_GET_REASON(ERR_peek_error());
  const std::string text = openssl_error();
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) return "it shows no certificate";
  const char* const refused = refusal_of_ours(reason);
  return refused ? detail::concat("it refuses the certificate of ", own, ": ", refused)
                 : "no TLS 1.3 with it: " + text;
}

}  // namespace troupe
