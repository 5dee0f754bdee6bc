// Includes: cmake/rooms.cmake says which ones a room may have; the tables here speak of the rest.
#include <map>
#include <optional>
#include <regex>

#include "tests/house/rooms.hpp"

namespace troupe {
namespace {

using Names = std::set<std::string, std::less<>>;

const Names free_folders = {"tests", "bench"};  // may include anything

// Folders that are no rooms: they see the public headers and these libraries.
const std::map<std::string, Names, std::less<>> outside = {
    {"include", {}},  // and CAF in troupe/caf.hpp alone
    {"apps", {"CLI11", "nlohmann"}},
    {"python", {"binding"}},
};

// Which library a header belongs to, by how its name begins; the first row that fits.
const std::vector<std::pair<std::string, std::string>> library_heads = {
    {"caf/", "CAF"},
    {"Eigen/", "Eigen"},
    {"unsupported/Eigen/", "Eigen"},
    {"dnnl", "oneDNN"},
    {"oneapi/", "oneDNN"},
    {"cublas", "cuBLAS"},
    {"cuda", "CUDA"},
    {"cudnn", "CUDA"},
    {"nccl", "CUDA"},
    {"google/protobuf/", "protobuf"},
    {"boost/asio", "Boost.Asio"},
    {"boost/beast", "Boost.Beast"},
    {"boost/", "Boost"},
    {"openssl/", "OpenSSL"},
    {"spdlog/", "spdlog"},
    {"fmt/", "fmt"},
    {"nlohmann/", "nlohmann"},
    {"CLI/", "CLI11"},
    {"cblas.h", "OpenBLAS"},
    {"lapacke.h", "OpenBLAS"},
    {"zlib.h", "zlib"},
    {"utf8proc.h", "utf8proc"},
    {"jpeglib.h", "libjpeg"},
    {"png.h", "libpng"},
    {"pybind11/", "binding"},
    {"nanobind/", "binding"},
    {"doctest/", "doctest"},
};

std::optional<std::string> library_of(const std::string& header) {
  for (const auto& [head, library] : library_heads)
    if (header.starts_with(head)) return library;
  return std::nullopt;
}

// One file on its way through the rules.
struct Reader {
  const std::vector<Room>& rooms;
  const std::string& path;
  std::vector<Violation> found = {};

  std::string own_name() const {
    const Room* room = room_of(rooms, path);
    return room ? room->folder : top_of(path);
  }
  void add(int line, std::string what) { found.push_back({path, line, std::move(what)}); }

  void check_ours(const std::string& header, int line) {
    if (header.find('/') == header.npos)
      return add(line,
                 "include \"" + header + "\" by its path from the root, as in \"graph/prune.hpp\"");
    if (header.starts_with("troupe/")) return;
    const Room* from = room_of(rooms, path);
    const Room* to = room_of(rooms, header);
    if (!to) {
      if (top_of(header) != top_of(path))
        add(line, own_name() + "/ includes \"" + header + "\", which is no part of the library");
    } else if (!from || (from != to && !from->sees.count(to->folder))) {
      add(line, own_name() + "/ may not include " + to->folder + "/ (\"" + header +
                    "\"); cmake/rooms.cmake says what it SEES");
    }
  }

  void check_library(const std::string& library, const std::string& header, int line) {
    const Room* room = room_of(rooms, path);
    const auto other = outside.find(top_of(path));
    const bool allowed = room ? room->libraries.count(library) > 0
                              : other != outside.end() && other->second.count(library) > 0;
    if (!allowed && !(path == "include/troupe/caf.hpp" && library == "CAF"))
      add(line, own_name() + "/ may not include " + library + " (" + header +
                    "); cmake/rooms.cmake says its LIBRARIES");
  }

  void check_other(const std::string& header, int line) {
    if (const auto library = library_of(header)) return check_library(*library, header, line);
    // The standard library has no slash and no dot; the system's headers end in .h and are in few
    // folders.
    static const std::regex standard("[a-z0-9_]+"),
        system("((sys|netinet|arpa|linux|net)/)?[a-z0-9_]+\\.h");
    if (!std::regex_match(header, standard) && !std::regex_match(header, system))
      add(line, "<" + header + "> belongs to no library of the table in tests/house/includes.cpp");
  }
};

}  // namespace

std::vector<Violation> check_includes(const std::vector<Room>& rooms, const Source& file) {
  static const std::regex include("^\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"].*");
  const bool is_cpp = is_code(file.path) && !file.path.ends_with(".proto");
  if (!is_cpp || free_folders.count(top_of(file.path))) return {};
  Reader reader{rooms, file.path};
  int line = 0;
  for (const std::string& text : lines_of(file.text)) {
    ++line;
    std::smatch match;
    if (text.find('#') == text.npos || !std::regex_match(text, match, include)) continue;
    const std::string header = match[2];
    if (match[1] == "<") {
      reader.check_other(header, line);
    } else {
      reader.check_ours(header, line);
      if (header.ends_with(".pb.h")) reader.check_library("protobuf", header, line);
    }
  }
  return reader.found;
}

}  // namespace troupe
