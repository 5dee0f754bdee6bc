// The behaviour of a process towards a peer that greets like a member and then sends malformed
// data.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>

#include <spdlog/sinks/ostream_sink.h>

#include "net/wire/address.hpp"
#include "net/wire/codec.hpp"
#include "tests/support/mesh_node.hpp"
#include "tests/support/raw_frames.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

NodeId node_of_peer() {
  NodeId out;
  out.process = 4711;
  out.host.fill(0xab);
  return out;
}

Bytes numbers(std::initializer_list<int64_t> list) {
  Bytes out;
  Writer writer(out);
  for (int64_t n : list) writer.number(n);
  return out;
}

// A frame that carries a message of CAF's protocol.
Bytes basp(uint8_t kind, uint32_t length, uint64_t data, const Bytes& payload = {}) {
  Bytes out(32);
  out[0] = std::byte{kind};
  for (size_t i = 0; i < 4; ++i) out[4 + i] = static_cast<std::byte>(length >> (24 - 8 * i));
  for (size_t i = 0; i < 8; ++i) out[8 + i] = static_cast<std::byte>(data >> (56 - 8 * i));
  out[31] = std::byte{kind > 1};  // the target actor; handshakes have none
  return frame(Channel::caf, 0, out + payload);
}

Bytes handshake(const NodeId& node) {
  std::vector<char> payload;
  caf::binary_serializer sink(nullptr, payload);
  REQUIRE(!sink(caf_node_id(node)));
  const auto bytes = std::as_bytes(std::span(payload));
  return basp(1, static_cast<uint32_t>(payload.size()), 0, {bytes.begin(), bytes.end()});
}

// A CAF message to an actor, with values of the named types.
Bytes values(const std::string& types, const Bytes& content) {
  std::vector<char> head;
  caf::binary_serializer sink(nullptr, head);
  size_t stages = 0;
  uint16_t named = 0;
  std::string name = "@<>" + types;
  REQUIRE(!sink.begin_sequence(stages));
  REQUIRE(!sink.begin_object(named, name));
  const auto bytes = std::as_bytes(std::span(head));
  return Bytes(bytes.begin(), bytes.end()) + content;
}

Bytes basp_values(const std::string& types, const Bytes& content) {
  const Bytes payload = values(types, content);
  return basp(2, static_cast<uint32_t>(payload.size()), 0, payload);
}

Bytes times(size_t count, const Bytes& bytes) {
  Bytes out;
  for (size_t i = 0; i < count; ++i) out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
}

