// Bpe of troupe/text.hpp: its merges, learnt from counts or read, and the pieces of words.
#include <algorithm>
#include <queue>

#include "data/lines.hpp"
#include "data/text/text_file.hpp"
#include "data/text/utf8.hpp"
#include "data/text/word_cache.hpp"
#include "troupe/text.hpp"

namespace troupe {
namespace {

constexpr std::string_view kVersion = "#version: 0.2";  // of subword-nmt's files
constexpr std::string_view kEndOfWord = "</w>", kContinues = "@@";
constexpr size_t kWordBytesMax = 64 << 10;  // the time of a word grows with its length squared
constexpr size_t kCachedWordsMax = 1 << 20;
constexpr int32_t kNone = -1;

using Merge = std::pair<std::string, std::string>;

// Texts of symbols by number. Equal texts are one symbol, by whatever merges they came about.
class Symbols {
 public:
  int32_t add(std::string text) {
    const auto [found, added] = numbers_.emplace(text, static_cast<int32_t>(texts_.size()));
    if (added) texts_.push_back(std::move(text));
    return found->second;
  }
  int32_t find(std::string_view text) const {
    const auto found = numbers_.find(text);
    return found == numbers_.end() ? kNone : found->second;
  }
  const std::string& text(int32_t number) const { return texts_[static_cast<size_t>(number)]; }

 private:
  std::unordered_map<std::string, int32_t, WordHash, std::equal_to<>> numbers_;
  std::vector<std::string> texts_;
};

// Two symbols side by side, as one key.
uint64_t pair_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}
int32_t left_of(uint64_t pair) { return static_cast<int32_t>(pair >> 32); }
int32_t right_of(uint64_t pair) { return static_cast<int32_t>(pair & 0xFFFFFFFFU); }

// Calls `character(text, last)` for each character of a word.
template <class F>
void each_symbol(std::string_view word, F&& character) {
  for (size_t at = 0; at < word.size();) {
    const size_t n = utf8_length(word[at]);
    character(word.substr(at, n), at + n == word.size());
    at += n;
  }
}

std::string marked(std::string_view character, bool last) {
  std::string text(character);
  if (last) text += kEndOfWord;
  return text;
}

// Learns merges: counts of all pairs, with the words that have them, and a queue of pairs whose
// counts may be out of date. A count that fell is corrected when it reaches the head of the queue;
// one that grew is put there again.
class Learner {
 public:
  explicit Learner(const WordCounts& counts) : queue_(Later{&symbols_}) {
    for (const auto& [word, count] : counts) {
      if (word.empty() || word.find_first_of(" \n\r") != std::string::npos)
        throw Error(Errc::invalid_argument, "byte-pair encoding wants words without space, got ",
                    in_quotes(word), "; count TokenKind::words or whitespace");
      check_utf8(word, detail::concat("the word ", in_quotes(word)));
      Word made{{}, count};
      each_symbol(word, [&](std::string_view c, bool last) {
        made.symbols.push_back(symbols_.add(marked(c, last)));
      });
      words_.push_back(std::move(made));
    }
    for (size_t i = 0; i < words_.size(); ++i) add_pairs(i);
    push_grown();
  }

  std::vector<Merge> learn(int64_t merges, int64_t min_count) {
    std::vector<Merge> out;
    while (static_cast<int64_t>(out.size()) < merges && !queue_.empty()) {
      const Entry head = queue_.top();
      queue_.pop();
      const int64_t now = pairs_[head.pair].count;
      if (now < min_count) continue;
      if (now != head.count) {
        if (now < head.count) queue_.push({now, head.pair});
        continue;
      }
      const std::string &left = symbols_.text(left_of(head.pair)),
                        &right = symbols_.text(right_of(head.pair));
      out.emplace_back(left, right);
      merge(head.pair, symbols_.add(left + right));
    }
    return out;
  }

