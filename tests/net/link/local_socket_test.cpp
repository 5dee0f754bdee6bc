// Local sockets: found by the address, for processes of one user, and left for TCP where there is
// none.
#include <doctest/doctest.h>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <string>
#include <thread>

#include "net/link/local_socket.hpp"
#include "net/link/net_thread.hpp"
#include "tests/support/mesh_node.hpp"

namespace troupe {

using namespace std::chrono_literals;

namespace {

struct Dialled {
  ConnectionPtr connection;
  std::string reason;
};

Dialled dial(NetThread& net, const std::string& address) {
  std::promise<Dialled> done;
  net.transport().dial(address, 10s, [&](ConnectionPtr connection, const std::string& reason) {
    done.set_value({std::move(connection), reason});
  });
  return done.get_future().get();
}

// A port of a network thread, with the connections that it accepted.
struct Port {
  NetThread& net;
  std::unique_ptr<Listener> listener;
  std::promise<ConnectionPtr> first;
  std::string address;

  explicit Port(NetThread& n) : net(n) {
    listener = net.transport().listen("127.0.0.1:0", [this](ConnectionPtr connection) {
      first.set_value(std::move(connection));
    });
    address = listener->address();
  }
  ~Port() {
    net.transport().run([this] { listener.reset(); });
  }
  std::string accept_local() {
    std::string out;
    net.transport().run([&] { out = listener->accept_local(); });
    return out;
  }
  ConnectionPtr accepted() {
    auto future = first.get_future();
    REQUIRE(future.wait_for(20s) == std::future_status::ready);
    return future.get();
  }
};

// Runs `fn` on a thread that is of another user; false without the right to.
bool as_stranger(const std::function<void()>& fn) {
  bool other = false;
  std::thread([&] {
    // The C library's function would change all threads.
    other = ::syscall(SYS_setresuid, 54321, 54321, 54321) == 0;
    if (other) fn();
  }).join();
  return other;
}

struct Variable {
  explicit Variable(const char* value) { setenv(kLocalSocketsVariable, value, 1); }
  ~Variable() { unsetenv(kLocalSocketsVariable); }
};

}  // namespace

TEST_CASE("processes of one user on one machine meet at a local socket, or by TCP") {
  const auto net = make_net_thread();
  Port port(*net);
  SUBCASE("local") {
    CHECK(port.accept_local() == "");
    const Dialled got = dial(*net, port.address);
    REQUIRE(got.connection);
    CHECK(got.reason == "");
    CHECK(got.connection->is_local());
    CHECK(got.connection->peer_address() == port.address);  // which proofs cover
    CHECK(port.accepted()->is_local());
  }
  SUBCASE("by name") {
    CHECK(port.accept_local() == "");
    const std::string number = port.address.substr(port.address.rfind(':'));
    CHECK(dial(*net, "localhost" + number).connection->is_local());
  }
  SUBCASE("an acceptor without one") {
    const Dialled got = dial(*net, port.address);
    REQUIRE(got.connection);
    CHECK(got.reason.find("cannot connect") == 0);
    CHECK_FALSE(got.connection->is_local());
    CHECK_FALSE(port.accepted()->is_local());
  }
  SUBCASE("the variable of the dialler") {
    CHECK(port.accept_local() == "");
    const Variable off("0");
    const auto other = make_net_thread();
    const Dialled got = dial(*other, port.address);
    REQUIRE(got.connection);
    CHECK(got.reason == "");
    CHECK_FALSE(got.connection->is_local());
  }
  SUBCASE("the variable of the acceptor") {
    const Variable off("0");
    CHECK(port.accept_local() == "TROUPE_LOCAL_SOCKETS is 0");
  }
  SUBCASE("another value of the variable") {
    const Variable bad("off");
    CHECK_THROWS_WITH(
        make_net_thread(),
        "TROUPE_LOCAL_SOCKETS wants 0 (TCP), bytes, or 1 (large tensors are read in place), "
        "got \"off\"");
  }
}

TEST_CASE("a local socket takes no process of another user, and none is taken from one") {
  const auto net = make_net_thread();
  Port port(*net);
  std::string why;
  SUBCASE("a stranger dials") {
    CHECK(port.accept_local() == "");
    if (!as_stranger([&] {
          const int fd = local_dial(port.address, why);
          CHECK(fd == -1);  // the stranger of this program looks, too
        }))
      return;
    CHECK(why == "a process of another user listens there");
    CHECK(dial(*net, port.address).connection->is_local());
    CHECK(port.accepted()->is_local());  // the first one that was let in
  }
  SUBCASE("a stranger has the name") {
    int fd = -1;
    if (!as_stranger([&] { fd = local_listener(port.address, why); })) return;
    REQUIRE(fd >= 0);
    CHECK(port.accept_local().find("Address already in use") != std::string::npos);
    const Dialled got = dial(*net, port.address);
    REQUIRE(got.connection);
    CHECK(got.reason == "a process of another user listens there");
    CHECK_FALSE(got.connection->is_local());
    ::close(fd);
  }
}

TEST_CASE("a socket of a supervisor keeps connections until the next process takes it over") {
  std::string why, address;
  auto tcp = make_net_thread();
  int fd = -1;
  {
    Port port(*tcp);
    address = port.address;
  }
  fd = local_listener(address, why);
  REQUIRE(fd >= 0);
  const auto dialler = make_net_thread();
  const Dialled got = dial(*dialler, address);  // nobody listens by TCP
  REQUIRE(got.connection);
  const auto net = make_net_thread(-1, ::dup(fd));
  Port port(*net);
  CHECK(port.accept_local() == "");
  CHECK(port.accepted()->is_local());
  ::close(fd);
}

TEST_CASE("the members of a machine are linked by local sockets, with the proofs of a secret") {
  SystemRng rng;
  const auto secret = std::make_shared<const Secret>("a secret of the cluster", rng);
  const auto with = [&](MeshOptions& options) { options.secret = secret; };
  MeshNode one("ps", 0, {}, with), two("worker", 0, {one.address}, with);
  REQUIRE(one.wait_members(1));
  REQUIRE(two.wait_members(1));
  CHECK(one.mesh->stats().at("/job:worker/task:0").local);
  CHECK(two.mesh->stats().at("/job:ps/task:0").local);
}

}  // namespace troupe
