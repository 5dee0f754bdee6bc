// Delta debugging (Zeller, Hildebrandt 2002): of the faults that break an invariant, as few and as
// short ones as still break it.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "chaos/fault.hpp"

namespace troupe::sim {

struct Shrunk {
  Faults faults;
  int runs = 0;
};

// `broken`: whether a run with these faults still breaks the invariant. Requires: broken(faults).
inline Shrunk shrink(Faults faults, const std::function<bool(const Faults&)>& broken,
                     int runs_max = 200) {
  Shrunk out{std::move(faults)};
  const auto still = [&](Faults fewer) {
    if (out.runs >= runs_max) return false;
    ++out.runs;
    if (!broken(fewer)) return false;
    out.faults = std::move(fewer);
    return true;
  };
  for (size_t parts = 2; !out.faults.empty() && out.runs < runs_max;) {
    const size_t n = out.faults.size();
    parts = std::min(parts, n);
    bool fewer = false;
    for (size_t i = 0; i < parts && !fewer; ++i) {
      const auto from = static_cast<ptrdiff_t>(i * n / parts),
                 to = static_cast<ptrdiff_t>((i + 1) * n / parts);
      Faults rest(out.faults.begin(), out.faults.begin() + from);
      rest.insert(rest.end(), out.faults.begin() + to, out.faults.end());
      fewer = still(std::move(rest));
    }
    if (fewer)
      parts = std::max<size_t>(parts - 1, 2);
    else if (parts == n)
      break;
    else
      parts *= 2;
  }
  for (size_t i = 0; i < out.faults.size(); ++i)
    for (int tries = 0; tries < 4 && out.faults[i].lasts > 1; ++tries) {
      Faults shorter = out.faults;
      shorter[i].lasts /= 2;
      if (!still(std::move(shorter))) break;
    }
  return out;
}

}  // namespace troupe::sim
