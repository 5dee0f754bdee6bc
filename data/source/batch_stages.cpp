// The stages that make batches: batch and bucket.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "data/reading.hpp"
#include "data/source/fields.hpp"
#include "data/source/stages.hpp"
#include "graph/base/corner.hpp"

namespace troupe {
namespace {

// How records become a batch.
struct Stacking {
  Fields fields;   // of a batch
  Fields records;  // of a record
  bool pad = false;
  double padding = 0;
};
using StackingPtr = std::shared_ptr<const Stacking>;

// True if a dtype has this number, but for rounding.
bool holds(DType dtype, double number) {
  bool out = false;
  with_type(dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<T, bool>)
      out = number == 0 || number == 1;
    else if constexpr (std::is_integral_v<T>)
      out = number == std::floor(number) &&
            number >= static_cast<double>(std::numeric_limits<T>::min()) &&
            number < std::ldexp(1.0, std::numeric_limits<T>::digits);
    else
      out = std::isfinite(number) == std::isfinite(static_cast<double>(static_cast<T>(number)));
  });
  return out;
}

StackingPtr stacking_of(const Fields& records, bool pad, double padding, int64_t size) {
  auto out = std::make_shared<Stacking>(Stacking{{}, records, pad, padding});
  for (const Field& field : records) {
    if (field.type.shape.ndim() == Shape::kNdimMax)
      throw Error(Errc::invalid_argument, "a batch of ", field.name, ", which is ", field.type,
                  ", would have more than ", int{Shape::kNdimMax}, " dimensions");
    std::vector<int64_t> sizes = {size};
    sizes.insert(sizes.end(), field.type.shape.begin(), field.type.shape.end());
    if (pad && !field.type.shape.is_known() && !holds(field.type.dtype, padding))
      throw Error(Errc::invalid_argument, "a batch pads ", field.name, ", which is ", field.type,
                  ", with ", padding, ", and ", field.type.dtype,
                  " has no such number; leave the field out with select, or give another padding");
    out->fields.push_back({field.name, {field.type.dtype, Shape(sizes)}});
  }
  return out;
}

void fill(Tensor& out, double value) {
  if (value == 0) {
    std::memset(out.mutable_raw(), 0, static_cast<size_t>(out.byte_size()));
    return;
  }
  with_type(out.dtype(), [&]<class T>(T) {
    std::fill_n(out.mutable_data<T>(), out.size(), static_cast<T>(value));
  });
}

class Batched final : public LazyRecord {
 public:
  Batched(StackingPtr how, std::vector<Lazy> rows) : how_(std::move(how)), rows_(std::move(rows)) {}
  Record make() const override {
    std::vector<Record> made;
    made.reserve(rows_.size());
    for (const Lazy& row : rows_) {
      Reading::moved();  // a function may take long for each
      made.push_back(row->make());
    }
    Record out;
    for (size_t i = 0; i < how_->records.size(); ++i) out.push_back(stack(made, i));
    return out;
  }
  std::string place() const override {
    return detail::concat("a batch of ", rows_.size(), " records from ", rows_.front()->place());
  }
  const std::vector<Lazy>* rows() const override { return &rows_; }
  Lazy with_rows(std::vector<Lazy> rows) const override {
    return std::make_shared<Batched>(how_, std::move(rows));
  }
  std::vector<const void*> makers() const override { return {how_.get()}; }

 private:
  Tensor stack(const std::vector<Record>& made, size_t field) const;

  const StackingPtr how_;
  const std::vector<Lazy> rows_;  // at least one
};

Tensor Batched::stack(const std::vector<Record>& made, size_t field) const {
  Shape largest = made[0][field].shape();
  bool same = true;
  for (size_t i = 1; i < made.size(); ++i) {
    const Shape shape = made[i][field].shape();
    if (shape == largest) continue;
    same = false;
    if (!how_->pad)
      throw Error(Errc::bad_data, rows_[i]->place(), ": ", how_->records[field].name, " is ", shape,
                  ", but ", largest, " in ", rows_[0]->place(),
                  "; pad the batch (BatchOptions::pad), or bring the records to one size");
    for (int d = 0; d < largest.ndim(); ++d) largest.set(d, std::max(largest[d], shape[d]));
  }
  std::vector<int64_t> sizes = {static_cast<int64_t>(made.size())};
  sizes.insert(sizes.end(), largest.begin(), largest.end());
  const DType dtype = how_->records[field].type.dtype;
  Tensor out = Tensor::empty(dtype, Shape(sizes));
  if (!same) fill(out, how_->padding);
  const int64_t bytes = largest.size() * size_of(dtype);
  char* to = static_cast<char*>(out.mutable_raw());
  for (const Record& record : made) {
    const Tensor& value = record[field];
    const Shape shape = value.shape();
    if (shape.size() > 0)
      copy_corner(static_cast<const char*>(value.raw()), shape.dims(), to, largest.dims(),
                  size_of(dtype));
    to += bytes;
  }
  return out;
}

