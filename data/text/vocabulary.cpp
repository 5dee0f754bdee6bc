// Vocabulary of troupe/text.hpp: its making from counts, and its file.
#include <algorithm>

#include "data/lines.hpp"
#include "data/text/text_file.hpp"
#include "data/text/utf8.hpp"
#include "graph/base/fnv.hpp"
#include "troupe/text.hpp"

namespace troupe {
namespace {

constexpr std::string_view kSpecial[] = {"<pad>", "<unk>", "<s>", "</s>"};
constexpr int64_t kSpecials = std::size(kSpecial);
constexpr int64_t kWordsMax = int64_t{1} << 31;

std::string escaped(std::string_view word) {
  std::string out;
  for (const char c : word)
    if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\\')
      out += "\\\\";
    else
      out += c;
  return out;
}

std::string unescaped(const Lines& lines, std::string_view line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      out += line[i];
      continue;
    }
    const char next = ++i < line.size() ? line[i] : ' ';
    if (next != 'n' && next != 'r' && next != '\\')
      throw lines.wrong("expected n, r or \\ after the backslash in ", in_quotes(line),
                        "; write a backslash as \\\\");
    out += next == 'n' ? '\n' : next == 'r' ? '\r' : '\\';
  }
  return out;
}

uint64_t fingerprint_of(const std::vector<std::string>& words) {
  Fnv hash;
  for (const std::string& word : words) hash.add({word.c_str(), word.size() + 1});
  return hash.value();
}

std::string hex(uint64_t number) {
  constexpr const char* digits = "0123456789abcdef";
  std::string out(16, '0');
  for (int i = 0; i < 16; ++i) out[static_cast<size_t>(i)] = digits[number >> (60 - 4 * i) & 15];
  return out;
}

}  // namespace

struct Vocabulary::State {
  // Requires: each word once.
  explicit State(std::vector<std::string> all)
      : words(std::move(all)), fingerprint(fingerprint_of(words)) {
    ids.reserve(words.size());
    for (const std::string& word : words) ids.emplace(word, static_cast<int64_t>(ids.size()));
  }
  const std::vector<std::string> words;  // by id
  const uint64_t fingerprint;
  std::unordered_map<std::string_view, int64_t> ids;  // views of words
};

Vocabulary Vocabulary::of(const WordCounts& counts, const Options& options) {
  if (options.min_count < 1 || options.size_max < 0 ||
      (options.size_max > 0 && options.size_max < kSpecials))
    throw Error(Errc::invalid_argument,
                "a vocabulary wants a min_count of at least 1, and a "
                "size_max of 0 or at least ",
                kSpecials, ", got ", options.min_count, " and ", options.size_max);
  using Count = WordCounts::value_type;
  std::vector<const Count*> sorted;
  for (const Count& count : counts) {
    if (count.first.empty())
      throw Error(Errc::invalid_argument, "a vocabulary has no empty word; do not count any");
    if (count.second >= options.min_count &&
        std::find(std::begin(kSpecial), std::end(kSpecial), count.first) == std::end(kSpecial))
      sorted.push_back(&count);
  }
  std::sort(sorted.begin(), sorted.end(), [](const Count* a, const Count* b) {
    return a->second != b->second ? a->second > b->second : a->first < b->first;
  });
  const int64_t most = (options.size_max > 0 ? options.size_max : kWordsMax) - kSpecials;
  if (static_cast<int64_t>(sorted.size()) > most) sorted.resize(static_cast<size_t>(most));
  std::vector<std::string> words(std::begin(kSpecial), std::end(kSpecial));
  for (const Count* count : sorted) words.push_back(count->first);
  return Vocabulary(std::make_shared<const State>(std::move(words)));
}

Vocabulary Vocabulary::read(const std::string& path) {
  Lines lines(path);
  std::vector<std::string> words;
  std::unordered_map<std::string, int64_t> numbers;  // of the lines
  const auto special = [&] { return kSpecial[words.size()]; };
  for (std::string_view line; lines.next(line);) {
    check_utf8(line, detail::concat(path, ": line ", lines.number()));
    std::string word = unescaped(lines, line);
    if (static_cast<int64_t>(words.size()) < kSpecials && word != special())
      throw lines.wrong("expected the special token ", special(), ", found ", in_quotes(word),
                        "; the first lines of a vocabulary are <pad>, <unk>, <s> and </s>");
    if (word.empty()) throw lines.wrong("expected a word, found an empty line; remove it");
    const auto [before, added] = numbers.emplace(word, lines.number());
    if (!added)
      throw lines.wrong("the word ", in_quotes(word), " stands in line ", before->second,
                        " already; a vocabulary has each word once");
    words.push_back(std::move(word));
  }
  if (static_cast<int64_t>(words.size()) < kSpecials)
    throw Error(Errc::bad_data, path, ": expected the special token ", special(), " in line ",
                words.size() + 1, ", found the end of the file; is it a vocabulary?");
  return Vocabulary(std::make_shared<const State>(std::move(words)));
}

void Vocabulary::write(const std::string& path) const {
  std::string text;
  for (const std::string& word : state_->words) text += escaped(word) + "\n";
  write_text_file(path, text);
}

int64_t Vocabulary::size() const { return static_cast<int64_t>(state_->words.size()); }

int64_t Vocabulary::id(std::string_view word) const {
  const auto found = state_->ids.find(word);
  return found == state_->ids.end() ? kUnknown : found->second;
}

const std::string& Vocabulary::word(int64_t id) const {
  if (id < 0 || id >= size())
    throw Error(Errc::invalid_argument, "the vocabulary has the ids 0 to ", size() - 1, ", not ",
                id);
  return state_->words[static_cast<size_t>(id)];
}

std::vector<int64_t> Vocabulary::ids(std::span<const std::string> words) const {
  std::vector<int64_t> out;
  out.reserve(words.size());
  for (const std::string& word : words) out.push_back(id(word));
  return out;
}

std::vector<std::string> Vocabulary::words(std::span<const int64_t> ids) const {
  std::vector<std::string> out;
  for (const int64_t id : ids) {
    if (id == kEnd) break;
    const std::string& found = word(id);
    if (id != kPad && id != kBegin) out.push_back(found);
  }
  return out;
}

std::vector<int64_t> Vocabulary::counts(const WordCounts& counts) const {
  std::vector<int64_t> out(static_cast<size_t>(size()));
  for (const auto& [word, count] : counts) out[static_cast<size_t>(id(word))] += count;
  return out;
}

uint64_t Vocabulary::fingerprint() const { return state_->fingerprint; }

void Vocabulary::require(int64_t size, std::optional<uint64_t> fingerprint) const {
  if (size != this->size())
    throw Error(Errc::bad_configuration, "the vocabulary has ", this->size(), " words, the model ",
                size, "; read the vocabulary that the model was trained with");
  if (fingerprint && *fingerprint != state_->fingerprint)
    throw Error(Errc::bad_configuration, "the vocabulary has the fingerprint ",
                hex(state_->fingerprint), ", the model's has ", hex(*fingerprint), ", and both ",
                size, " words; read the vocabulary that the model was trained with");
}

}  // namespace troupe
