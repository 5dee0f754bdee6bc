// The readers lines and documents: text files line by line, several side by side or one after the
// other, and as a whole. Both hold one line or file at a time.
#include <deque>

#include "data/lines.hpp"
#include "data/source/fields.hpp"
#include "data/source/seen.hpp"
#include "data/text/parts.hpp"
#include "data/text/utf8.hpp"
#include "troupe/data.hpp"

namespace troupe {
namespace {

struct LineFiles {
  Fields fields = {};
  const Files& files;
  // [field][part]: the parts of a field are read one after the other, fields side by side.
  std::vector<std::vector<std::string>> paths = {};
  bool skip_empty = false;
  size_t line_bytes_max = 0;
};

class LineRecord final : public LazyRecord {
 public:
  LineRecord(std::shared_ptr<const LineFiles> files, size_t part, int64_t number, Record texts)
      : files_(std::move(files)), part_(part), number_(number), texts_(std::move(texts)) {}
  Record make() const override {
    for (size_t i = 0; i < texts_.size(); ++i)
      if (const auto text = text_of(texts_[i]); invalid_utf8(text) != text.npos)
        check_utf8(text, place_in(i));
    return texts_;
  }
  std::string place() const override { return place_in(0); }

 private:
  std::string place_in(size_t field) const {
    return detail::concat(files_->paths[field][part_], ": line ", number_);
  }

  const std::shared_ptr<const LineFiles> files_;
  const size_t part_;
  const int64_t number_;
  const Record texts_;
};

class LineStream final : public RecordStream {
 public:
  explicit LineStream(std::shared_ptr<const LineFiles> files) : files_(std::move(files)) {}

  Lazy next() override {
    for (;;) {
      if (open_.empty() && !open_part()) return nullptr;
      Record texts;
      bool empty = false;
      const Lines* ended = nullptr;
      for (Lines& lines : open_) {
        std::string_view line;
        if (!lines.next(line)) {
          ended = &lines;
          continue;
        }
        empty |= line.empty();
        texts.push_back(text_tensor(line));
      }
      if (ended) {
        if (!texts.empty()) refuse(*ended);
        open_.clear();
        ++part_;
      } else if (!empty || !files_->skip_empty) {
        const int64_t number = open_.front().number();
        return std::make_shared<LineRecord>(files_, part_, number, std::move(texts));
      }
    }
  }

 private:
  bool open_part() {
    if (part_ == files_->paths[0].size()) return false;
    for (const auto& parts : files_->paths)
      open_.emplace_back(files_->files.open(parts[part_]), Lines::kAnySize, files_->line_bytes_max);
    return true;
  }

  [[noreturn]] void refuse(const Lines& ended) const {
    for (const Lines& other : open_)
      if (other.number() > ended.number())
        throw Error(Errc::bad_data, ended.path(), " ends after line ", ended.number(), ", ",
                    other.path(), " has a line ", other.number(),
                    "; files that are read side by side want equally many lines");
    throw InternalError(ended.path(), " ends before no other file");
  }

  const std::shared_ptr<const LineFiles> files_;
  std::deque<Lines> open_;  // of the part, by field
  size_t part_ = 0;
};

class LineStage final : public SourceStage {
 public:
  explicit LineStage(std::shared_ptr<const LineFiles> files) : files_(std::move(files)) {}
  const Fields& fields() const override { return files_->fields; }
  std::unique_ptr<RecordStream> open(int64_t) const override {
    return std::make_unique<LineStream>(files_);
  }
  std::vector<SourceFile> files() const override {
    std::vector<SourceFile> out;
    for (const auto& parts : files_->paths)
      for (SourceFile& file : source_files(files_->files, parts)) out.push_back(std::move(file));
    return out;
  }

