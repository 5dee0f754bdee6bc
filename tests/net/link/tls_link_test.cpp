// Links with TLS: two ends over an in-memory transport, and strangers at one of them.
#include <fstream>

#include <openssl/ssl.h>

#include "tests/support/certificates.hpp"
#include "tests/support/link_pair.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

const Authority& authority() {
  static const Authority a("links");
  return a;
}

std::shared_ptr<const TlsIdentity> identity(const Authority& by, const std::string& name) {
  return TlsFiles(by.issue(name)).current();
}

// A worker 1 that dials a ps 0.
struct TlsPair : LinkPair {
  explicit TlsPair(uint64_t seed = 1) : LinkPair(seed) {
    static const auto worker = identity(authority(), "/job:worker/task:1"),
                      ps = identity(authority(), "/job:ps/task:0");
    a.habits.tls = worker, b.habits.tls = ps;
  }
  // Both ends close, with these words.
  void expect_refusal(const std::string& dialler, const std::string& acceptor) {
    connect();
    REQUIRE(net.run_until([&] { return a.closed_ && b.closed_; }, 6s));
    CAPTURE(a.reason);
    CAPTURE(b.reason);
    CHECK(a.reason.find(dialler) != std::string::npos);
    CHECK(b.reason.find(acceptor) != std::string::npos);
    CHECK(a.refusal == Refusal::untrusted);
    CHECK(!a.up);
    CHECK(!b.up);
    CHECK(a.judged + b.judged == 0);
  }
};

// An identity to be changed.
std::shared_ptr<TlsIdentity> own(const Authority& by, const std::string& name,
                                 std::vector<std::string> hosts = {}) {
  const std::string folder = by.folder() + "/own-" + std::to_string(std::rand());
  issue_certificate(
      {.authority = by.folder(), .name = name, .hosts = std::move(hosts), .folder = folder});
  return std::const_pointer_cast<TlsIdentity>(TlsFiles(folder).current());
}

}  // namespace

TEST_CASE("links with TLS greet and carry messages, however bytes are split and writes are short") {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    TlsPair p(seed);
    if (seed % 3 == 0) give_secret(p.a), give_secret(p.b);
    p.net.faults.piece_max = seed % 2 ? 700 : 0;
    if (seed % 4 == 0) p.net.faults.window = 5'000;
    p.connect_both();
    CHECK(p.a.link->peer().name() == "/job:ps/task:0");
    CHECK(p.b.link->peer().name() == "/job:worker/task:1");
    const Tensor small = ramp(1000), large = ramp(700'001);
    p.a.send(5, 6, Push{1, 2, 3, 1000, 5, 6, 7, large});
    for (int i = 0; i < 100; ++i) p.a.send(5, 6, Push{1, 2, 3, 1000, 5, 6, 7, small}, i < 99);
    p.b.send(8, 9, Push{1, 2, 3, 1000, 5, 6, 7, large});
    REQUIRE(p.net.run_until([&] { return p.b.messages.size() == 101 && p.a.messages.size() == 1; },
                            600s));
    size_t equal = 0;
    for (const auto* got : {&p.a.messages, &p.b.messages})
      for (const LinkEnd::Got& m : *got) {
        const Tensor& t = m.message.get_as<Push>(0).gradient.values;
        equal += same_bits(t, t.size() == small.size() ? small : large);
      }
    CHECK(equal == 102);
    CHECK(!p.a.closed_);
    p.a.link->close("done");
    REQUIRE(p.net.run_until([&] { return p.b.closed_; }, 60s));
    CHECK(p.b.reason == "closed by the peer");
  }
}

