// Meshes with TLS over loopback: members, strangers, and askers for a task number.
#include <malloc.h>

#include <thread>

#include "net/link/tls_stream.hpp"
#include "tests/support/certificates.hpp"
#include "tests/support/mesh_node.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr int kStrangers = 64;

std::shared_ptr<TlsFiles> files(const Authority& by, const std::string& name) {
  return std::make_shared<TlsFiles>(by.issue(name));
}

std::function<void(MeshOptions&)> with(std::shared_ptr<TlsFiles> tls) {
  return [tls](MeshOptions& o) {
    o.cluster = "test";
    o.tls = tls;
  };
}

}  // namespace

TEST_CASE("meshes with TLS meet, and large tensors pass both ways at once") {
  const Authority authority("mesh");
  MeshNode a("ps", 0, {}, with(files(authority, "/job:ps/*")));
  MeshNode b("worker", 0, {a.address}, with(files(authority, "/job:worker/task:0")));
  MeshNode c("client", 7, {a.address}, with(files(authority, "digits")));
  for (MeshNode* n : {&a, &b, &c}) REQUIRE(n->wait_members(2));
  const auto at_a = a.make_inbox(), at_b = b.make_inbox();
  Tensor t = Tensor::empty(DType::f32, Shape{4 << 20});
  for (int64_t i = 0; i < t.size(); ++i) t.mutable_data<float>()[i] = static_cast<float>(i % 7919);
  constexpr size_t kEach = 6;
  const auto send_all = [&](MeshNode& from, const caf::strong_actor_ptr& self,
                            const std::string& task, const caf::strong_actor_ptr& to) {
    const auto proxy = from.mesh->proxy(task, to->id());
    REQUIRE(proxy);
    for (size_t i = 0; i < kEach; ++i) {
      send_as(self, proxy, Deliver{.key = {.edge = 1}, .value = t});
      for (int j = 0; j < 200; ++j)
        send_as(self, proxy, Deliver{.key = {.edge = 2}, .value = Tensor::scalar<float>(1)});
    }
  };
  std::thread other([&] { send_all(a, at_a, "/job:worker/task:0", at_b); });
  send_all(b, at_b, "/job:ps/task:0", at_a);
  other.join();
  for (const auto& at : {at_a, at_b}) {
    REQUIRE(inbox(at).wait_for(201 * kEach));
    size_t whole = 0;
    for (const caf::message& m : inbox(at).messages)
      whole += same_bits(m.get_as<Deliver>(0).value, t);
    CHECK(whole == kEach);
  }
}

TEST_CASE("a mesh with TLS refuses processes without it, and gives task numbers to those with it") {
  const Authority authority("mesh-door");
  MeshNode a("ps", 0, {}, with(files(authority, "/job:ps/task:0")));
  MeshNode plain("worker", 0, {a.address}, [](MeshOptions& o) { o.cluster = "test"; });
  REQUIRE(plain.wait([&] { return !plain.refusal.empty(); }));
  CHECK(plain.refusal.find("/job:ps/task:0 has TLS, and the process that dialled it has none") !=
        plain.refusal.npos);
  const Authority other("mesh-other");
  MeshNode stranger("worker", 0, {a.address}, with(files(other, "/job:worker/task:0")));
  REQUIRE(stranger.wait([&] { return !stranger.refusal.empty(); }));
  CHECK(stranger.refusal.find("another authority") != stranger.refusal.npos);
  CHECK(a.agents.empty());

  // Another seed is good.
  const std::vector<std::string> both{stranger.address, a.address};
  MeshNode b("worker", 1, both, with(files(authority, "/job:worker/task:1")));
  REQUIRE(b.wait_members(1));
  CHECK(b.refusal.empty());

  const auto draw = [&](const std::shared_ptr<TlsFiles>& tls,
                        const std::vector<std::string>& seeds) {
    const auto net = make_net_thread();
    SystemRng rng;
    std::promise<std::pair<Errc, std::string>> promise;
    draw_task(net->transport(), net->clock(), rng,
              {.cluster = "test", .job = "worker", .seeds = seeds, .timeout = 20s, .tls = tls},
              [&](Errc code, const std::string& text, int32_t task) {
                promise.set_value({code, code == Errc::ok ? std::to_string(task) : text});
              });
    return promise.get_future().get();
  };
  CHECK(draw(files(authority, "/job:worker/*"), both) ==
        std::pair<Errc, std::string>(Errc::ok, "0"));
  CHECK(draw(nullptr, both).first == Errc::bad_configuration);
  const auto refused = draw(files(authority, "/job:chief/*"), {a.address});
  CHECK(refused.first == Errc::bad_configuration);
  CHECK(refused.second.find("the certificate of /job:chief/*") != refused.second.npos);
}

TEST_CASE("a stranger in the middle of a TLS handshake costs at most 64 KiB") {
  const Authority authority("mesh-strangers");
  MeshNode a("ps", 0, {}, with(files(authority, "/job:ps/task:0")));
  TlsStream dialler(files(authority, "/job:worker/task:0")->current(), "127.0.0.1");
  dialler.shake();
  const auto hello = dialler.to_send();
  const auto net = make_net_thread();
  std::mutex mutex;
  std::condition_variable changed;
  int answered = 0;
  std::vector<ConnectionPtr> connections;
  std::vector<std::array<char, 4096>> heard(kStrangers);
  const size_t before = mallinfo2().uordblks;
  for (int i = 0; i < kStrangers; ++i)
    net->transport().dial(a.address, 5s, [&, i](ConnectionPtr c, const std::string&) {
      if (!c) return;
      c->start({[&, i] {
                  return ConnectionHandlers::Room{
                      std::as_writable_bytes(std::span(heard[static_cast<size_t>(i)])), {}};
                },
                [&, first = true](size_t) mutable {
                  if (!std::exchange(first, false)) return;
                  std::lock_guard lock(mutex);
                  ++answered;
                  changed.notify_all();
                },
                [] {}, [](const std::string&) {}});
      c->write(std::span(&hello, 1), {});
      std::lock_guard lock(mutex);
      connections.push_back(std::move(c));
    });
  {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, 20s, [&] { return answered == kStrangers; }));
  }
  const size_t each = (mallinfo2().uordblks - before) / kStrangers;
  MESSAGE("a stranger costs ", each, " bytes");
  CHECK(each < 64 << 10);
  net->transport().run([&] { connections.clear(); });
}

}  // namespace troupe
