// Writes and reads the rows of tables, a piece at a time.
#include "training/checkpoints/table_rows.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "data/files/json.hpp"

namespace troupe {
namespace {

constexpr size_t kRowsAtATime = 4096;

using Records = std::vector<const RowRecord*>;

FileTensor column(const std::shared_ptr<const Records>& records, std::string name, DType dtype,
                  Shape shape, std::function<const void*(const RowRecord&)> part, size_t bytes) {
  const auto write = [records, part = std::move(part), bytes](const auto& add) {
    std::vector<std::byte> piece;
    for (size_t first = 0; first < records->size(); first += kRowsAtATime) {
      const size_t n = std::min(kRowsAtATime, records->size() - first);
      piece.resize(n * bytes);
      for (size_t i = 0; i < n; ++i)
        std::memcpy(piece.data() + i * bytes, part(*(*records)[first + i]), bytes);
      add(std::span<const std::byte>(piece));
    }
  };
  return {{std::move(name), dtype, shape}, write};
}

const SafetensorsEntry& entry_of(const SafetensorsReader& file, const std::string& name,
                                 DType dtype, int64_t size) {
  const SafetensorsEntry* e = file.find(name);
  if (!e)
    throw Error(Errc::bad_data, file.path(), ": expected a tensor ", json_quote(name),
                ", found none");
  if (e->dtype != dtype || e->shape.size() != size)
    throw Error(Errc::bad_data, file.path(), ": tensor ", json_quote(name), ": expected ", size,
                " elements of ", dtype, ", found ", e->dtype, e->shape);
  return *e;
}

}  // namespace

std::string tensor_name(const Slice& slice, const std::string& part) {
  return part.empty() ? describe(slice) : part + ":" + describe(slice);
}

void add_table(const SliceState& state, std::vector<FileTensor>& tensors) {
  const RowLayout& layout = state.rows->layout;
  const auto records = std::make_shared<const Records>(state.rows->sorted());
  const auto n = static_cast<int64_t>(records->size());
  const auto number = [&](const char* part, int64_t RowRecord::*field) {
    tensors.push_back(column(
        records, tensor_name(state.slice, part), DType::i64, Shape{n},
        [field](const RowRecord& r) -> const void* { return &(r.*field); }, sizeof(int64_t)));
  };
  number(kRowNumbers, &RowRecord::row);
  number(kRowTouches, &RowRecord::touched);
  for (size_t k = 0; k <= layout.accumulators.size(); ++k)
    tensors.push_back(column(
        records, tensor_name(state.slice, k == 0 ? "" : layout.accumulators[k - 1]), layout.dtype,
        Shape{n, layout.width},
        [layout, k](const RowRecord& r) -> const void* { return r.part(layout, k); },
        static_cast<size_t>(layout.row_bytes())));
}

void check_table_entries(const SafetensorsReader& file, const Slice& slice, int64_t rows,
                         const std::vector<std::string>& accumulators) {
  entry_of(file, tensor_name(slice, kRowNumbers), DType::i64, rows);
  entry_of(file, tensor_name(slice, kRowTouches), DType::i64, rows);
  entry_of(file, tensor_name(slice), slice.dtype, rows * slice.row_size());
  for (const std::string& name : accumulators)
    entry_of(file, tensor_name(slice, name), slice.dtype, rows * slice.row_size());
}

void read_table(const SafetensorsReader& file, const SliceState& stored, int64_t rows,
                const Slice& wanted, RowImage& out) {
  const Slice& have = stored.slice;
  const int64_t width = out.layout.width;
  const auto row_bytes = static_cast<size_t>(out.layout.row_bytes());
  const auto entry = [&](const std::string& part) -> const SafetensorsEntry& {
    return *file.find(tensor_name(have, part));
  };
  const auto in = [](const Slice& slice, int64_t group) {
    return group >= slice.offset && group < slice.offset + slice.size;
  };
  int64_t before = -1;  // the row
  for (int64_t first = 0; first < rows; first += kRowsAtATime) {
    const int64_t n = std::min<int64_t>(kRowsAtATime, rows - first);
    Tensor numbers = Tensor::empty(DType::i64, Shape{n}), touches = numbers.clone();
    file.read(entry(kRowNumbers), first, n, numbers, 0);
    file.read(entry(kRowTouches), first, n, touches, 0);
    std::vector<int64_t> kept;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = numbers.data<int64_t>()[i], touched = touches.data<int64_t>()[i];
      if (row <= before || row >= have.shape[0] || !in(have, row_group(row)) || touched < 0 ||
          touched > stored.version)
        throw Error(Errc::bad_data, file.path(), ": expected rows of ", describe(have), " below ",
                    have.shape[0], " in ascending order, touched up to version ", stored.version,
                    ", found row ", row, " behind ", before, ", touched at ", touched);
      before = row;
      if (in(wanted, row_group(row))) kept.push_back(i);
    }
    if (kept.empty()) continue;
    char* const records = out.add(static_cast<int64_t>(kept.size()));
    const auto record = [&](size_t i) {
      return reinterpret_cast<RowRecord*>(records +
                                          static_cast<int64_t>(i) * out.layout.record_bytes());
    };
    for (size_t i = 0; i < kept.size(); ++i) {
      record(i)->row = numbers.data<int64_t>()[kept[i]];
      record(i)->touched = touches.data<int64_t>()[kept[i]];
    }
    Tensor part = Tensor::empty(out.layout.dtype, Shape{n * width});
    for (size_t k = 0; k <= out.layout.accumulators.size(); ++k) {
      file.read(entry(k == 0 ? "" : out.layout.accumulators[k - 1]), first * width, n * width, part,
                0);
      const char* const from = static_cast<const char*>(part.raw());
      for (size_t i = 0; i < kept.size(); ++i)
        std::memcpy(record(i)->part(out.layout, k),
                    from + kept[i] * static_cast<int64_t>(row_bytes), row_bytes);
    }
  }
}

}  // namespace troupe
