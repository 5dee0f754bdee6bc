// NetThread: production's Transport and Clock: TCP sockets and steady time on one thread.
// Implemented in net/link/asio.cpp.
#pragma once

#include "net/link/seams.hpp"

namespace troupe {

class NetThread {
 public:
  virtual ~NetThread() = default;  // ends the thread; links must be closed before
  virtual Transport& transport() = 0;
  virtual Clock& clock() = 0;
};
std::unique_ptr<NetThread> make_net_thread();

// From the operating system.
class SystemRng final : public Rng {
 public:
  uint64_t next() override;
};

}  // namespace troupe
