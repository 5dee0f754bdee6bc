// Loads tables and scales their columns.
#include "apps/program/tables.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

using namespace troupe;

namespace {

constexpr int64_t kTestEvery = 5, kRecordsMin = 10;

Dataset flat(const Dataset& data) {
  const int64_t n = data.size();
  return {data.features.reshaped({n, n ? data.features.size() / n : 0}), data.labels};
}

Tensor copy_rows(const Tensor& x, const std::vector<int64_t>& rows) {
  Shape shape = x.shape();
  shape.set(0, static_cast<int64_t>(rows.size()));
  Tensor out = Tensor::empty(x.dtype(), shape);
  const auto bytes = static_cast<size_t>(x.dim(0) ? x.byte_size() / x.dim(0) : 0);
  for (size_t i = 0; i < rows.size(); ++i)
    std::memcpy(static_cast<char*>(out.mutable_raw()) + i * bytes,
                static_cast<const char*>(x.raw()) + static_cast<size_t>(rows[i]) * bytes, bytes);
  return out;
}

Dataset copy_rows(const Dataset& data, const std::vector<int64_t>& rows) {
  return {copy_rows(data.features, rows), copy_rows(data.labels, rows)};
}

}  // namespace

std::string shipped_digits(const char* flag) {
  const std::filesystem::path file = std::filesystem::path("data") / "digits.csv.gz";
  if (std::filesystem::exists(file)) return file.string();
  std::error_code none;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", none);
  const std::filesystem::path other = self.parent_path().parent_path() / file;
  if (std::filesystem::exists(other, none)) return other.string();
  throw Error(Errc::io, "there is no ", file.string(), " in the current folder, and no ",
              other.string(), "; name a file with ", flag);
}

Table load_table(const std::optional<std::string>& data, DType labels) {
  Table out;
  const std::string file = data ? *data : shipped_digits();
  if (std::filesystem::is_directory(file)) {
    const TrainTest mnist = load_mnist(file);
    out.name = "MNIST";
    out.train = flat(mnist.train), out.test = flat(mnist.test);
    out.all = out.train;
  } else {
    CsvOptions options;
    options.label_dtype = labels;
    out.name = std::filesystem::path(file).filename().string();
    out.all = read_csv(file, options);
    std::vector<int64_t> train, test;
    for (int64_t i = 0; i < out.all.size(); ++i)
      (i % kTestEvery == kTestEvery - 1 ? test : train).push_back(i);
    out.train = copy_rows(out.all, train), out.test = copy_rows(out.all, test);
  }
  if (out.all.size() < kRecordsMin)
    throw Error(Errc::bad_data, file, ": ", out.all.size(), " records are too few; at least ",
                kRecordsMin, " are needed");
  if (labels == DType::i64) {
    for (const int64_t label : out.all.labels.values<int64_t>())
      out.classes = std::max(out.classes, label + 1);
    if (out.classes < 2)
      throw Error(Errc::bad_data, file, ": all labels are 0; at least two classes are needed");
  }
  return out;
}

Standardizer::Standardizer(const Tensor& features) {
  const int64_t n = features.dim(0), columns = features.dim(1);
  const float* x = features.data<float>();
  mean_.resize(static_cast<size_t>(columns)), deviation_.resize(mean_.size());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < columns; ++j) mean_[static_cast<size_t>(j)] += x[i * columns + j];
  for (double& m : mean_) m /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      const double d = x[i * columns + j] - mean_[static_cast<size_t>(j)];
      deviation_[static_cast<size_t>(j)] += d * d;
    }
  for (double& d : deviation_) d = std::sqrt(d / static_cast<double>(n));
}

Tensor Standardizer::operator()(const Tensor& features, DType dtype) const {
  const int64_t n = features.dim(0), columns = features.dim(1);
  const float* x = features.data<float>();
  Tensor out = Tensor::empty(dtype, {n, columns});
  with_type(dtype, [&]<class T>(T) {
    if constexpr (is_real_v<T>) {
      T* y = out.mutable_data<T>();
      for (int64_t i = 0; i < n * columns; ++i) {
        const auto j = static_cast<size_t>(i % columns);
        y[i] = static_cast<T>(deviation_[j] > 0 ? (x[i] - mean_[j]) / deviation_[j] : 0);
      }
    }
  });
  return out;
}

Dataset every(const Dataset& data, int64_t begin, int64_t stride) {
  std::vector<int64_t> rows;
  for (int64_t i = begin; i < data.size(); i += stride) rows.push_back(i);
  return copy_rows(data, rows);
}
