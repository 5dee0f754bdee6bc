// BoundedList: how a message's list is read and written: as the list itself, but one that says to
// have more than kListMax entries is refused. A member may send a list whose entries take a byte
// each on the wire and a hundred in memory.
// Owner: none, a value for the time of one inspect(). Thread: any.
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include <caf/deserializer.hpp>
#include <caf/error.hpp>
#include <caf/sec.hpp>

namespace troupe {

// Above the parameters, the cut edges and the fetches of the largest graph.
inline constexpr size_t kListMax = size_t{1} << 18;

template <class T>
struct BoundedList {
  std::vector<T>& list;
};
template <class T>
BoundedList(std::vector<T>&) -> BoundedList<T>;

template <class I, class T>
auto inspect(I& f, BoundedList<T>& x) {
  if constexpr (std::is_base_of_v<caf::deserializer, I>) {
    size_t count = 0;
    caf::error wrong = f.begin_sequence(count);
    if (!wrong && count > kListMax) wrong = caf::make_error(caf::sec::invalid_argument);
    if (!wrong) wrong = f.fill_range(x.list, count);
    if (!wrong) wrong = f.end_sequence();
    return wrong;
  } else {
    return f(x.list);
  }
}

}  // namespace troupe
