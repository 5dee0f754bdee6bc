// Patience: repeats work that fails because of a lost process, until the process is back.
// Owner: none, a plain function. Thread: the caller's, which sleeps.
#pragma once

#include <chrono>
#include <thread>

#include "actors/async/backoff.hpp"
#include "actors/async/deadline.hpp"
#include "troupe/error.hpp"

namespace troupe {

// Calls `what`. If it throws Error(peer_lost), Error(stale) or, with `full`, Error(out_of_memory),
// and again(error) is true, repeats it with Backoff; gives up at the end of `patience`. Blocks.
template <class What, class Again>
void patiently(std::chrono::milliseconds patience, const What& what, const Again& again,
               bool full = false) {
  using Time = std::chrono::steady_clock;
  const auto end = deadline_after(patience);
  for (int failures = 1;; ++failures) {
    const auto wait = Backoff::wait(failures);
    try {
      return what();
    } catch (const Error& e) {
      const bool passes = e.code() == Errc::peer_lost || e.code() == Errc::stale ||
                          (full && e.code() == Errc::out_of_memory);
      if (!passes || end - Time::now() < wait || !again(e)) throw;
    }
    std::this_thread::sleep_for(wait);
  }
}

}  // namespace troupe
