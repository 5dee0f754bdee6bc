// Reads the certificates of this process, and reads them again when they have changed.
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include <openssl/err.h>

#include "net/certificates/certificate_text.hpp"
#include "net/certificates/own_file.hpp"
#include "net/link/tls.hpp"
#include "net/link/tls_words.hpp"
#include "troupe/cluster.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookEvery = 1s;
constexpr auto kWarnBefore = std::chrono::days(14);
constexpr auto kWarnEvery = std::chrono::days(1);
constexpr const char* kFiles[] = {"ca.pem", "cert.pem", "key.pem"};
// The first is the fastest with AES instructions.
constexpr const char* kSuites =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr long kPeerCertificatesMax = 16 << 10;  // bytes of a chain

void check_done(bool done, const std::string& what) {
  if (!done) throw Error(Errc::bad_configuration, what, ": ", openssl_error());
}

// Checks that the authority signs the certificate, and returns the first end of both.
const X509* first_to_expire(SSL_CTX* context, X509* certificate, const std::string& file,
                            std::vector<OwnedCertificate>& keep) {
  const Owned<X509_STORE_CTX, X509_STORE_CTX_free> check(X509_STORE_CTX_new());
  STACK_OF(X509)* others = nullptr;
  SSL_CTX_get0_chain_certs(context, &others);
  check_done(
      X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context), certificate, others) == 1,
      file);
  if (X509_verify_cert(check.get()) != 1)
    throw Error(Errc::bad_configuration, file, ": ",
                fault_words(X509_STORE_CTX_get_error(check.get()),
                            X509_STORE_CTX_get_current_cert(check.get())),
                "; actor-node certs issue makes one");
  const X509* out = certificate;
  STACK_OF(X509)* const chain = X509_STORE_CTX_get0_chain(check.get());
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    X509* const link = sk_X509_value(chain, i);
    if (ASN1_TIME_compare(X509_get0_notAfter(link), X509_get0_notAfter(out)) >= 0) continue;
    X509_up_ref(link);
    out = keep.emplace_back(link).get();
  }
  return out;
}

std::shared_ptr<const TlsIdentity> read_identity(const std::string& folder) {
  use_openssl();
  const std::string ca = folder + "/ca.pem", cert = folder + "/cert.pem",
                    key_file = folder + "/key.pem";
  auto out = std::make_shared<TlsIdentity>();
  out->context.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* const c = out->context.get();
  check_done(c && SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1 &&
                 SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) == 1 &&
                 SSL_CTX_set_ciphersuites(c, kSuites) == 1 && SSL_CTX_set_num_tickets(c, 0) == 1,
             "OpenSSL offers no TLS 1.3");
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(c, SSL_MODE_AUTO_RETRY | SSL_MODE_NO_AUTO_CHAIN | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_max_cert_list(c, kPeerCertificatesMax);
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, note_fault);

  X509_STORE* const store = SSL_CTX_get_cert_store(c);
  for (const OwnedCertificate& authority :
       all_certificates(read_own_file(ca, "authority", kCertificatesMax, Readers::anybody), ca))
    check_done(X509_STORE_add_cert(store, authority.get()) == 1, ca);
  std::vector<OwnedCertificate> own = all_certificates(
      read_own_file(cert, "certificate", kCertificatesMax, Readers::anybody), cert);
  check_done(SSL_CTX_use_certificate(c, own[0].get()) == 1, cert);
  for (size_t i = 1; i < own.size(); ++i)
    check_done(SSL_CTX_add1_chain_cert(c, own[i].get()) == 1, cert);
  const OwnedKey key = private_key(key_file);
  if (X509_check_private_key(own[0].get(), key.get()) != 1)
    throw Error(Errc::bad_configuration, key_file, " is not the key of ", cert);
  check_done(SSL_CTX_use_PrivateKey(c, key.get()) == 1, key_file);
  const auto name = CertifiedName::of(own[0].get());
  if (!name || name->is_authority())
    throw Error(
        Errc::bad_configuration, cert,
        " names no process of a cluster (troupe://CLUSTER/job/JOB/task/N); actor-node certs "
        "issue makes one");
  out->name = *name;
  std::vector<OwnedCertificate> keep;
  const X509* const first = first_to_expire(c, own[0].get(), cert, keep);
  out->expires = time_of(X509_get0_notAfter(first));
  out->expires_text = time_text(X509_get0_notAfter(first));
  return out;
}

}  // namespace

