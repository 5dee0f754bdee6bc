// The bytes of a peer that has greeted: frames, and tensors in chunks.
//
// An input is a list of frames: channel u8, flags u8, type u16, target u64, length u16 and as many
// bytes. They get checksums that are right; what is left of the input goes as it is.
#include <algorithm>
#include <cstring>

#include "net/link/link.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/data_messages.hpp"
#include "tests/support/raw_frames.hpp"

namespace troupe::fuzz {
namespace {

// A connection whose other end is this program.
class Pipe final : public Connection {
 public:
  void start(ConnectionHandlers handlers) override { handlers_ = std::move(handlers); }
  size_t write(std::span<const std::span<const std::byte>> parts,
               std::span<const int> /*descriptors*/) override {
    size_t out = 0;
    for (const auto& part : parts) out += part.size();
    return out;
  }
  void close() override { open_ = false; }
  std::string peer_address() const override { return "127.0.0.1:1"; }

  void feed(std::span<const std::byte> bytes) {
    while (open_ && !bytes.empty()) {
      const auto room = handlers_.room();
      size_t count = 0;
      for (const auto to : {room.first, room.second}) {
        const size_t n = std::min(to.size(), bytes.size());
        if (n > 0) std::memcpy(to.data(), bytes.data(), n);
        bytes = bytes.subspan(n);
        count += n;
      }
      promise(count > 0, "a link has room for what it has not read");
      handlers_.on_bytes(count);
    }
  }

 private:
  ConnectionHandlers handlers_;
  bool open_ = true;
};

Hello hello_of(int32_t task) {
  Hello out{.cluster = "troupe", .job = "worker", .task = task, .incarnation = 1};
  out.node.process = static_cast<uint32_t>(task + 1);
  return out;
}

struct Host final : LinkHost {
  static constexpr int64_t kMost = 64 << 20;
  Greeting judge(Link&, const Greeting&) override {
    return {GreetingKind::hello, Refusal::none, "", hello_of(0)};
  }
  void established(Link&) override {}
  void control(Link&, Control, std::span<const std::byte>) override {}
  void caf_bytes(Link& link, std::span<const std::byte> bytes) override {
    link.eaten(bytes.size());
  }
  std::optional<TensorClaim> claim(uint16_t kind, std::span<const std::byte> header,
                                   std::string& why) override {
    return data_kinds()->claim(kind, header, why);
  }
  void message(Link&, Received got) override {
    if (got.code == Errc::ok) data_kinds()->at(got.kind).decode(got.header, std::move(got.payload));
  }
  Tensor allocate(DType dtype, const Shape& shape) override {
    if (size_of(dtype) * shape.size() > kMost) throw Error(Errc::out_of_memory, "too large");
    return Tensor::empty(dtype, shape);
  }
  void closed(Link&, const std::string&, Refusal) override {}
};

void run_frames(std::string_view bytes) {
  Host host;
  std::vector<std::function<void()>> posted;
  const auto pipe = std::make_shared<Pipe>();
  const auto link = std::make_shared<Link>(
      Link::Role::acceptor, pipe, Greeting{GreetingKind::hello, Refusal::none, "", hello_of(0)},
      host, [&](std::function<void()> fn) { posted.push_back(std::move(fn)); }, TimePoint{});
  link->start();
  pipe->feed(encode(Greeting{GreetingKind::hello, Refusal::none, "", hello_of(1)}));
  pipe->feed(frame(Channel::control, static_cast<uint16_t>(Control::confirm), {}));
  promise(link->state() == Link::State::up, "a good greeting brings a link up");
  Input in(bytes);
  while (!in.empty()) {
    const auto channel = in.number<uint8_t>(), flags = in.number<uint8_t>();
    const auto type = in.number<uint16_t>();
    const auto target = in.number<uint64_t>();
    const auto payload = bytes_of(in.text(in.number<uint16_t>()));
    Bytes whole =
        frame(static_cast<Channel>(channel), type, {payload.begin(), payload.end()}, flags);
    whole = resealed(whole, [&](HeaderBytes& header) { header.target = target; });
    pipe->feed(whole);
  }
  pipe->feed(bytes_of(bytes));
  for (const auto& fn : posted) fn();
  link->close_now("the input ends");
}

std::string one(Channel channel, uint8_t flags, uint16_t type, uint64_t target,
                const Bytes& payload) {
  Bytes out;
  Writer writer(out);
  writer.number(static_cast<uint8_t>(channel));
  writer.number(flags);
  writer.number(type);
  writer.number(target);
  writer.number(static_cast<uint16_t>(payload.size()));
  return text_of(out + payload);
}

Seeds seeds() {
  const Encoded start = troupe::encode(StartStep{.session = 1, .run = 2});
  const Encoded pulled =
      troupe::encode(Pulled{.ticket = 1, .values = Tensor::of<float>({1, 2}, {2})});
  Bytes small, with_values;
  Writer writer(small), more(with_values);
  writer.number(static_cast<uint32_t>(start.header.size()));
  writer.bytes(start.header.data(), start.header.size());
  more.number(static_cast<uint32_t>(pulled.header.size()));
  more.bytes(pulled.header.data(), pulled.header.size());
  const auto elements = elements_of(pulled.payload);
  const Bytes values(elements.begin(), elements.end());
  const Bytes credit(16);
  return {one(Channel::control, 0, 1, 0, {}) + one(Channel::control, 0, 2, 0, credit),
          one(Channel::small, 0, start.kind, 5, small),
          one(Channel::small, 0, pulled.kind, 5, with_values + values),
          one(Channel::bulk, 0, pulled.kind, 5, pulled.header) +
              one(Channel::bulk, 1, 0, 0, Bytes(values.begin(), values.begin() + 4)) +
              one(Channel::bulk, 1, 0, 0, Bytes(values.begin() + 4, values.end())),
          one(Channel::caf, 0, 0, 0, Bytes(32))};
}

}  // namespace

Target frames_target() { return {"frames", run_frames, seeds}; }

}  // namespace troupe::fuzz