TEST_CASE("keys change after as many bytes as they are safe for, in mid-stream") {
  TlsPair p;
  const auto worker = own(authority(), "/job:worker/task:1"),
             ps = own(authority(), "/job:ps/task:0");
  worker->rekey_bytes = ps->rekey_bytes = 100'000;
  p.a.habits.tls = worker, p.b.habits.tls = ps;
  p.net.faults.piece_max = 50'000;
  p.connect_both();
  for (int i = 0; i < 4; ++i) {
    p.a.send(5, 6, Push{1, 2, 3, 1000, 5, 6, 7, ramp(300'000)});
    p.b.send(5, 6, Push{1, 2, 3, 1000, 5, 6, 7, ramp(300'000)});
  }
  REQUIRE(
      p.net.run_until([&] { return p.a.messages.size() == 4 && p.b.messages.size() == 4; }, 60s));
  CHECK(same_bits(p.b.messages[3].message.get_as<Push>(0).gradient.values, ramp(300'000)));
}

TEST_CASE("a process with TLS and one without say so, both ways") {
  SUBCASE("the dialler has none") {
    TlsPair p;
    p.a.habits.tls = nullptr;
    p.expect_refusal(
        "/job:ps/task:0 has TLS, and the process that dialled it has none; give both --tls",
        "/job:ps/task:0 has TLS, and the process that dialled it has none; give both --tls");
    CHECK(p.a.link->turned_away());
  }
  SUBCASE("the dialler has none, but a secret") {
    TlsPair p;
    p.a.habits.tls = nullptr;
    give_secret(p.a);
    p.expect_refusal("has TLS", "has TLS");
    CHECK(p.a.link->turned_away());
  }
  SUBCASE("the acceptor has none") {
    TlsPair p;
    p.b.habits.tls = nullptr;
    p.expect_refusal("the process there has no TLS, and /job:worker/task:1 has",
                     "the process that dialled has TLS, and /job:ps/task:0 has none");
    CHECK(p.a.link->turned_away());
    CHECK(p.b.refusal == Refusal::untrusted);
  }
}

TEST_CASE("certificates that do not fit are refused in words on both sides") {
  TlsPair p;
  SUBCASE("another authority") {
    const Authority other("link-other");
    p.a.habits.tls = identity(other, "/job:worker/task:1");
    p.expect_refusal("signed by another authority", "refuses the certificate of /job:ps/task:0");
    CHECK(p.a.link->turned_away());
  }
  SUBCASE("another authority, which the dialler trusts beside its own") {
    const Authority other("link-both");
    const std::string folder = other.issue("/job:worker/task:1");
    std::ofstream(folder + "/ca.pem", std::ios::app)
        << std::ifstream(authority().folder() + "/ca.pem").rdbuf();
    p.a.habits.tls = TlsFiles(folder).current();
    p.expect_refusal(
        "it refuses the certificate of /job:worker/task:1 of cluster \"test\": its "
        "authority (ca.pem) does not sign it",
        "the certificate of /job:worker/task:1 of cluster \"test\" is signed by "
        "another authority");
    CHECK(p.a.link->turned_away());
  }
  SUBCASE("expired, as the acceptor sees it") {
    const auto late = own(authority(), "/job:ps/task:0");
    X509_VERIFY_PARAM_set_time(SSL_CTX_get0_param(late->context.get()),
                               time(nullptr) + 400 * 86'400);
    p.b.habits.tls = late;
    p.expect_refusal("it has expired",
                     "the certificate of /job:worker/task:1 of cluster \"test\" expired on 2");
    CHECK(p.b.reason.find(" UTC") != std::string::npos);
  }
  SUBCASE("not valid yet, as the dialler sees it") {
    const auto early = own(authority(), "/job:worker/task:1");
    X509_VERIFY_PARAM_set_time(SSL_CTX_get0_param(early->context.get()),
                               time(nullptr) - 400 * 86'400);
    p.a.habits.tls = early;
    p.expect_refusal("look at the clocks", "refuses the certificate of /job:ps/task:0");
  }
  SUBCASE("none") {
    auto bare = std::make_shared<TlsIdentity>();
    bare->context.reset(SSL_CTX_new(TLS_method()));
    SSL_CTX_set_verify(bare->context.get(), SSL_VERIFY_PEER, [](int, X509_STORE_CTX* check) {
      X509_STORE_CTX_set_error(check, X509_V_OK);
      return 1;
    });
    p.a.habits.tls = bare;
    p.expect_refusal("none was shown", "it shows no certificate");
  }
  SUBCASE("of another machine") {
    p.b.habits.tls = own(authority(), "/job:ps/task:0", {"10.0.0.7", "node7"});
    p.connect();
    REQUIRE(p.net.run_until([&] { return p.a.closed_ && p.b.closed_; }, 6s));
    CHECK(p.a.reason.find("is for 10.0.0.7 and others, and not for 127.0.0.1") !=
          std::string::npos);
    CHECK(p.a.refusal == Refusal::untrusted);
  }
  SUBCASE("TLS 1.2") {
    const auto old = own(authority(), "/job:worker/task:1");
    SSL_CTX_set_min_proto_version(old->context.get(), TLS1_2_VERSION);
    SSL_CTX_set_max_proto_version(old->context.get(), TLS1_2_VERSION);
    p.a.habits.tls = old;
    p.expect_refusal("no TLS 1.3 with it", "no TLS 1.3 with it");
  }
}

TEST_CASE("a certificate of the machine that was dialled is accepted there") {
  TlsPair p;
  p.b.habits.tls = own(authority(), "/job:ps/task:0", {"node7", "127.0.0.1"});
  p.connect_both();
}

TEST_CASE("a process that says another name than its certificate is refused with both names") {
  SUBCASE("the dialler") {
    TlsPair p;
    p.a.habits.tls = own(authority(), "/job:worker/task:2");
    p.expect_refusal(
        "a process with the certificate of /job:worker/task:2 of cluster \"test\" says "
        "that it is /job:worker/task:1 of cluster \"test\"",
        "says that it is /job:worker/task:1");
    CHECK(p.a.link->turned_away());
    CHECK(p.b.refusal == Refusal::untrusted);
  }
  SUBCASE("the dialler, of another cluster") {
    const Authority blue("link-blue", "blue");
    TlsPair p;
    p.a.habits.tls = own(blue, "/job:worker/task:1");
    p.b.habits.tls = own(blue, "/job:ps/task:0");
    p.expect_refusal("of cluster \"blue\"", "of cluster \"blue\"");
  }
  SUBCASE("the acceptor") {
    TlsPair p;
    p.b.habits.tls = own(authority(), "/job:worker/*");
    p.connect();
    REQUIRE(p.net.run_until([&] { return p.a.closed_; }, 6s));
    CHECK(p.a.judged == 0);
    CHECK(p.a.refusal == Refusal::untrusted);
    CHECK(!p.a.link->turned_away());  // the next one at that address may be the right one
    CHECK(p.a.reason.find("says that it is /job:ps/task:0") != std::string::npos);
  }
  SUBCASE("a job's certificate fits each of its tasks") {
    TlsPair p;
    p.a.habits.tls = own(authority(), "/job:worker/*");
    p.connect_both();
  }
}

TEST_CASE("a stranger at a link with TLS reaches no greeting, and has five seconds") {
  TlsPair p;
  auto [x, y] = p.net.connect(p.left, p.right);
  p.b.open(Link::Role::acceptor, y, hello_of("ps", 0));
  Stranger s(x);
  SUBCASE("that says nothing") {}
  SUBCASE("that begins a handshake") { s.say(std::string("\x16\x03\x01\x02\x00\x01", 6)); }
  SUBCASE("that begins a greeting") { s.say("TROUPE\r\n"); }
  p.net.run_for(4900ms);
  CHECK(!p.b.closed_);
  p.net.run_for(300ms);
  CHECK(p.b.closed_);
  CHECK(p.b.reason == "no greeting within 5 s");
  CHECK(p.b.judged == 0);
}

TEST_CASE("noise at a link with TLS ends it, whatever its first byte") {
  for (int first = 0; first < 256; ++first) {
    CAPTURE(first);
    TlsPair p;
    auto [x, y] = p.net.connect(p.left, p.right);
    p.b.open(Link::Role::acceptor, y, hello_of("ps", 0));
    Stranger s(x);
    std::string noise(20'000, '\0');
    for (char& c : noise) c = static_cast<char>(p.net.draw());
    noise[0] = static_cast<char>(first);
    s.say(noise);
    REQUIRE(p.net.run_until([&] { return p.b.closed_; }, 6s));
    CHECK(p.b.judged == 0);
  }
}

TEST_CASE("a byte that is changed on the way ends a link with TLS") {
  TlsPair p;
  auto [x, y] = p.net.connect(p.left, p.right);
  auto [v, w] = p.net.connect(p.left, p.right);
  Stranger to_a(y), to_b(v);
  p.b.open(Link::Role::acceptor, w, hello_of("ps", 0));
  p.a.open(Link::Role::dialler, x, hello_of("worker", 1));
  const auto relay = [&] {
    p.net.run_for(5ms);
    to_b.say(std::exchange(to_a.heard, ""));
    to_a.say(std::exchange(to_b.heard, ""));
  };
  for (int i = 0; i < 20; ++i) relay();
  REQUIRE(p.a.up);
  REQUIRE(p.b.up);
  p.a.send(5, 6, Push{1, 2, 3, 1000, 5, 6, 7, ramp(1000)});
  p.net.run_for(5ms);
  REQUIRE(to_a.heard.size() > 4000);
  CHECK(to_a.heard.find(std::string(64, '\0')) == std::string::npos);
  to_a.heard[2000] = static_cast<char>(to_a.heard[2000] ^ 4);
  for (int i = 0; i < 5; ++i) relay();
  CHECK(p.b.closed_);
  CHECK(p.b.messages.empty());
  CHECK(p.b.refusal == Refusal::none);  // it may dial again
}

TEST_CASE("a member of another name cannot pass greetings on, with TLS and a secret") {
  TlsPair p;
  give_secret(p.a), give_secret(p.b);
  // The relay ends TLS on both sides with its own certificate.
  const auto thief = own(authority(), "/job:worker/task:9");
  auto [x, y] = p.net.connect(p.left, p.right);
  auto [v, w] = p.net.connect(p.left, p.right);
  Stranger to_a(encrypt(y, thief, hello_of("worker", 9), "")),
      to_b(encrypt(v, thief, hello_of("worker", 9), "127.0.0.1:1"));
  p.b.open(Link::Role::acceptor, w, hello_of("ps", 0));
  p.a.open(Link::Role::dialler, x, hello_of("worker", 1));
  for (int i = 0; i < 40; ++i) {
    p.net.run_for(5ms);
    to_b.say(std::exchange(to_a.heard, ""));
    to_a.say(std::exchange(to_b.heard, ""));
  }
  CHECK(p.b.closed_);
  CHECK(p.b.judged == 0);
  CHECK(p.b.reason.find("says that it is /job:worker/task:1") != std::string::npos);
}

}  // namespace troupe
