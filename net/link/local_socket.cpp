// Names, makes and checks local sockets.
#include "net/link/local_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "net/wire/address.hpp"
#include "troupe/cluster.hpp"
#include "troupe/error.hpp"

namespace troupe {
namespace {

struct Name {
  sockaddr_un address{};
  socklen_t size = 0;

  // The name holds the host, too: another process may have the port of another address.
  explicit Name(const std::string& tcp) {
    const std::string text = "troupe " + tcp;
    address.sun_family = AF_UNIX;
    TROUPE_CHECK(text.size() < sizeof address.sun_path, "a name of a socket is too long: ", text);
    std::memcpy(address.sun_path + 1, text.data(), text.size());  // the first byte stays zero
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

int new_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

int failed(int fd, std::string& why, const char* act) {
  why = detail::concat(act, ": ", std::strerror(errno));
  if (fd >= 0) ::close(fd);
  return -1;
}

}  // namespace

LocalSockets local_sockets() {
  const char* const said = std::getenv(kLocalSocketsVariable);
  const std::string_view text = said ? said : "1";
  if (text == "0") return LocalSockets::off;
  if (text == "bytes") return LocalSockets::bytes;
  if (text == "1") return LocalSockets::in_place;
  throw Error(Errc::bad_configuration, kLocalSocketsVariable,
              " wants 0 (TCP), bytes, or 1 (large tensors are read in place), got \"", text, "\"");
}

int local_listener(const std::string& address, std::string& why) {
  const Name name(address);
  const int fd = new_socket();
  if (fd < 0 || ::bind(fd, name.get(), name.size) != 0 || ::listen(fd, SOMAXCONN) != 0)
    return failed(fd, why, "cannot listen");
  return fd;
}

int local_dial(const std::string& address, std::string& why) {
  const Name name(address);
  const int fd = new_socket();
  if (fd < 0 || ::connect(fd, name.get(), name.size) != 0) {
    const bool elsewhere = errno == ECONNREFUSED && !is_loopback_address(address);
    failed(fd, why, "cannot connect");
    if (elsewhere) why.clear();
    return -1;
  }
  if (is_same_user(fd)) return fd;
  ::close(fd);
  why = "a process of another user listens there";
  return -1;
}

int listen_local(const std::string& address) {
  std::string ignored;
  return local_sockets() != LocalSockets::off ? local_listener(address, ignored) : -1;
}

bool is_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

}  // namespace troupe
