// The reader images: pictures of folders and tars, with the numbers of their classes.
#include "data/images/readers.hpp"
#include "tests/data/images/pictures.hpp"
#include "tests/support/fake_files.hpp"
#include "tests/support/records.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/tar_file.hpp"
#include "tests/support/temp_file.hpp"
#include "troupe/files.hpp"

namespace troupe {
namespace {

std::string picture(uint8_t value, int width = 3) {
  std::string row(static_cast<size_t>(3 * width), static_cast<char>(value));
  return png_file(width, 2, row + row);
}

std::string tar(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string out;
  for (const auto& [name, bytes] : files) out += tar_entry(name, bytes);
  return out + kTarEnd;
}

// First element, label and place of each image.
std::vector<std::string> listing(const Stage& stage) {
  std::vector<std::string> out;
  for (const Lazy& record : records_of(stage)) {
    const Record made = record->make();
    out.push_back(detail::concat(int{made[0].data<uint8_t>()[0]}, " ", made[1].item<int64_t>(), " ",
                                 record->place()));
  }
  return out;
}

SourceArgs of(const std::string& path, SourceArgs more = {}) {
  more["path"] = path;
  return more;
}

using Texts = std::vector<std::string>;

const FileMap& examples() {
  static const FileMap files = [] {
    const std::string archive = tar({{"./train/dog/1.png", picture(1)},
                                     {"./train/cat/._2.png", "resource fork"},
                                     {"./train/cat/2.png", picture(2)},
                                     {"./train/dog/0.png", picture(3)}});
    return FileMap{{"in/dog/1.png", picture(1)}, {"in/cat/2.png", picture(2)},
                   {"in/dog/0.png", picture(3)}, {"in/list.txt", "cat dog"},
                   {"in/.git/config", "hidden"}, {"in/cat/.hidden", "hidden"},
                   {"a.tar", archive},           {"a.tar.gz", gzip(archive)}};
  }();
  return files;
}

TEST_CASE("pictures of a folder come in order of class and name, of a tar in its order") {
  const FakeFiles files(examples());
  const Stage folder = images_stage(of("in"), files);
  CHECK(folder->fields() == Fields{{"image", {DType::u8, {2, 3, 3}}}, {"label", {DType::i64, {}}}});
  CHECK(folder->size() == 3);
  CHECK(folder->files() == std::vector<SourceFile>{{"cat/2.png"}, {"dog/0.png"}, {"dog/1.png"}});
  CHECK(listing(folder) == Texts{"2 0 in/cat/2.png", "3 1 in/dog/0.png", "1 1 in/dog/1.png"});
  for (const std::string path : {"a.tar", "a.tar.gz"}) {
    CAPTURE(path);
    const Stage stage = images_stage(of(path), files);
    CHECK(stage->fields() == folder->fields());
    const Texts wanted = {"1 1 " + path + ": train/dog/1.png", "2 0 " + path + ": train/cat/2.png",
                          "3 1 " + path + ": train/dog/0.png"};
    CHECK(listing(stage) == wanted);
    CHECK(listing(stage) == wanted);  // another pass
    CHECK(stage->size() == (path == "a.tar" ? 3 : -1));
    CHECK(stage->files()[0].name == path);
  }
}

TEST_CASE("local folders and archives are read") {
  const TempFile archive("images.tar", tar({{"cat/1.png", picture(7)}}));
  CHECK(listing(images_stage(of(archive.path()), local_files())) ==
        Texts{"7 0 " + archive.path() + ": cat/1.png"});
}

TEST_CASE("classes that are named have the numbers of their order") {
  const FakeFiles files(examples());
  for (const std::string path : {"in", "a.tar", "a.tar.gz"}) {
    CAPTURE(path);
    const Stage stage = images_stage(of(path, {{"classes", Texts{"dog", "cat"}}}), files);
    for (const std::string& line : listing(stage))
      CHECK((line.substr(0, 3) == "2 1" || line.substr(2, 1) == "0"));
    const auto with = [&](const Texts& classes) {
      return [=, &files] { listing(images_stage(of(path, {{"classes", classes}}), files)); };
    };
    check_error(Errc::bad_data, with({"cat", "dog", "elk"}),
                path + ": there is no picture of the class elk");
    check_error(Errc::bad_data, with({"cat"}), path + ": ",
                "is of the class dog, which classes does not name; add it there");
    check_invalid(with({"cat", "dog", "cat"}), "classes names cat twice");
  }
}

TEST_CASE("a folder and an archive tell their classes") {
  for (const auto& [name, bytes] :
       {std::pair{"a.tar", examples().at("a.tar")}, {"a.tar.gz", examples().at("a.tar.gz")}}) {
    const TempFile archive(name, bytes);
    CHECK(image_classes(archive.path()) == Texts{"cat", "dog"});
  }
  const TempFile empty("empty.tar", tar({}));
  check_error(
      Errc::bad_data, [&] { image_classes(empty.path()); }, empty.path(), " has no pictures");
  check_error(
      Errc::io, [&] { image_classes(empty.path() + ".none"); }, "there is no file");
}

TEST_CASE("channels and sizes are those of the first image, or as they are asked for") {
  const FakeFiles files(examples());
  const auto shape = [&](const SourceArgs& args) {
    const Stage stage = images_stage(of("a.tar", args), files);
    CHECK(stage->fields()[0].type.shape.accepts(records_of(stage)[0]->make()[0].shape()));
    return stage->fields()[0].type.shape;
  };
  CHECK(shape({{"channels", int64_t{1}}}) == Shape{2, 3, 1});
  CHECK(shape({{"channels", int64_t{0}}}) == Shape{2, 3, 3});
  CHECK(shape({{"size", std::vector<int64_t>{-1, -1}}}) == Shape{-1, -1, 3});
  CHECK(shape({{"size", std::vector<int64_t>{2, -1}}}) == Shape{2, -1, 3});
  check_invalid([&] { shape({{"size", std::vector<int64_t>{2}}}); }, "wants height and width");
  check_invalid([&] { shape({{"channels", int64_t{2}}}); }, "1 or 3 channels");
}

TEST_CASE("an image of another size is refused, unless any is read") {
  for (const bool zipped : {false, true}) {
    const std::string archive = tar({{"cat/1.png", picture(1)}, {"cat/2.png", picture(2, 4)}});
    const FakeFiles files(FileMap{{"a", zipped ? gzip(archive) : archive}});
    check_error(
        Errc::bad_data, [&] { listing(images_stage(of("a"), files)); },
        zipped ? "a: cat/2.png at unpacked byte 1024: " : "a: cat/2.png at byte 1024: ",
        "the image is [2, 4, 3], the first, a: cat/1.png, says [2, 3, 3]; with size");
    const SourceArgs any = {{"size", std::vector<int64_t>{-1, -1}}};
    CHECK(listing(images_stage(of("a", any), files)).size() == 2);
    const SourceArgs other = {{"size", std::vector<int64_t>{2, 4}}};
    check_error(
        Errc::bad_data, [&] { listing(images_stage(of("a", other), files)); },
        "the image is [2, 3, 3], the argument size says [2, 4, 3]");
  }
}

TEST_CASE("folders and archives of another form are refused with place and remedy") {
  const auto refused = [](const FileMap& map, const std::string& path) {
    const FakeFiles files(map);
    const Refusal refusal = refusal_of([&] { listing(images_stage(of(path), files)); });
    CHECK((refusal.code == Errc::bad_data || refusal.code == Errc::io));
    return refusal.text;
  };
  has(refused({{"b", ""}}, "a"), "there is no file or folder a");
  has(refused({{"a/x.png", picture(1)}}, "a"), "a has no pictures; wanted are files CLASS/NAME");
  has(refused({{"a/cat/.x", ""}, {"a/dog/1", picture(1)}}, "a"), "no picture of the class cat");
  has(refused({{"a/cat/sub/1.png", picture(1)}}, "a"), "a/cat/sub is a folder in the folder of a");
  for (const bool zipped : {false, true}) {
    const auto archive = [&](const std::string& bytes) {
      return refused({{"a", zipped ? gzip(bytes) : bytes}}, "a");
    };
    has(archive(kTarEnd), "a has no pictures");
    has(archive(tar({{"1.png", picture(1)}})), "a: 1.png stands in no folder");
    has(archive(tar({{"cat/1.png", picture(1)}, {"train/dog/1.png", picture(2)}})),
        "a: train/dog/1.png stands in another folder of classes than cat/1.png");
    const std::string byte = zipped ? " at unpacked byte " : " at byte ";
    has(archive(tar({{"cat/1.png", picture(1)}, {"cat/list.txt", "text"}})),
        "a: cat/list.txt" + byte + "1024: expected a JPEG or PNG image, found bytes that begin");
    has(archive(tar({{"cat/1.png", picture(1).substr(0, 50)}})),
        "a: cat/1.png" + byte + "0: the PNG cannot be decoded: the data end early");
    has(archive(tar_entry("cat/1.png", picture(1))), "a: at byte ");
    has(archive("no tar" + std::string(2000, 'x')), "a: at byte 0: a header has a wrong checksum");
  }
}

}  // namespace
}  // namespace troupe
