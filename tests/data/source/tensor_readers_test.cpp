// Sources whose records are rows of arrays in files.
#include <doctest/doctest.h>

#include "data/source/readers.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"
#include "troupe/files.hpp"

namespace troupe {
namespace {

Stage made(std::string_view name, const SourceArgs& args) {
  for (const SourceReader& r : builtin_readers())
    if (r.name == name) return r.make(args, local_files());
  throw Error(Errc::internal, "no reader ", name);
}

TEST_CASE("the readers npz and safetensors give a field for each array, the first size counting") {
  const TempFile npz("rows.npz", ""), safe("rows.safetensors", "");
  const NamedTensors arrays = {{"x", Tensor::of<float>({1, 2, 3, 4, 5, 6}, {3, 2})},
                               {"y", Tensor::of<int64_t>({7, 8, 9}, {3})},
                               {"mean", Tensor::scalar(3.5f)}};
  write_tensors(npz.path(), arrays);
  write_tensors(safe.path(), arrays);
  for (const auto& one : {std::pair("npz", npz.path()), {"safetensors", safe.path()}}) {
    const char* const reader = one.first;
    const std::string& path = one.second;
    const std::vector<std::string> fields = {"y", "x"};
    const Stage stage = made(reader, {{"path", path}, {"fields", fields}});
    CHECK(stage->fields() == Fields{{"y", {DType::i64, {}}}, {"x", {DType::f32, {2}}}});
    const auto stream = stage->open(0);
    stream->next();
    const Lazy second = stream->next();
    CHECK(same_bits(second->make()[0], Tensor::scalar<int64_t>(8)));
    CHECK(same_bits(second->make()[1], Tensor::of<float>({3, 4}, {2})));
    CHECK(second->place() == path + ": record 1");
    CHECK(stream->next());
    CHECK(!stream->next());
    check_error(
        Errc::bad_data,
        [&] {
          made(reader, {{"path", path}});
        },
        path, "mean is one number");
    const std::vector<std::string> none = {"xx"};
    check_invalid(
        [&] {
          made(reader, {{"path", path}, {"fields", none}});
        },
        path + " has no array xx; did you mean x?");
  }
}

TEST_CASE("the reader npy gives one field") {
  const TempFile file("rows.npy", "");
  write_npy(file.path(), Tensor::of<uint8_t>({1, 2, 3, 4}, {2, 2}));
  CHECK(made("npy", {{"path", file.path()}})->fields() == Fields{{"value", {DType::u8, {2}}}});
  CHECK(made("npy", {{"path", file.path()}, {"field", std::string("pixels")}})->fields()[0].name ==
        "pixels");
}

TEST_CASE("arrays of different lengths are no records") {
  const TempFile file("uneven.npz", "");
  write_npz(file.path(),
            {{"x", Tensor::zeros(DType::f32, {3, 2})}, {"y", Tensor::zeros(DType::i64, {2})}});
  check_error(
      Errc::bad_data,
      [&] {
        made("npz", {{"path", file.path()}});
      },
      "y has 2 records, x has 3");
  write_npz(file.path(), {});
  check_error(
      Errc::bad_data,
      [&] {
        made("npz", {{"path", file.path()}});
      },
      "no arrays");
}

}  // namespace
}  // namespace troupe
