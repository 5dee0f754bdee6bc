// Makes and describes the certificates of troupe/cluster.hpp: keys on the curve P-256, signed with
// SHA-256.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <openssl/pem.h>
#include <openssl/rand.h>

#include "net/certificates/certificate_text.hpp"
#include "net/certificates/certified_name.hpp"
#include "net/certificates/openssl.hpp"
#include "net/certificates/own_file.hpp"
#include "net/wire/address.hpp"
#include "troupe/cluster.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr int kDaysMax = 36'500;
constexpr long kClocksDiffer = 300;  // s; a certificate is valid from that long before it was made

template <class T>
T* made(T* object) {
  if (!object) throw Error(Errc::internal, "OpenSSL makes no certificate: ", openssl_error());
  return object;
}
void done(int result) { made(result > 0 ? &result : nullptr); }

void check_days(int days) {
  if (days < 1 || days > kDaysMax)
    throw Error(Errc::invalid_argument, "a certificate is valid for 1 to ", kDaysMax, " days, got ",
                days);
}

// "DNS:node3,IP:10.0.0.3"
std::string alternative_names(const CertifiedName& name, const std::vector<std::string>& hosts) {
  std::string out = "URI:" + name.uri();
  for (const std::string& host : hosts) {
    const Owned<ASN1_OCTET_STRING, ASN1_OCTET_STRING_free> ip(a2i_IPADDRESS(host.c_str()));
    if (!ip && !is_good_name(host))
      throw Error(Errc::invalid_argument, "\"", host,
                  "\" is no machine; write a name like node3.lan, or an address like 10.0.0.3 or "
                  "fd00::3, without a port");
    out += (ip ? ",IP:" : ",DNS:") + host;
  }
  return out;
}

struct Signer {
  X509* certificate;
  EVP_PKEY* key;
};

// `by`: null for a certificate that signs itself.
OwnedCertificate make_certificate(const CertifiedName& name, const std::vector<std::string>& hosts,
                                  int days, EVP_PKEY* key, const Signer* by) {
  OwnedCertificate out(made(X509_new()));
  X509* const c = out.get();
  done(X509_set_version(c, X509_VERSION_3));
  std::array<unsigned char, 16> number;
  done(RAND_bytes(number.data(), number.size()));
  number[0] &= 0x7f;  // a positive number
  const Owned<BIGNUM, BN_free> serial(made(BN_bin2bn(number.data(), number.size(), nullptr)));
  made(BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(c)));
  made(X509_gmtime_adj(X509_getm_notBefore(c), -kClocksDiffer));
  made(X509_time_adj_ex(X509_getm_notAfter(c), days, 0, nullptr));
  done(X509_set_pubkey(c, key));

  // Two authorities of one cluster have different names, or one would be taken for the other.
  std::string common = name.program.empty() ? name.job : name.program;
  if (name.is_authority())
    common = "authority " + std::to_string(number[0] << 16 | number[1] << 8 | number[2]);
  if (name.task != kAnyTask) common += detail::concat("-", name.task);
  X509_NAME* const subject = X509_get_subject_name(c);
  const auto entry = [&](const char* field, const std::string& value) {
    done(X509_NAME_add_entry_by_txt(subject, field, MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(value.c_str()), -1, -1,
                                    0));
  };
  entry("O", detail::concat("troupe ", name.cluster).substr(0, 64));
  entry("CN", common.substr(0, 64));
  done(X509_set_issuer_name(c, by ? X509_get_subject_name(by->certificate) : subject));

  X509V3_CTX context;
  X509V3_set_ctx(&context, by ? by->certificate : c, c, nullptr, nullptr, 0);
  const auto extension = [&](int kind, const std::string& value) {
    const Owned<X509_EXTENSION, X509_EXTENSION_free> e(
        made(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str())));
    done(X509_add_ext(c, e.get(), -1));
  };
  if (name.is_authority()) {
    extension(NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
    extension(NID_key_usage, "critical,keyCertSign,cRLSign");
  } else {
    extension(NID_basic_constraints, "critical,CA:FALSE");
    extension(NID_key_usage, "critical,digitalSignature");
    extension(NID_ext_key_usage, "serverAuth,clientAuth");
  }
  extension(NID_subject_key_identifier, "hash");
  if (by) extension(NID_authority_key_identifier, "keyid:always");
  extension(NID_subject_alt_name, alternative_names(name, hosts));
  done(X509_sign(c, by ? by->key : key, EVP_sha256()));
  return out;
}

