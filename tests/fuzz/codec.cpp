// The header of a message of the data plane, of each kind.
#include "tests/fuzz/targets.hpp"
#include "tests/support/data_messages.hpp"

namespace troupe::fuzz {
namespace {

void run_codec(std::string_view bytes) {
  Input in(bytes);
  const auto kind = in.number<uint8_t>();
  const auto header = bytes_of(in.rest());
  std::string why;
  const auto claim = data_kinds()->claim(kind, header, why);
  promise(claim || !why.empty(), "a refused header has a reason");
  if (!claim || claim->bytes > 1 << 20) return;
  Tensor payload = claim->defined ? Tensor::empty(claim->dtype, claim->shape) : Tensor();
  promise(!claim->defined || payload.byte_size() == claim->bytes, "a claim counts its bytes");
  const caf::message message = data_kinds()->at(kind).decode(header, payload);
  const Encoded again = data_kinds()->encode(message);
  promise(data_kinds()->claim(kind, again.header, why).has_value(), "a message can be said again");
}

template <class M>
std::string seed(const M& message) {
  const Encoded out = troupe::encode(message);
  return std::string(1, static_cast<char>(out.kind)) + text_of(out.header);
}

Seeds seeds() {
  const Tensor values = Tensor::of<float>({1, 2, 3, 4}, {2, 2});
  return {seed(Deliver{.key = {.session = 1, .edge = 2}, .value = values}),
          seed(StartStep{.session = 1, .run = 7}),
          seed(FinishStep{.session = 1, .task = "/job:worker/task:1", .text = "done"}),
          seed(CancelStep{.session = 1, .run = 7}),
          seed(Push{.step = 3, .gradient = values}),
          seed(Acknowledged{.ticket = 9}),
          seed(Pull{.ticket = 9}),
          seed(Pulled{.ticket = 9, .text = "stale", .values = values})};
}

}  // namespace

Target codec_target() { return {"codec", run_codec, seeds}; }

}  // namespace troupe::fuzz
