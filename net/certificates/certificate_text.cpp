// Reads PEM, and writes certificates in words.
#include "net/certificates/certificate_text.hpp"

#include <arpa/inet.h>

#include <array>
#include <ctime>

#include <openssl/err.h>
#include <openssl/pem.h>

#include "net/certificates/certified_name.hpp"
#include "net/certificates/own_file.hpp"
#include "troupe/error.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

// Without it OpenSSL asks the terminal for the password of a key.
int no_password(char*, int, int, void*) { return 0; }

OwnedBio reader(const std::string& text) {
  return OwnedBio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string text_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

std::string host_in(const GENERAL_NAME* name) {
  if (name->type == GEN_DNS) return text_of(name->d.dNSName);
  if (name->type != GEN_IPADD) return "";
  const std::string bytes = text_of(name->d.iPAddress);
  std::array<char, INET6_ADDRSTRLEN> out{};
  inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(), out.data(), out.size());
  return out.data();
}

std::string in_words(const X509_NAME* name) {
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_ONELINE);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &bytes);
  return {bytes, static_cast<size_t>(size)};
}

std::string days_left(const ASN1_TIME* end) {
  const auto left = time_of(end) - std::chrono::system_clock::now();
  if (left < 0s) return "expired";
  return detail::concat(std::chrono::floor<std::chrono::days>(left).count(), " days left");
}

}  // namespace

std::vector<std::string> hosts_of(const X509* certificate) {
  const Owned<GENERAL_NAMES, GENERAL_NAMES_free> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> out;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i)
    if (std::string host = host_in(sk_GENERAL_NAME_value(names.get(), i)); !host.empty())
      out.push_back(std::move(host));
  return out;
}

std::vector<OwnedCertificate> all_certificates(const std::string& text, const std::string& file) {
  const OwnedBio from = reader(text);
  std::vector<OwnedCertificate> out;
  ERR_clear_error();
  while (X509* const next = PEM_read_bio_X509(from.get(), nullptr, no_password, nullptr))
    out.emplace_back(next);
  const bool damaged = ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE;
  const std::string why = openssl_error();
  if (damaged) throw Error(Errc::bad_data, file, " has a damaged certificate: ", why);
  if (out.empty()) throw Error(Errc::bad_data, file, " has no certificate in PEM form");
  return out;
}

OwnedCertificate first_certificate(const std::string& text, const std::string& file) {
  return std::move(all_certificates(text, file).front());
}

OwnedKey private_key(const std::string& file) {
  std::string text = read_own_file(file, "private key", kCertificatesMax, Readers::this_user);
  ERR_clear_error();
  OwnedKey out(PEM_read_bio_PrivateKey(reader(text).get(), nullptr, no_password, nullptr));
  OPENSSL_cleanse(text.data(), text.size());
  if (!out)
    throw Error(Errc::bad_data, file,
                " has no private key in PEM form without a password: ", openssl_error());
  return out;
}

std::chrono::system_clock::time_point time_of(const ASN1_TIME* time) {
  std::tm parts{};
  ASN1_TIME_to_tm(time, &parts);
  return std::chrono::system_clock::from_time_t(timegm(&parts));
}

std::string time_text(const ASN1_TIME* time) {
  std::tm parts{};
  ASN1_TIME_to_tm(time, &parts);
  std::array<char, 32> out{};
  std::strftime(out.data(), out.size(), "%Y-%m-%d %H:%M UTC", &parts);
  return out.data();
}

std::string certificate_text(const X509* certificate) {
  const auto name = CertifiedName::of(certificate);
  std::string hosts;
  for (const std::string& host : hosts_of(certificate)) hosts += (hosts.empty() ? "" : ", ") + host;
  const ASN1_TIME* const begin = X509_get0_notBefore(certificate);
  const ASN1_TIME* const end = X509_get0_notAfter(certificate);
  return detail::concat("name       ", name ? name->words() : "none of Troupe", "\n", "machines   ",
                        hosts.empty() ? "any" : hosts, "\n", "valid      ", time_text(begin),
                        " to ", time_text(end), ", ", days_left(end), "\n", "subject    ",
                        in_words(X509_get_subject_name(certificate)), "\n", "signed by  ",
                        in_words(X509_get_issuer_name(certificate)), "\n");
}

}  // namespace troupe
