// tfrecord_stage(): files of records, each with its length, the length's checksum, its bytes, and
// their checksum, all little-endian (tensorflow/core/lib/io/record_writer.h). Checksums are
// crc32c, masked, as a file may hold bytes with checksums in them.
#include <array>
#include <optional>

#include "data/bytes.hpp"
#include "data/records/records.hpp"
#include "data/source/seen.hpp"
#include "graph/base/crc32c.hpp"

namespace troupe {
namespace {

constexpr int64_t kRecordBytesMax = int64_t{1} << 30;

uint32_t masked_crc(std::span<const std::byte> bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <class T>
T little_endian(const char* bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= T{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

std::string place_of(const std::string& path, int64_t offset) {
  return detail::concat(path, ": the record at byte ", offset);
}

struct RecordFiles {
  std::vector<std::string> paths;
  size_t interleave = 1;
  Fields fields = {{"record", {DType::u8, {-1}}}};
  const Files& files;
};
using SharedFiles = std::shared_ptr<const RecordFiles>;

class TfRecord final : public LazyRecord {
 public:
  TfRecord(SharedFiles files, size_t file, int64_t offset, Tensor bytes, uint32_t crc)
      : files_(std::move(files)),
        file_(file),
        offset_(offset),
        bytes_(std::move(bytes)),
        crc_(crc) {}
  Record make() const override {
    if (masked_crc(std::as_bytes(bytes_.values<uint8_t>())) != crc_)
      throw Error(Errc::bad_data, place(), ": its ", bytes_.size(),
                  " bytes have another checksum than is written behind them; the file is damaged");
    return {bytes_};
  }
  std::string place() const override { return place_of(files_->paths[file_], offset_); }

 private:
  const SharedFiles files_;
  const size_t file_;
  const int64_t offset_;
  const Tensor bytes_;
  const uint32_t crc_;
};

class RecordFile {
 public:
  RecordFile(SharedFiles files, size_t number)
      : files_(std::move(files)),
        number_(number),
        bytes_(files_->files.open(files_->paths[number])) {}
  // The next record, or null at the end.
  Lazy next() {
    const int64_t offset = bytes_.offset();
    std::array<char, 12> head;
    const int64_t n = bytes_.read(head);
    if (n == 0) return nullptr;
    if (n < static_cast<int64_t>(head.size())) throw cut_short(offset);
    const auto length = little_endian<uint64_t>(head.data());
    if (masked_crc(std::as_bytes(std::span(head).first(8))) !=
        little_endian<uint32_t>(head.data() + 8))
      throw Error(Errc::bad_data, place_of(bytes_.path(), offset),
                  ": its length has a wrong checksum; the file is damaged or no TFRecord file");
    if (length > static_cast<uint64_t>(kRecordBytesMax))
      throw Error(Errc::bad_data, place_of(bytes_.path(), offset), ": it has ", length,
                  " bytes; records of at most ", kRecordBytesMax, " are read");
    if (static_cast<int64_t>(length) > bytes_.bytes_max() - bytes_.offset())
      throw cut_short(offset);
    Tensor bytes = Tensor::empty(DType::u8, Shape{static_cast<int64_t>(length)});
    std::array<char, 4> crc;
    read({reinterpret_cast<char*>(bytes.mutable_data<uint8_t>()), length}, offset);
    read(crc, offset);
    return std::make_shared<TfRecord>(files_, number_, offset, std::move(bytes),
                                      little_endian<uint32_t>(crc.data()));
  }

 private:
  Error cut_short(int64_t offset) const {
    return Error(Errc::bad_data, place_of(bytes_.path(), offset),
                 ": the file is cut short within it; fetch it again");
  }
  void read(std::span<char> into, int64_t offset) {
    if (bytes_.read(into) < static_cast<int64_t>(into.size())) throw cut_short(offset);
  }

  const SharedFiles files_;
  const size_t number_;
  ByteSource bytes_;
};

class RecordFilesStream final : public RecordStream {
 public:
  explicit RecordFilesStream(SharedFiles files)
      : files_(std::move(files)), open_(std::min(files_->interleave, files_->paths.size())) {}
  Lazy next() override {
    // Ends when all places have been found empty, one after the other.
    for (size_t empty = 0; empty < open_.size(); at_ = (at_ + 1) % open_.size()) {
      std::optional<RecordFile>& file = open_[at_];
      if (!file && next_ < files_->paths.size()) file.emplace(files_, next_++);
      if (!file) {
        ++empty;
        continue;
      }
      if (Lazy record = file->next()) {
        at_ = (at_ + 1) % open_.size();
        return record;
      }
      file.reset();
      empty = 0;
    }
    return nullptr;
  }

 private:
  const SharedFiles files_;
  std::vector<std::optional<RecordFile>> open_;  // read in turn
  size_t at_ = 0;
  size_t next_ = 0;  // the next file to open
};

class TfRecordStage final : public SourceStage {
 public:
  explicit TfRecordStage(SharedFiles files) : files_(std::move(files)) {}
  const Fields& fields() const override { return files_->fields; }
  std::unique_ptr<RecordStream> open(int64_t) const override {
    return std::make_unique<RecordFilesStream>(files_);
  }
  std::vector<SourceFile> files() const override {
    return source_files(files_->files, files_->paths);
  }

 private:
  const SharedFiles files_;
};

}  // namespace

Stage tfrecord_stage(const SourceArgs& args, const Files& files) {
  ArgReader read("tfrecord", args);
  const auto paths = read.want<std::vector<std::string>>("paths");
  const auto interleave = read.get<int64_t>("interleave", 1);
  read.done();
  if (interleave < 1)
    throw Error(Errc::invalid_argument, "tfrecord reads 1 or more files in turn, not ", interleave);
  auto shared = std::make_shared<RecordFiles>(
      RecordFiles{.paths = {}, .interleave = static_cast<size_t>(interleave), .files = files});
  shared->paths = list_files(files, paths, "tfrecord");
  return std::make_shared<TfRecordStage>(std::move(shared));
}

}  // namespace troupe
