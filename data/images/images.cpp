// images_stage(): pictures in folders and tars.
#include <algorithm>
#include <map>
#include <optional>

#include "data/images/readers.hpp"
#include "data/records/tar.hpp"
#include "data/source/seen.hpp"
#include "troupe/files.hpp"

namespace troupe {
namespace {

// The folder of a file and the folder around that: "train/cat/1.jpg" is in "cat" in "train".
struct ClassFolder {
  std::string_view around, name;
};

bool is_hidden(std::string_view path) {
  return path.substr(path.rfind('/') + 1).starts_with('.');  // npos + 1 is 0
}

// Classes by name, and the folder that all of them stand in.
class Classes {
 public:
  // No names: the classes that add() sees, sorted.
  Classes(std::string path, const std::vector<std::string>& names)
      : path_(std::move(path)), fixed_(!names.empty()) {
    for (const std::string& name : names)
      if (!classes_.emplace(name, Class{static_cast<int64_t>(classes_.size())}).second)
        throw Error(Errc::invalid_argument, "images: classes names ", name, " twice");
  }
  // Notes the class of a file, and returns its number, which counts once all are known. Throws:
  // Error(bad_data) for a file that is in no class folder, or in one that is not among the names.
  int64_t add(const std::string& file) {
    const ClassFolder folder = folder_of(file);
    if (!around_) around_ = folder.around;
    if (*around_ != folder.around)
      throw Error(Errc::bad_data, path_, ": ", file, " stands in another folder of classes than ",
                  example_, "; wanted are files CLASS/NAME in one folder");
    if (example_.empty()) example_ = file;
    auto it = classes_.find(folder.name);
    if (it == classes_.end() && fixed_)
      throw Error(Errc::bad_data, path_, ": ", file, " is of the class ", folder.name,
                  ", which classes does not name; add it there");
    if (it == classes_.end()) it = classes_.emplace(folder.name, Class{}).first;
    it->second.seen = true;
    return it->second.number;
  }
  // Numbers the classes when all files are added. Throws: Error(bad_data) for a class without one.
  void close() {
    int64_t next = 0;
    for (auto& [name, known] : classes_) {
      if (!known.seen)
        throw Error(Errc::bad_data, path_, ": there is no picture of the class ", name,
                    "; check the names in classes");
      if (!fixed_) known.number = next++;
    }
  }
  int64_t number_of(const std::string& file) const {
    return classes_.find(folder_of(file).name)->second.number;
  }
  bool fixed() const { return fixed_; }
  std::vector<std::string> names() const {  // sorted
    std::vector<std::string> out;
    for (const auto& [name, known] : classes_) out.push_back(name);
    return out;
  }

 private:
  struct Class {
    int64_t number = 0;
    bool seen = false;
  };
  ClassFolder folder_of(std::string_view file) const {
    const size_t end = file.rfind('/');
    if (end == file.npos)
      throw Error(Errc::bad_data, path_, ": ", file,
                  " stands in no folder; the folder of a picture is its class");
    const size_t begin = end == 0 ? file.npos : file.rfind('/', end - 1);
    return {begin == file.npos ? "" : file.substr(0, begin),
            file.substr(begin + 1, end - begin - 1)};
  }

  std::string path_, example_;
  bool fixed_;
  std::optional<std::string> around_;
  std::map<std::string, Class, std::less<>> classes_;
};

// A file with its place in an archive; both offsets are 0 in a folder.
struct Picture {
  std::string name;
  int64_t label = 0, header = 0, offset = 0, size = 0;
};

// Everything that the records of one reader share.
struct Album {
  std::string path;
  int64_t channels = 3;
  Shape size = {-1, -1};
  std::string size_by = "the argument size";
  Fields fields = {};
  Classes classes;
  bool is_folder = false, is_gzip = false;
  std::shared_ptr<const RandomFile> archive = {};
  const Files& files;
  std::vector<Picture> index = {};  // not for a gzipped archive

