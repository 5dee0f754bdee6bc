// Patience: repeats work that fails because of a lost process, until the process is back.
// Owner: none, a plain function. Thread: the caller's, which sleeps.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "actors/async/deadline.hpp"
#include "troupe/error.hpp"

namespace troupe {

// Calls `what`. If it throws Error(peer_lost) or Error(stale) and again(error) is true, repeats it
// after 20 ms, then after twice as long each time, up to 1 s; gives up at the end of `patience`.
// Blocks.
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
