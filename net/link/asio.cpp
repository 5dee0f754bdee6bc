// NetThread on Boost.Asio: TCP, local sockets and timers on one thread.
//
// A connection writes on the sender's thread with one sendmsg, and reads with one readv straight
// into the link's buffers. Asio only reports when a socket is ready.
#include "net/link/net_thread.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#if defined(__SANITIZE_THREAD__)
#define BOOST_ASIO_DISABLE_FENCED_BLOCK  // g++ warns that it cannot follow fences; Asio's queues
                                         // have mutexes
#endif
#include <boost/asio.hpp>

#include "net/link/local_socket.hpp"
#include "net/wire/address.hpp"
#include "devices/threads/burst.hpp"

namespace troupe {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using local = asio::local::stream_protocol;
using Socket = asio::generic::stream_protocol::socket;

constexpr int kReadsPerTurn = 16;      // from one socket, before other sockets get their turn
constexpr size_t kWriteSpansMax = 64;  // in one sendmsg

// The descriptors that go with a message, SCM_RIGHTS.
class Rights {
 public:
  Rights() = default;
  explicit Rights(std::span<const int> descriptors) : count_(descriptors.size()) {
    if (count_ == 0) return;
    TROUPE_CHECK(count_ <= kMost, "too many descriptors for one message: ", count_);
    auto* const head = reinterpret_cast<cmsghdr*>(room_.data());
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count_ * sizeof(int));
    std::memcpy(CMSG_DATA(head), descriptors.data(), count_ * sizeof(int));
  }
  void add_to(msghdr& message) const {
    message.msg_control = const_cast<char*>(room_.data());
    message.msg_controllen = CMSG_SPACE((count_ > 0 ? count_ : kMost) * sizeof(int));
  }
  // Passes on the descriptors of a message that was received. Returns whether there were any.
  static bool hand_over(msghdr& message, const std::function<void(Descriptor)>& to) {
    bool any = false;
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
      for (size_t at = 0; at + sizeof(int) <= head->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
        int number = -1;
        std::memcpy(&number, CMSG_DATA(head) + at, sizeof number);
        any = true;
        if (Descriptor descriptor(number); to) to(std::move(descriptor));
      }
    }
    return any;
  }

 private:
  static constexpr size_t kMost = Connection::kDescriptorsMax;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMost * sizeof(int))> room_{};
  size_t count_ = 0;
};

