// The readers of the library, one row each.
#include "data/source/readers.hpp"

#include "data/idx.hpp"
#include "data/images/readers.hpp"
#include "data/records/records.hpp"
#include "data/source/rows.hpp"
#include "data/source/seen.hpp"
#include "data/source/tensor_readers.hpp"
#include "data/text/parts.hpp"
#include "troupe/data.hpp"

namespace troupe {
namespace {

Shape row_shape(const Tensor& rows) {
  const Shape all = rows.shape();
  return Shape(std::vector<int64_t>(all.begin() + 1, all.end()));
}

// idx: `images` and, if given, `labels`, IDX files with the same number of records.
Stage make_idx(const SourceArgs& args, const Files& files) {
  ArgReader read("idx", args);
  const auto images = read.want<std::string>("images");
  const auto labels = read.get<std::string>("labels", {});
  read.done();
  const auto read_file = [&](const std::string& path) {
    return read_idx(files.open(path), kDataBytesMax);
  };
  std::vector<std::string> paths = {images};
  std::vector<Tensor> columns = {read_file(images)};
  Fields fields = {{"image", {columns[0].dtype(), row_shape(columns[0])}}};
  if (!labels.empty()) {
    paths.push_back(labels);
    columns.push_back(read_file(labels));
    fields.push_back({"label", {columns[1].dtype(), row_shape(columns[1])}});
    if (columns[0].dim(0) != columns[1].dim(0))
      throw Error(Errc::bad_data, labels, " has ", columns[1].dim(0), " records, ", images, " has ",
                  columns[0].dim(0), "; are they of the same part?");
  }
  return rows_stage(std::move(fields), std::move(columns), images, source_files(files, paths));
}

constexpr SourceReader kReaders[] = {
    {"idx", make_idx},        {"npy", make_npy},
    {"npz", make_npz},        {"safetensors", make_safetensors},
    {"images", images_stage}, {"cifar", cifar_stage},
    {"csv", table_stage},     {"documents", documents_stage},
    {"lines", lines_stage},   {"tfrecord", tfrecord_stage},
};

}  // namespace

std::span<const SourceReader> builtin_readers() { return kReaders; }

}  // namespace troupe
