// Splits C++ text into code, comments and strings in one pass, and reads the tree.
#include "tests/house/source.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

namespace troupe {
namespace {

enum class Kind { comment, text };  // all else is code

// Where the string or character that begins at `at` ends: one past its closing mark.
size_t end_of_text(std::string_view s, size_t at) {
  if (s[at] == '"' && at > 0 && s[at - 1] == 'R') {
    const size_t open = s.find('(', at);
    if (open == s.npos) return s.size();
    const std::string close = ")" + std::string(s.substr(at + 1, open - at - 1)) + "\"";
    const size_t end = s.find(close, open);
    return end == s.npos ? s.size() : end + close.size();
  }
  size_t i = at + 1;
  while (i < s.size() && s[i] != s[at] && s[i] != '\n') i += s[i] == '\\' ? 2 : 1;
  return std::min(i + 1, s.size());
}

// Calls `found(kind, begin, end)` for each comment, string and character of `s`, marks included.
void split(std::string_view s, const std::function<void(Kind, size_t, size_t)>& found) {
  for (size_t i = 0; i < s.size();) {
    size_t end = i + 1;
    const bool in_word = i > 0 && std::isalnum(static_cast<unsigned char>(s[i - 1]));
    if (s.substr(i, 2) == "//") {
      end = std::min(s.find('\n', i), s.size());
      found(Kind::comment, i, end);
    } else if (s.substr(i, 2) == "/*") {
      end = s.find("*/", i + 2);
      end = end == s.npos ? s.size() : end + 2;
      found(Kind::comment, i, end);
    } else if (s[i] == '"' || (s[i] == '\'' && !in_word)) {  // 1'000 holds no character
      end = end_of_text(s, i);
      found(Kind::text, i, end);
    }
    i = end;
  }
}

bool wanted(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return is_code(name) || name.ends_with(".cmake") || name.ends_with(".sh") ||
         name.ends_with(".md") || name.ends_with(".py") || name == "CMakeLists.txt" ||
         name == "dev" || path.parent_path().filename() == ".ci";
}

}  // namespace

std::string to_string(const Violation& violation) {
  const std::string line = violation.line > 0 ? ":" + std::to_string(violation.line) : "";
  return violation.file + line + ": " + violation.what;
}

bool is_header(std::string_view path) {
  return path.ends_with(".hpp") || path.ends_with(".cuh") || path.ends_with(".h");
}
bool is_code(std::string_view path) {
  return is_header(path) || path.ends_with(".cpp") || path.ends_with(".cu") ||
         path.ends_with(".proto");
}
bool is_public_header(std::string_view path) { return path.starts_with("include/troupe/"); }

std::string folder_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "." : std::string(path.substr(0, slash));
}
std::string top_of(std::string_view path) { return std::string(path.substr(0, path.find('/'))); }

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

int line_at(std::string_view text, size_t position) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + position, '\n'));
}

std::string code_of(std::string_view text) {
  std::string code(text);
  split(text, [&](Kind kind, size_t begin, size_t end) {
    const bool marks = kind == Kind::text && end - begin > 1;
    for (size_t i = begin + marks; i < end - marks; ++i)
      if (code[i] != '\n') code[i] = ' ';
  });
  return code;
}

std::vector<Piece> comments_of(std::string_view text) {
  std::vector<Piece> comments;
  size_t last_end = 0;
  split(text, [&](Kind kind, size_t begin, size_t end) {
    if (kind != Kind::comment) return;
    std::string comment(text.substr(begin + 2, end - begin - 2));
    if (text[begin + 1] == '*')
      comment.resize(comment.size() - std::min<size_t>(2, comment.size()));
    const std::string_view between = text.substr(last_end, begin - last_end);
    const bool follows = !comments.empty() &&
                         std::count(between.begin(), between.end(), '\n') == 1 &&
                         between.find_first_not_of(" \n") == between.npos;
    if (follows)
      comments.back().text += "\n" + comment;
    else
      comments.push_back({line_at(text, begin), comment});
    last_end = end;
  });
  return comments;
}

std::vector<Piece> strings_of(std::string_view text) {
  std::vector<Piece> strings;
  split(text, [&](Kind kind, size_t begin, size_t end) {
    if (kind != Kind::text || text[begin] != '"' || end - begin < 2) return;
    strings.push_back({line_at(text, begin), std::string(text.substr(begin + 1, end - begin - 2))});
  });
  return strings;
}

std::vector<Source> read_tree(const std::string& root) {
  namespace fs = std::filesystem;
  std::vector<Source> tree;
  const auto keep = [&](const fs::directory_entry& entry) {
    if (!entry.is_regular_file() || !wanted(entry.path())) return;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    tree.push_back({fs::relative(entry.path(), root).generic_string(), text.str()});
  };
  // Folders of the tree, but for what is built or hidden.
  const auto is_ours = [](const std::string& name) {
    return name == ".ci" || !(name.starts_with(".") || name.starts_with("build") || name == "out" ||
                              name == "runs" || name == "shared");
  };
  for (const auto& entry : fs::directory_iterator(root)) {
    keep(entry);
    if (!entry.is_directory() || !is_ours(entry.path().filename().string())) continue;
    for (const auto& below : fs::recursive_directory_iterator(entry)) keep(below);
  }
  std::sort(tree.begin(), tree.end(),
            [](const Source& a, const Source& b) { return a.path < b.path; });
  return tree;
}

}  // namespace troupe