class AsioConnection final : public Connection,
                             public std::enable_shared_from_this<AsioConnection> {
 public:
  AsioConnection(asio::io_context& io, Socket socket, std::string peer, bool is_local)
      : io_(io), peer_(std::move(peer)), local_(is_local), socket_(std::move(socket)) {
    boost::system::error_code ignored;
    socket_.non_blocking(true, ignored);
  }
  static ConnectionPtr of_tcp(asio::io_context& io, tcp::socket socket) {
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const auto end = socket.remote_endpoint(ignored);
    std::string peer =
        ignored ? "a stranger" : format_address(end.address().to_string(), end.port());
    return std::make_shared<AsioConnection>(io, std::move(socket), std::move(peer), false);
  }

  void start(ConnectionHandlers handlers) override {
    handlers_ = std::make_shared<ConnectionHandlers>(std::move(handlers));
    wait_read();
  }

  size_t write(std::span<const std::span<const std::byte>> parts,
               std::span<const int> descriptors) override {
    std::lock_guard lock(mutex_);
    const Rights rights(descriptors);
    size_t done = 0;
    for (size_t at = 0; at < parts.size() && !closed_;) {
      std::array<iovec, kWriteSpansMax> spans;
      size_t count = 0, wanted = 0;
      for (; count < spans.size() && at + count < parts.size(); ++count) {
        const auto part = parts[at + count];
        spans[count] = {const_cast<std::byte*>(part.data()), part.size()};
        wanted += part.size();
      }
      msghdr message{};
      message.msg_iov = spans.data();
      message.msg_iovlen = count;
      if (done == 0 && !descriptors.empty()) rights.add_to(message);
      ssize_t n;
      do {
        n = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      } while (n < 0 && errno == EINTR);
      if (n > 0) done += static_cast<size_t>(n);
      if (n >= 0 && static_cast<size_t>(n) == wanted) {
        at += count;
        continue;
      }
      if (n >= 0 || errno == EAGAIN || errno == EWOULDBLOCK)
        wait_write();
      else if (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM)
        try_later();  // the system has no room for it, though the socket has
      // Other errors show up on the reading side, which reports them.
      return done;
    }
    return done;
  }

  void close() override {
    std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    asio::post(io_, [self = shared_from_this()] { self->finish(); });
  }

  std::string peer_address() const override { return peer_; }
  bool is_local() const override { return local_; }

 private:
  // The rest runs on the net thread, except wait_write().

  void finish() {
    std::lock_guard lock(mutex_);
    boost::system::error_code ignored;
    socket_.shutdown(Socket::shutdown_both, ignored);
    socket_.close(ignored);
    handlers_.reset();
  }

  void wait_write() {
    asio::post(io_, [self = shared_from_this()] {
      if (!self->socket_.is_open()) return;
      self->socket_.async_wait(Socket::wait_write, [self](const boost::system::error_code& error) {
        if (const auto handlers = self->handlers_; handlers && !error && !self->is_closed())
          handlers->on_drained();
      });
    });
  }

  void try_later() {
    auto pause = std::make_shared<asio::steady_timer>(io_, std::chrono::milliseconds(10));
    pause->async_wait([self = shared_from_this(), pause](const boost::system::error_code&) {
      if (const auto handlers = self->handlers_; handlers && !self->is_closed())
        handlers->on_drained();
    });
  }

  void wait_read() {
    socket_.async_wait(Socket::wait_read,
                       [self = shared_from_this()](const boost::system::error_code& error) {
                         if (self->is_closed()) return;
                         if (error) return self->fail(error.message());
                         self->read_some();
                       });
  }

  void read_some() {
    for (int i = 0; i < kReadsPerTurn; ++i) {
      const auto handlers = handlers_;
      if (!handlers || is_closed()) return;
      const ConnectionHandlers::Room room = handlers->room();
      std::array<iovec, 2> spans = {iovec{room.first.data(), room.first.size()},
                                    iovec{room.second.data(), room.second.size()}};
      msghdr message{};
      message.msg_iov = spans.data();
      message.msg_iovlen = room.second.empty() ? 1 : 2;
      Rights rights;
      if (local_) rights.add_to(message);
      const ssize_t n = ::recvmsg(socket_.native_handle(), &message, MSG_CMSG_CLOEXEC);
      if (n > 0) {
        const bool any = local_ && rights.hand_over(message, handlers->on_descriptor);
        if (message.msg_flags & MSG_CTRUNC)
          return fail("descriptors are lost: this process may have no more of them (ulimit -n)");
        {
          const Burst burst;  // answers to data of one read leave together
          handlers->on_bytes(static_cast<size_t>(n));
        }
        if (static_cast<size_t>(n) < room.first.size() + room.second.size() && !any)
          break;  // the socket is empty now; a read ends with descriptors, too
        continue;
      }
      if (n == 0) return fail("closed by the peer");
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      return fail(std::strerror(errno));
    }
    if (!is_closed()) wait_read();
  }

  void fail(const std::string& reason) {
    const auto handlers = handlers_;
    close();
    if (handlers) handlers->on_closed(reason);
  }

  bool is_closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

  asio::io_context& io_;
  const std::string peer_;
  const bool local_;
  std::shared_ptr<ConnectionHandlers> handlers_;  // net thread
  mutable std::mutex mutex_;  // guards the rest: a writer must never use a closed descriptor
  Socket socket_;
  bool closed_ = false;
};

// The end of a local connection that was accepted, in words that are an address on loopback.
constexpr const char* kLocalPeer = "localhost:local";

class AsioListener final : public Listener {
 public:
  // `local_fd`: a local socket that listens already; -1: none.
  AsioListener(asio::io_context& io, tcp::acceptor acceptor, int local_fd,
               std::function<void(ConnectionPtr)> on_accept)
      : tcp_(std::make_shared<State<tcp>>(io, std::move(acceptor), on_accept)),
        local_(std::make_shared<State<local>>(io, local::acceptor(io), std::move(on_accept))),
        local_fd_(local_fd) {
    if (local_fd_ >= 0) ::fcntl(local_fd_, F_SETFD, FD_CLOEXEC);
    accept(tcp_);
  }
  ~AsioListener() override {
    tcp_->close();
    local_->close();
    if (local_fd_ >= 0) ::close(local_fd_);
  }
  std::string address() const override {
    const auto end = tcp_->acceptor.local_endpoint();
    return format_address(end.address().to_string(), end.port());
  }
  std::string accept_local() override {
    if (local_sockets() == LocalSockets::off) return detail::concat(kLocalSocketsVariable, " is 0");
    if (tcp_->acceptor.local_endpoint().address().is_unspecified())
      return "the address that is dialled is not known";
    std::string why;
    const int fd = local_fd_ >= 0 ? std::exchange(local_fd_, -1) : local_listener(address(), why);
    if (fd < 0) return why;
    boost::system::error_code error;
    local_->acceptor.assign(local(), fd, error);
    if (error) {
      ::close(fd);
      return error.message();
    }
    accept(local_);
    return {};
  }

