// cifar_stage(): the binary version of CIFAR-10 and CIFAR-100 (Krizhevsky 2009,
// https://www.cs.toronto.edu/~kriz/cifar.html). A record is a byte for the class, for CIFAR-100
// with one for the coarse class before it, and then 32 x 32 pixels, all red ones first.
#include "data/bytes.hpp"
#include "data/images/readers.hpp"
#include "data/source/seen.hpp"

namespace troupe {
namespace {

constexpr int64_t kSide = 32, kPixels = kSide * kSide;

struct Cifar {
  std::vector<std::string> paths;
  int64_t classes = 10;
  Fields fields = {};
  const Files& files;

  int64_t labels() const { return classes == 100 ? 2 : 1; }
  int64_t record_bytes() const { return labels() + 3 * kPixels; }
};
using SharedCifar = std::shared_ptr<const Cifar>;

class CifarRecord final : public LazyRecord {
 public:
  CifarRecord(SharedCifar cifar, size_t file, int64_t number, std::string bytes)
      : cifar_(std::move(cifar)), file_(file), number_(number), bytes_(std::move(bytes)) {}
  Record make() const override {
    const auto* bytes = reinterpret_cast<const uint8_t*>(bytes_.data());
    Tensor image = Tensor::empty(DType::u8, Shape{kSide, kSide, 3});
    auto* to = image.mutable_data<uint8_t>();
    const uint8_t* planes = bytes + cifar_->labels();
    for (int64_t i = 0; i < kPixels; ++i)
      for (int64_t c = 0; c < 3; ++c) to[3 * i + c] = planes[c * kPixels + i];
    if (cifar_->classes == 10) return {std::move(image), label(bytes[0], 10)};
    return {std::move(image), label(bytes[1], 100), label(bytes[0], 20)};
  }
  std::string place() const override {
    return detail::concat(cifar_->paths[file_], ": record ", number_);
  }

 private:
  Tensor label(uint8_t number, int64_t classes) const {
    if (number >= classes)
      throw Error(Errc::bad_data, place(), ": expected a class from 0 to ", classes - 1, ", found ",
                  int{number}, "; is it a file of CIFAR-", cifar_->classes, "?");
    return Tensor::scalar<int64_t>(number);
  }

  const SharedCifar cifar_;
  const size_t file_;
  const int64_t number_;
  const std::string bytes_;
};

class CifarStream final : public RecordStream {
 public:
  explicit CifarStream(SharedCifar cifar) : cifar_(std::move(cifar)) {}
  Lazy next() override {
    std::string bytes(static_cast<size_t>(cifar_->record_bytes()), '\0');
    for (; file_ < cifar_->paths.size(); ++file_, source_.reset()) {
      if (!source_) {
        source_ = std::make_unique<ByteSource>(cifar_->files.open(cifar_->paths[file_]));
        number_ = 0;
      }
      const int64_t n = source_->read(bytes);
      if (n == cifar_->record_bytes())
        return std::make_shared<CifarRecord>(cifar_, file_, number_++, std::move(bytes));
      if (n > 0 || number_ == 0)
        throw Error(Errc::bad_data, source_->path(), ": at byte ", source_->offset() - n,
                    ": expected a record of ", cifar_->record_bytes(), " bytes, found ", n,
                    "; the file is cut short or not one of CIFAR-", cifar_->classes);
    }
    return nullptr;
  }

 private:
  const SharedCifar cifar_;
  size_t file_ = 0;
  std::unique_ptr<ByteSource> source_;
  int64_t number_ = 0;  // of the next record in the file
};

class CifarStage final : public SourceStage {
 public:
  explicit CifarStage(SharedCifar cifar) : cifar_(std::move(cifar)) {}
  const Fields& fields() const override { return cifar_->fields; }
  std::unique_ptr<RecordStream> open(int64_t) const override {
    return std::make_unique<CifarStream>(cifar_);
  }
  std::vector<SourceFile> files() const override {
    return source_files(cifar_->files, cifar_->paths);
  }

 private:
  const SharedCifar cifar_;
};

}  // namespace

Stage cifar_stage(const SourceArgs& args, const Files& files) {
  ArgReader read("cifar", args);
  const auto paths = read.want<std::vector<std::string>>("paths");
  const auto classes = read.get<int64_t>("classes", 10);
  read.done();
  if (classes != 10 && classes != 100)
    throw Error(Errc::invalid_argument, "cifar has 10 or 100 classes, not ", classes);
  auto cifar = std::make_shared<Cifar>(Cifar{.paths = {}, .classes = classes, .files = files});
  cifar->paths = list_files(files, paths, "cifar");
  cifar->fields = {{"image", {DType::u8, {kSide, kSide, 3}}}, {"label", {DType::i64, {}}}};
  if (classes == 100) cifar->fields.push_back({"coarse_label", {DType::i64, {}}});
  return std::make_shared<CifarStage>(std::move(cifar));
}

}  // namespace troupe
