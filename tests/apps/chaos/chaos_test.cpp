// Faults of `troupe chaos` as text, the schedules that seeds draw, and the links that pass through
// proxies.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "apps/troupe/chaos/faults.hpp"
#include "apps/troupe/chaos/proxies.hpp"
#include "net/link/hello.hpp"
#include "troupe/error.hpp"

using namespace std::chrono_literals;

namespace {

const Processes kTwo{2, 2};

ScheduleOptions options_of(uint64_t seed) { return {seed, 1s, 600s, kTwo, usual_weights(), true}; }

bool refused(const std::function<void()>& call, const std::string& words) {
  try {
    call();
  } catch (const troupe::Error& e) {
    return e.code() == troupe::Errc::invalid_argument &&
           std::string(e.what()).find(words) != std::string::npos;
  }
  return false;
}
bool has_refused(const std::string& text, const std::string& words) {
  return refused([&] { read_faults(text, kTwo); }, words);
}

}  // namespace

TEST_CASE("a schedule of faults is the same for the same seed, and its text gives it back") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto faults = draw_faults(options_of(seed));
    CHECK(faults.size() > 500);
    const std::string text = to_string(faults);
    CHECK(text == to_string(draw_faults(options_of(seed))));
    CHECK(text == to_string(read_faults(text, kTwo)));
    CHECK(text != to_string(draw_faults(options_of(seed + 1))));
    std::set<FaultKind> kinds;
    for (const Fault& fault : faults) {
      kinds.insert(fault.kind);
      CHECK(fault.at < 605s);
      CHECK((fault.lasts > 0ms) == (has_end(fault.kind) && fault.kind != FaultKind::leave));
      if (!fault.to.empty())
        CHECK_FALSE((fault.from[0] == 'p' && fault.from.substr(0, 3) == "ps/" &&
                     fault.to.substr(0, 3) == "ps/"));
    }
    CHECK(kinds.size() == kFaultKinds);
  }
}

TEST_CASE("a schedule of too many faults is refused before it is drawn") {
  ScheduleOptions options = options_of(1);
  options.every = 1ms;
  options.lasts = 24h;
  CHECK(refused([&] { draw_faults(options); }, "more than 100000 faults"));
}

TEST_CASE("kinds of faults with weights, and no kill of the program unless it is wanted") {
  ScheduleOptions options = options_of(3);
  options.weights = read_weights("kill=3, stop");
  options.kill_program = false;
  int kills = 0, stops = 0;
  for (const Fault& fault : draw_faults(options)) {
    kills += fault.kind == FaultKind::kill;
    stops += fault.kind == FaultKind::stop;
    if (fault.kind == FaultKind::kill) CHECK(fault.from != "program");
  }
  CHECK(kills > 2 * stops);
  CHECK(stops > 80);
  for (const char* bad : {"", "reorder", "kill=0", "kill=x", "kill=", "kill=1001"})
    CHECK_THROWS_AS(read_weights(bad), troupe::Error);
}

TEST_CASE("a worker that leaves for no fixed time is followed by its return") {
  ScheduleOptions options = options_of(5);
  options.weights = read_weights("leave,join");
  const auto faults = draw_faults(options);
  int away = 0;
  for (const Fault& fault : faults) {
    CHECK(fault.from.substr(0, 7) == "worker/");
    away += fault.kind == FaultKind::leave ? 1 : -1;
  }
  CHECK(away == 0);
  options.weights = read_weights("leave");
  for (const Fault& fault : draw_faults(options)) CHECK(fault.lasts > 0ms);
}

TEST_CASE("a fault that makes no sense is refused with the word and the right form") {
  CHECK(has_refused("1:kill", "\"1:kill\" is no fault; one is SECONDS:KIND:PROCESS"));
  CHECK(has_refused("1:reorder:worker/0>ps/0:5",
                    "there is no fault \"reorder\"; the kinds are kill"));
  CHECK(has_refused("x:kill:worker/0", "the time is seconds from 0 to 86400, got \"x\""));
  CHECK(has_refused("-1:kill:worker/0", "the time is seconds"));
  CHECK(has_refused("nan:kill:worker/0", "the time is seconds"));
  CHECK(has_refused("1:kill:worker/2", "there is no process \"worker/2\"; there are ps/0, ps/1"));
  CHECK(has_refused("1:kill:worker/0:5", "kill lasts for no time"));
  CHECK(has_refused("1:stop:worker/0", "stop wants a time in milliseconds"));
  CHECK(has_refused("1:stop:worker/0:0", "milliseconds from 1"));
  CHECK(has_refused("1:stop:worker/0>ps/0:5", "stop wants one process"));
  CHECK(has_refused("1:cut:worker/0:5", "cut wants a link"));
  CHECK(has_refused("1:cut:ps/0>ps/0:5", "a link has two ends"));
  CHECK(has_refused("1:leave:ps/0:5", "only workers leave and join"));
  CHECK(has_refused("1:disk_full:ps/0:5", "its place is `disk`"));
  CHECK(to_string(read_faults("2:kill:ps/0, 1.5:cut:worker/0>program:20\n", kTwo)) ==
        "1.500:cut:worker/0>program:20 2.000:kill:ps/0");
}

TEST_CASE("a proxy reads the speaker of a link from its greeting") {
  troupe::Greeting greeting;
  greeting.hello.cluster = "troupe";
  greeting.hello.job = "worker";
  greeting.hello.task = 17;
  auto packet = troupe::encode(greeting);
  const auto* bytes = reinterpret_cast<const char*>(packet.data());
  CHECK(speaker_of_greeting(bytes, packet.size()) == "worker/17");
  CHECK(speaker_of_greeting(bytes, kGreetingHead) == "worker/17");
  CHECK(speaker_of_greeting(bytes, kGreetingHead - 1).empty());
  greeting.hello.job = "client";
  packet = troupe::encode(greeting);
  CHECK(speaker_of_greeting(bytes, packet.size()) == "program");
  packet[0] = std::byte{'X'};
  CHECK(speaker_of_greeting(bytes, packet.size()).empty());
}

