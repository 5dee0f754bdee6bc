// Proxies: the way of all links between the processes of a cluster under `troupe chaos`. A node has
// a proxy, whose address it announces, so that its peers dial the proxy. The first greeting, which
// is in clear, names the peer; from there on the bytes of a link obey the rules for its two
// directions.
//
// A direction holds kHeldMax bytes, kDelayedMax where they are delayed; a full one is not read, so
// the sender waits as for a slow network.
//
// Owner: the loop that calls them. Thread: its own.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// A rule for the bytes from one process to another.
struct LinkRule {
  bool cut = false;                    // none pass, and the connection stays open
  std::chrono::milliseconds delay{0};  // later than they came
  int64_t bytes_per_second = 0;        // 0: as fast as they come
};

class Proxies {
 public:
  using Time = std::chrono::steady_clock;

  Proxies();
  ~Proxies();
  Proxies(const Proxies&) = delete;

  // Listens for the node and returns the address to announce. Throws: Error(io).
  std::string add(const std::string& node);
  // Where the node itself listens, "127.0.0.1:PORT".
  void lead(const std::string& node, const std::string& address);

  void set(const std::string& from, const std::string& to, const LinkRule& rule);
  // Ends all connections of the two at once, as a crash of the network does. Returns their number.
  int reset(const std::string& one, const std::string& other);
  // The next bytes of the link `from` > `to` have another bit.
  void corrupt(const std::string& from, const std::string& to);

  // Adds the files to wait for, and returns the time until serve() is to be called at the latest.
  std::chrono::milliseconds ask(std::vector<pollfd>& files);
  void serve();

 private:
  struct Direction;
  struct Connection;
  struct Node {
    std::string name;
    int listener = -1;
    uint16_t port = 0;  // of the node itself; 0: not known yet
  };

  void accept(Node& node);
  bool serve(Connection& connection, Time::time_point now);
  bool learn_dialler(Connection& connection);
  LinkRule rule_of(const Direction& direction) const;
  bool read_into(Direction& direction, const LinkRule& rule, Time::time_point now);
  bool write_from(Direction& direction, const LinkRule& rule, Time::time_point now);

  std::vector<Node> nodes_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<std::pair<std::string, std::string>, LinkRule> rules_;
  std::map<std::pair<std::string, std::string>, bool> corrupts_;  // at the next bytes
  Time::time_point wake_{};  // when a delay or a throttle lets bytes pass
};

// The speaker of a greeting as faults name it: "worker/1", "program". Empty: it needs more bytes,
// or is no greeting. tests/apps hold it against net/link/hello.hpp.
std::string speaker_of_greeting(const char* bytes, size_t count);
inline constexpr size_t kGreetingHead = 516;  // bytes that it needs