class BatchStage final : public SourceStage {
 public:
  BatchStage(Stage before, int64_t size, const BatchOptions& options)
      : before_(std::move(before)),
        size_(size),
        drop_last_(options.drop_last),
        // A part of a step may have another number of records.
        how_(stacking_of(before_->fields(), options.pad, options.padding, -1)) {}
  const Fields& fields() const override { return how_->fields; }
  std::unique_ptr<RecordStream> open(int64_t epoch) const override;
  bool same_count() const override { return before_->same_count(); }
  int64_t size() const override {
    const int64_t n = before_->size();
    return n < 0 ? -1 : n / size_ + (!drop_last_ && n % size_ != 0 ? 1 : 0);
  }
  Batching batching() const override {
    return drop_last_ ? Batching::full_batches : Batching::batches;
  }

 private:
  const Stage before_;
  const int64_t size_;
  const bool drop_last_;
  const StackingPtr how_;
};

class BatchStream final : public RecordStream {
 public:
  BatchStream(std::unique_ptr<RecordStream> from, StackingPtr how, int64_t size, bool drop_last)
      : from_(std::move(from)), how_(std::move(how)), size_(size), drop_last_(drop_last) {}
  Lazy next() override {
    std::vector<Lazy> rows;
    while (static_cast<int64_t>(rows.size()) < size_) {
      Lazy row = from_->next();
      if (!row) break;
      rows.push_back(std::move(row));
    }
    const bool full = static_cast<int64_t>(rows.size()) == size_;
    if (rows.empty() || (drop_last_ && !full)) return nullptr;
    return std::make_shared<Batched>(how_, std::move(rows));
  }

 private:
  const std::unique_ptr<RecordStream> from_;
  const StackingPtr how_;
  const int64_t size_;
  const bool drop_last_;
};

std::unique_ptr<RecordStream> BatchStage::open(int64_t epoch) const {
  return std::make_unique<BatchStream>(before_->open(epoch), how_, size_, drop_last_);
}

struct Buckets {
  Stage before;
  StackingPtr how;
  size_t field;
  std::vector<int64_t> bounds, sizes;

  size_t of(const LazyRecord& record, const Record& made) const {
    const int64_t length = made[field].dim(0);
    const auto bound = std::lower_bound(bounds.begin(), bounds.end(), length);
    if (bound == bounds.end())
      throw Error(Errc::bad_data, record.place(), ": ", how->records[field].name,
                  " has a length of ", length, ", past the last bucket, ", bounds.back(),
                  "; cut it, filter long records out, or give a larger bound");
    return static_cast<size_t>(bound - bounds.begin());
  }
};

class BucketStream final : public RecordStream {
 public:
  BucketStream(std::shared_ptr<const Buckets> buckets, int64_t epoch)
      : buckets_(std::move(buckets)),
        from_(buckets_->before->open(epoch)),
        waiting_(buckets_->bounds.size()) {}
  Lazy next() override {
    while (from_) {
      const Lazy record = from_->next();
      if (!record) {
        from_.reset();
        break;
      }
      auto made = std::make_shared<MadeRecord>(record->make(), record->place());
      const size_t bucket = buckets_->of(*made, made->make());
      std::vector<Lazy>& rows = waiting_[bucket];
      rows.push_back(std::move(made));
      if (static_cast<int64_t>(rows.size()) == buckets_->sizes[bucket]) return batch_of(rows);
    }
    for (std::vector<Lazy>& rows : waiting_)
      if (!rows.empty()) return batch_of(rows);
    return nullptr;
  }

 private:
  Lazy batch_of(std::vector<Lazy>& rows) {
    return std::make_shared<Batched>(buckets_->how, std::exchange(rows, {}));
  }

  const std::shared_ptr<const Buckets> buckets_;
  std::unique_ptr<RecordStream> from_;  // null at its end
  std::vector<std::vector<Lazy>> waiting_;
};

class BucketStage final : public SourceStage {
 public:
  explicit BucketStage(std::shared_ptr<const Buckets> buckets) : buckets_(std::move(buckets)) {}
  const Fields& fields() const override { return buckets_->how->fields; }
  std::unique_ptr<RecordStream> open(int64_t epoch) const override {
    return std::make_unique<BucketStream>(buckets_, epoch);
  }
  bool same_count() const override { return buckets_->before->same_count(); }
  Batching batching() const override { return Batching::batches; }

 private:
  const std::shared_ptr<const Buckets> buckets_;
};

}  // namespace

Stage batch_stage(Stage before, int64_t size, const BatchOptions& options) {
  return std::make_shared<BatchStage>(std::move(before), size, options);
}

Stage bucket_stage(Stage before, const std::string& field, std::vector<int64_t> bounds,
                   std::vector<int64_t> sizes, double padding) {
  const Fields& fields = before->fields();
  const size_t number = field_number(fields, field, "bucket");
  if (fields[number].type.shape.ndim() < 1)
    throw Error(Errc::invalid_argument, "bucket wants a field with a length, and ", field,
                " is a scalar");
  const bool rising = std::is_sorted(bounds.begin(), bounds.end(), std::less_equal<>());
  if (bounds.empty() || bounds.size() != sizes.size() || !rising ||
      std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 1; }))
    throw Error(Errc::invalid_argument,
                "bucket wants rising bounds and a size of at least 1 for "
                "each, got ",
                bounds.size(), " bounds and ", sizes.size(), " sizes");
  auto out = std::make_shared<Buckets>();
  out->field = number;
  out->how = stacking_of(fields, true, padding, -1);
  out->before = std::move(before);
  out->bounds = std::move(bounds);
  out->sizes = std::move(sizes);
  return std::make_shared<BucketStage>(std::move(out));
}

}  // namespace troupe
