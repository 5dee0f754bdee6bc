// Passes bytes between sockets, and holds them back as the rules say.
#include "apps/troupe/chaos/proxies.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>

#include "troupe/error.hpp"

using troupe::Errc;
using troupe::Error;
using namespace std::chrono_literals;

namespace {

constexpr size_t kHeldMax = size_t{512} << 10, kDelayedMax = size_t{4} << 20;
constexpr size_t kReadMax = size_t{256} << 10;  // at once, so that one link does not starve others
constexpr size_t kGreetings = 2048;             // bytes of a direction that may be greetings
constexpr int kWaitingMax = 128;                // connections that wait to be accepted

sockaddr_in loopback(uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return out;
}

void no_delay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// The peer gets a reset instead of an end.
void abort_socket(int& fd) {
  if (fd < 0) return;
  const linger now{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(std::exchange(fd, -1));
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

std::string speaker_of_greeting(const char* bytes, size_t count) {
  constexpr size_t kJob = 320, kJobBytes = 64, kTask = 512;
  if (count < kGreetingHead || std::memcmp(bytes, "TROUPE\r\n", 8) != 0) return {};
  const std::string job(bytes + kJob, strnlen(bytes + kJob, kJobBytes));
  int32_t task = 0;
  std::memcpy(&task, bytes + kTask, sizeof task);
  return job == "ps" || job == "worker" ? troupe::detail::concat(job, "/", task) : "program";
}

struct Proxies::Direction {
  int *from, *to;  // sockets; -1: closed
  std::string source, target;
  std::vector<char> bytes = std::vector<char>(kReadMax);
  size_t begin = 0, end = 0;  // of the held bytes
  struct Mark {
    size_t count;
    Time::time_point due;
  };
  std::deque<Mark> marks = {};  // of all held bytes
  uint64_t passed = 0;          // bytes that were read
  double allowance = 0;         // bytes that a throttle lets pass now
  Time::time_point allowed_at{};
  bool at_end = false, ended = false;  // `from` has ended, and `to` was told

  size_t held() const { return end - begin; }
};

struct Proxies::Connection {
  int client = -1, server = -1;
  bool connecting = true, named = false;
  Direction up{&client, &server}, down{&server, &client};

  ~Connection() {
    if (client >= 0) close(client);
    if (server >= 0) close(server);
  }
  void abort() { abort_socket(client), abort_socket(server); }
  bool is_of(const std::string& one, const std::string& other) const {
    return (up.source == one && up.target == other) || (up.source == other && up.target == one);
  }
};

Proxies::Proxies() = default;

Proxies::~Proxies() {
  for (const Node& node : nodes_)
    if (node.listener >= 0) close(node.listener);
}

std::string Proxies::add(const std::string& name) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(fd, kWaitingMax) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const int why = errno;
    if (fd >= 0) close(fd);
    throw Error(Errc::io, "no port of 127.0.0.1 for a proxy: ", std::strerror(why));
  }
  nodes_.push_back({name, fd});
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

void Proxies::lead(const std::string& name, const std::string& address) {
  for (Node& node : nodes_)
    if (node.name == name)
      node.port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

void Proxies::set(const std::string& from, const std::string& to, const LinkRule& rule) {
  rules_[{from, to}] = rule;
}

int Proxies::reset(const std::string& one, const std::string& other) {
  int count = 0;
  for (const auto& connection : connections_) {
    if (!connection->is_of(one, other)) continue;
    connection->abort();
    ++count;
  }
  return count;
}

void Proxies::corrupt(const std::string& from, const std::string& to) {
  corrupts_[{from, to}] = true;
}

void Proxies::accept(Node& node) {
  for (;;) {
    const int client = accept4(node.listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0) return;
    auto connection = std::make_unique<Connection>();
    connection->client = client;
    connection->up.target = connection->down.source = node.name;
    connection->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const sockaddr_in address = loopback(node.port);
    if (connection->server < 0 || node.port == 0 ||
        (connect(connection->server, reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
             0 &&
         errno != EINPROGRESS)) {
      connection->abort();
      continue;
    }
    no_delay(client);
    no_delay(connection->server);
    connections_.push_back(std::move(connection));
  }
}

LinkRule Proxies::rule_of(const Direction& direction) const {
  const auto it = rules_.find({direction.source, direction.target});
  return it == rules_.end() ? LinkRule{} : it->second;
}

// False if the connection is broken.
bool Proxies::read_into(Direction& d, const LinkRule& rule, Time::time_point now) {
  const size_t most = rule.delay > 0ms ? kDelayedMax : kHeldMax;
  while (!d.at_end && d.held() < most) {
    if (d.begin == d.end) d.begin = d.end = 0;
    if (d.bytes.size() - d.end < kReadMax / 4) {
      std::memmove(d.bytes.data(), d.bytes.data() + d.begin, d.held());
      d.end -= d.begin;
      d.begin = 0;
      if (d.bytes.size() - d.end < kReadMax / 4) d.bytes.resize(d.bytes.size() + kReadMax);
    }
    const size_t room = std::min({d.bytes.size() - d.end, kReadMax, most - d.held()});
    const ssize_t count = read(*d.from, d.bytes.data() + d.end, room);
    if (count < 0) return would_block();
    if (count == 0) {
      d.at_end = true;
      return true;
    }
    const auto n = static_cast<size_t>(count);
    if (d.passed > kGreetings && !corrupts_.empty() && corrupts_.erase({d.source, d.target}))
      d.bytes[d.end + n - 1] ^= 0x10;
    d.end += n;
    d.passed += n;
    d.marks.push_back({n, now + rule.delay});
    if (n < room) return true;
  }
  return true;
}

// False if the connection is broken.
bool Proxies::write_from(Direction& d, const LinkRule& rule, Time::time_point now) {
  if (rule.bytes_per_second > 0) {
    const double rate = static_cast<double>(rule.bytes_per_second);
    const double passed = std::chrono::duration<double>(now - d.allowed_at).count() * rate;
    d.allowance = std::min(d.allowance + passed, std::max(rate / 20, 1500.0));
  }
  d.allowed_at = now;
  const auto later = [&](Time::time_point when) { wake_ = std::min(wake_, when); };
  while (!d.marks.empty()) {
    Direction::Mark& mark = d.marks.front();
    if (mark.due > now) return later(mark.due), true;
    size_t count = mark.count;
    if (rule.bytes_per_second > 0) {
      count = std::min(count, static_cast<size_t>(std::max(0.0, d.allowance)));
      if (count == 0) return later(now + 5ms), true;
    }
    const ssize_t n = send(*d.to, d.bytes.data() + d.begin, count, MSG_NOSIGNAL);
    if (n < 0) return would_block();
    d.begin += static_cast<size_t>(n);
    if (rule.bytes_per_second > 0) d.allowance -= static_cast<double>(n);
    mark.count -= static_cast<size_t>(n);
    if (mark.count == 0) d.marks.pop_front();
  }
  if (d.at_end && !d.ended) {
    d.ended = true;
    shutdown(*d.to, SHUT_WR);
  }
  return true;
}

// Reads the dialler's name from the bytes that wait for the node. True once nothing is to be waited
// for.
bool Proxies::learn_dialler(Connection& c) {
  if (c.named) return true;
  const Direction& d = c.up;
  if (d.held() < kGreetingHead && !d.at_end) return false;
  const std::string name = speaker_of_greeting(d.bytes.data() + d.begin, d.held());
  c.up.source = c.down.target = name.empty() ? "stranger" : name;
  return c.named = true;
}

// False if the connection has ended.
bool Proxies::serve(Connection& c, Time::time_point now) {
  if (c.client < 0) return false;
  if (c.connecting) {
    pollfd server{c.server, POLLOUT, 0};
    if (poll(&server, 1, 0) == 0) return true;
    int why = 0;
    socklen_t size = sizeof why;
    getsockopt(c.server, SOL_SOCKET, SO_ERROR, &why, &size);
    if (why != 0) return c.abort(), false;
    c.connecting = false;
  }
  if (!c.named) {
    if (!read_into(c.up, {}, now)) return c.abort(), false;
    if (!learn_dialler(c)) return true;
  }
  for (Direction* d : {&c.up, &c.down}) {
    const LinkRule rule = rule_of(*d);
    if (rule.cut) continue;
    if (!read_into(*d, rule, now) || !write_from(*d, rule, now)) return c.abort(), false;
  }
  return !(c.up.ended && c.down.ended);
}

std::chrono::milliseconds Proxies::ask(std::vector<pollfd>& files) {
  for (const Node& node : nodes_) files.push_back({node.listener, POLLIN, 0});
  for (const auto& c : connections_) {
    if (c->client < 0) continue;
    if (c->connecting) {
      files.push_back({c->server, POLLOUT, 0});
      continue;
    }
    short client = 0, server = 0;
    const auto want = [&](const Direction& d, short& from, short& to) {
      const LinkRule rule = rule_of(d);
      if (c->named && rule.cut) return;
      if (!d.at_end && d.held() < (rule.delay > 0ms ? kDelayedMax : kHeldMax)) from |= POLLIN;
      // A throttled direction is woken by time, and so is a delayed one.
      if (d.held() > 0 && c->named && rule.bytes_per_second == 0 && !d.marks.empty() &&
          d.marks.front().due <= Time::now())
        to |= POLLOUT;
    };
    want(c->up, client, server);
    if (c->named) want(c->down, server, client);
    // A socket that is not asked for would report its end again and again.
    if (client) files.push_back({c->client, client, 0});
    if (server) files.push_back({c->server, server, 0});
  }
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(wake_ - Time::now());
  return std::clamp<std::chrono::milliseconds>(wait, 0ms, 1000ms);
}

void Proxies::serve() {
  const auto now = Time::now();
  wake_ = now + 1s;
  for (Node& node : nodes_) accept(node);
  std::erase_if(connections_, [&](const auto& c) { return !serve(*c, now); });
}
