// The network thread outlives exceptions of the functions that run on it.
#include <doctest/doctest.h>

#include <future>
#include <stdexcept>
#include <string>

#include "net/link/net_thread.hpp"

namespace troupe {

using namespace std::chrono_literals;

TEST_CASE("an exception on the network thread is told, and the thread goes on") {
  const auto net = make_net_thread();
  Transport& transport = net->transport();
  transport.post([] { throw std::runtime_error("untold"); });
  transport.run([] {});
  std::promise<std::string> told, told_again;
  net->on_exception([&](const std::string& text) { told.set_value(text); });
  transport.post([] { throw std::runtime_error("a bug"); });
  CHECK(told.get_future().get() == "a bug");
  net->on_exception([&](const std::string& text) { told_again.set_value(text); });
  const TimerPtr timer = net->clock().after(1ms, [] { throw 3; });
  CHECK(told_again.get_future().get() == "something that is no std::exception");
  net->on_exception({});
  bool ran = false;
  transport.run([&] { ran = true; });
  CHECK(ran);
}

TEST_CASE("a port accepts connections after one at which its owner threw") {
  const auto net = make_net_thread();
  Transport& transport = net->transport();
  int accepted = 0;
  std::promise<void> second;
  auto port = transport.listen("127.0.0.1:0", [&](const ConnectionPtr& connection) {
    connection->close();
    if (++accepted == 1) throw std::runtime_error("a bug");
    second.set_value();
  });
  for (int i = 0; i < 2; ++i) {
    std::promise<bool> dialled;
    transport.dial(port->address(), 10s, [&](const ConnectionPtr& connection, const std::string&) {
      dialled.set_value(connection != nullptr);
      if (connection) connection->close();
    });
    CHECK(dialled.get_future().get());
  }
  CHECK(second.get_future().wait_for(20s) == std::future_status::ready);
  transport.run([&] { port.reset(); });
}

}  // namespace troupe
