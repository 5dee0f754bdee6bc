// Rules that look at one line of one file: its head, its length, banned words and phrases, log
// lines. The lists stand first.
#include <algorithm>
#include <regex>
#include <set>

#include "tests/house/rules.hpp"

namespace troupe {
namespace {

using Names = std::set<std::string, std::less<>>;

constexpr int kColumnsMax = 100;

// Names in code that give away a library where its header may not be seen.
const std::vector<std::string> library_names = {"caf::",      "Eigen::",  "google::protobuf",
                                                "boost::",    "spdlog::", "dnnl::",
                                                "cudaStream", "cublas"};

const Names banned_words = {"Manager", "Helper", "Util",   "Impl", "Base",
                            "Info",    "Data",   "Common", "Naive"};

int columns(std::string_view line) {  // UTF-8: every byte but the continuing ones
  return static_cast<int>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// The findings of one file.
struct Findings {
  const std::string& path;
  std::vector<Violation> list = {};
  void add(size_t index, std::string what) {
    list.push_back({path, static_cast<int>(index) + 1, std::move(what)});
  }
};

// A comment that says what the file is, who owns it, what it promises. A script's first line names
// its interpreter.
void check_head(const std::vector<std::string>& lines, Findings& found) {
  const std::string_view mark = is_code(found.path) ? "//" : "#";
  const size_t first = !lines.empty() && lines[0].starts_with("#!") ? 1 : 0;
  if (lines.size() == first || !lines[first].starts_with(mark))
    found.add(first, "the file starts with no comment that says what it is");
}

// `code` are the lines without comments and without what strings say.
void check_header(const std::vector<std::string>& code, Findings& found) {
  if (std::find(code.begin(), code.end(), "#pragma once") == code.end())
    found.add(0, "a header needs #pragma once");
  static const std::regex using_namespace("\\busing\\s+namespace\\b");
  for (size_t i = 0; i < code.size(); ++i) {
    if (code[i].find("namespace") != std::string::npos &&
        std::regex_search(code[i], using_namespace))
      found.add(i, "no using namespace in a header");
    if (!is_public_header(found.path) || found.path == "include/troupe/caf.hpp") continue;
    for (const std::string& name : library_names)
      if (code[i].find(name) != std::string::npos)
        found.add(i, "a public header may not name " + name);
  }
}

void check_type_names(const std::vector<std::string>& code, Findings& found) {
  static const std::regex type(
      "\\b(?:class|struct|enum|union|concept|using)\\s+(?:class\\s+)?([A-Z]\\w*)");
  static const std::regex word("[A-Z][a-z0-9]*");
  const auto has_banned = [](const std::string& line) {
    return std::any_of(banned_words.begin(), banned_words.end(),
                       [&](const std::string& w) { return line.find(w) != std::string::npos; });
  };
  for (size_t i = 0; i < code.size(); ++i) {
    if (!has_banned(code[i])) continue;
    for (std::sregex_iterator it(code[i].begin(), code[i].end(), type), none; it != none; ++it) {
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
    std::vector<std::string> hints;  // a line without any of them is not looked at further
    std::regex pattern;
    const char* what;
    bool tests_only;
  };
  static const std::vector<Phrase> phrases = {
      {{"sleep"},
       std::regex("\\bsleep"
                  "_(for|until)\\b|\\bu?sleep"
                  "\\("),
       "a test waits for an event or for virtual time, not for a clock",
       true},
      {{"infinite"},
       std::regex("caf::"
                  "infinite|\\brequest\\([^;]*\\binfi"
                  "nite\\b"),
       "a request needs a deadline",
       false},
      {{"/wo", "/t", "/ho", "/ro", "/Us"},
       std::regex("(^|[^\\w.])/(wo"
                  "rk|t"
                  "mp|ho"
                  "me|ro"
                  "ot|Us"
                  "ers)/"),
       "a path of one machine",
       false},
      {{"TO", "FIX", "XX"},
       std::regex("\\b(TO"
                  "DO|FIX"
                  "ME)\\b|\\bXX"
                  "X\\b"),
       "finish it, or write down in docs/ what is absent",
       false},
  };
  const bool test = top_of(found.path) == "tests";
  const auto hints_at = [](const Phrase& phrase, const std::string& line) {
    return std::any_of(phrase.hints.begin(), phrase.hints.end(), [&](const std::string& hint) {
      return line.find(hint) != std::string::npos;
    });
  };
  for (size_t i = 0; i < lines.size(); ++i)
    for (const Phrase& phrase : phrases)
      if ((test || !phrase.tests_only) && hints_at(phrase, lines[i]) &&
          std::regex_search(lines[i], phrase.pattern))
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
  if (!rooms_that_log.count(top_of(found.path))) return;
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

std::vector<Violation> check_lines(const Source& file) {
  Findings found{file.path};
  const std::vector<std::string> lines = lines_of(file.text);
  if (!file.path.ends_with(".md")) check_head(lines, found);
  check_phrases(lines, found);
  if (is_code(file.path)) {
    const std::vector<std::string> code = lines_of(code_of(file.text));
    check_line_lengths(lines, found);
    check_type_names(code, found);
    check_log_lines(file.text, found);
    if (is_header(file.path)) check_header(code, found);
  }
  return found.list;
}

}  // namespace troupe
