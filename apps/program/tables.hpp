// The data of a program: a table as CSV, MNIST, or the digits that ship.
//
// Owner: the program. Thread: its main one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "troupe/data.hpp"

struct Table {
  std::string name;             // for people
  troupe::Dataset all;          // features f32 [n, columns]
  troupe::Dataset train, test;  // of MNIST its own; otherwise every fifth record is for testing
  int64_t classes = 0;          // 0: labels are f32
};

// The path of data/digits.csv.gz in the current folder, or in the folder above that of the program,
// as of a build folder. Throws: Error(io) that says where it looked, and which flag names others.
std::string shipped_digits(const char* flag = "--data");

// `data`: a CSV file, plain or .gz, as read_csv() reads it; a folder with MNIST's four IDX files;
// or none: the digits that ship with Troupe. `labels`: i64 for classes, f32 for numbers. Throws:
// Error(io) and Error(bad_data) naming the file; Error(bad_data) for less than ten records, or one
// class alone.
Table load_table(const std::optional<std::string>& data, troupe::DType labels = troupe::DType::i64);

// Subtracts the mean of each column and divides by its standard deviation; a constant column
// becomes 0. Fitted to the training records.
class Standardizer {
 public:
  explicit Standardizer(const troupe::Tensor& features);  // f32 [n, columns]
  troupe::Tensor operator()(const troupe::Tensor& features, troupe::DType dtype) const;
  const std::vector<double>& mean() const { return mean_; }
  const std::vector<double>& deviation() const { return deviation_; }

 private:
  std::vector<double> mean_, deviation_;
};

// Records begin + i * stride of a dataset, copied: the part of a worker, say.
troupe::Dataset every(const troupe::Dataset& data, int64_t begin, int64_t stride);