  std::string place(const Picture& p) const {
    return is_folder ? join_path(path, p.name) : path + ": " + p.name;
  }
  std::string place_and_offset(const Picture& p) const {
    if (is_folder) return place(p);
    return detail::concat(place(p), is_gzip ? " at unpacked byte " : " at byte ", p.header);
  }
  void check_bytes(const Picture& p, int64_t bytes) const {
    if (bytes > kImageBytesMax)
      throw Error(Errc::bad_data, place_and_offset(p), ": ", bytes, " bytes are no picture; ",
                  "at most ", kImageBytesMax, " are read");
  }
  std::string read(const Picture& p) const {
    const auto file = is_folder ? files.open(place(p)) : archive;
    const int64_t size = is_folder ? file->size() : p.size;
    check_bytes(p, size);
    std::string bytes(static_cast<size_t>(size), '\0');
    if (file->read(p.offset, bytes) < size)
      throw Error(Errc::bad_data, place_and_offset(p), ": the file has become shorter");
    return bytes;
  }
  Tensor decode(const Picture& p, const std::string& bytes) const {
    return decode_image({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, channels,
                        place_and_offset(p));
  }
  Record record(const Picture& p, const std::string& bytes) const {
    Tensor image = decode(p, bytes);
    const Shape& wanted = fields[0].type.shape;
    if (!wanted.accepts(image.shape()))
      throw Error(Errc::bad_data, place_and_offset(p), ": the image is ", image.shape(), ", ",
                  size_by, " says ", wanted, "; with size [-1, -1] images of any size are read");
    return {std::move(image), Tensor::scalar(p.label)};
  }
};
using SharedAlbum = std::shared_ptr<const Album>;

class IndexedPicture final : public LazyRecord {
 public:
  IndexedPicture(SharedAlbum album, size_t number) : album_(std::move(album)), number_(number) {}
  Record make() const override { return album_->record(picture(), album_->read(picture())); }
  std::string place() const override { return album_->place(picture()); }

 private:
  const Picture& picture() const { return album_->index[number_]; }
  const SharedAlbum album_;
  const size_t number_;
};

class IndexStream final : public RecordStream {
 public:
  explicit IndexStream(SharedAlbum album) : album_(std::move(album)) {}
  Lazy next() override {
    if (next_ == album_->index.size()) return nullptr;
    return std::make_shared<IndexedPicture>(album_, next_++);
  }

 private:
  const SharedAlbum album_;
  size_t next_ = 0;
};

class ReadPicture final : public LazyRecord {
 public:
  ReadPicture(SharedAlbum album, Picture picture, std::string bytes)
      : album_(std::move(album)), picture_(std::move(picture)), bytes_(std::move(bytes)) {}
  Record make() const override { return album_->record(picture_, bytes_); }
  std::string place() const override { return album_->place(picture_); }

 private:
  const SharedAlbum album_;
  const Picture picture_;
  const std::string bytes_;
};

// Goes to the next picture of an archive.
bool next_picture(TarReader& tar, Classes& classes, Picture& out) {
  for (TarEntry entry; tar.next(entry);) {
    if (is_hidden(entry.name)) continue;
    const int64_t label = classes.add(entry.name);
    out = {std::move(entry.name), label, entry.header, entry.offset, entry.size};
    return true;
  }
  return false;
}

std::string read_picture(TarReader& tar, const Album& album, const Picture& picture) {
  album.check_bytes(picture, picture.size);
  std::string bytes(static_cast<size_t>(picture.size), '\0');
  tar.read(bytes);
  return bytes;
}

class GzipStream final : public RecordStream {
 public:
  explicit GzipStream(SharedAlbum album)
      : album_(std::move(album)), tar_(album_->archive), classes_(album_->classes) {}
  Lazy next() override {
    Picture picture;
    if (!next_picture(tar_, classes_, picture)) {
      classes_.close();  // classes that are given are checked here first
      return nullptr;
    }
    std::string bytes = read_picture(tar_, *album_, picture);
    return std::make_shared<ReadPicture>(album_, std::move(picture), std::move(bytes));
  }

 private:
  const SharedAlbum album_;
  TarReader tar_;
  Classes classes_;
};

class ImagesStage final : public SourceStage {
 public:
  explicit ImagesStage(SharedAlbum album) : album_(std::move(album)) {}
  const Fields& fields() const override { return album_->fields; }
  std::unique_ptr<RecordStream> open(int64_t) const override {
    if (album_->is_gzip) return std::make_unique<GzipStream>(album_);
    return std::make_unique<IndexStream>(album_);
  }
  int64_t size() const override {
    return album_->is_gzip ? -1 : static_cast<int64_t>(album_->index.size());
  }
  // The pictures of a folder by their names alone, as they may be a million.
  std::vector<SourceFile> files() const override {
    if (!album_->is_folder) return source_files(album_->files, {album_->path});
    std::vector<SourceFile> out;
    for (const Picture& picture : album_->index) out.push_back({picture.name});
    return out;
  }

