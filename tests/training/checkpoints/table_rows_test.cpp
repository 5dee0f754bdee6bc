// The rows of tables in checkpoints: cut anew, and refused when they cannot be right.
#include <functional>

#include <doctest/doctest.h>

#include "chaos/sim_disk.hpp"
#include "tests/support/refusal.hpp"
#include "training/checkpoints/checkpoint.hpp"
#include "training/rules/optimizer.hpp"
#include "training/rules/row_slices.hpp"
#include "training/rules/row_store.hpp"

namespace troupe {
namespace {

const std::string kDir = "run";
constexpr int64_t kRows = int64_t{1} << 50, kWidth = 3;
const TableOptions kTable{.first = {FirstRows::Kind::normal, 0, 1, 2}, .forget_after = 50};

ParameterSpec spec() { return {"emb", DType::f32, {kRows, kWidth}, adagrad(0.1), kTable}; }

Gradient some_rows(int64_t first, int64_t n) {
  Gradient out{Tensor::empty(DType::f32, Shape{n, kWidth}), Tensor::empty(DType::i64, Shape{n})};
  for (int64_t i = 0; i < n; ++i) {
    out.indices.mutable_data<int64_t>()[i] = (first + i) * 77'777'777'777 % kRows;
    for (int64_t j = 0; j < kWidth; ++j)
      out.values.mutable_data<float>()[i * kWidth + j] = static_cast<float>(i + j);
  }
  return out;
}

// The rows of a slice after two updates of all of the table.
RowImage rows_of(const Slice& slice) {
  RowStore store("emb", kTable, {DType::f32, kWidth, optimizer_accumulators(adagrad(0.1))}, {});
  for (const int64_t version : {1, 2})
    store.update(
        adagrad(0.1),
        rows_of_groups(some_rows(version * 3000, 5000), slice.offset, slice.offset + slice.size),
        version, version, false);
  return store.image();
}

// `change`: what the disk is given in place of the rows of a slice.
Manifest save(Disk& disk, int32_t shards, const std::function<void(RowImage&)>& change = {}) {
  Manifest m{.generation = next_generation(disk, kDir), .step = 2};
  m.next_steps = {{0, 2}};
  m.parameters = {spec()};
  for (const Slice& slice : split_parameters({spec()}, shards)) {
    SliceState s{
        .slice = slice, .version = 2, .next_step = 2, .values = Tensor::empty(DType::f32, {0})};
    s.rows = rows_of(slice);
    if (change) change(*s.rows);
    s.progress = replicas_at(1, 2);
    m.files.push_back(write_shard_file(disk, kDir, shard_file_name(2, 2, slice.shard, shards),
                                       {.step = 2, .slices = {s}}));
  }
  commit_checkpoint(disk, kDir, m);
  return read_manifest(disk, kDir, manifest_name(m.generation, 2));
}

std::string refusal_after(const std::function<void(RowImage&)>& change) {
  SimDisk disk;
  const Manifest m = save(disk, 1, change);
  return error_text(Errc::bad_data,
                    [&] { read_slices(disk, kDir, m, split_parameters({spec()}, 2)); });
}

RowRecord& first_of(RowImage& image) {
  return *reinterpret_cast<RowRecord*>(image.blocks[0].mutable_raw());
}

}  // namespace

TEST_CASE("rows of a table are cut anew, each with its touch and accumulators, for any shards") {
  for (const int32_t written : {1, 2, 5})
    for (const int32_t wanted : {1, 3, 64}) {
      SimDisk disk;
      const Manifest m = save(disk, written);
      REQUIRE(m.parameters.at(0).table == kTable);
      int64_t rows = 0;
      const std::vector<Slice> slices = split_parameters({spec()}, wanted);
      CHECK(slices.size() == static_cast<size_t>(wanted));
      for (const SliceState& s : read_slices(disk, kDir, m, slices)) {
        REQUIRE(s.rows);
        CHECK(s.version == 2);
        CHECK(same_rows(*s.rows, rows_of(s.slice)));
        rows += static_cast<int64_t>(s.rows->sorted().size());
      }
      CHECK(rows == 8000);
      CHECK(read_parameters(disk, kDir, m).empty());
    }
}

TEST_CASE("rows that the table cannot have, and another table, are refused") {
  has(refusal_after([](RowImage& image) { first_of(image).row = kRows; }), "found row ");
  has(refusal_after([](RowImage& image) { first_of(image).touched = 3; }), "touched at 3");
  has(refusal_after([](RowImage& image) { first_of(image).row = image.sorted()[17]->row; }),
      "in ascending order");
  SimDisk disk;
  const Manifest m = save(disk, 2);
  ParameterSpec other = spec();
  other.table->first.seed = 9;
  has(error_text(Errc::bad_configuration,
                 [&] { read_slices(disk, kDir, m, split_parameters({other}, 1)); }),
      "seeded 9");
  other.table.reset();
  has(error_text(Errc::bad_configuration, [&] { check_manifest(m, {other}, "", 0); }),
      "emb is a table");
  other = spec();
  other.table->forget_after = 7;  // may change
  CHECK(read_slices(disk, kDir, m, split_parameters({other}, 1)).size() == 1);
}

}  // namespace troupe