 private:
  struct Word {
    std::vector<int32_t> symbols;
    int64_t count;
  };
  struct Pair {
    int64_t count = 0;
    std::vector<uint32_t> words = {};  // that have, or had, the pair
    bool grown = false;
  };
  struct Entry {
    int64_t count;
    uint64_t pair;
  };
  struct Later {  // less frequent, or earlier by the bytes of left and right
    const Symbols* symbols;
    bool operator()(const Entry& a, const Entry& b) const {
      if (a.count != b.count) return a.count < b.count;
      const int left = text(left_of(a.pair)).compare(text(left_of(b.pair)));
      return left != 0 ? left < 0 : text(right_of(a.pair)) < text(right_of(b.pair));
    }
    const std::string& text(int32_t symbol) const { return symbols->text(symbol); }
  };

  void add_pairs(size_t number) {
    const Word& word = words_[number];
    for (size_t i = 1; i < word.symbols.size(); ++i) {
      const uint64_t key = pair_of(word.symbols[i - 1], word.symbols[i]);
      Pair& pair = pairs_[key];
      pair.count += word.count;
      if (pair.words.empty() || pair.words.back() != number)
        pair.words.push_back(static_cast<uint32_t>(number));
      if (!std::exchange(pair.grown, true)) grown_.push_back(key);
    }
  }

  void remove_pairs(const Word& word) {
    for (size_t i = 1; i < word.symbols.size(); ++i)
      pairs_[pair_of(word.symbols[i - 1], word.symbols[i])].count -= word.count;
  }

  void push_grown() {
    for (const uint64_t key : grown_) {
      Pair& pair = pairs_[key];
      pair.grown = false;
      queue_.push({pair.count, key});
    }
    grown_.clear();
  }

  void merge(uint64_t key, int32_t merged) {
    const int32_t left = left_of(key), right = right_of(key);
    for (const uint32_t number : std::exchange(pairs_[key].words, {})) {
      std::vector<int32_t>& symbols = words_[number].symbols;
      const auto is_pair = [&](size_t i) {
        return i + 1 < symbols.size() && symbols[i] == left && symbols[i + 1] == right;
      };
      size_t i = 0;
      while (i < symbols.size() && !is_pair(i)) ++i;
      if (i == symbols.size()) continue;  // merged away before
      remove_pairs(words_[number]);
      size_t to = i;
      for (; i < symbols.size(); ++to) {
        const bool pair = is_pair(i);
        symbols[to] = pair ? merged : symbols[i];
        i += pair ? 2 : 1;
      }
      symbols.resize(to);
      add_pairs(number);
    }
    push_grown();
  }

  Symbols symbols_;
  std::vector<Word> words_;
  std::unordered_map<uint64_t, Pair> pairs_;
  std::vector<uint64_t> grown_;  // pairs whose counts grew since they were put in the queue
  std::priority_queue<Entry, std::vector<Entry>, Later> queue_;
};

}  // namespace

struct Bpe::State {
  struct Rule {
    int32_t rank, merged;
  };

  explicit State(std::vector<Merge> all) : merges(std::move(all)), cache(kCachedWordsMax) {
    for (const auto& [left, right] : merges) {
      const uint64_t pair = pair_of(symbols.add(left), symbols.add(right));
      rules.emplace(pair, Rule{static_cast<int32_t>(rules.size()), symbols.add(left + right)});
    }
  }

  Rule rule_of(int32_t left, int32_t right) const {
    if (left == kNone || right == kNone) return {INT32_MAX, kNone};
    const auto found = rules.find(pair_of(left, right));
    return found == rules.end() ? Rule{INT32_MAX, kNone} : found->second;
  }

