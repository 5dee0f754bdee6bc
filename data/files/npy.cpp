// Reads and writes the headers of .npy files, and puts their elements in the order of tensors.
#include "data/files/npy.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "data/files/tensor_files.hpp"

namespace troupe {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kHeaderMax = 1 << 16;  // numpy itself reads at most 10,000 bytes

struct Name {
  DType dtype;
  std::string_view text;  // without the byte order
};
constexpr std::array<Name, 8> kNames = {{{DType::f32, "f4"},
                                         {DType::f64, "f8"},
                                         {DType::i32, "i4"},
                                         {DType::i64, "i8"},
                                         {DType::u8, "u1"},
                                         {DType::boolean, "b1"},
                                         {DType::i8, "i1"},
                                         {DType::f16, "f2"}}};

struct Header {
  DType dtype = DType::none;
  bool swapped = false;  // the elements are big-endian
  bool fortran = false;  // the first dimension is the innermost one
  std::vector<int64_t> dims;
};

// Reads the dictionary, as numpy writes it: {'descr': '<f4', 'fortran_order': False, 'shape': (2,
// 3), }
class HeaderReader {
 public:
  HeaderReader(const ByteReader& bytes, std::string_view text, int64_t base)
      : bytes_(bytes), text_(text), base_(base) {}

  Header read() {
    Header out;
    bool has[3] = {};
    const auto once = [&](int i, const std::string& key) {
      if (std::exchange(has[i], true)) throw wrong("the key '", key, "' stands twice");
    };
    want('{');
    while (!take('}')) {
      const std::string key = string();
      want(':');
      if (key == "descr") {
        once(0, key);
        read_type(out);
      } else if (key == "fortran_order") {
        once(1, key);
        out.fortran = truth();
      } else if (key == "shape") {
        once(2, key);
        out.dims = sizes();
      } else {
        throw wrong("expected descr, fortran_order or shape, found '", key, "'");
      }
      if (!take(',')) {
        want('}');
        break;
      }
    }
    skip();
    if (at_ != text_.size()) throw wrong("expected the end of the header, found ", found());
    if (!has[0] || !has[1] || !has[2])
      throw wrong("expected all of descr, fortran_order and shape");
    return out;
  }