TlsFiles::TlsFiles(std::string folder) : folder_(std::move(folder)), read_(stamp()), seen_(read_) {
  try {
    current_ = read_identity(folder_);
  } catch (const Error& e) {
    if (e.code() != Errc::bad_data) throw;
    throw Error(Errc::bad_configuration, e.what());
  }
}

TlsFiles::~TlsFiles() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const TlsIdentity> TlsFiles::current() const {
  std::lock_guard lock(mutex_);
  return current_;
}

void TlsFiles::check_name(const std::string& cluster, const std::string& job, int32_t task) const {
  const CertifiedName name = current()->name;
  if (name.covers(cluster, job, task == kAnyTask ? name.task : task)) return;
  const CertifiedName own{cluster, job, task, ""};
  const bool program = job == kProgramJob;
  throw Error(Errc::bad_configuration, "the certificate in ", folder_, " is that of ", name.words(),
              ", and this process is ",
              program ? detail::concat("a program in cluster \"", cluster, "\"") : own.words(),
              "; actor-node certs issue makes one for ",
              program ? "programs, under a name of your own, such as digits" : "it");
}

void TlsFiles::watch(std::shared_ptr<spdlog::logger> log) {
  thread_ = std::thread([this, log = std::move(log)] {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      lock.unlock();
      try {
        look(*log);
      } catch (const std::exception& e) {
        log->error("certificates cannot be looked at: folder={} error={}", folder_, e.what());
      }
      lock.lock();
      changed_.wait_for(lock, kLookEvery, [this] { return ended_; });
    }
  });
}

void TlsFiles::look(spdlog::logger& log) {
  const std::string now_there = stamp();
  // While files are replaced one by one, they do not fit together.
  if (std::exchange(seen_, now_there) == now_there && now_there != read_) {
    try {
      auto next = read_identity(folder_);
      const CertifiedName before = current()->name;
      if (next->name != before)
        throw Error(Errc::bad_configuration, "it is that of ", next->name.words(), ", and not of ",
                    before.words());
      log.info("certificates read again: folder={} expires={}", folder_, next->expires_text);
      warned_ = {};
      read_ = now_there;
      fault_.clear();
      std::lock_guard lock(mutex_);
      current_ = std::move(next);
    } catch (const Error& e) {
      // An error of the system, as of too many open files, may be over at the next look.
      if (e.code() != Errc::io) read_ = now_there;
      const std::string fault = now_there + e.what();
      if (std::exchange(fault_, fault) != fault)
        log.error("new certificates cannot be used, the old ones stay: folder={} error={}", folder_,
                  e.what());
    }
  }
  const auto now = std::chrono::system_clock::now();
  const auto identity = current();
  const bool expired = identity->expires <= now, said = warned_ >= identity->expires;
  if (identity->expires - now > kWarnBefore) return;
  if (now - warned_ < kWarnEvery && expired == said) return;
  warned_ = now;
  if (expired)
    log.error("the certificate has expired, no new link comes up: folder={} expired={}", folder_,
              identity->expires_text);
  else
    log.warn("the certificate expires soon, issue another one: folder={} expires={} days={}",
             folder_, identity->expires_text,
             std::chrono::floor<std::chrono::days>(identity->expires - now).count());
}

// Size, time of the last change and number of each file. A copy may set the time of writing back.
std::string TlsFiles::stamp() const {
  std::string out;
  for (const char* name : kFiles) {
    struct stat is {};
    if (::stat((folder_ + "/" + name).c_str(), &is) == 0)
      out += detail::concat(is.st_ino, " ", is.st_size, " ", is.st_ctim.tv_sec, ".",
                            is.st_ctim.tv_nsec, " ", is.st_mode);
    out += "\n";
  }
  return out;
}

std::shared_ptr<TlsFiles> read_tls(const std::string& folder, const std::string& cluster,
                                   const std::string& job, int32_t task) {
  const char* const named = std::getenv(kTlsVariable);
  if (folder.empty() && !named) return nullptr;
  const std::string path = folder.empty() ? named : folder;
  if (path.empty())
    throw Error(Errc::bad_configuration, kTlsVariable,
                " is empty; let it name the folder of ca.pem, cert.pem and key.pem, or unset it");
  auto out = std::make_shared<TlsFiles>(path);
  out->check_name(cluster, job, task);
  return out;
}

int certified_task(const NodeOptions& options) {
  const auto tls = read_tls(options.tls_dir, options.cluster, options.job, options.task);
  return tls ? tls->current()->name.task : kAnyTask;
}

}  // namespace troupe
