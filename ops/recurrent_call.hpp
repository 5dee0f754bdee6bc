// What lstm(), gru() and their cells are given, checked before any node is made of it: so that what
// does not fit is named as the caller knows it, and not as an input of a product within.
#pragma once

#include <initializer_list>
#include <map>

#include "ops/composition.hpp"

namespace troupe {

struct RecurrentArgument {
  const char* name;
  Output value;
  // A letter for each dimension: t(ime), b(atch), n, h, g for all gates.
  const char* form;
};

// `gates`: how many, of h each. Throws: Error(invalid_argument) for the first argument that does
// not fit those before it, naming the function, the caller's line, what is wanted and what was
// given.
inline void require_recurrent_call(const char* function, Origin at, int gates,
                                   std::initializer_list<RecurrentArgument> arguments) {
  const RecurrentArgument& first = *arguments.begin();
  std::map<char, int64_t> sizes;
  const auto size_of_letter = [&](char letter) -> int64_t {
    const auto known = sizes.find(letter);
    if (known != sizes.end()) return known->second;
    if (letter == 'g' && sizes.count('h')) return gates * sizes['h'];
    return letter == 'h' && sizes.count('g') ? sizes['g'] / gates : -1;
  };
  const std::map<char, std::string> words = {
      {'t', "time"}, {'b', "batch"}, {'n', "n"}, {'h', "h"}, {'g', detail::concat(gates, "h")}};
  for (const RecurrentArgument& a : arguments) {
    const std::string form = a.form;
    const Shape& got = a.value.shape();
    bool fits = got.ndim() == static_cast<int>(form.size());
    std::string wanted, here;
    for (size_t d = 0; d < form.size(); ++d) {
      const int64_t size = size_of_letter(form[d]);
      const int64_t given = fits ? got[static_cast<int>(d)] : -1;
      fits = fits && may_equal(size, given) && (form[d] != 'g' || given < 0 || given % gates == 0);
      wanted += detail::concat(d ? ", " : "", words.at(form[d]));
      here += detail::concat(d ? ", " : "", size);
    }
    if (!fits)
      throw refused(function, at, "wants ", a.name, " [", wanted, "], here [", here, "], got ",
                    TensorType{a.value.dtype(), got});
    if (a.value.dtype() != first.value.dtype())
      throw refused(function, at, "wants inputs of one dtype, got ", first.name, " of ",
                    first.value.dtype(), " and ", a.name, " of ", a.value.dtype(),
                    "; cast one of them");
    for (size_t d = 0; d < form.size(); ++d)
      if (got[static_cast<int>(d)] >= 0) sizes[form[d]] = got[static_cast<int>(d)];
  }
}

}  // namespace troupe
