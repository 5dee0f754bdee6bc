// The bytes of events: a varint of the kind and the replica, and the step where it is not the usual
// one.
#include "training/rules/order.hpp"

#include "troupe/error.hpp"

namespace troupe {
namespace {

// pull: of the step after the replica's newest; push: of its newest step. The others have a step.
enum Code : uint8_t { next_pull, same_push, any_pull, any_push, a_round, kCodes };
constexpr int kCodeBits = 3;

uint64_t zigzag(int64_t n) {
  return (static_cast<uint64_t>(n) << 1) ^ static_cast<uint64_t>(n >> 63);
}
int64_t from_zigzag(uint64_t n) {
  return static_cast<int64_t>(n >> 1) ^ -static_cast<int64_t>(n & 1);
}

int64_t& newest(std::map<int32_t, int64_t>& at, int32_t replica) {
  return at.try_emplace(replica, -1).first->second;
}

}  // namespace

void put_varint(std::string& out, uint64_t number) {
  for (; number >= 0x80; number >>= 7) out.push_back(static_cast<char>(number | 0x80));
  out.push_back(static_cast<char>(number));
}

bool take_varint(std::string_view& bytes, uint64_t& number) {
  number = 0;
  for (size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (i == 9 && byte > 1) return false;  // more than 64 bits
    number |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

void OrderWriter::add(const OrderEvent& event) {
  const auto put = [this](Code code, uint64_t number) {
    put_varint(bytes_, number << kCodeBits | code);
  };
  if (event.kind == OrderEvent::round) {
    put(a_round, event.replicas.size());
    put_varint(bytes_, zigzag(event.step - round_ - 1));
    int32_t before = -1;
    for (const int32_t replica : event.replicas) {
      put_varint(bytes_, static_cast<uint64_t>(replica - before - 1));
      before = replica;
    }
    round_ = event.step;
    return;
  }
  const bool pull = event.kind == OrderEvent::pull;
  const auto replica = static_cast<uint64_t>(event.replica);
  int64_t& at = newest(at_, event.replica);
  if (event.step == at + (pull ? 1 : 0)) {
    put(pull ? next_pull : same_push, replica);
  } else {
    put(pull ? any_pull : any_push, replica);
    put_varint(bytes_, zigzag(event.step - at));
  }
  at = event.step;
}

void OrderReader::refuse(const char* why) const {
  throw Error(Errc::bad_data, "byte ", size_ - rest_.size(), " of the events: ", why);
}

uint64_t OrderReader::number() {
  uint64_t out = 0;
  if (!take_varint(rest_, out)) refuse("expected a number, found none");
  return out;
}

int64_t OrderReader::step_after(int64_t step) {
  const int64_t by = from_zigzag(number());
  int64_t out = 0;
  if (__builtin_add_overflow(step, by, &out) || out < 0 || out > INT64_MAX / 2)
    refuse("expected a step, found a number that is none");
  return out;
}

bool OrderReader::next(OrderEvent& event) {
  if (rest_.empty()) return false;
  const uint64_t head = number(), n = head >> kCodeBits;
  const auto code = static_cast<uint8_t>(head & ((1 << kCodeBits) - 1));
  if (code >= kCodes) refuse("expected the kind of an event, found another number");
  if (n > INT32_MAX) refuse("expected a replica, found a larger number");
  if (code == a_round) {
    event = {.kind = OrderEvent::round, .step = step_after(round_ + 1)};
    if (n > rest_.size()) refuse("a round has more replicas than bytes follow");
    int64_t before = -1;
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t gap = number();
      if (gap > INT32_MAX || before + 1 + static_cast<int64_t>(gap) > INT32_MAX)
        refuse("expected a replica, found a larger number");
      before += 1 + static_cast<int64_t>(gap);
      event.replicas.push_back(static_cast<int32_t>(before));
    }
    round_ = event.step;
    return true;
  }
  const auto replica = static_cast<int32_t>(n);
  int64_t& at = newest(at_, replica);
  const bool pull = code == next_pull || code == any_pull;
  event = {.kind = pull ? OrderEvent::pull : OrderEvent::push, .replica = replica};
  if (code == next_pull) event.step = at + 1;
  if (code == same_push) event.step = at;
  if (code == any_pull || code == any_push) event.step = step_after(at);
  if (event.step < 0) refuse("a push has no step");
  at = event.step;
  return true;
}

}  // namespace troupe
