// Stages whose records are rows of tensors.
#include "data/source/rows.hpp"

namespace troupe {
namespace {

struct Rows {
  Fields fields;
  std::vector<Tensor> columns, starts;
  std::string path;
  std::vector<SourceFile> files;
  int64_t size = 0;

  Tensor cell(size_t column, int64_t row) const {
    if (!starts[column].defined())
      return columns[column].rows(row, row + 1).reshaped(fields[column].type.shape);
    const auto* start = starts[column].data<int64_t>();
    return columns[column].rows(start[row], start[row + 1]);
  }
};

class Row final : public LazyRecord {
 public:
  Row(std::shared_ptr<const Rows> rows, int64_t number) : rows_(std::move(rows)), number_(number) {}
  Record make() const override {
    Record out;
    for (size_t i = 0; i < rows_->columns.size(); ++i) out.push_back(rows_->cell(i, number_));
    return out;
  }
  std::string place() const override { return detail::concat(rows_->path, ": record ", number_); }

 private:
  const std::shared_ptr<const Rows> rows_;
  const int64_t number_;
};

class RowsStream final : public RecordStream {
 public:
  explicit RowsStream(std::shared_ptr<const Rows> rows) : rows_(std::move(rows)) {}
  Lazy next() override {
    return next_ < rows_->size ? std::make_shared<Row>(rows_, next_++) : nullptr;
  }

 private:
  const std::shared_ptr<const Rows> rows_;
  int64_t next_ = 0;
};

class RowsStage final : public SourceStage {
 public:
  explicit RowsStage(std::shared_ptr<const Rows> rows) : rows_(std::move(rows)) {}
  const Fields& fields() const override { return rows_->fields; }
  std::unique_ptr<RecordStream> open(int64_t) const override {
    return std::make_unique<RowsStream>(rows_);
  }
  int64_t size() const override { return rows_->size; }
  std::vector<SourceFile> files() const override { return rows_->files; }

 private:
  const std::shared_ptr<const Rows> rows_;
};

}  // namespace

Stage rows_stage(Fields fields, std::vector<Tensor> columns, std::string path,
                 std::vector<SourceFile> from, std::vector<Tensor> starts) {
  TROUPE_CHECK(!columns.empty() && fields.size() == columns.size(), path, " has ", columns.size(),
               " columns and ", fields.size(), " fields");
  auto rows = std::make_shared<Rows>();
  starts.resize(columns.size());
  const auto size_of_column = [&](size_t i) {
    return starts[i].defined() ? starts[i].dim(0) - 1 : columns[i].dim(0);
  };
  rows->size = size_of_column(0);
  for (size_t i = 0; i < columns.size(); ++i)
    TROUPE_CHECK(size_of_column(i) == rows->size, path, ": columns of ", rows->size, " and of ",
                 size_of_column(i), " rows");
  rows->starts = std::move(starts);
  rows->fields = std::move(fields);
  rows->columns = std::move(columns);
  rows->path = std::move(path);
  rows->files = std::move(from);
  return std::make_shared<RowsStage>(std::move(rows));
}

}  // namespace troupe