namespace {

// A link from "worker/3" through a proxy to a socket that stands for ps/0.
class ProxiedLink {
 public:
  ProxiedLink() {
    const std::string announced = proxies.add("ps/0");
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = at("0");
    socklen_t size = sizeof address;
    REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(listener_, 8) == 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    proxies.lead("ps/0", "127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
    dialler = socket(AF_INET, SOCK_STREAM, 0);
    address = at(announced.substr(announced.find(':') + 1));
    REQUIRE(connect(dialler, reinterpret_cast<const sockaddr*>(&address), size) == 0);
    troupe::Greeting greeting;
    greeting.hello.cluster = "troupe";
    greeting.hello.job = "worker";
    greeting.hello.task = 3;
    const auto packet = troupe::encode(greeting);
    REQUIRE(write(dialler, packet.data(), packet.size()) == std::ssize(packet));
    for (int i = 0; i < 3; ++i) turn();
    node = accept(listener_, nullptr, nullptr);
    REQUIRE(node >= 0);
    CHECK(receive(node, packet.size()) == packet.size());
  }
  ~ProxiedLink() {
    for (int fd : {listener_, dialler, node}) close(fd);
  }

  void turn() {
    std::vector<pollfd> files;
    proxies.ask(files);
    poll(files.data(), files.size(), 5);
    proxies.serve();
  }
  // Bytes that arrive at `fd` until there are `count` or the time is over.
  size_t receive(int fd, size_t count, std::chrono::milliseconds most = 5s) {
    const auto end = std::chrono::steady_clock::now() + most;
    std::string bytes(count, 0);
    size_t got = 0;
    while (got < count && std::chrono::steady_clock::now() < end) {
      turn();
      const ssize_t n = recv(fd, bytes.data() + got, count - got, MSG_DONTWAIT);
      if (n == 0) break;
      if (n > 0) got += static_cast<size_t>(n);
    }
    last = bytes.substr(0, got);
    return got;
  }
  void send(int fd, const std::string& text) {
    REQUIRE(write(fd, text.data(), text.size()) == std::ssize(text));
  }

  Proxies proxies;
  int dialler = -1, node = -1;
  std::string last;

 private:
  static sockaddr_in at(const std::string& port) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
    out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return out;
  }
  int listener_ = -1;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("a cut direction passes no bytes, the other one does, and later all have come") {
  ProxiedLink link;
  link.proxies.set("worker/3", "ps/0", {.cut = true});
  link.send(link.dialler, "there");
  link.send(link.node, "back");
  CHECK(link.receive(link.dialler, 4) == 4);
  CHECK(link.receive(link.node, 5, 100ms) == 0);
  link.proxies.set("worker/3", "ps/0", {});
  CHECK(link.receive(link.node, 5) == 5);
  CHECK(link.last == "there");
}

TEST_CASE("delayed bytes come later, throttled ones slowly, in their order") {
  ProxiedLink link;
  link.proxies.set("ps/0", "worker/3", {.delay = 80ms});
  auto begin = std::chrono::steady_clock::now();
  link.send(link.node, "late");
  CHECK(link.receive(link.dialler, 4) == 4);
  CHECK(seconds_since(begin) >= 0.079);
  link.proxies.set("ps/0", "worker/3", {.bytes_per_second = 200'000});
  std::string text(100'000, 0);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 / 3);
  begin = std::chrono::steady_clock::now();
  link.send(link.node, text);
  CHECK(link.receive(link.dialler, text.size()) == text.size());
  CHECK(seconds_since(begin) >= 0.4);
  CHECK(link.last == text);
}

TEST_CASE("a reset ends the link at both ends, and another link is not struck") {
  ProxiedLink link;
  CHECK(link.proxies.reset("worker/3", "ps/1") == 0);
  CHECK(link.proxies.reset("ps/0", "worker/3") == 1);
  char byte;
  CHECK(recv(link.dialler, &byte, 1, 0) == -1);
  CHECK(errno == ECONNRESET);
  CHECK(recv(link.node, &byte, 1, 0) == -1);
}

TEST_CASE("one bit behind the greetings is changed, once") {
  ProxiedLink link;
  link.proxies.corrupt("worker/3", "ps/0");
  for (int round = 0; round < 3; ++round) {
    const std::string text(2000, 'a');
    link.send(link.dialler, text);
    REQUIRE(link.receive(link.node, text.size()) == text.size());
    // The first round may be greetings.
    CHECK(std::count(link.last.begin(), link.last.end(), 'a') == (round == 1 ? 1999 : 2000));
  }
}

TEST_CASE("an end without a node is passed on, and a slow reader holds the sender back") {
  ProxiedLink link;
  const std::string part(1 << 16, 'x');
  size_t sent = 0;
  for (int idle = 0; idle < 50;) {
    const ssize_t n = ::send(link.dialler, part.data(), part.size(), MSG_DONTWAIT);
    sent += n > 0 ? static_cast<size_t>(n) : 0;
    idle = n > 0 ? 0 : idle + 1;
    link.turn();
  }
  CHECK(sent < size_t{64} << 20);  // buffers of the proxy and of the system
  CHECK(link.receive(link.node, sent) == sent);
  shutdown(link.dialler, SHUT_WR);
  CHECK(link.receive(link.node, 1) == 0);
}
