// The data plane's codec: messages survive a round trip, and nothing malformed is accepted.
#include "net/wire/codec.hpp"

#include <doctest/doctest.h>

#include <random>

#include "net/link/hello.hpp"
#include "graph/base/crc32c.hpp"
#include "tests/support/data_messages.hpp"

namespace troupe {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// One of each kind, every field different from its default.
std::vector<caf::message> examples() {
  const auto made = [](const auto&... all) { return std::vector{caf::make_message(all)...}; };
  const Tensor values = Tensor::of<float>({1, -2.5f, 3, 4, 5, 6}, Shape{2, 3});
  const Key key{7, 8, 9, 10, 11, 12};
  return made(Deliver{key, false, Errc::ok, "text", values},
              Deliver{key, true, Errc::kernel_failed, "", {}},
              Deliver{key, false, Errc::ok, "", Tensor::scalar<int64_t>(-5)},
              Deliver{key, false, Errc::ok, "", Tensor::empty(DType::f64, Shape{0, 4})},
              StartStep{1, 2, 3, 4, 5, 6, 7},
              FinishStep{1, 2, 3, "/job:worker/task:1", Errc::cancelled, "why", true},
              CancelStep{1, 2, 3}, Push{1, 2, 3, 4, 5, 6, 7, values},
              Acknowledged{1, 2, Errc::stale, "old", 5}, Pull{1, 2, 3, 4, 5, 6},
              Pulled{1, 2, Errc::peer_lost, "gone", 9, values});
}

std::optional<TensorClaim> claim_of(uint16_t kind, std::span<const std::byte> header) {
  std::string why;
  auto claim = data_kinds()->claim(kind, header, why);
  CHECK(claim.has_value() == why.empty());
  return claim;
}

// Receives as a link does: memory for the claim, elements, crc.
std::optional<caf::message> receive(uint16_t kind, std::span<const std::byte> header,
                                    std::span<const std::byte> elements) {
  const auto claim = claim_of(kind, header);
  if (!claim || claim->bytes != static_cast<int64_t>(elements.size())) return std::nullopt;
  if (claim->checked && claim->crc != crc32c(elements)) return std::nullopt;
  Tensor tensor;
  if (claim->defined) {
    tensor = Tensor::empty(claim->dtype, claim->shape);
    if (!elements.empty()) std::memcpy(tensor.mutable_raw(), elements.data(), elements.size());
    sanitize(tensor);
  }
  return data_kinds()->at(kind).decode(header, tensor);
}

std::vector<std::byte> elements_of(const Encoded& e) {
  if (!e.payload.defined()) return {};
  const auto bytes = elements_of(e.payload);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("crc32c agrees with RFC 3720 and with its table version") {
  CHECK(crc32c(bytes_of("123456789")) == 0xe3069283u);
  CHECK(crc32c(std::vector<std::byte>(32, std::byte{0})) == 0x8a9136aau);
  std::mt19937 rng(1);
  for (size_t n = 0; n < 70; ++n) {
    std::vector<std::byte> bytes(n);
    for (auto& b : bytes) b = static_cast<std::byte>(rng());
    CHECK(crc32c(bytes) == crc32c_portable(bytes));
    const size_t cut = n ? rng() % n : 0;
    CHECK(crc32c(std::span(bytes).subspan(cut), crc32c(std::span(bytes).first(cut))) ==
          crc32c(bytes));
  }
}

TEST_CASE("every message comes back as it was") {
  for (const caf::message& message : examples()) {
    const Encoded encoded = data_kinds()->encode(message);
    CAPTURE(encoded.kind);
    const auto back = receive(encoded.kind, encoded.header, elements_of(encoded));
    REQUIRE(back);
    const Encoded again = data_kinds()->encode(*back);
    CHECK(again.kind == encoded.kind);
    CHECK(again.header == encoded.header);  // every field is in the header
    CHECK(again.payload.defined() == encoded.payload.defined());
    if (again.payload.defined()) CHECK(same_bits(again.payload, encoded.payload));
  }
}

TEST_CASE("the elements of gradients and pulled values are checked") {
  for (const caf::message& message : examples()) {
    const Encoded encoded = data_kinds()->encode(message);
    const bool checked = message.match_elements<Deliver>() || message.match_elements<Push>() ||
                         message.match_elements<Pulled>();
    if (!encoded.payload.defined()) continue;
    CHECK(claim_of(encoded.kind, encoded.header)->checked == checked);
  }
}

TEST_CASE("a text that is too long is cut and says so") {
  const Encoded encoded =
      encode(FinishStep{1, 2, 3, "t", Errc::internal, std::string(200'000, 'x'), 0});
  CHECK(encoded.header.size() <= kHeaderMax);
  const auto back = receive(encoded.kind, encoded.header, {});
  REQUIRE(back);
  const std::string& text = back->get_as<FinishStep>(0).text;
  CHECK(text.size() > kTextMax - 200);
  CHECK(text.ends_with("... (cut)"));
}

TEST_CASE("headers that are cut or have bytes left over are refused") {
  for (const caf::message& message : examples()) {
    const Encoded encoded = data_kinds()->encode(message);
    for (size_t n = 0; n < encoded.header.size(); ++n)
      CHECK(!claim_of(encoded.kind, std::span(encoded.header).first(n)));
    auto longer = encoded.header;
    longer.push_back(std::byte{0});
    CHECK(!claim_of(encoded.kind, longer));
  }
  std::string why;
  CHECK(!data_kinds()->claim(99, {}, why));
  CHECK(why.find("99") != why.npos);
}

TEST_CASE("shapes whose product overflows are refused before anything is allocated") {
  const int64_t huge = int64_t{1} << 32;
  const std::vector<std::vector<int64_t>> shapes = {{huge, huge},          {kTensorBytesMax + 1},
                                                    {0, huge, huge},       {-1},
                                                    {int64_t{1} << 62, 8}, {kTensorBytesMax, 2}};
  for (const auto& dims : shapes) {
    std::vector<std::byte> header;
    Writer w(header);
    w.number<uint64_t>(1);  // ticket
    w.number<uint32_t>(1);
    w.number<uint8_t>(0);
    w.text("");
    w.number<int64_t>(1);
    w.number<uint8_t>(1);  // defined
    w.number(static_cast<uint8_t>(DType::f32));
    w.number(static_cast<uint8_t>(dims.size()));
    for (int64_t d : dims) w.number(d);
    const uint16_t pulled = 7;
    CHECK(!claim_of(pulled, header));
  }
}

TEST_CASE("damaged headers never crash and never make memory beyond the limit") {
  std::mt19937_64 rng(42);
  int64_t accepted = 0;
  for (int round = 0; round < 100'000; ++round) {
    const auto all = examples();
    const Encoded encoded = data_kinds()->encode(all[rng() % all.size()]);
    auto header = encoded.header;
    const int flips = 1 + static_cast<int>(rng() % 4);
    for (int i = 0; i < flips && !header.empty(); ++i)
      header[rng() % header.size()] ^= static_cast<std::byte>(1u << (rng() % 8));
    if (rng() % 4 == 0 && !header.empty()) header.resize(rng() % header.size());
    const auto kind = rng() % 8 == 0 ? static_cast<uint16_t>(rng() % 10) : encoded.kind;
    const auto claim = claim_of(kind, header);
    if (!claim) continue;
    ++accepted;
    CHECK(claim->bytes >= 0);
    CHECK(claim->bytes <= kTensorBytesMax);
    if (claim->defined) CHECK(claim->bytes == claim->shape.size() * size_of(claim->dtype));
  }
  CHECK(accepted > 1000);  // most flips change a number, which leaves a valid message
}

TEST_CASE("a bool from outside is true or false") {
  Tensor t = Tensor::empty(DType::boolean, Shape{3});
  const uint8_t raw[] = {0, 1, 7};
  std::memcpy(t.mutable_raw(), raw, 3);
  sanitize(t);
  CHECK(same_bits(t, Tensor::of<bool>({false, true, true}, Shape{3})));
}

TEST_CASE("a greeting whose texts could forge a line of a log is refused") {
  const Greeting good{GreetingKind::refusal,
                      Refusal::busy,
                      "no",
                      {.cluster = "c", .job = "ps", .address = "127.0.0.1:7000"}};
  REQUIRE(decode_greeting(encode(good)));
  for (const char* bad : {"a\nb", "a\rb", "\x1b[31m", "\xff", "\x7f"}) {
    Greeting g = good;
    g.text = bad;
    CHECK(!decode_greeting(encode(g)));
    CHECK(refusal_text(encode(g)).empty());
    g = good;
    g.hello.address = bad;
    CHECK(!decode_greeting(encode(g)));
  }
}

TEST_CASE("a greeting comes back as it was, and a damaged one does not") {
  Greeting g{.kind = GreetingKind::refusal, .refusal = Refusal::other_ops, .text = "no"};
  g.hello = {"cluster", "ps", 3, 0x1122334455667788, {9, {1, 2, 3}}, 77, 5, 2500, "127.0.0.1:7000"};
  auto packet = encode(g);
  CHECK(check_prefix(packet) == Refusal::none);
  const auto back = decode_greeting(packet);
  REQUIRE(back);
  CHECK(encode(*back) == packet);
  CHECK(back->hello.name() == "/job:ps/task:3");
  CHECK(back->hello.node == g.hello.node);
  for (size_t i = kGreetingPrefix; i < packet.size(); ++i) {
    packet[i] ^= std::byte{1};
    CHECK(!decode_greeting(packet));
    packet[i] ^= std::byte{1};
  }
  packet[8] ^= std::byte{2};
  CHECK(check_prefix(packet) == Refusal::other_version);
  CHECK(refusal_text(packet) == "no");  // still readable
  CHECK(check_prefix(bytes_of("GET / HTTP/1.1\r\n")) == Refusal::not_ours);
  CHECK(check_prefix(bytes_of("TROU")) == Refusal::none);
}

}  // namespace troupe
