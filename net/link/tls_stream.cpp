// Drives OpenSSL by a BIO that reads and writes the stream's buffers.
#include "net/link/tls_stream.hpp"

#include <algorithm>
#include <cstring>

#include <openssl/err.h>

#include "net/certificates/certificate_text.hpp"
#include "net/link/tls_words.hpp"

namespace troupe {
namespace {

constexpr size_t kStrangerBuffer = 4 << 10, kBuffer = 64 << 10;  // for bytes of the network
constexpr size_t kBatch = 64 << 10;                              // encrypted at one time
constexpr size_t kRecord = 16 << 10;                             // of plain bytes, the most
constexpr size_t kGathered = 4 << 10;                            // spans below this share a record

}  // namespace

const BIO_METHOD* TlsStream::bytes_of_stream() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* const m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "troupe");
    BIO_meth_set_write(m, [](BIO* bio, const char* bytes, int count) {
      auto& out = static_cast<TlsStream*>(BIO_get_data(bio))->out_;
      const auto* const begin = reinterpret_cast<const std::byte*>(bytes);
      out.insert(out.end(), begin, begin + count);
      return count;
    });
    BIO_meth_set_read(m, [](BIO* bio, char* to, int count) {
      ReceiveBuffer& in = static_cast<TlsStream*>(BIO_get_data(bio))->in_;
      BIO_clear_retry_flags(bio);
      const size_t n = std::min(in.unread().size(), static_cast<size_t>(count));
      if (n == 0) {
        BIO_set_retry_read(bio);
        return -1;
      }
      std::memcpy(to, in.unread().data(), n);
      in.skip(n);
      return static_cast<int>(n);
    });
    BIO_meth_set_ctrl(
        m, [](BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1L : 0L; });
    return m;
  }();
  return method;
}

TlsStream::TlsStream(std::shared_ptr<const TlsIdentity> identity, const std::string& dialled)
    : identity_(std::move(identity)),
      dialled_(dialled),
      ssl_(SSL_new(identity_->context.get())),
      in_(kStrangerBuffer) {
  BIO* const bio = BIO_new(bytes_of_stream());
  if (!ssl_ || !bio) {
    BIO_free(bio);
    fail("OpenSSL has no memory for a connection");
    return;
  }
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), &peer_fault_);
  if (dialled_.empty())
    SSL_set_accept_state(ssl_.get());
  else
    SSL_set_connect_state(ssl_.get());
}

void TlsStream::sent(size_t count) {
  sent_ += count;
  if (sent_ < out_.size()) return;
  out_.clear();
  sent_ = 0;
}

void TlsStream::shake() {
  if (state_ != State::shaking) return;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) return met();
  if (SSL_get_error(ssl_.get(), result) != SSL_ERROR_WANT_READ)
    fail(tls_error_words(identity_->name.words()));
}

void TlsStream::met() {
  const OwnedCertificate certificate(SSL_get1_peer_certificate(ssl_.get()));
  if (!certificate || SSL_get_verify_result(ssl_.get()) != X509_V_OK)
    return fail("its certificate is not verified");
  peer_ = CertifiedName::of(certificate.get());
  if (!peer_ || peer_->is_authority()) {
    peer_.reset();
    return fail("its certificate names no process of a cluster");
  }
  const std::vector<std::string> machines = hosts_of(certificate.get());
  if (!dialled_.empty() && !machines.empty() &&
      X509_check_ip_asc(certificate.get(), dialled_.c_str(), 0) != 1 &&
      X509_check_host(certificate.get(), dialled_.data(), dialled_.size(), 0, nullptr) != 1)
    return fail(detail::concat("the certificate of ", peer_->words(), " is for ", machines[0],
                               machines.size() > 1 ? " and others" : "", ", and not for ", dialled_,
                               "; issue one with --hosts ", dialled_));
  state_ = State::open;
  in_.resize(kBuffer);
}

size_t TlsStream::read(std::span<std::byte> to) {
  if (state_ != State::open || to.empty()) return 0;
  size_t count = 0;
  ERR_clear_error();
  if (SSL_read_ex(ssl_.get(), to.data(), to.size(), &count) == 1) {
    heard_ = true;
    return count;
  }
  switch (SSL_get_error(ssl_.get(), 0)) {
    case SSL_ERROR_WANT_READ:
      break;
    case SSL_ERROR_ZERO_RETURN:
      state_ = State::ended;
      break;
    default:
      fail(tls_error_words(identity_->name.words()));
  }
  return 0;
}

size_t TlsStream::write(Spans& from) {
  if (unkeyed_ >= identity_->rekey_bytes) {
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    unkeyed_ = 0;
  }
  out_.reserve(kBatch + kBatch / 16);
  size_t done = 0;
  while (done < kBatch && !from.empty() && state_ == State::open) {
    const auto part = from.front();
    if (part.size() >= kGathered) {
      const size_t count = std::min(part.size(), kBatch - done);
      if (!put(part.data(), count)) break;
      from.skip(count);
      done += count;
      continue;
    }
    gathered_.clear();
    while (!from.empty() && from.front().size() < kGathered &&
           gathered_.size() + from.front().size() <= kRecord) {
      const auto small = from.front();
      gathered_.insert(gathered_.end(), small.begin(), small.end());
      from.skip(small.size());
    }
    if (!put(gathered_.data(), gathered_.size())) break;
    done += gathered_.size();
  }
  unkeyed_ += static_cast<int64_t>(done);
  return done;
}

bool TlsStream::put(const std::byte* bytes, size_t count) {
  size_t written = 0;
  ERR_clear_error();
  if (SSL_write_ex(ssl_.get(), bytes, count, &written) == 1) return true;
  fail(tls_error_words(identity_->name.words()));
  return false;
}

void TlsStream::end() {
  if (state_ == State::open) SSL_shutdown(ssl_.get());
}

void TlsStream::fail(const std::string& words) {
  state_ = State::failed;
  fault_ = peer_fault_.empty() ? words : peer_fault_;
}

}  // namespace troupe
