// Handshake: the greetings that begin a link, as one side sees them (hello.hpp). It knows neither
// the connection nor the time.
//
// With a secret, a greeting is judged only after its proof. A proof covers all packets before it,
// so that no field of them can be changed, and the address that was dialled if that is on loopback,
// so that a process that took over a port cannot pass the packets on to another member. Beyond
// loopback an address may differ on its way, and is not covered.
//
// With TLS, the name in a greeting is that of the speaker's certificate.
//
// Owner: the link. Thread: the net thread.
#pragma once

#include <memory>
#include <vector>

#include "net/certificates/certified_name.hpp"
#include "net/link/hello.hpp"

namespace troupe {

class Handshake {
 public:
  enum class Role : uint8_t { dialler, acceptor };
  enum class Act : uint8_t { wait, send, judge, end };
  // The next act of the link.
  struct Step {
    Act act = Act::wait;     // for more bytes
    Greeting greeting = {};  // to judge; at the end, the refusal that was received, or is to send
    GreetingPacket packet = {};  // to send in answer to a greeting
  };

  // `own`: this process's greeting. `secret`: null without one. `peer_address`: the other end of
  // the connection.
  Handshake(Role role, Greeting own, std::shared_ptr<const Secret> secret,
            const std::string& peer_address);
  Role role() const { return role_; }
  const Greeting& own() const { return own_; }
  // The act by the greeting that `bytes` begin with. `certified`: the name in the certificate of
  // the other side; null without TLS.
  Step read(std::span<const std::byte> bytes, const CertifiedName* certified = nullptr);
  // The acceptor's last greeting, with a proof if the other side has given one.
  GreetingPacket seal(Greeting answer) const;
  bool met() const { return !peer_.job.empty(); }  // the other side has greeted
  bool challenged() const { return !challenge_.empty(); }
  const Hello& peer() const { return peer_; }
  bool turned_away() const { return turned_away_; }

 private:
  Step read_hello(Greeting theirs, std::span<const std::byte> packet);
  Step read_answer(Greeting theirs, std::span<const std::byte> packet);
  Step refuse(Refusal why, std::string text) const;
  // The proof of the dialler, or of the acceptor for its answer.
  Proof prove(const GreetingPacket* answer = nullptr) const;

  const Role role_;
  Greeting own_;
  const std::shared_ptr<const Secret> secret_;
  std::string dialled_;                         // empty: not on loopback
  std::vector<std::byte> opening_, challenge_;  // packets without proofs; empty: not sent yet
  bool proven_ = false;                         // the other side knows the secret
  Hello peer_;
  bool turned_away_ = false;  // the other side refuses, or is no node of this version
};

}  // namespace troupe
