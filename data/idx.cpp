// read_idx() of troupe/data.hpp: the format of MNIST's files (LeCun,
// http://yann.lecun.com/exdb/mnist/): two zero bytes, an element type, the number of dimensions,
// each size as 4 big-endian bytes, then the elements, big-endian and row-major.
#include "data/idx.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "data/bytes.hpp"
#include "troupe/data.hpp"

namespace troupe {
namespace {

struct ElementType {
  unsigned char code;
  const char* name;
  int64_t bytes;
  DType dtype;
};
constexpr ElementType kTypes[] = {{0x08, "u8", 1, DType::u8},   {0x09, "i8", 1, DType::i32},
                                  {0x0b, "i16", 2, DType::i32}, {0x0c, "i32", 4, DType::i32},
                                  {0x0d, "f32", 4, DType::f32}, {0x0e, "f64", 8, DType::f64}};

template <class... Parts>
Error wrong(const ByteSource& file, int64_t offset, const Parts&... parts) {
  return Error(Errc::bad_data, file.path(), ": at byte ", offset, ": ", detail::concat(parts...));
}

void read_all(ByteSource& file, std::span<char> into, const char* what) {
  const int64_t begin = file.offset(), n = file.read(into);
  if (n < static_cast<int64_t>(into.size()))
    throw wrong(file, begin + n, "expected ", into.size(), " bytes of ", what, ", found ", n,
                "; the file is cut short");
}

uint64_t big_endian(const char* bytes, int64_t count) {
  uint64_t value = 0;
  for (int64_t i = 0; i < count; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

const ElementType& read_type(ByteSource& file, int& ndim) {
  char magic[4];
  read_all(file, magic, "magic number");
  const auto code = static_cast<unsigned char>(magic[2]);
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const ElementType& t) { return t.code == code; });
  ndim = static_cast<unsigned char>(magic[3]);
  if (magic[0] != 0 || magic[1] != 0 || type == std::end(kTypes))
    throw wrong(file, 0,
                "expected the magic number 00 00, a type of 08 09 0b 0c 0d 0e, and a number of "
                "dimensions; found ",
                big_endian(magic, 4), " as a number; this is not an IDX file");
  if (ndim < 1 || ndim > Shape::kNdimMax)
    throw wrong(file, 3, "expected 1 to ", Shape::kNdimMax, " dimensions, found ", ndim);
  return *type;
}

Shape read_shape(ByteSource& file, int ndim, const ElementType& type, int64_t bytes_max) {
  std::vector<int64_t> dims;
  int64_t bytes = type.bytes;
  for (int i = 0; i < ndim; ++i) {
    char raw[4];
    const int64_t at = file.offset();
    read_all(file, raw, "size");
    const auto size = static_cast<int64_t>(big_endian(raw, 4));
    if (size > bytes_max / std::max<int64_t>(bytes, 1))
      throw wrong(file, at, "size ", size, " makes the elements more than ", bytes_max, " bytes");
    dims.push_back(size);
    bytes *= size;
  }
  // Before memory is allocated: no file of this size can hold so much.
  if (bytes > file.bytes_max() - file.offset())
    throw wrong(file, file.offset(), "the sizes ask for ", bytes,
                " bytes of elements, but the file has at most ", file.bytes_max() - file.offset());
  return Shape(dims);
}

// Converts `count` big-endian elements of `type` at `bytes` into `out`.
template <class T>
void convert(const char* bytes, int64_t count, const ElementType& type, T* out) {
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = big_endian(bytes + i * type.bytes, type.bytes);
    if constexpr (std::is_same_v<T, float>)
      out[i] = std::bit_cast<float>(static_cast<uint32_t>(bits));
    else if constexpr (std::is_same_v<T, double>)
      out[i] = std::bit_cast<double>(bits);
    else if (type.bytes == 1)
      out[i] = static_cast<T>(static_cast<int8_t>(bits));  // NOLINT: the sign is meant
    else if (type.bytes == 2)
      out[i] = static_cast<int16_t>(bits);
    else
      out[i] = static_cast<int32_t>(bits);
  }
}

template <class T>
void read_converted(ByteSource& file, const ElementType& type, Tensor& out) {
  constexpr int64_t kChunk = 64 << 10;  // elements
  std::vector<char> raw(static_cast<size_t>(std::min(kChunk, out.size()) * type.bytes));
  T* to = out.mutable_data<T>();
  for (int64_t at = 0; at < out.size(); at += kChunk) {
    const int64_t n = std::min(kChunk, out.size() - at);
    read_all(file, {raw.data(), static_cast<size_t>(n * type.bytes)}, "elements");
    convert(raw.data(), n, type, to + at);
  }
}

}  // namespace

Tensor read_idx(const std::string& path, int64_t bytes_max) {
  return read_idx(local_files().open(path), bytes_max);
}

Tensor read_idx(std::shared_ptr<const RandomFile> from, int64_t bytes_max) {
  ByteSource file(std::move(from));
  int ndim = 0;
  const ElementType& type = read_type(file, ndim);
  const Shape shape = read_shape(file, ndim, type, bytes_max);
  Tensor out = Tensor::empty(type.dtype, shape);
  switch (type.dtype) {
    case DType::u8:
      read_all(file, {static_cast<char*>(out.mutable_raw()), static_cast<size_t>(out.byte_size())},
               "elements");
      break;
    case DType::f32:
      read_converted<float>(file, type, out);
      break;
    case DType::f64:
      read_converted<double>(file, type, out);
      break;
    default:
      read_converted<int32_t>(file, type, out);
  }
  char extra;
  if (file.read({&extra, 1}) > 0)
    throw wrong(file, file.offset() - 1, "expected the end after ", out.size(),
                " elements, found more bytes");
  return out;
}

}  // namespace troupe