  std::vector<std::string> pieces(std::string_view word) const {
    if (word.size() > kWordBytesMax)
      throw Error(Errc::bad_data, "a word of ", word.size(), " bytes, ", in_quotes(word),
                  "; byte-pair encoding takes at most ", kWordBytesMax);
    check_utf8(word, detail::concat("the word ", in_quotes(word)));
    std::vector<int32_t> parts;  // symbols
    std::vector<size_t> ends;    // of the parts in the word
    each_symbol(word, [&](std::string_view c, bool last) {
      parts.push_back(symbols.find(last ? marked(c, true) : c));
      ends.push_back((ends.empty() ? 0 : ends.back()) + c.size());
    });
    std::vector<Rule> next(parts.size(), Rule{INT32_MAX, kNone});  // of a part and the one after it
    const auto look = [&](size_t i) {
      next[i] = i + 1 < parts.size() ? rule_of(parts[i], parts[i + 1]) : Rule{INT32_MAX, kNone};
    };
    for (size_t i = 0; i < parts.size(); ++i) look(i);
    while (!parts.empty()) {
      const Rule best = *std::min_element(next.begin(), next.end(),
                                          [](Rule a, Rule b) { return a.rank < b.rank; });
      if (best.rank == INT32_MAX) break;
      size_t to = 0;
      for (size_t i = 0; i < parts.size(); ++to) {
        const bool merges_here = next[i].rank == best.rank;
        const size_t last = merges_here ? i + 1 : i;
        parts[to] = merges_here ? best.merged : parts[i];
        ends[to] = ends[last];
        next[to] = next[last];
        i = last + 1;
      }
      parts.resize(to);
      ends.resize(to);
      next.resize(to);
      for (size_t i = 0; i < to; ++i)
        if (parts[i] == best.merged || (i + 1 < to && parts[i + 1] == best.merged)) look(i);
    }
    std::vector<std::string> out;
    size_t begin = 0;
    for (const size_t end : ends) {
      out.emplace_back(word.substr(begin, end - begin));
      if (end < word.size()) out.back() += kContinues;
      begin = end;
    }
    return out;
  }

  const std::vector<Merge> merges;
  Symbols symbols;
  std::unordered_map<uint64_t, Rule> rules;  // of pairs; the first merge of a pair counts
  WordCache<std::vector<std::string>> cache;
};

Bpe Bpe::train(const WordCounts& counts, int64_t merges, int64_t min_count) {
  if (merges < 1 || min_count < 1)
    throw Error(Errc::invalid_argument,
                "byte-pair encoding wants at least one merge and a min_count of at least 1, got ",
                merges, " and ", min_count);
  return Bpe(std::make_shared<State>(Learner(counts).learn(merges, min_count)));
}

Bpe Bpe::read(const std::string& path) {
  Lines lines(path);
  std::string_view line;
  if (!lines.next(line) || line != kVersion)
    throw Error(Errc::bad_data, path, ": expected \"", kVersion, "\" in line 1, found ",
                in_quotes(line), "; is it a file of merges, of this version?");
  std::vector<Merge> merges;
  while (lines.next(line)) {
    check_utf8(line, detail::concat(path, ": line ", lines.number()));
    const size_t space = line.find(' ');
    if (space == line.npos || space == 0 || space + 1 == line.size() || space != line.rfind(' '))
      throw lines.wrong("expected two symbols with a space between them, found ", in_quotes(line));
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return Bpe(std::make_shared<State>(std::move(merges)));
}

void Bpe::write(const std::string& path) const {
  std::string text(kVersion);
  text += '\n';
  for (const auto& [left, right] : state_->merges) text += left + ' ' + right + '\n';
  write_text_file(path, text);
}

int64_t Bpe::size() const { return static_cast<int64_t>(state_->merges.size()); }

std::vector<std::string> Bpe::encode(std::span<const std::string> words) const {
  std::vector<std::string> out;
  state_->cache.run(
      [&](auto&& word) {
        for (const std::string& one : words) word(one);
      },
      [&](std::string_view word) { return state_->pieces(word); },
      [&](const std::vector<std::string>& pieces) {
        out.insert(out.end(), pieces.begin(), pieces.end());
      });
  return out;
}

std::vector<std::string> Bpe::pieces(std::string_view word) const { return state_->pieces(word); }

std::vector<std::string> Bpe::decode(std::span<const std::string> pieces) const {
  std::vector<std::string> words;
  bool continues = false;
  for (std::string_view piece : pieces) {
    if (!continues) words.emplace_back();
    continues = piece.ends_with(kContinues);
    if (continues) piece.remove_suffix(kContinues.size());
    words.back() += piece;
  }
  return words;
}

WordCounts Bpe::counts(const WordCounts& words) const {
  WordCounts out;
  for (const auto& [word, count] : words)
    for (std::string& piece : state_->pieces(word)) out[std::move(piece)] += count;
  return out;
}

}  // namespace troupe
