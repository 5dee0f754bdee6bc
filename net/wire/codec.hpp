// Codec of the data plane: a message becomes a small header and the memory of at most one tensor.
// Nothing is allocated by what a header claims before the claim has been checked. Little endian.
#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "net/wire/messages.hpp"

namespace troupe {

inline constexpr size_t kTextMax = 64 << 10;                // a longer text is cut when it is sent
inline constexpr size_t kHeaderMax = kTextMax + (4 << 10);  // encoded message without elements
inline constexpr int64_t kTensorBytesMax = int64_t{8} << 30;  // one tensor on the wire

// Little-endian values, appended to a buffer.
class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}
  void bytes(const void* data, size_t size) {
    const size_t at = out_.size();
    out_.resize(at + size);
    if (size > 0) std::memcpy(out_.data() + at, data, size);
  }
  template <class T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) void number(T value) {
    bytes(&value, sizeof value);
  }
  void text(std::string_view text, size_t size_max = kTextMax);  // a longer one is cut
  size_t size() const { return out_.size(); }

 private:
  std::vector<std::byte>& out_;
};

// Reads them back; past the end, or after a bad value, good() is false and everything reads as
// zero.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  bool good() const { return good_; }
  bool at_end() const { return in_.empty(); }
  void fail() { good_ = false; }
  template <class T>
  requires(std::is_integral_v<T>) T number() {
    T value{};
    if (const std::byte* p = take(sizeof value)) std::memcpy(&value, p, sizeof value);
    return value;
  }
  bool boolean();
  Errc errc();
  std::string text(size_t size_max = kTextMax);
  std::span<const std::byte> rest() { return std::exchange(in_, {}); }

 private:
  const std::byte* take(size_t size);

  std::span<const std::byte> in_;
  bool good_ = true;
};

// What is said of a tensor before its elements come.
struct TensorClaim {
  bool defined = false;
  DType dtype = DType::none;
  Shape shape;
  int64_t bytes = 0;
  uint32_t crc = 0;  // of the elements, where `checked`
  bool checked = false;
};

struct Encoded {
  uint16_t kind = 0;  // index in PlaneMessage
  std::vector<std::byte> header;
  Tensor payload;  // its elements follow; may be undefined
};
// Requires: the message's tensor is undefined or on the host. Gradients and pulled values carry a
// crc32c.
Encoded encode(const PlaneMessage& message);

// A message whose tensor, if `claim.defined`, is still to come.
struct Decoded {
  PlaneMessage message;
  TensorClaim claim;
};
// Nothing, and `why`, if the header is not what encode() makes.
std::optional<Decoded> decode(uint16_t kind, std::span<const std::byte> header, std::string& why);

// The tensor of a message; null for a kind that has none.
Tensor* tensor_of(PlaneMessage& message);
const Tensor* tensor_of(const PlaneMessage& message);
// Elements that came from outside: a bool is 0 or 1 afterwards.
void sanitize(Tensor& tensor);

// What tells the sender of `message` that it will not be answered; nothing for a message without an
// answer.
std::optional<PlaneMessage> refusal_of(const PlaneMessage& message, Errc code,
                                       const std::string& text);
// `message` as its receiver gets it when its tensor is lost: with that error, or, if it cannot
// carry one, nothing.
std::optional<PlaneMessage> failed_form_of(const PlaneMessage& message, Errc code,
                                           const std::string& text);

}  // namespace troupe
