// Handshake: the greetings that begin a link, as one side sees them. It knows neither the
// connection nor the time.
//
// Owner: the link. Thread: the net thread.
#pragma once

#include "net/link/hello.hpp"

namespace troupe {

class Handshake {
 public:
  enum class Role : uint8_t { dialler, acceptor };

  // `own`: this process's greeting.
  Handshake(Role role, Greeting own) : role_(role), own_(std::move(own)) {}
  Role role() const { return role_; }
  const Greeting& own() const { return own_; }
  // The greeting that `bytes` begin with. Nothing if more bytes are needed, or if the link ends:
  // then `end` is the refusal that was received, or the one to send.
  std::optional<Greeting> read(std::span<const std::byte> bytes, std::optional<Greeting>& end);
  bool met() const { return !peer_.job.empty(); }  // the other side has greeted
  const Hello& peer() const { return peer_; }
  bool turned_away() const { return turned_away_; }

 private:
  const Role role_;
  const Greeting own_;
  Hello peer_;
  bool turned_away_ = false;  // the other side refuses, or is no node of this version
};

}  // namespace troupe
