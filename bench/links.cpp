// links: blocks of bytes through a link and through a loop of calls, plain and with TLS, in one
// process. Each block is answered before the next one begins; rounds of all kinds alternate.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "bench/bench.hpp"
#include "net/link/link.hpp"
#include "net/link/net_thread.hpp"
#include "net/link/tls.hpp"
#include "troupe/cluster.hpp"
#include "troupe/error.hpp"

namespace troupe::bench {
namespace {

using Time = std::chrono::steady_clock;

// Certificates of both ends, in a folder that goes with this object.
struct Certificates {
  std::filesystem::path folder;
  std::shared_ptr<const TlsIdentity> dialler, acceptor;

  Certificates() {
    std::string pattern = (std::filesystem::temp_directory_path() / "troupe-bench-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw Error(Errc::io, "no temporary folder ", pattern);
    folder = pattern;
    make_authority(folder / "ca", "bench");
    const auto issue = [&](const char* name) {
      return TlsFiles(issue_certificate({.authority = folder / "ca", .name = name})).current();
    };
    dialler = issue("/job:worker/task:0");
    acceptor = issue("/job:ps/task:0");
  }
  ~Certificates() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
};

// One end of a link. It counts messages; the acceptor answers each.
struct End final : LinkHost {
  std::unique_ptr<NetThread> net = make_net_thread();
  std::shared_ptr<Link> link;
  TimerPtr timer;
  Tensor into;  // blocks arrive here, again and again
  std::mutex mutex;
  std::condition_variable changed;
  int64_t got = 0;
  bool up = false;
  std::string ended;

  ~End() override {
    net->transport().run([this] {
      timer.reset();
      if (link) link->close_now("done");
      link.reset();
    });
  }
  void open(Link::Role role, ConnectionPtr connection, const std::string& job) {
    Hello hello{.cluster = "bench", .job = job, .incarnation = 1, .address = "127.0.0.1:1"};
    link = std::make_shared<Link>(
        role, std::move(connection), Greeting{GreetingKind::hello, Refusal::none, "", hello}, *this,
        [this](std::function<void()> fn) { net->transport().post(std::move(fn)); },
        net->clock().now());
    link->start();
    tick();
  }
  void tick() {
    timer = net->clock().after(kTick, [this] { tick(); });
    link->tick(net->clock().now());
  }
  void wait(const std::function<bool()>& done) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done() || !ended.empty(); });
    if (!ended.empty()) throw Error(Errc::peer_lost, "a link has ended: ", ended);
  }
  template <class Change>
  void note(Change change) {
    std::lock_guard lock(mutex);
    change();
    changed.notify_all();
  }

  Greeting judge(Link&, const Greeting&) override {
    Hello hello{.cluster = "bench", .job = "ps", .incarnation = 1, .address = "127.0.0.1:1"};
    return {GreetingKind::hello, Refusal::none, "", hello};
  }
  void established(Link&) override {
    note([this] { up = true; });
  }
  void control(Link&, Control, std::span<const std::byte>) override {}
  void caf_bytes(Link&, std::span<const std::byte>) override {}
  std::optional<TensorClaim> claim(uint16_t kind, std::span<const std::byte>,
                                   std::string&) override {
    if (kind == 1) return TensorClaim{};
    return TensorClaim{
        .defined = true, .dtype = DType::u8, .shape = into.shape(), .bytes = into.byte_size()};
  }
  void message(Link& from, Received m) override {
    if (m.kind == 0) from.send(0, 0, {.kind = 1, .header = {}, .payload = {}});
    note([this] { ++got; });
  }
  Tensor allocate(DType, const Shape&) override { return into; }
  void closed(Link&, const std::string& reason, Refusal) override {
    note([&] { ended = reason; });
  }
};

struct LinkUnderTest {
  End a, b;
  std::unique_ptr<Listener> listener;
  Tensor block;

  LinkUnderTest(int64_t bytes, const Certificates* tls) : block(Tensor::empty(DType::u8, {bytes})) {
    std::memset(block.mutable_raw(), 1, static_cast<size_t>(bytes));
    b.into = Tensor::empty(DType::u8, {bytes});
    listener = b.net->transport().listen("127.0.0.1:0", [this, tls](ConnectionPtr connection) {
      if (tls) connection = encrypt(std::move(connection), tls->acceptor, {}, "");
      b.open(Link::Role::acceptor, std::move(connection), "ps");
    });
    const std::string address = listener->address();
    a.net->transport().dial(
        address, std::chrono::seconds(5),
        [this, tls, address](ConnectionPtr connection, const std::string& reason) {
          if (!connection) return a.note([&] { a.ended = reason; });
          if (tls) connection = encrypt(std::move(connection), tls->dialler, {}, address);
          a.open(Link::Role::dialler, std::move(connection), "worker");
        });
    a.wait([this] { return a.up; });
    b.wait([this] { return b.up; });
  }
  ~LinkUnderTest() {
    b.net->transport().run([this] { listener.reset(); });
  }
  void round(int blocks) {
    for (int i = 0; i < blocks; ++i) {
      const int64_t wanted = a.got + 1;
      a.link->send(0, 0, {.kind = 0, .header = {}, .payload = block});
      a.wait([&] { return a.got >= wanted; });
    }
  }
};

