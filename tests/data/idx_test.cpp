// read_idx: the format, and every way a file can be wrong.
#include "tests/support/temp_file.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/data.hpp"

namespace troupe {
namespace {

std::string be32(uint32_t n) {
  return {static_cast<char>(n >> 24), static_cast<char>(n >> 16 & 255),
          static_cast<char>(n >> 8 & 255), static_cast<char>(n & 255)};
}
std::string idx(unsigned char type, const std::vector<uint32_t>& dims,
                const std::string& elements) {
  std::string out = {0, 0, static_cast<char>(type), static_cast<char>(dims.size())};
  for (uint32_t d : dims) out += be32(d);
  return out + elements;
}
Tensor read(const std::string& bytes) { return read_idx(TempFile("idx", bytes).path()); }

TEST_CASE("IDX files of every element type are read, plain and gzipped") {
  const std::string bytes = idx(0x08, {2, 3}, std::string("\x01\x02\x03\xfd\xfe\xff", 6));
  const Tensor expected = Tensor::of<uint8_t>({1, 2, 3, 253, 254, 255}, Shape{2, 3});
  CHECK(same_bits(read(bytes), expected));
  CHECK(same_bits(read(gzip(bytes)), expected));
  CHECK(same_bits(read(idx(0x09, {2}, "\x01\xff")), Tensor::of<int32_t>({1, -1}, Shape{2})));
  CHECK(same_bits(read(idx(0x0b, {2}, std::string("\x01\x00\xff\xfe", 4))),
                  Tensor::of<int32_t>({256, -2}, Shape{2})));
  CHECK(same_bits(read(idx(0x0c, {2}, be32(7) + be32(0x80000000U))),
                  Tensor::of<int32_t>({7, INT32_MIN}, Shape{2})));
  CHECK(same_bits(read(idx(0x0d, {1}, be32(0x3fc00000U))), Tensor::of<float>({1.5F}, Shape{1})));
  CHECK(same_bits(read(idx(0x0e, {1}, be32(0xbff80000U) + be32(0))),
                  Tensor::of<double>({-1.5}, Shape{1})));
  CHECK(same_bits(read(idx(0x08, {0, 5}, "")), Tensor::zeros(DType::u8, Shape{0, 5})));
}

TEST_CASE("an IDX file that is not what it says is refused with offset, expected and found") {
  const std::string good = idx(0x08, {2, 3}, "abcdef");
  struct Case {
    const char* name;
    std::string bytes;
    const char* text;
  };
  const std::vector<Case> cases = {
      {"empty", "", "at byte 0: expected 4 bytes of magic number, found 0; the file is cut short"},
      {"cut in the magic number", good.substr(0, 3),
       "at byte 3: expected 4 bytes of magic number, found 3"},
      {"cut in a size", good.substr(0, 10), "at byte 10: expected 4 bytes of size, found 2"},
      {"another magic number", "\x89PNG" + good, "at byte 0: expected the magic number 00 00"},
      {"another type", idx(0x0a, {1}, "a"), "found 2561 as a number; this is not an IDX file"},
      {"no dimensions", idx(0x08, {}, "a"), "at byte 3: expected 1 to 8 dimensions, found 0"},
      {"nine dimensions", idx(0x08, {1, 1, 1, 1, 1, 1, 1, 1, 1}, "a"),
       "expected 1 to 8 dimensions, found 9"},
      {"one element short", good.substr(0, 17),
       "at byte 12: the sizes ask for 6 bytes of elements, but the file has at most 5"},
      {"one element more", good + "x",
       "at byte 18: expected the end after 6 elements, found more bytes"},
      {"size 2^31", idx(0x08, {1U << 31}, "a"),
       "the sizes ask for 2147483648 bytes of elements, but the file has at most 1"},
      {"size 2^32 - 1", idx(0x0e, {0xffffffffU}, "a"),
       "at byte 4: size 4294967295 makes the elements more than 4294967296 bytes"},
      {"a product that overflows", idx(0x08, {0xffffffffU, 0xffffffffU, 0xffffffffU}, "a"),
       "at byte 8: size 4294967295 makes"},
      {"a .gz one element short", gzip(good.substr(0, 17)),
       "at byte 17: expected 6 bytes of elements, found 5; the file is cut short"},
      {"a .gz that claims more than deflate can hold", gzip(idx(0x08, {100'000'000}, "a")),
       "the sizes ask for 100000000 bytes"},
      {"a .gz cut short", gzip(good).substr(0, 24), "the .gz is cut short"},
      {"a damaged .gz",
       [&] {
         std::string z = gzip(good);
         z[z.size() - 7] ^= 1;
         return z;
       }(),
       " (incorrect data check); fetch it again"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    check_error(
        Errc::bad_data, [&] { read(c.bytes); }, "test-idx: ", c.text);
  }
}

TEST_CASE(
    "an IDX file with any bit of its header flipped is refused, or has as many bytes as it says") {
  const std::string good = idx(0x08, {2, 3}, "abcdef"), packed = gzip(good);
  for (const bool zipped : {false, true}) {
    const std::string& from = zipped ? packed : good;
    for (size_t i = 0; i < (zipped ? from.size() : 12); ++i)
      for (int bit = 0; bit < 8; ++bit) {
        std::string bytes = from;
        bytes[i] = static_cast<char>(bytes[i] ^ 1 << bit);
        CAPTURE(zipped);
        CAPTURE(i);
        CAPTURE(bit);
        try {
          const Tensor t = read(bytes);
          CHECK(t.byte_size() % 6 == 0);  // 6 elements, perhaps of another type
        } catch (const Error& e) {
          CHECK(e.code() == Errc::bad_data);
        }
      }
  }
}

TEST_CASE("a file that cannot be read is an I/O error with its path") {
  for (const std::string& path : {std::string("/nowhere/file.idx"), binary_dir()}) {
    check_error(
        Errc::io, [&] { read_idx(path); }, path);
  }
}

TEST_CASE("a caller's limit holds") {
  TempFile file("idx-limit", idx(0x08, {6}, "abcdef"));
  CHECK_NOTHROW(read_idx(file.path(), 6));
  CHECK_THROWS_AS(read_idx(file.path(), 5), Error);
}

}  // namespace
}  // namespace troupe
