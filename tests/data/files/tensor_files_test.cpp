// Files of tensors: those of numpy and of the library safetensors (fixtures/make.py), our own, and
// damaged ones.
#include <filesystem>
#include <functional>

#include <doctest/doctest.h>
#include "data/files/tensor_files.hpp"
#include "tests/support/helpers.hpp"
#include "tests/support/refusal.hpp"
#include "chaos/sim_disk.hpp"
#include "tests/support/temp_file.hpp"

namespace troupe {
namespace {

std::string fixture(const std::string& name) {
  return source_dir() + "/tests/data/files/fixtures/" + name;
}

std::string text_of(const std::string& path) {
  const auto file = real_disk().open(path);
  std::string out(static_cast<size_t>(file->size()), '\0');
  file->read(0, std::as_writable_bytes(std::span(out)));
  return out;
}

// The arrays of fixtures/make.py.
NamedTensors arrays() {
  NamedTensors out;
  out["f32"] = Tensor::of<float>({0, 0.5f, 1, 1.5f, 2, 2.5f}, {2, 3});
  out["f64"] = Tensor::of<double>({0, 0.25, 0.5, 0.75, 1, 1.25}, {2, 3});
  out["f16"] = Tensor::of<Float16>({Float16(0), Float16(1), Float16(65504), Float16(6e-8),
                                    Float16(std::numeric_limits<float>::infinity())},
                                   {5});
  out["i32"] = Tensor::of<int32_t>({-3, -2, -1, 0, 1, 2}, {2, 3});
  out["i64"] = Tensor::of<int64_t>(
      {0, int64_t{1} << 40, int64_t{2} << 40, int64_t{3} << 40, int64_t{4} << 40, int64_t{5} << 40},
      {2, 3});
  out["u8"] = Tensor::of<uint8_t>({0, 255}, {2});
  out["i8"] = Tensor::of<int8_t>({-128, 127}, {2});
  out["bool"] = Tensor::of<bool>({true, false}, {2});
  out["scope/scalar"] = Tensor::scalar(7.0f);
  out["none"] = Tensor::zeros(DType::f32, {0, 4});
  return out;
}

void check_same(const NamedTensors& got, const NamedTensors& wanted) {
  CHECK(got.size() == wanted.size());
  for (const auto& entry : wanted) {
    const std::string& name = entry.first;
    CAPTURE(name);
    REQUIRE(got.count(name) == 1);
    CHECK(same_bits(got.at(name), entry.second));
  }
}

TEST_CASE("arrays of numpy and safetensors are read with their dtypes, shapes and bits") {
  check_same(read_npz(fixture("numpy_stored.npz")), arrays());
  check_same(read_npz(fixture("numpy_deflated.npz")), arrays());
  check_same(read_tensors(fixture("safetensors.safetensors")), arrays());
  CHECK(safetensors_metadata(fixture("safetensors.safetensors")).at("format") == "np");
  Tensor ramp = Tensor::empty(DType::i32, {2, 3, 4});
  for (int i = 0; i < 24; ++i) ramp.mutable_data<int32_t>()[i] = i;
  CHECK(same_bits(read_npy(fixture("numpy_fortran.npy")), ramp));
  CHECK(same_bits(read_npy(fixture("numpy_big_endian.npy")),
                  Tensor::of<double>({0, 1, 2, 3, 4, 5}, {2, 3})));
  CHECK(same_bits(read_npy(fixture("numpy_version_2.npy")),
                  Tensor::of<int64_t>({0, 1, 2, 3, 4, 5}, {2, 3})));
}

TEST_CASE("arrays that no tensor can hold are refused with a remedy") {
  check_error(
      Errc::bad_data, [] { read_npy(fixture("numpy_fields.npy")); }, "numpy_fields.npy",
      "the array has fields; save each of them");
  check_error(
      Errc::bad_data, [] { read_npy(fixture("numpy_u16.npy")); }, "the elements are '<u2'",
      "astype()");
}

TEST_CASE("what is written is read back with the same bits, and is what numpy writes") {
  const TempFile npy("w.npy", ""), npz("w.npz", ""), packed("p.npz", ""), safe("w.safetensors", "");
  NamedTensors all = arrays();
  all["\xc3\xa4"] = Tensor::of<int32_t>({1}, {1});  // a name that is not ASCII
  write_tensors(npz.path(), all);
  write_npz(packed.path(), all, Packing::deflated);
  check_same(read_tensors(npz.path()), all);
  check_same(read_npz(packed.path()), all);
  all["bf16"] = Tensor::of<BFloat16>({BFloat16(1), BFloat16(-2)}, {2});
  write_safetensors(safe.path(), all, {{"format", "pt"}});
  check_same(read_safetensors(safe.path()), all);
  CHECK(safetensors_metadata(safe.path()).at("format") == "pt");
  write_npy(npy.path(), arrays().at("i64"));
  CHECK(text_of(npy.path()) == text_of(fixture("numpy_i64.npy")));
  check_invalid([&] { write_npz(npz.path(), all); }, npz.path(), "tensor bf16", "numpy has no bf16",
                "safetensors");
  check_invalid([&] { write_tensors("weights.bin", all); }, "neither .npz nor .safetensors");
  check_invalid(
      [&] {
        write_safetensors(safe.path(), {{"__metadata__", all["u8"]}});
      },
      "a tensor cannot be named");
  check_invalid([&] { write_safetensors(safe.path(), {{"\xff", all["u8"]}}); }, "UTF-8");
  for (const char* bad : {"v\xff", "\x80"})
    check_invalid(
        [&] {
          write_safetensors(safe.path(), all, {{"k", bad}});
        },
        "the metadata \"k\" is not UTF-8");
  check_invalid([&] { write_npy(npy.path(), Tensor()); }, "holds nothing");
  CHECK(read_safetensors(safe.path()).size() == all.size());  // refusals left the files alone
}

TEST_CASE("a file is found behind a symbolic link, as in a cache of models") {
  const std::string link = binary_dir() + "/test-link.safetensors";
  std::filesystem::remove(link);
  std::filesystem::create_symlink(fixture("safetensors.safetensors"), link);
  CHECK(read_safetensors(link).size() == arrays().size());
  std::filesystem::remove(link);
  check_error(
      Errc::io, [&] { read_safetensors(link); }, "cannot open " + link, "check the path");
}

// Each writer with a file of its own on a disk.
using Writer = std::function<void(Disk&, const Tensor&)>;
const std::vector<Writer> writers = {[](Disk& d, const Tensor& t) { write_npy(d, "d/f", t); },
                                     [](Disk& d, const Tensor& t) {
                                       write_npz(d, "d/f", {{"a", t}, {"b", t}}, Packing::deflated);
                                     },
                                     [](Disk& d, const Tensor& t) {
                                       write_safetensors(d, "d/f", {{"a", t}}, {});
                                     }};

TEST_CASE("a full disk leaves the old file, and nothing beside it") {
  for (const Writer& write : writers) {
    SimDisk disk;
    write(disk, Tensor::zeros(DType::f32, {10}));
    const std::string old = disk.bytes("d/f");
    disk.bytes_max = static_cast<int64_t>(old.size()) + 200;
    Tensor noise = Tensor::empty(DType::u8, {5000});
    for (int i = 0; i < 5000; ++i)
      noise.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(i * i * 31 >> 3);
    CHECK(code_of([&] { write(disk, noise); }) == Errc::io);
    CHECK(disk.bytes("d/f") == old);
    CHECK(disk.list("d") == std::vector<std::string>{"f"});
  }
}

TEST_CASE("wherever a crash cuts a write short, the old file is there or the whole new one") {
  for (const Writer& write : writers) {
    SimDisk before;
    write(before, Tensor::zeros(DType::f32, {10}));
    const std::string old = before.bytes("d/f");
    write(before, Tensor::zeros(DType::f64, {70}));
    const std::string fresh = before.bytes("d/f");
    const int64_t calls = before.calls;
    for (uint64_t draw = 0; draw < 3; ++draw)
      for (int64_t at = 0; at <= calls; ++at) {
        SimDisk disk;
        write(disk, Tensor::zeros(DType::f32, {10}));
        if (at <= disk.calls) continue;
        disk.crash_at = at;
        try {
          write(disk, Tensor::zeros(DType::f64, {70}));
        } catch (const SimCrash&) {  // the process is gone
        }
        uint64_t n = draw;
        disk.crash([&](uint64_t most) { return n++ % most; });
        const std::string now = disk.bytes("d/f");
        CHECK((now == old || now == fresh));
      }
  }
}

TEST_CASE("any byte of an archive that is changed or missing is an error or changes no array") {
  for (const char* name : {"numpy_stored.npz", "numpy_deflated.npz"}) {
    const std::string good = text_of(fixture(name));
    const NamedTensors wanted = arrays();
    const auto read = [&](const std::string& bytes) {
      const TempFile file("damaged.npz", bytes);
      try {
        const NamedTensors got = read_npz(file.path());
        for (const auto& [key, tensor] : got)
          CHECK((!wanted.count(key) || same_bits(tensor, wanted.at(key))));
      } catch (const Error& e) {
        CHECK(e.code() == Errc::bad_data);
        has(e.what(), file.path());
      }
    };
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ 1 << i % 8);
      read(bytes);
    }
    for (size_t n = 0; n < good.size(); n += 7) read(good.substr(0, n));
  }
}