 private:
  template <class Protocol>
  struct State {
    State(asio::io_context& i, typename Protocol::acceptor a, std::function<void(ConnectionPtr)> f)
        : io(i), acceptor(std::move(a)), on_accept(std::move(f)) {}
    void close() {
      boost::system::error_code ignored;
      acceptor.close(ignored);
      on_accept = nullptr;
    }
    asio::io_context& io;
    typename Protocol::acceptor acceptor;
    std::function<void(ConnectionPtr)> on_accept;
  };
  static void hand_over(State<tcp>& to, tcp::socket socket) {
    to.on_accept(AsioConnection::of_tcp(to.io, std::move(socket)));
  }
  static void hand_over(State<local>& to, local::socket socket) {
    if (is_same_user(socket.native_handle()))
      to.on_accept(std::make_shared<AsioConnection>(to.io, std::move(socket), kLocalPeer, true));
  }
  template <class Protocol>
  static void accept(const std::shared_ptr<State<Protocol>>& state) {
    state->acceptor.async_accept([state](const boost::system::error_code& error,
                                         typename Protocol::socket socket) {
      if (!state->acceptor.is_open() || !state->on_accept) return;
      if (!error || error == asio::error::connection_aborted) accept(state);
      if (!error) hand_over(*state, std::move(socket));
      if (!error || error == asio::error::connection_aborted) return;
      // For example, no file descriptors are left: without a pause this would spin.
      auto pause = std::make_shared<asio::steady_timer>(state->io, std::chrono::milliseconds(100));
      pause->async_wait([state, pause](const boost::system::error_code&) {
        if (state->acceptor.is_open()) accept(state);
      });
    });
  }

  const std::shared_ptr<State<tcp>> tcp_;
  const std::shared_ptr<State<local>> local_;
  int local_fd_;  // -1: none, or taken over
};

class AsioThread final : public NetThread, public Transport, public Clock {
 public:
  AsioThread(int listen_fd, int local_fd)
      : listen_fd_(listen_fd),
        local_fd_(local_fd),
        work_(asio::make_work_guard(io_)),
        thread_([this] { serve(); }) {}
  ~AsioThread() override {
    work_.reset();
    io_.stop();
    thread_.join();
    for (const int fd : {listen_fd_, local_fd_})
      if (fd >= 0) ::close(fd);
  }
  Transport& transport() override { return *this; }
  Clock& clock() override { return *this; }
  void on_exception(std::function<void(const std::string&)> tell) override {
    std::lock_guard lock(mutex_);
    on_exception_ = std::move(tell);
  }

  // Clock

  TimePoint now() const override { return std::chrono::steady_clock::now(); }

  TimerPtr after(std::chrono::nanoseconds delay, std::function<void()> fn) override {
    auto state = std::make_shared<TimerState>(io_, std::move(fn));
    asio::post(io_, [state, delay] {
      if (!state->fn) return;
      state->timer.expires_after(delay);
      state->timer.async_wait([state](const boost::system::error_code&) {
        if (const auto fn = std::exchange(state->fn, nullptr)) fn();
      });
    });
    return std::make_unique<AsioTimer>(state);
  }

  // Transport

  std::unique_ptr<Listener> listen(const std::string& address,
                                   std::function<void(ConnectionPtr)> on_accept) override {
    const HostPort where = parse_address(address);
    std::unique_ptr<Listener> out;
    boost::system::error_code error;
    tcp::resolver resolver(io_);
    const auto found =
        resolver.resolve(where.host, std::to_string(where.port), tcp::resolver::passive, error);
    if (error)
      throw Error(Errc::bad_configuration, "cannot listen on ", address, ": ", error.message(),
                  "; give an address of this machine, like 127.0.0.1:7000");
    tcp::acceptor acceptor(io_);
    const tcp::endpoint end = found.begin()->endpoint();
    if (listen_fd_ >= 0) {
      take_over(acceptor, end);
    } else {
      acceptor.open(end.protocol(), error);
      if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
      if (!error) acceptor.bind(end, error);
      if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    }
    if (error == asio::error::address_in_use)
      throw Error(Errc::io, "cannot listen on ", address,
                  ": the port is in use; stop the other process or choose another port "
                  "(port 0: any free one)");
    if (error) throw Error(Errc::io, "cannot listen on ", address, ": ", error.message());
    run([&] {
      out = std::make_unique<AsioListener>(io_, std::move(acceptor), std::exchange(local_fd_, -1),
                                           std::move(on_accept));
    });
    return out;
  }

