// The language of comments and documents: subject first, heads that say something, owners.
#include "tests/house/words.hpp"

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>

#include "tests/house/rules.hpp"

namespace troupe {
namespace {

using Names = std::set<std::string, std::less<>>;

// A sentence that begins so has a clause for its subject.
const Names clause_words = {"what", "who", "whoever", "whose", "of", "those", "whether"};

// Folders whose headers say who owns what they declare and which threads may call it.
const Names owned_folders = {"actors", "training", "net", "devices"};

// Entries of docs/decisions.md up to this day are not written again.
constexpr std::string_view kPastDecisions = "2026-11-23";

bool is_script(const std::string& path) { return path.ends_with(".sh") || path == "dev"; }
bool is_prose(const std::string& path) { return path.ends_with(".md"); }

std::string trimmed(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t");
  return begin == line.npos ? "" : std::string(line.substr(begin));
}

std::string lower(std::string word) {
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
}

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

std::vector<Piece> script_comments(const std::string& text) {
  std::vector<Piece> pieces;
  int number = 0, last = -1;
  for (const std::string& line : lines_of(text)) {
    ++number;
    const std::string start = trimmed(line);
    const size_t mark = line.find("  # ");
    if (start.starts_with("# ") && last == number - 1) {
      pieces.back().text += "\n" + start.substr(2);
      last = number;
    } else if (start.starts_with("# ")) {
      pieces.push_back({number, start.substr(2)});
      last = number;
    } else if (mark != line.npos) {
      pieces.push_back({number, line.substr(mark + 4)});
    }
  }
  return pieces;
}

bool begins_item(const std::string& line) {
  static const std::regex number("[0-9]+\\. .*");
  return line.starts_with("- ") || line.starts_with("* ") || std::regex_match(line, number);
}

// The line after the mark of a list item or a quotation.
std::string without_mark(const std::string& line) {
  return line.substr(std::min(line.find_first_not_of("-*>0123456789. "), line.size()));
}

std::vector<Piece> paragraphs(const Source& file) {
  std::vector<Piece> pieces;
  bool open = false, code = false, past = false;
  int number = 0;
  for (const std::string& full : lines_of(file.text)) {
    ++number;
    const std::string line = trimmed(full);
    if (line.starts_with("```")) code = !code;
    if (line.starts_with("#") && file.path == "docs/decisions.md")
      past = line.substr(0, 13) <= "## " + std::string(kPastDecisions);
    if (code || past || line.empty() || line.starts_with("#") || line.starts_with("```")) {
      open = false;
    } else if (line.starts_with("|")) {
      std::string row = line;  // a cell may begin as it likes: it continues the head of its column
      for (size_t at = 0; (at = row.find('|', at)) != row.npos; at += 4)
        row.replace(at, 1, "Cell ");
      pieces.push_back({number, row});
      open = false;
    } else if (open && !begins_item(line)) {
      pieces.back().text += "\n" + line;
    } else {
      pieces.push_back({number, without_mark(line)});
      open = true;
    }
  }
  return pieces;
}

}  // namespace

std::vector<Piece> texts_of(const Source& file) {
  if (is_prose(file.path)) return paragraphs(file);
  if (is_script(file.path)) return script_comments(file.text);
  if (is_code(file.path)) return comments_of(file.text);
  return {};
}

std::vector<std::string> sentence_heads(std::string_view text) {
  std::vector<std::string> heads;
  size_t begin = 0;
  while (begin < text.size()) {
    // A sentence ends with a mark before white space, or with an empty line.
    size_t end = begin;
    while (end < text.size() &&
           !(std::string_view(".!?").find(text[end]) != text.npos &&
             (end + 1 == text.size() || std::isspace(static_cast<unsigned char>(text[end + 1])))) &&
           text.substr(end, 2) != "\n\n" && text.substr(end, 3) != "\n \n")
      ++end;
    size_t word = begin;
    while (word < end && !is_letter(text[word])) ++word;
    size_t word_end = word;
    while (word_end < end && is_letter(text[word_end])) ++word_end;
    const bool first = begin == 0,
               capital = word < end && std::isupper(static_cast<unsigned char>(text[word]));
    const bool question = end < text.size() && text[end] == '?';
    if (word < word_end && !question && (first || capital))
      heads.emplace_back(text.substr(word, word_end - word));
    begin = end + 1;
  }
  return heads;
}

std::vector<Violation> check_sentences(const Source& file) {
  // "of every replica" beside a member completes its name, and WHAT is the name of an argument.
  const auto is_clause = [](const std::string& head) {
    return head != "of" && clause_words.count(lower(head)) &&
           lower(head.substr(1)) == head.substr(1);
  };
  std::vector<Violation> found;
  for (const Piece& piece : texts_of(file))
    for (const std::string& head : sentence_heads(piece.text))
      if (is_clause(head))
        found.push_back({file.path, piece.line,
                         "a sentence begins with \"" + head + "\"; its subject comes first",
                         folder_of(file.path)});
  return found;
}

std::vector<Violation> check_heads(const Source& file) {
  static const std::regex empty("\\s*Implements [^\\s]+\\s*");
  if (!is_code(file.path)) return {};
  const std::vector<Piece> comments = comments_of(file.text);
  if (comments.empty() || !std::regex_match(comments[0].text, empty)) return {};
  return {{file.path, 1, "\"Implements ...\" alone says nothing; say what the file is",
           folder_of(file.path)}};
}

std::vector<Violation> check_owners(const Source& file) {
  if (!is_header(file.path) || !owned_folders.count(top_of(file.path))) return {};
  bool owner = false, thread = false;
  for (const Piece& comment : comments_of(file.text)) {
    owner |= comment.text.find("Owner:") != std::string::npos;
    thread |= comment.text.find("Thread:") != std::string::npos ||
              comment.text.find("Threads:") != std::string::npos;
  }
  if (owner && thread) return {};
  return {{file.path, 0,
           std::string("the header does not say \"") + (owner ? "Thread:" : "Owner:") + "\"",
           folder_of(file.path)}};
}

}  // namespace troupe
