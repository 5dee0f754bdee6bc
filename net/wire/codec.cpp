// Encodes and decodes the fields of messages.
#include "net/wire/codec.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "graph/base/crc32c.hpp"

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the wire is little endian, and so is this code");

constexpr uint8_t kDefined = 1, kChecked = 2;

}  // namespace

void Writer::text(std::string_view text, size_t size_max) {
  static constexpr std::string_view kCut = "... (cut)";
  const size_t size = std::min(text.size(), size_max);
  const size_t tail = size < text.size() ? std::min(kCut.size(), size) : 0;
  number(static_cast<uint32_t>(size));
  bytes(text.data(), size - tail);
  bytes(kCut.data(), tail);
}

const std::byte* Reader::take(size_t size) {
  if (!good_ || in_.size() < size) {
    good_ = false;
    return nullptr;
  }
  const std::byte* p = in_.data();
  in_ = in_.subspan(size);
  return p;
}

bool Reader::boolean() {
  const auto value = number<uint8_t>();
  if (value > 1) fail();
  return value == 1;
}

Errc Reader::errc() {
  const auto value = number<uint8_t>();
  if (value > static_cast<uint8_t>(Errc::device_lost)) fail();
  return good_ ? static_cast<Errc>(value) : Errc::ok;
}

std::string_view Reader::text(size_t size_max) {
  const auto size = number<uint32_t>();
  if (size > size_max) fail();
  const std::byte* p = good_ ? take(size) : nullptr;
  return p ? std::string_view(reinterpret_cast<const char*>(p), size) : std::string_view();
}

void FieldWriter::write(const Tensor& t) {
  const bool checked = checked_ && t.defined();
  out_.number(static_cast<uint8_t>((t.defined() ? kDefined : 0) | (checked ? kChecked : 0)));
  if (!t.defined()) return;
  TROUPE_CHECK(t.on_host(), "a tensor on a device cannot be sent; copy it to the host first");
  out_.number(static_cast<uint8_t>(t.dtype()));
  out_.number(static_cast<uint8_t>(t.ndim()));
  for (int i = 0; i < t.ndim(); ++i) out_.number(int64_t{t.dim(i)});
  if (checked) out_.number(crc32c(elements_of(t)));
  payload_ = t;
}

void FieldReader::read_claim() {
  const auto flags = in_.number<uint8_t>();
  if (flags & ~(kDefined | kChecked)) return in_.fail();
  if (!(flags & kDefined)) {
    if (flags) in_.fail();
    return;
  }
  const auto dtype = in_.number<uint8_t>();
  const auto ndim = in_.number<uint8_t>();
  if (!is_dtype(dtype) || ndim > Shape::kNdimMax) return in_.fail();
  claim_.dtype = static_cast<DType>(dtype);
  int64_t dims[Shape::kNdimMax] = {};
  // The product of the non-zero sizes is bounded, too: a shape like [0, 2^62, 2^62] must not pass.
  int64_t bytes = size_of(claim_.dtype);
  bool empty = false;
  for (int i = 0; i < ndim; ++i) {
    dims[i] = in_.number<int64_t>();
    if (dims[i] < 0 || dims[i] > kTensorBytesMax) return in_.fail();
    if (dims[i] == 0) empty = true;
    if (dims[i] != 0 && __builtin_mul_overflow(bytes, dims[i], &bytes)) return in_.fail();
    if (bytes > kTensorBytesMax) return in_.fail();
  }
  if (flags & kChecked) claim_.crc = in_.number<uint32_t>();
  claim_.checked = (flags & kChecked) != 0;
  claim_.shape = Shape(std::span<const int64_t>(dims, ndim));
  claim_.bytes = empty ? 0 : bytes;
  claim_.defined = true;
}

void sanitize(Tensor& tensor) {
  if (tensor.dtype() != DType::boolean) return;
  auto* p = static_cast<uint8_t*>(tensor.mutable_raw());
  for (int64_t i = 0, n = tensor.size(); i < n; ++i) p[i] = p[i] != 0;
}

}  // namespace troupe