  void dial(const std::string& address, std::chrono::nanoseconds timeout,
            std::function<void(ConnectionPtr, const std::string&)> on_done) override {
    auto attempt = std::make_shared<Attempt>(io_, std::move(on_done));
    HostPort where;
    try {
      where = parse_address(address);
    } catch (const Error& e) {
      return asio::post(
          io_, [attempt, text = std::string(e.what())] { attempt->finish(nullptr, text); });
    }
    asio::post(io_, [this, attempt, where, timeout] {
      attempt->deadline.expires_after(timeout);
      attempt->deadline.async_wait([attempt](const boost::system::error_code& error) {
        if (!error) attempt->finish(nullptr, "no answer in time");
      });
      attempt->resolver.async_resolve(
          where.host, std::to_string(where.port),
          [this, attempt](const boost::system::error_code& error,
                          const tcp::resolver::results_type& found) {
            if (error) return attempt->finish(nullptr, error.message());
            std::string remote;  // the reason why the connection is not a local one
            if (ConnectionPtr here = connect_local(found, remote))
              return attempt->finish(std::move(here), "");
            asio::async_connect(
                attempt->socket, found,
                [this, attempt, remote](const boost::system::error_code& e, const tcp::endpoint&) {
                  if (e) return attempt->finish(nullptr, e.message());
                  if (attempt->on_done)
                    attempt->finish(AsioConnection::of_tcp(io_, std::move(attempt->socket)),
                                    remote);
                });
          });
    });
  }

  void post(std::function<void()> fn) override { asio::post(io_, std::move(fn)); }

  void run(const std::function<void()>& fn) override {
    if (std::this_thread::get_id() == thread_.get_id()) return fn();
    std::promise<void> done;
    auto future = done.get_future();
    asio::post(io_, [&] {
      try {
        fn();
        done.set_value();
      } catch (...) {  // rethrown on the caller's thread
        done.set_exception(std::current_exception());
      }
    });
    future.get();
  }

 private:
  // Functions that throw lose their own work, and no other.
  void serve() {
    for (;;) try {
        io_.run();
        return;
      } catch (const std::exception& e) {
        threw(e.what());
      } catch (...) {
        threw("something that is no std::exception");
      }
  }
  void threw(const char* text) {
    std::lock_guard lock(mutex_);
    if (on_exception_) on_exception_(text);
  }
  ConnectionPtr connect_local(const tcp::resolver::results_type& found, std::string& why) {
    if (!local_sockets_) return nullptr;
    for (const auto& entry : found) {
      const tcp::endpoint end = entry.endpoint();
      const std::string address = format_address(end.address().to_string(), end.port());
      const int fd = local_dial(address, why);
      if (fd < 0) continue;
      local::socket socket(io_, local(), fd);
      return std::make_shared<AsioConnection>(io_, std::move(socket), address, true);
    }
    return nullptr;
  }
  void take_over(tcp::acceptor& acceptor, const tcp::endpoint& wanted) {
    const int fd = std::exchange(listen_fd_, -1);
    int listens = 0;
    socklen_t size = sizeof listens;
    boost::system::error_code error;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0) {
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
      acceptor.assign(wanted.protocol(), fd, error);
      if (!error && acceptor.local_endpoint(error) == wanted && !error) return;
    }
    throw Error(Errc::bad_configuration, "file ", fd, " is no socket that listens at ",
                format_address(wanted.address().to_string(), wanted.port()));
  }

  struct TimerState {
    TimerState(asio::io_context& io, std::function<void()> f) : timer(io), fn(std::move(f)) {}
    asio::steady_timer timer;
    std::function<void()> fn;
  };
  struct AsioTimer final : Timer {
    explicit AsioTimer(std::shared_ptr<TimerState> s) : state(std::move(s)) {}
    ~AsioTimer() override {
      state->fn = nullptr;
      state->timer.cancel();
    }
    std::shared_ptr<TimerState> state;
  };
  struct Attempt {
    Attempt(asio::io_context& io, std::function<void(ConnectionPtr, const std::string&)> done)
        : resolver(io), socket(io), deadline(io), on_done(std::move(done)) {}
    void finish(ConnectionPtr connection, const std::string& reason) {
      deadline.cancel();
      resolver.cancel();
      boost::system::error_code ignored;
      if (!connection) socket.close(ignored);
      if (const auto done = std::exchange(on_done, nullptr)) done(std::move(connection), reason);
    }
    tcp::resolver resolver;
    tcp::socket socket;
    asio::steady_timer deadline;
    std::function<void(ConnectionPtr, const std::string&)> on_done;
  };

  int listen_fd_, local_fd_;  // -1: none, or taken over
  const bool local_sockets_ = local_sockets() != LocalSockets::off;
  std::mutex mutex_;
  std::function<void(const std::string&)> on_exception_;  // guarded by mutex_
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<NetThread> make_net_thread(int listen_fd, int local_fd) {
  return std::make_unique<AsioThread>(listen_fd, local_fd);
}

uint64_t SystemRng::next() {
  uint64_t out = 0;
  while (::getrandom(&out, sizeof out, 0) != sizeof out) {
  }
  return out;
}

}  // namespace troupe
