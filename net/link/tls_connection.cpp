// encrypt() of net/link/tls.hpp: a connection whose bytes go through a TlsStream to another
// connection.
//
// The sender's thread encrypts, the net thread decrypts; both hold the mutex for a batch or a
// record.
#include <mutex>
#include <utility>

#include "net/link/greetings.hpp"
#include "net/link/tls_stream.hpp"

namespace troupe {
namespace {

constexpr const char* kRemedy = "; give both --tls or TROUPE_TLS_DIR";

class TlsConnection final : public Connection, public std::enable_shared_from_this<TlsConnection> {
 public:
  TlsConnection(ConnectionPtr plain, std::shared_ptr<const TlsIdentity> identity, const Hello& self,
                const std::string& dialled)
      : plain_(std::move(plain)),
        self_(self),
        dialler_(!dialled.empty()),
        stream_(std::move(identity), dialler_ ? parse_address(dialled).host : "") {}
  ~TlsConnection() override { plain_->close(); }

  void start(ConnectionHandlers handlers) override {
    handlers_ = std::move(handlers);
    const std::weak_ptr<TlsConnection> weak = weak_from_this();
    ConnectionHandlers below;
    below.room = [weak] {
      const auto self = weak.lock();
      return self ? Room{self->stream_.arrived().room(), {}} : Room{};
    };
    below.on_bytes = [weak](size_t count) {
      if (const auto self = weak.lock()) self->arrived(count);
    };
    below.on_drained = [weak] {
      if (const auto self = weak.lock()) self->drained();
    };
    below.on_closed = [weak](const std::string& reason) {
      if (const auto self = weak.lock()) self->finish(reason);
    };
    plain_->start(std::move(below));
    if (!dialler_) return;
    std::lock_guard lock(mutex_);
    stream_.shake();
    flush();
  }

  size_t write(std::span<const std::span<const std::byte>> parts,
               std::span<const int> /*descriptors*/) override {
    std::lock_guard lock(mutex_);
    Spans rest(parts);
    size_t done = 0;
    while (!closed_ && flush() && !rest.empty() && stream_.state() == TlsStream::State::open)
      done += stream_.write(rest);
    waited_for_ = !rest.empty();
    return done;
  }

  void close() override {
    std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    stream_.end();
    flush();
    plain_->close();
  }

  std::string peer_address() const override { return plain_->peer_address(); }
  const CertifiedName* certified() const override { return stream_.peer(); }
  bool distrusted() const override { return plain_peer_ || stream_.distrusted(); }

 private:
  using Room = ConnectionHandlers::Room;

  // The rest runs on the net thread, except flush().

  // Requires: the mutex. Returns true if nothing is left.
  bool flush() {
    const auto bytes = stream_.to_send();
    if (bytes.empty()) return true;
    stream_.sent(plain_->write(std::span(&bytes, 1), {}));
    return stream_.to_send().empty();
  }

  void arrived(size_t count) {
    bool opened = false;
    {
      std::lock_guard lock(mutex_);
      if (closed_) return;
      stream_.arrived().filled(count);
      if (stream_.state() == TlsStream::State::shaking) {
        if (is_plain_greeting()) return;
        if (!plain_peer_) stream_.shake();
        flush();
        opened = stream_.state() == TlsStream::State::open && std::exchange(waited_for_, false);
      }
    }
    if (plain_peer_) return finish(plain_words());
    if (opened) handlers_.on_drained();
    while (hand_on()) {
    }
    std::string end;
    {
      std::lock_guard lock(mutex_);
      if (stream_.state() == TlsStream::State::failed) end = stream_.fault();
      if (stream_.state() == TlsStream::State::ended) end = "closed by the peer";
    }
    if (!end.empty()) finish(end);
  }

  // Decrypts into the reader's buffers, as far as they go. Returns false if nothing came.
  bool hand_on() {
    if (is_closed()) return false;
    const Room room = handlers_.room();
    size_t got = fill(room.first);
    if (got == room.first.size()) got += fill(room.second);
    if (got == 0) return false;
    handlers_.on_bytes(got);
    return true;
  }

  size_t fill(std::span<std::byte> room) {
    size_t got = 0;
    for (size_t n = 1; n > 0; got += n) {
      std::lock_guard lock(mutex_);
      n = closed_ ? 0 : stream_.read(room.subspan(got));
    }
    return got;
  }

  // A process without TLS sends a greeting, or the refusal of our first bytes. Returns true while
  // more of it must come. The greeting is read to its end, or the answer would be lost with it.
  bool is_plain_greeting() {
    const auto bytes = stream_.arrived().unread();
    const Refusal kind = check_prefix(bytes);
    if (heard_ || kind == Refusal::not_ours) {
      heard_ = true;
      return false;
    }
    const bool whole = bytes.size() >= kGreetingBytes || kind == Refusal::other_version;
    if (!whole && !(dialler_ && bytes.size() >= kMagicBytes)) return true;
    plain_peer_ = true;
    if (dialler_) return false;
    const GreetingPacket answer = encode(refusal(self_, Refusal::untrusted, plain_words()));
    const std::span<const std::byte> part(answer);
    plain_->write(std::span(&part, 1), {});
    return false;
  }

  std::string plain_words() const {
    return dialler_
               ? detail::concat("the process there has no TLS, and ", self_.name(), " has", kRemedy)
               : detail::concat(self_.name(), " has TLS, and the process that dialled it has none",
                                kRemedy);
  }

  void drained() {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || !flush() || stream_.state() != TlsStream::State::open ||
          !std::exchange(waited_for_, false))
        return;
    }
    handlers_.on_drained();
  }

  void finish(const std::string& reason) {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(closed_, true)) return;
      flush();  // the alert that says why
    }
    plain_->close();
    handlers_.on_closed(reason);
  }

  bool is_closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

  static constexpr size_t kMagicBytes = 8;

  const ConnectionPtr plain_;
  const Hello self_;
  const bool dialler_;
  ConnectionHandlers handlers_;  // net thread, as the next two
  bool heard_ = false;           // bytes that are no plain greeting
  bool plain_peer_ = false;
  mutable std::mutex mutex_;  // guards the rest; arrived() of the stream belongs to the net thread
  TlsStream stream_;
  bool closed_ = false;
  bool waited_for_ = false;  // a write was short
};

}  // namespace

ConnectionPtr encrypt(ConnectionPtr plain, std::shared_ptr<const TlsIdentity> identity,
                      const Hello& self, const std::string& dialled) {
  return std::make_shared<TlsConnection>(std::move(plain), std::move(identity), self, dialled);
}

}  // namespace troupe