 private:
  template <class... Parts>
  Error wrong(const Parts&... parts) const {
    return bytes_.wrong(base_ + static_cast<int64_t>(at_), detail::concat(parts...));
  }
  std::string found() const {
    if (at_ >= text_.size()) return "the end";
    const auto c = static_cast<unsigned char>(text_[at_]);
    return c > 0x20 && c < 0x7f ? detail::concat("'", text_[at_], "'")
                                : detail::concat("byte ", static_cast<int>(c));
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void want(char c) {
    if (!take(c)) throw wrong("expected '", c, "', found ", found());
  }
  std::string string() {
    skip();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"'))
      throw wrong("expected a string, found ", found());
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == text_.npos) throw wrong("expected the end of the string, found none");
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  bool word(std::string_view wanted) {
    skip();
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  bool truth() {
    if (word("True")) return true;
    if (word("False")) return false;
    throw wrong("expected True or False, found ", found());
  }
  void read_type(Header& out) {
    skip();
    if (at_ < text_.size() && text_[at_] == '[')
      throw wrong("the array has fields; save each of them as an array of its own");
    const size_t at = at_;
    const std::string text = string();
    const std::string_view name = std::string_view(text).substr(std::min<size_t>(1, text.size()));
    const auto* type =
        std::find_if(kNames.begin(), kNames.end(), [&](const Name& n) { return n.text == name; });
    if (type == kNames.end() || std::string_view("<>|=").find(text[0]) == std::string_view::npos) {
      at_ = at;
      throw wrong("the elements are '", text,
                  "'; expected f2, f4, f8, i1, i4, i8, u1 or b1: change them with astype()");
    }
    out.dtype = type->dtype;
    out.swapped = text[0] == '>' && size_of(out.dtype) > 1;
  }
  std::vector<int64_t> sizes() {
    std::vector<int64_t> out;
    want('(');
    while (!take(')')) {
      skip();
      int64_t size = -1;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0)
        throw wrong("expected a size of 0 or more, found ", found());
      at_ += static_cast<size_t>(end - begin);
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote it
      out.push_back(size);
      if (out.size() > static_cast<size_t>(Shape::kNdimMax))
        throw wrong("a tensor has at most ", Shape::kNdimMax, " dimensions");
      if (!take(',')) {
        want(')');
        break;
      }
    }
    return out;
  }

  const ByteReader& bytes_;
  const std::string_view text_;
  const int64_t base_;
  size_t at_ = 0;
};

// Reads what stands before the elements.
Header read_header(ByteReader& bytes) {
  std::array<char, 12> start;  // magic number, version, and a length of 2 or 4 bytes
  const auto take = [&](char* to, int64_t n, const char* what) {
    if (bytes.left() < n)
      throw bytes.wrong(bytes.offset(), "expected ", n, " bytes of ", what, ", found ",
                        bytes.left(), "; the file is cut short");
    bytes.read(std::as_writable_bytes(std::span(to, static_cast<size_t>(n))));
  };
  take(start.data(), 8, "magic number and version");
  if (std::string_view(start.data(), kMagic.size()) != kMagic)
    throw bytes.wrong(0, "expected the magic number of a .npy file, found another one");
  const int version = static_cast<unsigned char>(start[6]);
  if (version < 1 || version > 3)
    throw bytes.wrong(6, "expected version 1, 2 or 3, found ", version);
  const int64_t wide = version == 1 ? 2 : 4;
  take(start.data() + 8, wide, "header length");
  int64_t length = 0;
  for (int64_t i = wide; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(start[static_cast<size_t>(8 + i)]);
  if (length > kHeaderMax)
    throw bytes.wrong(8, "expected a header of at most ", kHeaderMax, " bytes, found ", length);
  const int64_t base = bytes.offset();
  std::string text(static_cast<size_t>(std::min(length, bytes.left())), '\0');
  take(text.data(), length, "header");
  return HeaderReader(bytes, text, base).read();
}

// Element `i` of `from` in Fortran order becomes the element of the same indices in C order.
Tensor in_row_order(const Tensor& from, const Shape& shape) {
  Tensor out = Tensor::empty(from.dtype(), shape);
  const auto unit = static_cast<size_t>(size_of(from.dtype()));
  const auto* source = static_cast<const char*>(from.raw());
  auto* to = static_cast<char*>(out.mutable_raw());
  std::array<int64_t, Shape::kNdimMax> stride{}, index{};
  for (int64_t i = 0, product = 1; i < shape.ndim(); product *= shape[static_cast<int>(i++)])
    stride[static_cast<size_t>(i)] = product;
  int64_t at = 0;
  for (int64_t n = 0; n < out.size(); ++n) {
    std::memcpy(to + static_cast<size_t>(n) * unit, source + static_cast<size_t>(at) * unit, unit);
    for (int d = shape.ndim(); d-- > 0;) {
      const auto i = static_cast<size_t>(d);
      at += stride[i];
      if (++index[i] < shape[d]) break;
      at -= stride[i] * shape[d];
      index[i] = 0;
    }
  }
  return out;
}

void swap_bytes(Tensor& tensor) {
  const int64_t unit = size_of(tensor.dtype());
  auto* bytes = static_cast<char*>(tensor.mutable_raw());
  for (int64_t i = 0; i < tensor.size(); ++i, bytes += unit) std::reverse(bytes, bytes + unit);
}

}  // namespace

std::string npy_header(DType dtype, const Shape& shape) {
  const auto* type =
      std::find_if(kNames.begin(), kNames.end(), [&](const Name& n) { return n.dtype == dtype; });
  if (type == kNames.end())
    throw Error(Errc::invalid_argument, "numpy has no ", dtype,
                "; write a safetensors file, or cast the tensor to f32");
  std::string text = "{'descr': '";
  text += size_of(dtype) > 1 ? '<' : '|';
  text += std::string(type->text) + "', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < shape.ndim(); ++i)
    text += std::to_string(shape[i]) + (i + 1 < shape.ndim() ? ", " : shape.ndim() == 1 ? "," : "");
  text += "), }";
  constexpr size_t kStart = 10, kAligned = 64;
  while ((kStart + text.size() + 1) % kAligned != 0) text += ' ';
  text += '\n';
  std::string out(kMagic);
  out += {'\1', '\0', static_cast<char>(text.size() & 255), static_cast<char>(text.size() >> 8)};
  return out + text;
}

Tensor tensor_of_npy(ByteReader& bytes) {
  const Header header = read_header(bytes);
  Shape shape;
  int64_t size = 0;
  try {
    shape = Shape(header.dims);
    size = shape.size() * size_of(header.dtype);
  } catch (const Error& e) {
    throw bytes.wrong(0, e.what());
  }
  if (size != bytes.left())
    throw bytes.wrong(bytes.offset(), "expected ", size, " bytes for ", header.dtype, shape,
                      ", found ", bytes.left());
  Tensor out = Tensor::empty(header.dtype, shape);
  bytes.read({static_cast<std::byte*>(out.mutable_raw()), static_cast<size_t>(size)});
  bytes.finish();
  if (header.swapped) swap_bytes(out);
  check_booleans(out, bytes.place());
  return header.fortran && shape.ndim() > 1 ? in_row_order(out, shape) : out;
}

}  // namespace troupe
