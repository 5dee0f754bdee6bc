// Patience: what a lost process makes fail is done again until the process is back.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "actors/async/deadline.hpp"
#include "troupe/error.hpp"

namespace troupe {

// Does `what`. If it throws Error(peer_lost) or Error(stale) and `again(error)` says so, does it
// once more, after 20 ms, then twice as long, up to 1 s; no more when `patience` has ended. Blocks.
template <class What, class Again>
void patiently(std::chrono::milliseconds patience, const What& what, const Again& again) {
  using Time = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kRetryFirst{20}, kRetryMax{1000};
  const auto end = deadline_after(patience);
  for (auto wait = kRetryFirst;; wait = std::min(2 * wait, kRetryMax)) {
    try {
      return what();
    } catch (const Error& e) {
      const bool passes = e.code() == Errc::peer_lost || e.code() == Errc::stale;
      if (!passes || end - Time::now() < wait || !again(e)) throw;
    }
    std::this_thread::sleep_for(wait);
  }
}

}  // namespace troupe
