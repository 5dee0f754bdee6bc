// Sources that may read files below some folders only.
#include "data/files_under.hpp"

#include <doctest/doctest.h>

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "data/source/spec.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/files.hpp"

namespace troupe {
namespace {

// Two folders with files: `data`, whose link `out` leads to `secret`, and `secret`.
class Folders {
 public:
  Folders() : path_((std::filesystem::temp_directory_path() / "troupe-XXXXXX").string()) {
    REQUIRE(mkdtemp(path_.data()));
    for (const char* folder : {"data", "data/below", "data-too", "secret"})
      std::filesystem::create_directory(at(folder));
    for (const char* file :
         {"data/a.txt", "data/below/b.txt", "data-too/c.txt", "secret/key.txt"}) {
      std::ofstream out(at(file));
      out << "one\ntwo\n";
    }
    write_npy(at("secret/key.npy"), Tensor::of<float>({1, 2}, {2}));
    write_safetensors(at("secret/key.safetensors"), {{"w", Tensor::of<float>({1, 2}, {2})}});
    std::filesystem::create_symlink(at("secret"), at("data/out"));
    std::filesystem::create_symlink(at("data/a.txt"), at("secret/in.txt"));
  }
  ~Folders() { std::filesystem::remove_all(path_); }
  Folders(const Folders&) = delete;
  std::string at(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

SourceSpec reader(const std::string& name, const std::string& path) {
  SourceSpec out{.stage = "read", .name = name};
  if (name == "lines")
    out.args["paths"] = std::vector<std::string>{path};
  else
    out.args["path"] = path;
  return out;
}

}  // namespace

TEST_CASE("sources read files below the folders that they may read, and no others") {
  const Folders folders;
  const std::shared_ptr<const Files> files = files_under({folders.at("data")});
  const auto build = [&](const SourceSpec& spec) {
    return refusal_of([&] { build_stages(spec, nullptr, *files); });
  };
  for (const char* path : {"data", "data/a.txt", "data/below/b.txt", "data/below/../a.txt",
                           "data/*.txt", "data/b*/b.txt", "secret/in.txt"}) {
    CAPTURE(std::string(path));
    CHECK(build(reader("lines", folders.at(path))).code == Errc::ok);
  }
  for (const char* path :
       {"secret/key.txt", "data/../secret/key.txt", "data/out/key.txt", "data/out/*.txt",
        "data/*/key.txt", "data-too/c.txt", "secret", "secret/*", "*/key.txt"}) {
    CAPTURE(std::string(path));
    CHECK(build(reader("lines", folders.at(path))).code == Errc::invalid_argument);
  }
  CHECK(build(reader("lines", "/etc/passwd")).code == Errc::invalid_argument);
  CHECK(build(reader("npy", folders.at("secret/key.npy"))).code == Errc::invalid_argument);
  CHECK(build(reader("safetensors", folders.at("secret/key.safetensors"))).code ==
        Errc::invalid_argument);
  SourceSpec tokens{.stage = "map", .name = "tokenize"};
  tokens.of = {std::make_shared<SourceSpec>(reader("lines", folders.at("data/a.txt")))};
  tokens.args = {{"vocabulary", folders.at("secret/key.txt")}, {"kind", std::string("words")}};
  CHECK(build(tokens).text.find("reads no data from") != std::string::npos);
}

TEST_CASE("without folders sources read all files, and a folder that is not there is refused") {
  const Folders folders;
  CHECK(files_under({}).get() == &local_files());
  CHECK(refusal_of([&] { files_under({folders.at("nowhere")}); }).code == Errc::bad_configuration);
  CHECK(refusal_of([&] { files_under({folders.at("data/a.txt")}); }).code ==
        Errc::bad_configuration);
}

}  // namespace troupe
