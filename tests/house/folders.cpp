// Rules about folders: how many files lie flat in one, what says what they are for, and how much is
// public.
#include <algorithm>
#include <map>

#include "tests/house/rules.hpp"

namespace troupe {
namespace {

constexpr int kFilesMax = 40;  // flat in one folder
constexpr int kReadmeLinesMin = 3, kReadmeLinesMax = 8;
constexpr int kPublicHeadersMax = 26, kPublicLinesMax = 5313;

int line_count(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

std::vector<Violation> check_folder_sizes(const std::vector<Source>& tree) {
  std::map<std::string, int> files;
  for (const Source& file : tree) ++files[folder_of(file.path)];
  std::vector<Violation> found;
  for (const auto& [folder, n] : files)
    if (n > kFilesMax)
      found.push_back(
          {folder, 0,
           std::to_string(n) + " files in one folder; at most " + std::to_string(kFilesMax), folder,
           n});
  return found;
}

std::vector<Violation> check_readmes(const std::vector<Room>& rooms,
                                     const std::vector<Source>& tree) {
  std::map<std::string, int> readmes;  // lines, by folder
  for (const Source& file : tree)
    if (file.path.ends_with("/README.md")) readmes[folder_of(file.path)] = line_count(file.text);
  std::vector<Violation> found;
  const auto check = [&](const std::string& folder) {
    const auto readme = readmes.find(folder);
    if (readme == readmes.end()) {
      found.push_back({folder, 0, "no README.md says what lives here and what it may touch"});
    } else if (readme->second < kReadmeLinesMin || readme->second > kReadmeLinesMax) {
      found.push_back({folder, 0,
                       "README.md has " + std::to_string(readme->second) +
                           " lines; about five say what lives here and what it may touch"});
    }
  };
  for (const Room& room : rooms) {
    check(room.folder);
    for (const std::string& part : room.parts) check(room.folder + "/" + part);
  }
  return found;
}

std::vector<Violation> check_homes(const std::vector<Room>& rooms,
                                   const std::vector<Source>& tree) {
  std::set<std::string> folders, tops;
  for (const Room& room : rooms) {
    tops.insert(top_of(room.folder));
    folders.insert(room.folder);
    for (const std::string& part : room.parts) folders.insert(room.folder + "/" + part);
  }
  std::vector<Violation> found;
  for (const Source& file : tree)
    if (is_code(file.path) && tops.count(top_of(file.path)) && !folders.count(folder_of(file.path)))
      found.push_back({file.path, 0,
                       folder_of(file.path) + "/ is no room and no part of one; "
                                              "cmake/rooms.cmake lists them"});
  return found;
}

std::vector<Violation> check_public_headers(const std::vector<Source>& tree) {
  int files = 0, lines = 0;
  for (const Source& file : tree) {
    if (!file.path.starts_with("include/")) continue;
    ++files;
    lines += line_count(file.text);
  }
  std::vector<Violation> found;
  const auto check = [&](const char* what, int n, int max) {
    if (n > max)
      found.push_back(
          {"include", 0,
           std::to_string(n) + " " + what + " in public headers; at most " + std::to_string(max),
           std::string("include: ") + what, n});
  };
  check("files", files, kPublicHeadersMax);
  check("lines", lines, kPublicLinesMax);
  return found;
}

}  // namespace troupe