// A socket that greets as /job:worker/task:7, or as a task with another number.
class Peer {
 public:
  explicit Peer(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const HostPort where = parse_address(address);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(where.port);
    inet_pton(AF_INET, where.host.c_str(), &to.sin_addr);
    const timeval patience{20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  }
  ~Peer() { ::close(fd_); }
  void greet(int32_t task = 7) {
    Hello hello{.cluster = "troupe",
                .job = "worker",
                .task = task,
                .incarnation = 1,
                .node = node_of_peer()};
    hello.node.process += static_cast<uint32_t>(task) - 7;
    const auto packet = encode(Greeting{GreetingKind::hello, Refusal::none, "", hello});
    say({packet.begin(), packet.end()});
    std::array<char, kGreetingBytes> answer;
    REQUIRE(recv(fd_, answer.data(), answer.size(), MSG_WAITALL) ==
            static_cast<ssize_t>(answer.size()));
    say(frame(Channel::control, static_cast<uint16_t>(Control::confirm), {}));
  }
  void say(const Bytes& bytes) { (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // False if the other side still listens after 20 s.
  bool hung_up() {
    char skip[4096];
    for (;;) {
      const ssize_t n = recv(fd_, skip, sizeof skip, 0);
      if (n == 0 || (n < 0 && errno == ECONNRESET)) return true;
      if (n < 0) return false;
    }
  }

 private:
  const int fd_;
};

struct Attack {
  std::string name;
  Bytes bytes;
  std::string reason;
};

// A list with one member.
Bytes members(const std::string& job, const std::string& address) {
  Bytes out;
  Writer writer(out);
  writer.number(uint32_t{1});
  writer.text(job);
  writer.number(int32_t{1});
  writer.number(uint64_t{1});
  writer.text(address);
  return frame(Channel::control, 3, out);
}

std::vector<Attack> attacks() {
  Bytes noise(4000);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<std::byte>(i * 2654435761u >> 7);
  const Bytes heartbeat = frame(Channel::control, 1, {});
  const auto with = [&](auto change) { return resealed(heartbeat, change); };
  NodeId other = node_of_peer();
  other.process = 1;
  const Bytes hands = handshake(node_of_peer());
  const Bytes four_gib = {std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                          std::byte{0x0f}};  // the length of a sequence
  // Code and category of an error, then the message with its text.
  const Bytes charbuf_in_error = Bytes(9, std::byte{1}) + values("+@charbuf", four_gib);
  const Bytes message_in_message = values("+@message", {});
  return {
      {"noise", noise, "header was damaged"},
      {"4 GiB of control", with([](auto& h) { h.length = ~0u; }), "past all limits"},
      {"a channel too many", with([](auto& h) { h.channel = 4; }), "past all limits"},
      {"unknown flags", with([](auto& h) { h.flags = 2; }), "past all limits"},
      {"a wrong checksum", with([](auto& h) { h.payload_crc = 1; }), "damaged on the way"},
      {"an unknown control frame", frame(Channel::control, 77, {}), "is not known"},
      {"a list of members that is cut", frame(Channel::control, 3, numbers({2})), "members"},
      {"a list of members with a tail", frame(Channel::control, 3, numbers({0})), "members"},
      {"a member whose address has a line end", members("ps", "1\n:2"), "members"},
      {"a member of a job without a name", members("", "127.0.0.1:1"), "members"},
      {"a member of a job that steers a terminal", members("\x1b[1m", "127.0.0.1:1"), "members"},
      {"credit out of nothing", frame(Channel::control, 2, numbers({1, int64_t{1} << 62})),
       "more credit"},
      {"a message of another length", frame(Channel::small, 0, numbers({1000})), "shorter"},
      {"an unknown message", frame(Channel::small, 99, numbers({4})), "kind"},
      {"a large message without any", frame(Channel::bulk, 1, numbers({1, 2, 3, 4, 5})), "message"},
      {"a step's end, said for another task",
       small_frame(encode(FinishStep{.session = 1, .task = "/job:worker/task:0"})),
       "it speaks for /job:worker/task:0"},
      {"a chunk of nothing", frame(Channel::bulk, 0, numbers({1}), 1), "belongs to no tensor"},
      {"CAF: no handshake", basp(2, 10, 0, Bytes(10)), "handshake is not first"},
      {"CAF: our own part", basp(0, 10, 4, Bytes(10)), "our part"},
      {"CAF: another node's handshake", handshake(other), "of another node"},
      {"CAF: a cut handshake", basp(1, 2, 0, Bytes(2)), "of another node"},
      {"CAF: an unknown kind", hands + basp(77, 0, 0), "kind 77"},
      {"CAF: a message of nothing", hands + basp(2, 0, 0), "has 0 bytes"},
      {"CAF: a monitor for nobody", hands + basp(4, 0, 0), "has 0 bytes"},
      {"CAF: 4 GiB", hands + basp(2, ~0u, 0), "past the limit"},
      {"CAF: a stream", hands + basp(2, 8, 3ull << 60, Bytes(8)), "stream"},
      {"CAF: 4 GiB in a message of 32 bytes", hands + basp_values("+@charbuf", four_gib),
       "type @charbuf"},
      {"CAF: the same inside of an error", hands + basp_values("+@error", charbuf_in_error),
       "type @charbuf"},
      {"CAF: lists of lists", hands + basp_values("+@config_value", Bytes(100, std::byte{7})),
       "type @config_value"},
      {"CAF: messages in messages",
       hands + basp_values("+@message", times(1000, message_in_message)), "more than"},
      {"CAF: a cut monitor", hands + basp(4, 3, 0, Bytes(3)), "CAF cannot read"},
  };
}

}  // namespace

TEST_CASE("a peer that greets and then sends garbage is hung up on, with one error that says why") {
  for (const Attack& attack : attacks()) {
    CAPTURE(attack.name);
    std::ostringstream log;
    {
      MeshNode a("ps", 0, {}, [&](MeshOptions& o) {
        o.log = std::make_shared<spdlog::logger>(
            "net", std::make_shared<spdlog::sinks::ostream_sink_mt>(log));
        o.log->set_level(spdlog::level::warn);
      });
      Peer peer(a.address);
      peer.greet();
      peer.say(attack.bytes);
      CHECK(peer.hung_up());
    }
    const std::string text = log.str();
    CAPTURE(text);
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
    CHECK(text.find("does not keep to the protocol") != text.npos);
    CHECK(text.find("/job:worker/task:7") != text.npos);
    CHECK(text.find(attack.reason) != text.npos);
  }
}

TEST_CASE("headers take the memory of all links together up to a limit") {
  MeshNode a("ps", 0, {}, [](MeshOptions& o) { o.arriving_bytes_max = 8 << 20; });
  const Encoded claim = encode(Pulled{.values = Tensor::empty(DType::f32, Shape{1 << 20})});
  Bytes header(claim.header.begin(), claim.header.end());
  MeshNode b("worker", 0, {a.address});
  REQUIRE(b.wait_members(1));
  Peer first(a.address), second(a.address);
  for (Peer* const peer : {&first, &second}) {
    peer->greet(peer == &first ? 7 : 8);
    peer->say(frame(Channel::bulk, claim.kind, header));
  }
  const auto has_read = [&](const char* task) {
    const auto stats = a.mesh->stats();
    const auto it = stats.find(task);
    return it != stats.end() && it->second.bytes_in > static_cast<int64_t>(header.size());
  };
  const Bytes heartbeat = frame(Channel::control, 1, {});
  const auto both_live = [&] {
    for (Peer* const peer : {&first, &second}) peer->say(heartbeat);
  };
  for (int tries = 0; tries < 1'000'000; ++tries) {
    if (has_read("/job:worker/task:7") && has_read("/job:worker/task:8")) break;
    both_live();
    std::this_thread::yield();
  }
  const auto to = a.make_inbox();
  size_t count = 0;
  const auto values = [&](int64_t elements) {
    send_as(b.make_inbox(), b.mesh->proxy("/job:ps/task:0", to->id()),
            Pulled{.values = Tensor::empty(DType::f32, Shape{elements})});
    ++count;
    for (int tries = 0; tries < 200; ++tries) {
      both_live();
      std::unique_lock lock(inbox(to).mutex);
      if (inbox(to).changed.wait_for(lock, 100ms,
                                     [&] { return inbox(to).messages.size() >= count; }))
        return inbox(to).messages.back().get_as<Pulled>(0);
    }
    return Pulled{};
  };
  const Pulled refused = values(1 << 20);
  CHECK(refused.code == Errc::out_of_memory);
  CHECK(refused.text.find("the limit of all is 8 MiB") != std::string::npos);
  CHECK(values(1 << 10).values.size() == 1 << 10);
}

TEST_CASE("after all of that a member still joins, and is answered") {
  MeshNode a("ps", 0, {});
  for (const Attack& attack : attacks()) {
    CAPTURE(attack.name);
    Peer peer(a.address);
    peer.greet();
    peer.say(attack.bytes);
    CHECK(peer.hung_up());
  }
  MeshNode b("worker", 0, {a.address});
  REQUIRE(b.wait_members(1));
  caf::scoped_actor asker{b.system};
  int got = -1;
  asker->request(b.agent_of("/job:ps/task:0"), 10s, 5)
      .receive([&](int x) { got = x; }, [](const caf::error&) {});
  CHECK(got == 50);
}

TEST_CASE("who dials while meshes start is greeted or refused, and ends none of them") {
  std::string address;
  {
    MeshNode first("ps", 0, {});
    address = first.address;
  }
  std::atomic<bool> over{false};
  std::atomic<int> connected{0};
  std::vector<std::thread> dialers;
  for (int i = 0; i < 2; ++i)
    dialers.emplace_back([&] {
      const HostPort where = parse_address(address);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(where.port);
      inet_pton(AF_INET, where.host.c_str(), &to.sin_addr);
      Hello hello{.cluster = "troupe", .job = "worker", .task = 7, .node = node_of_peer()};
      const auto packet = encode(Greeting{GreetingKind::hello, Refusal::none, "", hello});
      while (!over) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) {
          ++connected;
          (void)!::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL);
        }
        ::close(fd);
      }
    });
  for (int i = 0; i < 40; ++i) {
    MeshNode node("ps", 0, {}, [&](MeshOptions& o) { o.listen = address; });
    CHECK(node.address == address);
    const int before = connected;
    while (connected < before + 2) std::this_thread::yield();
  }
  over = true;
  for (auto& d : dialers) d.join();
}

}  // namespace troupe
