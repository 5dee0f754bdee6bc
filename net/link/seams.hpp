// Seams: the interfaces between net/ and the outside world: Transport, Clock and Rng. Production
// uses net_thread.hpp (sockets, steady time, one thread); tests and simulations use
// tests/support/simulation/sim_net.hpp.
//
// Every callback runs on one thread, the "net thread": a real thread in production, the simulator's
// loop in tests. Callbacks must not block.
//
// Owner: NetThread or the simulator (Rng: Process); callers own their connections, listeners and
// timers. Thread: the net thread, unless a function says otherwise.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "devices/memory/descriptor.hpp"
#include "troupe/error.hpp"

namespace troupe {

struct CertifiedName;  // net/certificates/certified_name.hpp

using TimePoint = std::chrono::steady_clock::time_point;

// A pending call. Destroying the timer cancels the call; do that on the net thread.
class Timer {
 public:
  virtual ~Timer() = default;
};
using TimerPtr = std::unique_ptr<Timer>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;  // callable on any thread
  // Calls `fn` once on the net thread, `delay` from now. Callable on any thread.
  virtual TimerPtr after(std::chrono::nanoseconds delay, std::function<void()> fn) = 0;
};

class Rng {
 public:
  virtual ~Rng() = default;
  virtual uint64_t next() = 0;  // uniform; callable on any thread
};

// The events of a connection, reported on the net thread.
struct ConnectionHandlers {
  // The buffers for the next received bytes: up to two, filled in order; the second may be empty.
  // They stay valid until `on_bytes`.
  struct Room {
    std::span<std::byte> first, second;
  };
  std::function<Room()> room;
  std::function<void(size_t count)> on_bytes;  // `count` bytes were written into the room
  std::function<void()> on_drained;            // the socket has space again after a short write
  std::function<void(const std::string& reason)>
      on_closed;  // by the peer or by an error, once; not after close()
  // A descriptor has come, before the on_bytes of the bytes that it was written with. Empty: it is
  // closed.
  std::function<void(Descriptor)> on_descriptor;
};

// A stream of bytes to one peer.
class Connection {
 public:
  virtual ~Connection() = default;
  // Starts the events. Call once, on the net thread; closing the connection drops the handlers.
  virtual void start(ConnectionHandlers handlers) = 0;
  // Writes as much of `parts`, in order, as the stream accepts without blocking, and returns that
  // number of bytes. After a short write, on_drained (or on_closed) follows. Copies of
  // `descriptors` go with the first byte. Callable on any thread, one at a time. Requires: no
  // descriptors unless is_local(), and at most kDescriptorsMax.
  virtual size_t write(std::span<const std::span<const std::byte>> parts,
                       std::span<const int> descriptors) = 0;
  static constexpr size_t kDescriptorsMax = 16;
  // Ends the connection; written bytes are still delivered if the peer reads them. Callable on any
  // thread, any number of times.
  virtual void close() = 0;
  virtual std::string peer_address() const = 0;  // for log lines and error texts
  // The name in the other end's certificate, which is verified; null without TLS. Set before the
  // first on_bytes.
  virtual const CertifiedName* certified() const { return nullptr; }
  // True if the other end is a process of this user on this machine, which the kernel says.
  virtual bool is_local() const { return false; }
  // True if on_closed came because one end does not accept the other's certificate, or has no TLS.
  virtual bool distrusted() const { return false; }
};
using ConnectionPtr = std::shared_ptr<Connection>;

// Accepts connections on the net thread until it is destroyed.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual std::string address() const = 0;  // "host:port", with the actual port
  // From now on also accepts processes of this user on this machine by a socket of their own, which
  // their dial() finds by the address. Returns an empty text, or the reason why it does not. Call
  // it once, on the net thread.
  virtual std::string accept_local() { return "this network has none"; }
};

class Transport {
 public:
  virtual ~Transport() = default;
  // `address`: "host:port" or "[v6]:port"; port 0 means any free port. Throws: Error(io) if the
  // port is taken, with the remedy; Error(bad_configuration) for a malformed address.
  virtual std::unique_ptr<Listener> listen(const std::string& address,
                                           std::function<void(ConnectionPtr)> on_accept) = 0;
  // Calls `on_done` once, with a connection, or with null and the reason. With a connection the
  // text says why it is no local one, if it might have been.
  virtual void dial(const std::string& address, std::chrono::nanoseconds timeout,
                    std::function<void(ConnectionPtr, const std::string& reason)> on_done) = 0;
  // Runs `fn` on the net thread soon. Callable on any thread.
  virtual void post(std::function<void()> fn) = 0;
  // Runs `fn` on the net thread and returns when it is done; runs it directly if called there.
  // Rethrows an exception of `fn`.
  virtual void run(const std::function<void()>& fn) = 0;
};

}  // namespace troupe