 private:
  const SharedAlbum album_;
};

void list_folder(Album& album) {
  for (const Files::Entry& folder : album.files.entries(album.path)) {
    if (!folder.folder || is_hidden(folder.name)) continue;
    const std::string path = join_path(album.path, folder.name);
    bool empty = true;
    for (const Files::Entry& file : album.files.entries(path)) {
      if (is_hidden(file.name)) continue;
      if (file.folder)
        throw Error(Errc::bad_data, join_path(path, file.name),
                    " is a folder in the folder of a class; wanted are files CLASS/NAME");
      album.index.push_back({join_path(folder.name, file.name)});
      album.classes.add(album.index.back().name);
      empty = false;
    }
    if (empty)
      throw Error(Errc::bad_data, album.path, ": there is no picture of the class ", folder.name,
                  "; put some there, or remove the folder");
  }
}

// The first picture, decoded; nothing of an empty archive.
struct First {
  std::string place;
  Tensor image;
};

std::optional<First> scan_gzip(Album& album) {
  TarReader tar(album.archive);
  Classes seen = album.classes;
  Picture picture;
  if (!next_picture(tar, seen, picture)) {
    seen.close();
    return std::nullopt;
  }
  First first{album.place(picture), album.decode(picture, read_picture(tar, album, picture))};
  if (!album.classes.fixed()) {
    while (next_picture(tar, seen, picture)) {
    }
    seen.close();
    album.classes = seen;
  }
  return first;
}

void list_tar(Album& album) {
  // Around a header there are whole pictures if they are small, and little else if they are not.
  TarReader tar(album.archive, 16 << 10);
  for (Picture picture; next_picture(tar, album.classes, picture);)
    album.index.push_back(std::move(picture));
}

std::optional<First> read_index(Album& album) {
  if (album.is_folder)
    list_folder(album);
  else
    list_tar(album);
  album.classes.close();
  for (Picture& picture : album.index) picture.label = album.classes.number_of(picture.name);
  if (album.index.empty()) return std::nullopt;
  const Picture& picture = album.index[0];
  return First{album.place(picture), album.decode(picture, album.read(picture))};
}

// Finds the pictures, and decodes the first one.
First open_album(Album& album) {
  const Files::Kind kind = album.files.kind(album.path);
  if (kind == Files::Kind::none)
    throw Error(Errc::io, "there is no file or folder ", album.path, "; check the path");
  album.is_folder = kind == Files::Kind::folder;
  if (!album.is_folder) {
    album.archive = album.files.open(album.path);
    album.is_gzip = ByteSource(album.archive, 2).is_gzip();
  }
  auto first = album.is_gzip ? scan_gzip(album) : read_index(album);
  if (!first)
    throw Error(Errc::bad_data, album.path, " has no pictures; wanted are files CLASS/NAME");
  return *std::move(first);
}

}  // namespace

std::vector<std::string> image_classes(const std::string& path) {
  Album album{.path = path, .classes = Classes(path, {}), .files = local_files()};
  open_album(album);
  return album.classes.names();
}

Stage images_stage(const SourceArgs& args, const Files& files) {
  ArgReader read("images", args);
  const auto path = read.want<std::string>("path");
  const auto channels = read.get<int64_t>("channels", 3);
  const auto size = read.get<std::vector<int64_t>>("size", {});
  const auto classes = read.get<std::vector<std::string>>("classes", {});
  read.done();
  if (!size.empty() && (size.size() != 2 || size[0] < -1 || size[1] < -1))
    throw Error(Errc::invalid_argument, "images wants height and width as size, or -1 for any");
  auto album = std::make_shared<Album>(
      Album{.path = path, .channels = channels, .classes = Classes(path, classes), .files = files});
  const First first = open_album(*album);
  Shape shape = first.image.shape();
  if (!size.empty()) {
    shape.set(0, size[0]);
    shape.set(1, size[1]);
  } else {
    album->size_by = "the first, " + first.place + ",";
  }
  album->fields = {{"image", {DType::u8, shape}}, {"label", {DType::i64, {}}}};
  return std::make_shared<ImagesStage>(std::move(album));
}

}  // namespace troupe
