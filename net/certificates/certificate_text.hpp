// Certificates and keys in files of PEM, and certificates in words.
// Owner: none, functions only. Thread: any.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "net/certificates/openssl.hpp"

namespace troupe {

inline constexpr size_t kCertificatesMax = 1 << 20;  // bytes of a file

// `file` names the text in errors. Throws: Error(bad_data) if there is none, or a damaged one.
std::vector<OwnedCertificate> all_certificates(const std::string& text, const std::string& file);
OwnedCertificate first_certificate(const std::string& text, const std::string& file);
// Throws: as read_own_file(); Error(bad_data) for a file without a key, or with a password.
OwnedKey private_key(const std::string& file);

std::vector<std::string> hosts_of(const X509* certificate);  // names and addresses; empty: any
std::chrono::system_clock::time_point time_of(const ASN1_TIME* time);
std::string time_text(const ASN1_TIME* time);           // "2026-11-27 21:30 UTC"
std::string certificate_text(const X509* certificate);  // lines: name, hosts, times, who signed it

}  // namespace troupe