OwnedKey make_key() { return OwnedKey(made(EVP_EC_gen("P-256"))); }

template <class Write>
std::string pem(Write write) {
  const OwnedBio bio(made(BIO_new(BIO_s_mem())));
  done(write(bio.get()));
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &bytes);
  return {bytes, static_cast<size_t>(size)};
}
std::string pem_of(X509* certificate) {
  return pem([&](BIO* to) { return PEM_write_bio_X509(to, certificate); });
}
std::string pem_of(EVP_PKEY* key) {
  return pem([&](BIO* to) {
    return PEM_write_bio_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

// Writes a new file; a failure leaves none.
void write_new(const fs::path& file, const std::string& text, mode_t mode) {
  errno = 0;
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  const bool whole = fd >= 0 &&
                     ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                     ::fsync(fd) == 0;
  const int why = errno ? errno : EIO;
  if (fd >= 0) ::close(fd);
  if (whole) return;
  if (fd >= 0) ::unlink(file.c_str());
  throw Error(Errc::io, "cannot write ", file.string(), ": ", std::strerror(why));
}

struct NewFile {
  fs::path path;
  std::string text;
  mode_t mode;
};

// Writes all files or none; `renew` replaces those that are there.
void write_all(const std::vector<NewFile>& files, bool renew) {
  std::vector<fs::path> written;
  try {
    for (const NewFile& f : files) {
      const fs::path to = renew ? fs::path(f.path.string() + ".new") : f.path;
      if (renew) ::unlink(to.c_str());  // of a call that was killed
      write_new(to, f.text, f.mode);
      written.push_back(to);
    }
  } catch (...) {
    for (const fs::path& path : written) ::unlink(path.c_str());
    throw;
  }
  if (!renew) return;
  for (size_t i = 0; i < files.size(); ++i)
    if (::rename(written[i].c_str(), files[i].path.c_str()) != 0)
      throw Error(Errc::io, "cannot replace ", files[i].path.string(), ": ", std::strerror(errno),
                  "; the new one is ", written[i].string());
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return;
  throw Error(Errc::io, "cannot make the folder ", folder.string(), ": ", std::strerror(errno));
}

bool is_there(const fs::path& file) {
  return fs::symlink_status(file).type() != fs::file_type::not_found;
}

void check_absent(const std::vector<NewFile>& files, const char* remedy) {
  for (const NewFile& f : files)
    if (is_there(f.path))
      throw Error(Errc::bad_configuration, f.path.string(), " is there already; ", remedy);
}

// The machines of a certificate that replaces the one in `file`: `hosts`, or for none those of the
// old one, as a certificate without hosts would be good anywhere. Throws: Error(invalid_argument)
// if the old one is not of `name`; an Error if it cannot be read and `hosts` is empty.
std::vector<std::string> renewed_hosts(const fs::path& file, const CertifiedName& name,
                                       const std::vector<std::string>& hosts) {
  if (!is_there(file)) return hosts;
  OwnedCertificate old;
  std::vector<std::string> its_hosts;
  try {
    old = first_certificate(read_own_file(file, "certificate", kCertificatesMax, Readers::anybody),
                            file.string());
    its_hosts = hosts_of(old.get());
  } catch (const Error& e) {
    if (!hosts.empty()) return hosts;
    throw Error(e.code(), e.what(), "; name the machines with --hosts, or remove the file");
  }
  const auto its = CertifiedName::of(old.get());
  if (its && *its != CertifiedName{its->cluster, name.job, name.task, name.program})
    throw Error(Errc::invalid_argument, "--renew: ", file.string(), " is of ", its->words(),
                ", not of ", name.words(), "; give the same name, or another folder");
  return hosts.empty() ? its_hosts : hosts;
}

// True if the process with that ca.pem trusts the authority. It may hold others, while a cluster
// changes from one to another.
bool has_authority(const fs::path& file, const X509* authority) {
  if (!is_there(file)) return false;
  const std::string text = read_own_file(file, "authority", kCertificatesMax, Readers::anybody);
  try {
    const auto all = all_certificates(text, file.string());
    return std::any_of(all.begin(), all.end(), [&](const OwnedCertificate& one) {
      return X509_cmp(one.get(), authority) == 0;
    });
  } catch (const Error&) {  // a damaged file
    return false;
  }
}

fs::path default_folder(const fs::path& authority, const CertifiedName& name) {
  if (!name.program.empty()) return authority / name.program;
  return authority / (name.task == kAnyTask ? detail::concat(name.job, "-all")
                                            : detail::concat(name.job, "-", name.task));
}

}  // namespace

void make_authority(const std::string& folder, const std::string& cluster, int days) {
  check_days(days);
  if (!is_good_name(cluster))
    throw Error(Errc::invalid_argument, "a cluster's name is 1 to ", kNameMax,
                " letters, digits, _ - or ., got \"", cluster, "\"");
  use_openssl();
  const OwnedKey key = make_key();
  const OwnedCertificate certificate =
      make_certificate(CertifiedName::authority(cluster), {}, days, key.get(), nullptr);
  const fs::path to(folder);
  const std::vector<NewFile> files = {{to / "ca.key", pem_of(key.get()), 0600},
                                      {to / "ca.pem", pem_of(certificate.get()), 0644}};
  make_folder(to);
  check_absent(files, "a second authority wants another folder");
  write_all(files, false);
}

std::string issue_certificate(const CertificateRequest& request) {
  check_days(request.days);
  use_openssl();
  const fs::path from(request.authority);
  const std::string authority_text =
      read_own_file(from / "ca.pem", "authority", kCertificatesMax, Readers::anybody);
  const OwnedCertificate authority = first_certificate(authority_text, (from / "ca.pem").string());
  const OwnedKey authority_key = private_key(from / "ca.key");
  const auto authority_name = CertifiedName::of(authority.get());
  if (!authority_name || !authority_name->is_authority())
    throw Error(Errc::bad_configuration, (from / "ca.pem").string(),
                " is no authority of Troupe; actor-node certs init makes one");
  if (X509_check_private_key(authority.get(), authority_key.get()) != 1)
    throw Error(Errc::bad_configuration, (from / "ca.key").string(), " is not the key of ",
                (from / "ca.pem").string());
  const CertifiedName name = CertifiedName::parse(authority_name->cluster, request.name);
  const fs::path to =
      request.folder.empty() ? default_folder(from, name) : fs::path(request.folder);
  const std::vector<std::string> hosts =
      request.renew ? renewed_hosts(to / "cert.pem", name, request.hosts) : request.hosts;
  const OwnedKey key = make_key();
  const Signer by{authority.get(), authority_key.get()};
  const OwnedCertificate certificate = make_certificate(name, hosts, request.days, key.get(), &by);
  if (ASN1_TIME_compare(X509_get0_notAfter(certificate.get()),
                        X509_get0_notAfter(authority.get())) > 0)
    throw Error(Errc::invalid_argument, "the authority expires before, on ",
                time_text(X509_get0_notAfter(authority.get())), "; give fewer days than ",
                request.days, ", or make another authority");
  std::vector<NewFile> files = {{to / "key.pem", pem_of(key.get()), 0600},
                                {to / "cert.pem", pem_of(certificate.get()), 0644}};
  if (!request.renew || !has_authority(to / "ca.pem", authority.get()))
    files.push_back({to / "ca.pem", authority_text, 0644});
  make_folder(to);
  if (!request.renew) check_absent(files, "to replace certificate and key, say --renew");
  write_all(files, request.renew);
  return to.string();
}

std::string describe_certificates(const std::string& file) {
  use_openssl();
  std::string out;
  for (const OwnedCertificate& c : all_certificates(
           read_own_file(file, "certificate", kCertificatesMax, Readers::anybody), file))
    out += certificate_text(c.get());
  return out;
}

}  // namespace troupe
