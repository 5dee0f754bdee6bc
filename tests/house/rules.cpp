// The rules as data first: the include table, the libraries, the banned words; then the functions
// that apply them.
#include "tests/house/rules.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>

namespace troupe {
namespace {

using Names = std::set<std::string, std::less<>>;

constexpr int kColumnsMax = 100;
constexpr int kPublicHeadersMax = 15;

// Who may include whom. Every folder may include itself.
struct Room {
  Names folders;
  Names libraries;
};
const std::map<std::string, Room, std::less<>> rooms = {
    {"include/troupe", {{}, {}}},  // and CAF in troupe/caf.hpp alone
    {"graph", {{"include/troupe"}, {}}},
    {"devices", {{"include/troupe", "graph"}, {"CUDA", "cuBLAS", "oneDNN"}}},
    {"ops", {{"include/troupe", "graph", "devices"}, {"Eigen", "oneDNN", "cuBLAS", "CUDA"}}},
    {"gradients", {{"include/troupe", "graph", "ops"}, {}}},
    {"nn", {{"include/troupe", "graph", "ops", "gradients"}, {}}},
    {"placement", {{"include/troupe", "graph", "devices"}, {}}},
    {"data", {{"include/troupe"}, {"zlib", "libjpeg", "libpng", "protobuf"}}},
    {"net",
     {{"include/troupe", "graph", "devices"},
      {"protobuf", "CAF", "Boost.Asio", "Boost.Beast", "OpenSSL", "spdlog"}}},
    {"actors", {{"include/troupe", "graph", "devices", "placement", "net"}, {"CAF", "spdlog"}}},
    {"training",
     {{"include/troupe", "graph", "devices", "data", "net", "actors"},
      {"CAF", "spdlog", "OpenSSL"}}},
    {"apps", {{"include/troupe"}, {"Boost.Program_options", "spdlog"}}},
    {"python", {{"include/troupe"}, {"binding"}}},
};
const Names free_rooms = {"tests", "bench"};  // may include anything

// Which library a header belongs to, by how its name begins; the first row that fits.
const std::vector<std::pair<std::string, std::string>> libraries = {
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
    {"boost/program_options", "Boost.Program_options"},
    {"boost/", "Boost"},
    {"openssl/", "OpenSSL"},
    {"spdlog/", "spdlog"},
    {"fmt/", "fmt"},
    {"zlib.h", "zlib"},
    {"jpeglib.h", "libjpeg"},
    {"png.h", "libpng"},
    {"pybind11/", "binding"},
    {"nanobind/", "binding"},
    {"doctest/", "doctest"},
};

// Names in code that give away a library where its header may not be seen.
const std::vector<std::string> library_names = {"caf::",      "Eigen::",  "google::protobuf",
                                                "boost::",    "spdlog::", "dnnl::",
                                                "cudaStream", "cublas"};

const Names banned_words = {"Manager", "Helper", "Util",   "Impl", "Base",
                            "Info",    "Data",   "Common", "Naive"};

bool starts_with(std::string_view text, std::string_view head) {
  return text.substr(0, head.size()) == head;
}
bool ends_with(std::string_view text, std::string_view tail) {
  return text.size() >= tail.size() && text.substr(text.size() - tail.size()) == tail;
}

bool is_header(std::string_view path) { return ends_with(path, ".hpp") || ends_with(path, ".cuh"); }
bool is_code(std::string_view path) {
  return is_header(path) || ends_with(path, ".cpp") || ends_with(path, ".cu") ||
         ends_with(path, ".proto");
}
bool is_public_header(std::string_view path) { return starts_with(path, "include/troupe/"); }

std::string room_of(std::string_view path) {
  if (is_public_header(path)) return "include/troupe";
  return std::string(path.substr(0, path.find('/')));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The line without its comment and without what its strings say. Block comments and raw strings are
// not looked for.
std::string code_of(const std::string& line) {
  static const std::regex text("\"(?:[^\"\\\\]|\\\\.)*\"");
  const std::string code = std::regex_replace(line, text, "\"\"");
  return code.substr(0, code.find("//"));
}

int columns(std::string_view line) {  // UTF-8: every byte but the continuing ones
  return static_cast<int>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// What a check of one file writes its findings to.
struct Findings {
  const std::string& path;
  std::vector<Violation> list = {};
  void add(size_t index, std::string what) {
    list.push_back({path, static_cast<int>(index) + 1, std::move(what)});
  }
};

void check_our_include(const std::string& header, size_t i, Findings& found) {
  const std::string from = room_of(found.path);
  const std::string to = starts_with(header, "troupe/") ? "include/troupe" : room_of(header);
  if (header.find('/') == std::string::npos)
    return found.add(
        i, "include \"" + header + "\" by its path from the root, as in \"graph/passes.hpp\"");
  if (free_rooms.count(from) || from == to) return;
  if (free_rooms.count(to) || !rooms.count(to))
    return found.add(i, from + "/ includes \"" + header + "\", which is no part of the library");
  if (!rooms.at(from).folders.count(to))
    found.add(i, from + "/ may not include " + to + "/ (\"" + header +
                     "\"); the table is in tests/house/rules.cpp");
}

std::optional<std::string> library_of(const std::string& header) {
  for (const auto& [head, library] : libraries)
    if (starts_with(header, head)) return library;
  return std::nullopt;
}

void check_library(const std::string& library, const std::string& header, size_t i,
                   Findings& found) {
  const std::string from = room_of(found.path);
  if (free_rooms.count(from) || (found.path == "include/troupe/caf.hpp" && library == "CAF"))
    return;
  if (!rooms.at(from).libraries.count(library))
    found.add(i, from + "/ may not include " + library + " (" + header +
                     "); the table is in tests/house/rules.cpp");
}

void check_other_include(const std::string& header, size_t i, Findings& found) {
  if (const auto library = library_of(header)) return check_library(*library, header, i, found);
  // The standard library has no slash and no dot; the system's headers end in .h and are in few
  // folders.
  static const std::regex standard("[a-z0-9_]+"),
      system("((sys|netinet|arpa|linux|net)/)?[a-z0-9_]+\\.h");
  if (!std::regex_match(header, standard) && !std::regex_match(header, system))
    found.add(i, "<" + header + "> belongs to no library of the table in tests/house/rules.cpp");
}

void check_includes(const std::vector<std::string>& lines, Findings& found) {
  static const std::regex include("^\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"].*");
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (lines[i].find('#') == std::string::npos || !std::regex_match(lines[i], match, include))
      continue;
    const std::string header = match[2];
    if (match[1] == "<") {
      check_other_include(header, i, found);
    } else {
      check_our_include(header, i, found);
      if (ends_with(header, ".pb.h")) check_library("protobuf", header, i, found);
    }
  }
}

// A comment that says what the file is, who owns it, what it promises. A script's first line names
// its interpreter.
void check_head(const std::vector<std::string>& lines, Findings& found) {
  const std::string_view mark = is_code(found.path) ? "//" : "#";
  const size_t first = !lines.empty() && starts_with(lines[0], "#!") ? 1 : 0;
  if (lines.size() == first || !starts_with(lines[first], mark))
    found.add(first, "the file starts with no comment that says what it is");
}

void check_header(const std::vector<std::string>& lines, Findings& found) {
  if (std::find(lines.begin(), lines.end(), "#pragma once") == lines.end())
    found.add(0, "a header needs #pragma once");
  static const std::regex using_namespace("\\busing\\s+namespace\\b");
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string code = code_of(lines[i]);
    if (std::regex_search(code, using_namespace)) found.add(i, "no using namespace in a header");
    if (!is_public_header(found.path) || found.path == "include/troupe/caf.hpp") continue;
    for (const std::string& name : library_names)
      if (code.find(name) != std::string::npos)
        found.add(i, "a public header may not name " + name);
  }
}

void check_type_names(const std::vector<std::string>& lines, Findings& found) {
  static const std::regex type(
      "\\b(?:class|struct|enum|union|concept|using)\\s+(?:class\\s+)?([A-Z]\\w*)");
  static const std::regex word("[A-Z][a-z0-9]*");
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string code = code_of(lines[i]);
    for (std::sregex_iterator it(code.begin(), code.end(), type), none; it != none; ++it) {
      const std::string name = (*it)[1];
      for (std::sregex_iterator w(name.begin(), name.end(), word); w != none; ++w)
        if (banned_words.count(w->str()))
          found.add(i, w->str() + " in " + name + " marks a missing noun; name what it is");
    }
  }
}

void check_line_lengths(const std::vector<std::string>& lines, Findings& found) {
  for (size_t i = 0; i < lines.size(); ++i) {
    const int n = columns(lines[i]);
    const bool address = lines[i].find("https://") != std::string::npos;  // cannot be broken
    if (n > kColumnsMax && !address)
      found.add(i, "the line has " + std::to_string(n) + " columns; at most 100");
  }
}

// Phrases are put together from halves, so that this file does not contain them.
void check_phrases(const std::vector<std::string>& lines, Findings& found) {
  struct Phrase {
    std::regex pattern;
    const char* what;
    bool tests_only;
  };
  static const std::vector<Phrase> phrases = {
      {std::regex("\\bsleep"
                  "_(for|until)\\b|\\bu?sleep"
                  "\\("),
       "a test waits for an event or for virtual time, not for a clock", true},
      {std::regex("caf::"
                  "infinite|\\brequest\\([^;]*\\binfi"
                  "nite\\b"),
       "a request needs a deadline", false},
      {std::regex("(^|[^\\w.])/(wo"
                  "rk|t"
                  "mp|ho"
                  "me|ro"
                  "ot|Us"
                  "ers)/"),
       "a path of one machine", false},
      {std::regex("\\b(TO"
                  "DO|FIX"
                  "ME)\\b|\\bXX"
                  "X\\b"),
       "finish it, or write down in docs/ what is absent", false},
  };
  const bool test = room_of(found.path) == "tests";
  for (size_t i = 0; i < lines.size(); ++i)
    for (const Phrase& phrase : phrases)
      if ((test || !phrase.tests_only) && std::regex_search(lines[i], phrase.pattern))
        found.add(i, phrase.what);
}

// A log line is one fact, "what: key={} key={}": a fixed phrase, then fields. Looked at are the
// calls of a logger, whose format is a literal, and lines that are put together for one
// (`warn(detail::concat("what: key=", value, " key=", value))`).
void check_log_lines(const std::string& text, Findings& found) {
  static const Names rooms_that_log = {"net", "actors", "training"};
  // Pass on lines that were made elsewhere: those of stages, looked at there, and the report of a
  // stall, which is several sentences for people (actors/cluster/survey.cpp).
  static const Names pass_on = {"actors/cluster/installation.cpp", "actors/master/master.cpp"};
  static const std::regex call(
      "\\b[a-z_]*(?:log_?(?:\\(\\))?(?:->|\\.)(?:trace|debug|info|warn|error)|warn)\\(\\s*"
      "(?:(detail::concat\\((?:[^;\"]|\"(?:[^\"\\\\]|\\\\.)*\")*)|((?:\"(?:[^\"\\\\]|\\\\.)*\"\\s*)"
      "+)|[^\"\\s)])");
  static const std::regex literal("\"((?:[^\"\\\\]|\\\\.)*)\"");
  static const std::regex form("[a-z][^={}]*: \\w+=\\{\\}( \\w+=\\{\\})*");
  if (!rooms_that_log.count(room_of(found.path))) return;
  for (std::sregex_iterator it(text.begin(), text.end(), call), none; it != none; ++it) {
    const bool concat = (*it)[1].matched;
    if (!concat && !(*it)[2].matched && pass_on.count(found.path)) continue;
    const std::string source = concat ? (*it)[1] : (*it)[2];
    std::string line;
    for (std::sregex_iterator part(source.begin(), source.end(), literal); part != none; ++part)
      line += (*part)[1].str() + (concat ? "{}" : "");
    if (!std::regex_match(line, form))
      found.add(static_cast<size_t>(std::count(text.begin(), text.begin() + it->position(), '\n')),
                "a log line is \"what: key={} key={}\", this one is \"" + line + "\"");
  }
}

}  // namespace

