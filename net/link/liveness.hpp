// Liveness: the times at which a link was heard and has spoken. A peer that is silent for too long
// is taken as dead; a side that has nothing to send sends heartbeats.
//
// Owner: the link. Thread: the net thread.
#pragma once

#include <algorithm>
#include <utility>

#include "net/link/seams.hpp"

namespace troupe {

inline constexpr std::chrono::seconds kHandshakeDeadline{5};  // from connected to confirmed
inline constexpr std::chrono::milliseconds kTick{100};  // the period at which the host calls tick()
// The longest silence in our direction; shorter if a side takes a peer as dead early.
inline constexpr std::chrono::milliseconds kHeartbeatEvery{200};
inline constexpr int kHeartbeatsMissed = 5;  // in a row, at least, before a peer counts as dead
// A peer silent for this long is taken as dead, unless the process was given another time. The net
// thread never blocks, so seven missed heartbeats in a row mean a frozen process or a dead wire,
// hardly load. With kTick, a freeze is detected after at most 1.6 s.
inline constexpr std::chrono::milliseconds kSilence{1500};
inline constexpr std::chrono::milliseconds kSilenceLeast = kHeartbeatsMissed * kTick;
inline constexpr std::chrono::hours kSilenceMost{1};
inline constexpr const char* kSilenceVariable = "TROUPE_SILENCE";

// The silence after which a process takes a peer as dead: `given`, or for 0 the seconds that
// TROUPE_SILENCE says, or kSilence. Throws: Error(bad_configuration) for a text that is no number,
// and for a time below kSilenceLeast or above kSilenceMost.
std::chrono::milliseconds read_silence(std::chrono::milliseconds given);

class Liveness {
 public:
  // `silence`: after which the peer is taken as dead.
  Liveness(TimePoint now, std::chrono::milliseconds silence)
      : silence_(silence), began_(now), ticked_(now), heard_(now), sent_(now) {}
  // `silence`: after which the peer takes this side as dead.
  void peer_allows(std::chrono::milliseconds silence) {
    const auto less = std::min(silence_, silence);
    heartbeat_every_ =
        std::clamp<std::chrono::milliseconds>(less / kHeartbeatsMissed, kTick, kHeartbeatEvery);
  }
  void bytes_came() { came_ = true; }
  void tick(TimePoint now) {
    // Bytes that arrived while this process was stopped are still unread, so the pause does not
    // count as the peer's silence.
    if (const auto late = now - ticked_; late > kLateTick) heard_ += late - kTick;
    ticked_ = now;
    if (std::exchange(came_, false)) heard_ = now;
  }
  // At the time of the newest tick.
  bool is_silent() const { return ticked_ - heard_ > silence_; }
  std::chrono::milliseconds silence() const { return silence_; }
  bool is_past_handshake() const { return ticked_ - began_ > kHandshakeDeadline; }
  TimePoint began() const { return began_; }
  TimePoint last_heard() const { return heard_; }
  // `bytes_out`: all bytes that were sent so far.
  bool heartbeat_is_due(int64_t bytes_out) {
    if (bytes_out != std::exchange(seen_out_, bytes_out)) sent_ = ticked_;
    return ticked_ - sent_ >= heartbeat_every_ - kTick;
  }

 private:
  static constexpr auto kLateTick = 3 * kTick;  // a tick this late: this process was stopped

  const std::chrono::milliseconds silence_;
  std::chrono::milliseconds heartbeat_every_ = kHeartbeatEvery;
  TimePoint began_, ticked_, heard_;
  TimePoint sent_;  // the tick that saw that bytes had been sent
  bool came_ = false;
  int64_t seen_out_ = 0;
};

}  // namespace troupe