 private:
  const std::shared_ptr<const LineFiles> files_;
};

struct DocumentFiles {
  const Files& files;
  std::vector<std::string> paths;
};
using SharedDocuments = std::shared_ptr<const DocumentFiles>;

class Document final : public LazyRecord {
 public:
  Document(SharedDocuments files, size_t number) : files_(std::move(files)), number_(number) {}
  std::string place() const override { return files_->paths[number_]; }
  Record make() const override {
    Lines lines(files_->files.open(place()), kDataBytesMax, static_cast<size_t>(kDataBytesMax));
    std::string text;
    for (std::string_view line; lines.next(line);) {
      if (invalid_utf8(line) != line.npos)
        check_utf8(line, detail::concat(place(), ": line ", lines.number()));
      text += line;
      text += '\n';
    }
    return {text_tensor(text)};
  }

 private:
  const SharedDocuments files_;
  const size_t number_;
};

class DocumentStage final : public SourceStage {
 public:
  explicit DocumentStage(SharedDocuments files) : files_(std::move(files)) {}
  const Fields& fields() const override { return fields_; }
  std::unique_ptr<RecordStream> open(int64_t) const override {
    return std::make_unique<Stream>(files_);
  }
  int64_t size() const override { return static_cast<int64_t>(files_->paths.size()); }
  std::vector<SourceFile> files() const override {
    return source_files(files_->files, files_->paths);
  }

 private:
  class Stream final : public RecordStream {
   public:
    explicit Stream(SharedDocuments files) : files_(std::move(files)) {}
    Lazy next() override {
      if (next_ == files_->paths.size()) return nullptr;
      return std::make_shared<Document>(files_, next_++);
    }

   private:
    const SharedDocuments files_;
    size_t next_ = 0;
  };

  const Fields fields_ = {{kTextField, {DType::u8, {-1}}}};
  const SharedDocuments files_;
};

}  // namespace

Tensor text_tensor(std::string_view text) {
  return Tensor::of<uint8_t>({reinterpret_cast<const uint8_t*>(text.data()), text.size()},
                             Shape{static_cast<int64_t>(text.size())});
}

Stage lines_stage(const SourceArgs& args, const Files& files) {
  ArgReader read("lines", args);
  const auto paths = read.want<std::vector<std::string>>("paths");
  const auto parallel = read.get<bool>("parallel", false);
  auto names = read.get<std::vector<std::string>>("fields", {});
  const auto line_bytes_max = read.get<int64_t>("line_bytes_max", 1 << 20);
  auto lines = std::make_shared<LineFiles>(LineFiles{.files = files});
  lines->skip_empty = read.get<bool>("skip_empty", false);
  read.done();
  if (line_bytes_max < 1)
    throw Error(Errc::invalid_argument, "lines wants a line_bytes_max of at least 1, got ",
                line_bytes_max);
  if (names.empty() && !parallel) names = {kTextField};
  const size_t wanted = parallel ? paths.size() : 1;
  if (names.size() != wanted || wanted == 0)
    throw Error(Errc::invalid_argument, "lines wants a name in fields for each of ", wanted,
                parallel ? " files side by side" : " field", ", got ", names.size());
  lines->line_bytes_max = static_cast<size_t>(line_bytes_max);
  for (size_t i = 0; i < wanted; ++i) {
    lines->fields.push_back({names[i], {DType::u8, {-1}}});
    lines->paths.push_back(
        list_files(files, parallel ? std::vector<std::string>{paths[i]} : paths, "lines"));
    if (lines->paths[i].size() != lines->paths[0].size())
      throw Error(Errc::invalid_argument, "lines reads files side by side, but ", paths[0],
                  " names ", lines->paths[0].size(), " and ", paths[i], " ",
                  lines->paths[i].size());
  }
  want_distinct(lines->fields, "lines");
  return std::make_shared<LineStage>(std::move(lines));
}

Stage documents_stage(const SourceArgs& args, const Files& files) {
  ArgReader read("documents", args);
  const auto paths = read.want<std::vector<std::string>>("paths");
  read.done();
  return std::make_shared<DocumentStage>(std::make_shared<const DocumentFiles>(
      DocumentFiles{files, list_files(files, paths, "documents")}));
}

}  // namespace troupe