std::string to_string(const Violation& violation) {
  return violation.file + ":" + std::to_string(violation.line) + ": " + violation.what;
}

std::vector<Violation> check_file(const std::string& path, const std::string& text) {
  Findings found{path};
  const std::vector<std::string> lines = lines_of(text);
  if (!ends_with(path, ".md")) check_head(lines, found);
  check_phrases(lines, found);
  if (is_code(path)) {
    check_line_lengths(lines, found);
    check_type_names(lines, found);
    if (!ends_with(path, ".proto")) check_includes(lines, found);
    check_log_lines(text, found);
  }
  if (is_header(path)) check_header(lines, found);
  return found.list;
}

std::vector<Violation> check_tree(const std::vector<std::string>& paths) {
  const auto n = std::count_if(paths.begin(), paths.end(), [](const std::string& path) {
    return is_public_header(path) && is_header(path) &&
           !starts_with(path, "include/troupe/graph/") &&   // parts of troupe/graph.hpp
           !starts_with(path, "include/troupe/ops/") &&     // parts of troupe/ops.hpp
           !starts_with(path, "include/troupe/training/");  // on top of troupe/trainer.hpp
  });
  if (n <= kPublicHeadersMax) return {};
  return {{"include/troupe", 0,
           std::to_string(n) + " public headers; at most " + std::to_string(kPublicHeadersMax)}};
}

std::vector<std::string> files_of(const std::string& root) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  const auto want = [](const fs::path& path) {
    const std::string name = path.filename().string();
    return is_code(name) || ends_with(name, ".cmake") || ends_with(name, ".sh") ||
           ends_with(name, ".md") || ends_with(name, ".py") || name == "CMakeLists.txt" ||
           name == "dev" || path.parent_path().filename() == ".ci";
  };
  const auto keep = [&](const fs::path& path) {
    if (want(path)) paths.push_back(fs::relative(path, root).generic_string());
  };
  Names folders = {"cmake", "docs", ".ci"};
  for (const auto& [room, rule] : rooms) folders.insert(room);
  folders.insert(free_rooms.begin(), free_rooms.end());
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.is_regular_file()) keep(entry.path());
  for (const std::string& folder : folders) {
    if (!fs::is_directory(fs::path(root) / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(root) / folder))
      if (entry.is_regular_file()) keep(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace troupe