TEST_CASE("any byte of a .npy file that is changed or missing is an error or an array that fits") {
  const std::string good = text_of(fixture("numpy_fortran.npy"));
  for (size_t i = 0; i < good.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = bit == 0 ? good.substr(0, i) : good;
      if (bit > 0) bytes[i] = static_cast<char>(bytes[i] ^ 1 << bit);
      const TempFile file("damaged.npy", bytes);
      try {
        const Tensor got = read_npy(file.path());
        CHECK(got.byte_size() == 96);
      } catch (const Error& e) {
        CHECK(e.code() == Errc::bad_data);
        has(e.what(), file.path());
      }
    }
}

// A .npy file with this header and so many bytes of elements.
std::string npy(const std::string& header, size_t bytes) {
  std::string out = "\x93NUMPY\1";
  out += {'\0', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  return out + header + std::string(bytes, '\0');
}

TEST_CASE("a .npy header that lies is refused with offset and content") {
  struct Case {
    std::string header;
    const char* text;
  };
  const std::string f4 = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  const std::vector<Case> cases = {
      {f4 + "(3,)}", "expected 12 bytes for f32[3], found 8"},
      {f4 + "(4611686018427387904, 4)}", "elements"},
      {f4 + "(-2,)}", "expected a size of 0 or more, found '-'"},
      {f4 + "(1,1,1,1,1,1,1,1,2)}", "at most 8 dimensions"},
      {f4 + "(2,), 'shape': (2,)}", "the key 'shape' stands twice"},
      {f4 + "(2,), 'x': 1}", "expected descr, fortran_order or shape, found 'x'"},
      {f4 + "(2,)} x", "expected the end of the header, found 'x'"},
      {f4 + "(2,", "found the end"},
      {"{'descr': '<f4', 'shape': (2,)}", "expected all of descr, fortran_order and shape"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "the elements are '|O'"},
      {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", "the elements are ''"},
      {"__import__('os')", "at byte 10: expected '{', found '_'"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.header);
    const TempFile file("lies.npy", npy(c.header, 8));
    check_error(
        Errc::bad_data, [&] { read_npy(file.path()); }, file.path(), c.text);
  }
  const TempFile bools("bools.npy",
                       npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", 1) + "\2");
  check_error(
      Errc::bad_data, [&] { read_npy(bools.path()); },
      "element 1: expected a bool, 0 or 1, found 2");
  const TempFile good("good.npy", npy(f4 + "(2L,)}", 8));
  CHECK(read_npy(good.path()).dim(0) == 2);
}

// Replaces `from`, which is in the text once or more, everywhere.
std::string with(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != text.npos);
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}
std::string le(uint64_t n, int wide) {
  std::string out;
  for (int i = 0; i < wide; ++i) out += static_cast<char>(n >> (8 * i) & 255);
  return out;
}

TEST_CASE("an archive that would unpack without end is refused before memory is taken") {
  const TempFile file("bomb.npz", "");
  const Tensor zeros = Tensor::zeros(DType::f32, {1 << 20});
  write_npz(file.path(), {{"a", zeros}, {"b", zeros}}, Packing::deflated);
  CHECK(text_of(file.path()).size() < 20'000);
  check_error(
      Errc::bad_data, [&] { read_npz(file.path(), 5 << 20); }, file.path(), "entry b.npy",
      "more than 5242880 bytes", "bytes_max");
  CHECK(read_npz(file.path()).size() == 2);
  CHECK(code_of([&] { read_tensors(file.path(), 5 << 20); }) == Errc::bad_data);
  const TempFile stored("stored.npz", "");  // as save_weights() writes it, of any size
  write_tensors(stored.path(), {{"a", zeros}, {"b", zeros}});
  CHECK(read_tensors(stored.path(), 5 << 20).size() == 2);
  CHECK(code_of([&] { read_npz(stored.path(), 5 << 20); }) == Errc::bad_data);
  const std::string bytes = text_of(file.path());
  const uint64_t size = 128 + (4 << 20);
  const auto refused = [](const std::string& changed) {
    const TempFile other("bomb-2.npz", changed);
    return error_text(Errc::bad_data, [&] { read_npz(other.path()); });
  };
  // Sizes beyond the ratio of deflate; the header of the array says the same.
  has(refused(with(bytes, le(size, 4), le(0xfffffff0, 4))), "packed ones cannot hold");
  // Both names of the directory stand for one entry's bytes.
  const size_t second = bytes.rfind(std::string("PK\1\2"));
  std::string twice = bytes;
  twice.replace(second + 42, 4, le(0, 4));
  has(refused(twice), "expected the header of entry");
  has(refused(with(bytes, "b.npy", "a.npy")), "the entry a.npy stands twice");
  has(refused(with(bytes, "b.npy", "b.txt")), "expected entries that end in .npy, found \"b.txt\"");
}

TEST_CASE("archives of other kinds are refused by name") {
  const std::string good = text_of(fixture("numpy_stored.npz"));
  const auto refused = [](const std::string& changed) {
    const TempFile other("kind.npz", changed);
    return error_text(Errc::bad_data, [&] { read_npz(other.path()); });
  };
  has(refused("no archive"), "expected the end record of a zip archive");
  has(refused(""), "the file is cut short, or no archive");
  const size_t row = good.find("PK\1\2");
  std::string changed = good;
  changed[row + 8] = 1;
  has(refused(changed), "entry f32.npy is encrypted");
  changed = good;
  changed[row + 10] = 12;
  has(refused(changed), "packed with method 12; expected 0 (stored) or 8 (deflated)");
  const size_t end = good.rfind("PK\5\6");
  changed = good;
  changed[end + 4] = 1;
  has(refused(changed), "in several parts");
  CHECK(read_npz(TempFile("comment.npz", good.substr(0, end + 20) + le(3, 2) + "abc").path())
            .size() == arrays().size());
}

TEST_CASE("sizes beyond 32 bits are read from the records of zip64") {
  const std::string good = text_of(fixture("numpy_stored.npz"));
  const size_t end = good.rfind("PK\5\6");
  std::string last = good.substr(end);
  const auto number = [&](size_t at, int wide) {
    uint64_t out = 0;
    for (int i = wide; i-- > 0;)
      out = out << 8 | static_cast<unsigned char>(last[at + static_cast<size_t>(i)]);
    return out;
  };
  const uint64_t count = number(10, 2), size = number(12, 4), begin = number(16, 4);
  const std::string large = "PK\6\6" + le(44, 8) + le(45, 2) + le(45, 2) + le(0, 8) + le(count, 8) +
                            le(count, 8) + le(size, 8) + le(begin, 8);
  const std::string locator = "PK\6\7" + le(0, 4) + le(end, 8) + le(1, 4);
  const std::string small = "PK\5\6" + le(0, 4) + std::string(12, '\xff') + le(0, 2);
  const TempFile file("zip64.npz", good.substr(0, end) + large + locator + small);
  check_same(read_npz(file.path()), arrays());
  const TempFile away("zip64-away.npz", good.substr(0, end) + large + "PK\6\7" + le(0, 4) +
                                            le(uint64_t{1} << 63, 8) + le(1, 4) + small);
  check_error(
      Errc::bad_data, [&] { read_npz(away.path()); }, "beyond its place");
}

}  // namespace
}  // namespace troupe
