// Files on the real disk, in the order of the system calls that make them durable.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include "data/files/disk.hpp"
#include "tests/support/paths.hpp"

namespace {

// The calls of this thread, while there is a list; null: they are not noted.
thread_local std::vector<std::string>* calls = nullptr;

void note(const std::string& call, const std::string& path) {
  if (calls) calls->push_back(call + " " + std::filesystem::path(path).filename().string());
}

std::string name_of(int fd) {
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string();
}

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// These stand before the system's for the whole program.
extern "C" int fsync(int fd) {
  const int out = next<int(int)>("fsync")(fd);
  if (out == 0 && calls) note("fsync", name_of(fd));
  return out;
}
extern "C" int rename(const char* from, const char* to) noexcept {
  note("rename to", to);
  return next<int(const char*, const char*)>("rename")(from, to);
}
extern "C" int renameat2(int from_dir, const char* from, int to_dir, const char* to,
                         unsigned flags) noexcept {
  note("rename to", to);
  return next<int(int, const char*, int, const char*, unsigned)>("renameat2")(from_dir, from,
                                                                              to_dir, to, flags);
}

namespace troupe {
namespace {

TEST_CASE("a file is synced before it gets its name, and its folder afterwards") {
  const std::string dir = binary_dir() + "/durable-files";
  std::filesystem::remove_all(dir);
  real_disk().make_dirs(dir);
  const std::string bytes = "12345";
  for (const auto if_there : {AtomicFile::IfThere::refuse, AtomicFile::IfThere::replace}) {
    std::vector<std::string> seen;
    AtomicFile file(real_disk(), dir, "values", if_there);
    calls = &seen;
    file.write(bytes);
    file.commit();
    calls = nullptr;
    REQUIRE(seen.size() == 3);
    CHECK_MESSAGE(seen[0].starts_with("fsync values."), seen[0]);
    CHECK(seen[1] == "rename to values");
    CHECK(seen[2] == "fsync durable-files");
  }
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace troupe