// Two sockets on loopback, one thread each: write() and read(), or SSL_write() and SSL_read().
class Loop {
 public:
  Loop(int64_t bytes, const Certificates* tls) : bytes_(static_cast<size_t>(bytes)) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    here_ = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, where, size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, where, &size) != 0 || connect(here_, where, size) != 0)
      throw Error(Errc::io, "no loopback connection");
    there_ = accept(listener, nullptr, nullptr);
    ::close(listener);
    const int on = 1;
    for (const int fd : {here_, there_}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (tls) {
      here_ssl_.reset(SSL_new(tls->dialler->context.get()));
      there_ssl_.reset(SSL_new(tls->acceptor->context.get()));
      SSL_set_fd(here_ssl_.get(), here_);
      SSL_set_fd(there_ssl_.get(), there_);
      SSL_set_app_data(here_ssl_.get(), &fault_);
      SSL_set_app_data(there_ssl_.get(), &fault_);
    }
    reader_ = std::thread([this] { read_all(); });
    if (here_ssl_ && SSL_connect(here_ssl_.get()) != 1) throw Error(Errc::io, "no TLS: ", fault_);
  }
  ~Loop() {
    shutdown(here_, SHUT_RDWR);
    reader_.join();
    ::close(here_);
    ::close(there_);
  }
  void round(int blocks) {
    std::vector<char> buffer(bytes_, 1);
    for (int i = 0; i < blocks; ++i) {
      for (size_t put = 0; put < bytes_;) {
        const ssize_t n = here_ssl_ ? SSL_write(here_ssl_.get(), buffer.data() + put,
                                                static_cast<int>(bytes_ - put))
                                    : ::write(here_, buffer.data() + put, bytes_ - put);
        if (n <= 0) throw Error(Errc::io, "a loopback connection broke");
        put += static_cast<size_t>(n);
      }
      char answer = 0;
      if ((here_ssl_ ? SSL_read(here_ssl_.get(), &answer, 1) : ::read(here_, &answer, 1)) != 1)
        throw Error(Errc::io, "a loopback connection broke");
    }
  }

 private:
  void read_all() {
    std::vector<char> buffer(bytes_);
    if (there_ssl_ && SSL_accept(there_ssl_.get()) != 1) return;
    for (;;) {
      for (size_t got = 0; got < bytes_;) {
        const ssize_t n = there_ssl_ ? SSL_read(there_ssl_.get(), buffer.data() + got,
                                                static_cast<int>(bytes_ - got))
                                     : ::read(there_, buffer.data() + got, bytes_ - got);
        if (n <= 0) return;
        got += static_cast<size_t>(n);
      }
      if ((there_ssl_ ? SSL_write(there_ssl_.get(), "k", 1) : ::write(there_, "k", 1)) != 1) return;
    }
  }

  const size_t bytes_;
  int here_ = -1, there_ = -1;
  OwnedSsl here_ssl_, there_ssl_;
  std::string fault_;
  std::thread reader_;
};

}  // namespace

int links(const Options& options) {
  const int64_t mib = options.integer("mib", 16), rounds = options.integer("rounds", 7);
  if (mib < 1 || mib > 1024 || rounds < 1)
    throw Error(Errc::invalid_argument, "--mib wants 1 to 1024, and --rounds at least 1");
  const int64_t bytes = mib << 20;
  const int blocks = static_cast<int>(std::max<int64_t>(2, 256 / mib));
  const Certificates certificates;
  struct Kind {
    const char* name;
    std::function<void()> round;
    std::vector<double> speeds = {};
  };
  LinkUnderTest plain_link(bytes, nullptr), tls_link(bytes, &certificates);
  Loop plain_loop(bytes, nullptr), tls_loop(bytes, &certificates);
  std::vector<Kind> kinds = {{"link", [&] { plain_link.round(blocks); }},
                             {"loop", [&] { plain_loop.round(blocks); }},
                             {"tls_link", [&] { tls_link.round(blocks); }},
                             {"tls_loop", [&] { tls_loop.round(blocks); }}};
  for (Kind& kind : kinds) kind.round();  // warms buffers and windows up
  for (int64_t i = 0; i < rounds; ++i)
    for (Kind& kind : kinds) {
      const auto begin = Time::now();
      kind.round();
      kind.speeds.push_back(static_cast<double>(bytes) * blocks / seconds_since(begin) / 1e9);
    }
  const std::vector<std::pair<std::string, std::string>> config = {
      {"mib", std::to_string(mib)}, {"rounds", std::to_string(rounds)}};
  for (const Kind& kind : kinds)
    report(options, "links", detail::concat(kind.name, "_gb_per_s"), quantile(kind.speeds, 0.5),
           "GB/s", config);
  // The two speeds of a ratio are of one round, which other work on the machine slows alike.
  const auto ratio = [&](const char* metric, const Kind& ours, const Kind& theirs) {
    std::vector<double> all;
    for (size_t i = 0; i < ours.speeds.size(); ++i)
      all.push_back(ours.speeds[i] / theirs.speeds[i]);
    report(options, "links", metric, quantile(all, 0.5), "times", config);
  };
  ratio("link_of_loop", kinds[0], kinds[1]);
  ratio("tls_link_of_loop", kinds[2], kinds[3]);
  return 0;
}

}  // namespace troupe::bench
