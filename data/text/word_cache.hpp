// WordCache: a value for each word of texts, made once.
// Thread: any. A text takes the lock once, and again if it has new words.
#pragma once

#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "troupe/text.hpp"

namespace troupe {

template <class Value>
class WordCache {
 public:
  // Past `words_max` words, values of further ones are made each time.
  explicit WordCache(size_t words_max) : words_max_(words_max) {}

  // `each(word)` calls `word(view)` for the words of a text; `use` gets the value of each, in their
  // order, made by `make(view)` if it is new. Requires: make() is a function of the word alone.
  template <class Each, class Make, class Use>
  void run(Each&& each, Make&& make, Use&& use) {
    std::vector<std::pair<std::string, Value>> fresh;
    {
      std::shared_lock lock(mutex_);
      each([&](std::string_view word) {
        if (const auto found = values_.find(word); found != values_.end())
          return use(found->second);
        fresh.emplace_back(word, make(word));
        use(fresh.back().second);
      });
    }
    if (fresh.empty()) return;
    std::unique_lock lock(mutex_);
    for (auto& one : fresh)
      if (values_.size() < words_max_) values_.insert(std::move(one));
  }

 private:
  const size_t words_max_;
  std::shared_mutex mutex_;  // guards values_
  std::unordered_map<std::string, Value, WordHash, std::equal_to<>> values_;
};

}  // namespace troupe
