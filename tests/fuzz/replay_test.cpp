// The corpus of the fuzz targets, run once.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/fuzz/targets.hpp"
#include "tests/support/paths.hpp"

namespace troupe::fuzz {
namespace {

std::filesystem::path corpus_of(const Target& target) {
  return std::filesystem::path(source_dir()) / "tests/fuzz/corpus" / target.name;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace

TEST_CASE("readers of bytes from elsewhere take seeds, cut seeds and all that broke them once") {
  for (const Target& target : all_targets()) {
    CAPTURE(target.name);
    const Seeds seeds = target.seeds();
    CHECK(!seeds.empty());
    for (const std::string& seed : seeds) {
      CHECK_NOTHROW(run(target, seed));
      for (size_t size = 0; size < std::min<size_t>(seed.size(), 300); ++size)
        CHECK_NOTHROW(run(target, std::string_view(seed).substr(0, size)));
    }
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(corpus_of(target))) {
      CAPTURE(entry.path().string());
      CHECK_NOTHROW(run(target, read(entry.path())));
      ++files;
    }
    CHECK(files > 0);
  }
}

TEST_CASE("the corpus is small, and of known targets alone") {
  uintmax_t bytes = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(source_dir() + "/tests/fuzz/corpus"))
    if (entry.is_regular_file()) bytes += entry.file_size();
  CHECK(bytes < 200 << 10);
  const std::vector<Target> all = all_targets();
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/tests/fuzz/corpus"))
    CHECK(std::count_if(all.begin(), all.end(), [&](const Target& target) {
            return target.name == entry.path().filename().string();
          }) == 1);
}

}  // namespace troupe::fuzz
