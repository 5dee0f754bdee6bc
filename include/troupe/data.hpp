// Data: readers of files, and batches that any worker can recompute. Implemented in data/*.cpp.
//
// Readers throw Error(io) if a file cannot be read, and Error(bad_data) if its content is
// malformed; the message names the file, the offset or line, what was expected and what was found.
// They read plain and gzipped files, told apart by content, and check every size before they
// allocate memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/tensor.hpp"

namespace troupe {

// Larger files are refused (bytes, unpacked); read larger sets in parts.
inline constexpr int64_t kDataBytesMax = int64_t{4} << 30;

struct Dataset {
  Tensor features;  // [n, ...]
  Tensor labels;    // [n]
  int64_t size() const { return features.defined() ? features.dim(0) : 0; }
  Dataset rows(int64_t begin, int64_t end) const;  // shares memory
};

// An IDX file (LeCun's MNIST format) as a tensor of its dtype, or of i32 for i8 and i16.
Tensor read_idx(const std::string& path, int64_t bytes_max = kDataBytesMax);

struct CsvOptions {
  DType label_dtype = DType::i64;  // i64: whole numbers in [0, classes); f32: any finite number
  int64_t classes = 0;             // exclusive upper bound of i64 labels; 0: any non-negative label
  int64_t bytes_max = kDataBytesMax;
};
// A table: a header line, then one record a line, the label last. Features are f32 [n, columns -
// 1]. Lines end with LF or CRLF; a field may stand in double quotes. Refuses ragged rows, empty
// fields, values that are not finite numbers, and a file without records.
Dataset read_csv(const std::string& path, const CsvOptions& options = {});

// The 8 x 8 digits (UCI, Alpaydin and Kaynak 1998): f32 [n, 8, 8, 1] in [0, 1], and i64 labels.
Dataset load_digits(const std::string& path);

struct TrainTest {
  Dataset train, test;
};
// MNIST from its four IDX files in `dir`, plain or .gz: features f32 [n, 28, 28, 1] in [0, 1],
// labels i64 in [0, 10).
TrainTest load_mnist(const std::string& dir);

// The lines of a text, without their ends, LF or CRLF. Refuses an empty file.
std::vector<std::string> read_lines(const std::string& path, int64_t bytes_max = kDataBytesMax);

struct Batch {
  Tensor features;               // [b, ...]
  Tensor labels;                 // [b]
  std::vector<int64_t> records;  // rows of the dataset, in order
};

// Seeded batches of a dataset for one or several replicas. Every function is pure: the same
// arguments give the same records in any process and any order, so a lost step can be repeated. Any
// thread may call.
//
// Data epoch e is a shuffle of all records, keyed by (seed, e). A global batch is `replicas *
// batch_size` records of it, cut into one contiguous part per replica.
class Batches {
 public:
  struct Settings {
    int64_t batch_size = 32;  // records per replica
    int64_t replicas = 1;
    uint64_t seed = 0;
    bool shuffle = true;
  };
  // Throws: Error(invalid_argument) for an empty dataset, for different numbers of features and
  // labels, and for a batch size or number of replicas below 1. The functions below throw it for a
  // replica or step out of range.
  Batches(Dataset dataset, Settings settings);

  // Batches of an endless run over data epochs: step s takes the records [s, s + 1) * replicas *
  // batch_size of the concatenated epochs. All batches are full: one that begins at the end of an
  // epoch continues in the next one, and each epoch still has every record exactly once.
  Batch at(int64_t step, int64_t replica) const;
  std::vector<int64_t> records_at(int64_t step, int64_t replica) const;

  // Batches that end with the data epoch: `step` in [0, steps_per_epoch()). The last batch holds
  // the remaining records, shared evenly among the replicas: some get one record less, and some
  // none if fewer records remain than there are replicas.
  Batch batch(int64_t epoch, int64_t step, int64_t replica) const;
  std::vector<int64_t> records(int64_t epoch, int64_t step, int64_t replica) const;
  int64_t steps_per_epoch() const;

  const Dataset& dataset() const;
  const Settings& settings() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// Prepares the batches Batches::at(step), step + 1, ... of one replica ahead of their use, on one
// thread, at most `depth` of them. Destroying it stops the thread.
class Prefetch {
 public:
  // Throws: Error(invalid_argument) for a depth below 1 and a replica or step out of range.
  Prefetch(Batches batches, int64_t replica, int64_t first_step = 0, int64_t depth = 2);
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // The same as Batches::at(step, replica), usually ready. After a jump it prepares from the new
  // step on. One caller at a time.
  Batch at(int64_t step);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe
