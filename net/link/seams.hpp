// The seams between net/ and the world: Transport, Clock and Rng. Production is net_thread.hpp
// (sockets, steady time, one thread); tests and simulations put
// tests/support/simulation/sim_net.hpp in their place.
//
// Every callback runs on one thread, the "net thread": a real one in production, the simulator's
// loop in tests. Callbacks must not block.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "troupe/error.hpp"

namespace troupe {

using TimePoint = std::chrono::steady_clock::time_point;

// A pending call. Destroying it takes the call back; do that on the net thread.
class Timer {
 public:
  virtual ~Timer() = default;
};
using TimerPtr = std::unique_ptr<Timer>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;  // any thread
  // Calls `fn` once on the net thread, `delay` from now. Any thread.
  virtual TimerPtr after(std::chrono::nanoseconds delay, std::function<void()> fn) = 0;
};

class Rng {
 public:
  virtual ~Rng() = default;
  virtual uint64_t next() = 0;  // uniform; any thread
};

// What a connection reports, on the net thread.
struct ConnectionHandlers {
  // Where received bytes go: up to two places, filled in order; the second may be empty. Stays
  // valid until `on_bytes`.
  struct Room {
    std::span<std::byte> first, second;
  };
  std::function<Room()> room;
  std::function<void(size_t count)> on_bytes;  // `count` bytes were put into the room
  std::function<void()> on_drained;  // after a write that was cut short: there is space again
  std::function<void(const std::string& reason)>
      on_closed;  // by the peer or an error, once; not after close()
};

// A stream of bytes to one peer.
class Connection {
 public:
  virtual ~Connection() = default;
  // Starts the reports. Once, on the net thread; the handlers are dropped when the connection is
  // closed.
  virtual void start(ConnectionHandlers handlers) = 0;
  // Writes what the stream takes at once, without blocking, and returns that many bytes of `parts`,
  // taken in order. Less than all of them: on_drained follows (or on_closed). Any thread, one at a
  // time.
  virtual size_t write(std::span<const std::span<const std::byte>> parts) = 0;
  // Ends it; what was written is still delivered if the peer reads it. Any thread, any number of
  // times.
  virtual void close() = 0;
  virtual std::string peer_address() const = 0;  // for messages
};
using ConnectionPtr = std::shared_ptr<Connection>;

// Accepts until it is destroyed, on the net thread.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual std::string address() const = 0;  // "host:port", the real port
};

class Transport {
 public:
  virtual ~Transport() = default;
  // `address`: "host:port", "[v6]:port"; port 0: any free one. Throws: Error(io) when the port is
  // taken, with the remedy; Error(bad_configuration) for an address that cannot be read.
  virtual std::unique_ptr<Listener> listen(const std::string& address,
                                           std::function<void(ConnectionPtr)> on_accept) = 0;
  // Calls `on_done` once: a connection, or null and the reason.
  virtual void dial(const std::string& address, std::chrono::nanoseconds timeout,
                    std::function<void(ConnectionPtr, const std::string& reason)> on_done) = 0;
  // Runs `fn` on the net thread, soon. Any thread.
  virtual void post(std::function<void()> fn) = 0;
  // Runs `fn` on the net thread and returns when it is done; at once when called there. What `fn`
  // throws comes out here.
  virtual void run(const std::function<void()>& fn) = 0;
};

}  // namespace troupe
