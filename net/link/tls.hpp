// TLS: certificates of this process, and connections that they encrypt. Both ends show a
// certificate; TLS 1.3 alone is spoken.
//
// Owner: TlsFiles: the options of a mesh; an identity: the connections made with it. Thread: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <spdlog/logger.h>

#include "net/certificates/certified_name.hpp"
#include "net/link/hello.hpp"
#include "net/certificates/openssl.hpp"
#include "net/link/tls_folder.hpp"

namespace troupe {

// The files of a folder, as they were read once. It never changes.
struct TlsIdentity {
  OwnedContext context;
  CertifiedName name;
  std::chrono::system_clock::time_point expires;  // the first of its certificates
  std::string expires_text;
  int64_t rekey_bytes = int64_t{64}
                        << 30;  // sent with one key; AES-GCM is safe for five times that
};

class TlsFiles {
 public:
  // Reads ca.pem, cert.pem and key.pem of `folder`. Throws: Error(io); Error(bad_configuration),
  // also for a certificate that is expired, or that ca.pem does not sign.
  explicit TlsFiles(std::string folder);
  ~TlsFiles();
  TlsFiles(const TlsFiles&) = delete;

  std::shared_ptr<const TlsIdentity> current() const;
  // Throws: Error(bad_configuration) if the certificate names another process. `task`: kAnyTask if
  // it is not known yet.
  void check_name(const std::string& cluster, const std::string& job, int32_t task) const;
  // Looks at the files again and again, on a thread of its own, until this object ends.
  void watch(std::shared_ptr<spdlog::logger> log);
  // Reads the files again if they have changed since they were read, and have not since the last
  // look; files that cannot be used are logged, and change nothing. Warns before the end of a
  // certificate.
  void look(spdlog::logger& log);

 private:
  std::string stamp() const;

  const std::string folder_;
  mutable std::mutex mutex_;  // guards the next three
  std::condition_variable changed_;
  std::shared_ptr<const TlsIdentity> current_;
  bool ended_ = false;
  std::thread thread_;
  // By look() alone: the files as they were read, and as they were seen last; the last fault that
  // was logged, with the files that had it.
  std::string read_, seen_, fault_;
  std::chrono::system_clock::time_point warned_{};
};

// The connection encrypted with `identity`. `self`: this process, for words to a process without
// TLS. `dialled`: the address, which the certificate of the other end must allow; empty: the
// connection was accepted.
ConnectionPtr encrypt(ConnectionPtr plain, std::shared_ptr<const TlsIdentity> identity,
                      const Hello& self, const std::string& dialled);

}  // namespace troupe
