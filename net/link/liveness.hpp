// Liveness: the times at which a link was heard and has spoken. A peer that is silent for too long
// is taken as dead; a side that has nothing to send sends heartbeats.
//
// Owner: the link. Thread: the net thread.
#pragma once

#include <utility>

#include "net/link/seams.hpp"

namespace troupe {

inline constexpr std::chrono::seconds kHandshakeDeadline{5};      // from connected to confirmed
inline constexpr std::chrono::milliseconds kHeartbeatEvery{200};  // of silence in our direction
// A peer silent for this long is taken as dead. The net thread never blocks, so seven missed
// heartbeats in a row mean a frozen process or a dead wire, hardly load. With kTick, a freeze is
// detected after at most 1.6 s.
inline constexpr std::chrono::milliseconds kSilenceMax{1500};
inline constexpr std::chrono::milliseconds kTick{100};  // the period at which the host calls tick()

class Liveness {
 public:
  explicit Liveness(TimePoint now) : began_(now), ticked_(now), heard_(now), sent_(now) {}
  void bytes_came() { came_ = true; }
  void tick(TimePoint now) {
    // Bytes that arrived while this process was stopped are still unread, so the pause does not
    // count as the peer's silence.
    if (const auto late = now - ticked_; late > kLateTick) heard_ += late - kTick;
    ticked_ = now;
    if (std::exchange(came_, false)) heard_ = now;
  }
  // At the time of the newest tick.
  bool is_silent() const { return ticked_ - heard_ > kSilenceMax; }
  bool is_past_handshake() const { return ticked_ - began_ > kHandshakeDeadline; }
  TimePoint began() const { return began_; }
  TimePoint last_heard() const { return heard_; }
  // `bytes_out`: all bytes that were sent so far.
  bool heartbeat_is_due(int64_t bytes_out) {
    if (bytes_out != std::exchange(seen_out_, bytes_out)) sent_ = ticked_;
    return ticked_ - sent_ >= kHeartbeatEvery - kTick;
  }

 private:
  static constexpr auto kLateTick = 3 * kTick;  // a tick this late: this process was stopped

  TimePoint began_, ticked_, heard_;
  TimePoint sent_;  // the tick that saw that bytes had been sent
  bool came_ = false;
  int64_t seen_out_ = 0;
};

}  // namespace troupe
