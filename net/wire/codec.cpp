// Encodes and decodes the messages of the data plane, field by field.
#include "net/wire/codec.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "net/wire/crc32c.hpp"

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the wire is little endian, and so is this code");

constexpr uint8_t kDefined = 1, kChecked = 2;

std::span<const std::byte> elements_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw()), static_cast<size_t>(tensor.byte_size())};
}

// Parameters and gradients must arrive unchanged; TCP's own checksum misses one bad packet in 2^16.
template <class M>
constexpr bool kWantsCrc = std::is_same_v<M, Push> || std::is_same_v<M, Pulled>;

struct FieldWriter {
  Writer out;
  Tensor& payload;
  bool wants_crc;

  template <class T>
  void one(const T& value) {
    if constexpr (std::is_same_v<T, std::string>)
      out.text(value, kTextMax - std::min(kTextMax, out.size()));  // bounds all texts together
    else if constexpr (std::is_same_v<T, Tensor>)
      tensor(value);
    else
      out.number(value);
  }
  void tensor(const Tensor& t) {
    const bool checked = wants_crc && t.defined();
    out.number(static_cast<uint8_t>((t.defined() ? kDefined : 0) | (checked ? kChecked : 0)));
    if (!t.defined()) return;
    TROUPE_CHECK(t.on_host(), "a tensor on a device cannot be sent; copy it to the host first");
    out.number(static_cast<uint8_t>(t.dtype()));
    out.number(static_cast<uint8_t>(t.ndim()));
    for (int i = 0; i < t.ndim(); ++i) out.number(int64_t{t.dim(i)});
    if (checked) out.number(crc32c(elements_of(t)));
    payload = t;
  }
  template <class... Fields>
  void operator()(const Fields&... all) {
    (one(all), ...);
  }
};

struct FieldReader {
  Reader in;
  TensorClaim& claim;

  template <class T>
  void one(T& value) {
    if constexpr (std::is_same_v<T, std::string>)
      value = in.text();
    else if constexpr (std::is_same_v<T, Errc>)
      value = in.errc();
    else if constexpr (std::is_same_v<T, bool>)
      value = in.boolean();
    else if constexpr (std::is_same_v<T, Tensor>)
      tensor();
    else
      value = in.number<T>();
  }
  void tensor() {
    const auto flags = in.number<uint8_t>();
    if (flags & ~(kDefined | kChecked)) return in.fail();
    if (!(flags & kDefined)) {
      if (flags) in.fail();
      return;
    }
    const auto dtype = in.number<uint8_t>();
    const auto ndim = in.number<uint8_t>();
    if (!is_dtype(dtype) || ndim > Shape::kNdimMax) return in.fail();
    claim.dtype = static_cast<DType>(dtype);
    int64_t dims[Shape::kNdimMax] = {};
    // The product of the non-zero sizes is bounded, too: a shape like [0, 2^62, 2^62] must not
    // pass.
    int64_t bytes = size_of(claim.dtype);
    bool empty = false;
    for (int i = 0; i < ndim; ++i) {
      dims[i] = in.number<int64_t>();
      if (dims[i] < 0 || dims[i] > kTensorBytesMax) return in.fail();
      if (dims[i] == 0) empty = true;
      if (dims[i] != 0 && __builtin_mul_overflow(bytes, dims[i], &bytes)) return in.fail();
      if (bytes > kTensorBytesMax) return in.fail();
    }
    if (flags & kChecked) claim.crc = in.number<uint32_t>();
    claim.checked = (flags & kChecked) != 0;
    claim.shape = Shape(std::span<const int64_t>(dims, ndim));
    claim.bytes = empty ? 0 : bytes;
    claim.defined = true;
  }
  template <class... Fields>
  void operator()(Fields&... all) {
    (one(all), ...);
  }
};

template <size_t I = 0>
bool make_kind(uint16_t kind, PlaneMessage& out) {
  if constexpr (I < std::variant_size_v<PlaneMessage>) {
    if (kind == I) {
      out.emplace<I>();
      return true;
    }
    return make_kind<I + 1>(kind, out);
  }
  return false;
}

template <class M>
auto* tensor_in(M& message) {
  using T = std::conditional_t<std::is_const_v<M>, const Tensor, Tensor>;
  T* found = nullptr;
  const auto look = [&found](auto& field) {
    if constexpr (std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(field)>>,
                                 Tensor>)
      found = &field;
  };
  std::visit([&](auto& m) { fields([&](auto&... all) { (look(all), ...); }, m); }, message);
  return found;
}

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
  if (value > static_cast<uint8_t>(Errc::end_of_data)) fail();
  return good_ ? static_cast<Errc>(value) : Errc::ok;
}

std::string Reader::text(size_t size_max) {
  const auto size = number<uint32_t>();
  if (size > size_max) fail();
  const std::byte* p = good_ ? take(size) : nullptr;
  return p ? std::string(reinterpret_cast<const char*>(p), size) : std::string();
}

Encoded encode(const PlaneMessage& message) {
  Encoded out;
  out.kind = static_cast<uint16_t>(message.index());
  out.header.reserve(160);
  std::visit(
      [&](const auto& m) {
        using M = std::remove_cvref_t<decltype(m)>;
        fields(FieldWriter{Writer(out.header), out.payload, kWantsCrc<M>}, m);
      },
      message);
  return out;
}

std::optional<Decoded> decode(uint16_t kind, std::span<const std::byte> header, std::string& why) {
  Decoded out;
  if (!make_kind(kind, out.message)) {
    why = detail::concat("message kind ", kind, " is not known");
    return std::nullopt;
  }
  if (header.size() > kHeaderMax) {
    why = detail::concat("a message header of ", header.size(), " bytes is past the limit of ",
                         kHeaderMax);
    return std::nullopt;
  }
  FieldReader reader{Reader(header), out.claim};
  std::visit([&](auto& m) { fields(reader, m); }, out.message);
  if (!reader.in.good() || !reader.in.at_end()) {
    why = detail::concat("a message header of kind ", kind, " and ", header.size(),
                         " bytes cannot be read");
    return std::nullopt;
  }
  return out;
}

Tensor* tensor_of(PlaneMessage& message) { return tensor_in(message); }
const Tensor* tensor_of(const PlaneMessage& message) { return tensor_in(message); }

void sanitize(Tensor& tensor) {
  if (tensor.dtype() != DType::boolean) return;
  auto* p = static_cast<uint8_t*>(tensor.mutable_raw());
  for (int64_t i = 0, n = tensor.size(); i < n; ++i) p[i] = p[i] != 0;
}

std::optional<PlaneMessage> refusal_of(const PlaneMessage& message, Errc code,
                                       const std::string& text) {
  if (const auto* m = std::get_if<Push>(&message))
    return Acknowledged{m->ticket, m->slice, code, text, 0};
  if (const auto* m = std::get_if<Pull>(&message))
    return Pulled{m->ticket, m->slice, code, text, 0, {}};
  if (const auto* m = std::get_if<StartStep>(&message))
    return FinishStep{m->session, m->executable, m->run, "", code, text, 0};
  return std::nullopt;
}

std::optional<PlaneMessage> failed_form_of(const PlaneMessage& message, Errc code,
                                           const std::string& text) {
  if (const auto* m = std::get_if<Deliver>(&message)) return Deliver{m->key, false, code, text, {}};
  if (const auto* m = std::get_if<Pulled>(&message))
    return Pulled{m->ticket, m->slice, code, text, m->version, {}};
  return std::nullopt;
}

}  // namespace troupe
