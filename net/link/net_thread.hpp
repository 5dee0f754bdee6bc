// NetThread: the Transport and Clock of production: TCP, local sockets and steady time on one
// thread.
// Implemented in net/link/asio.cpp.
// Owner: Process, or the caller of draw_task(). Thread: any; destroyed on another than its own.
#pragma once

#include "net/link/seams.hpp"

namespace troupe {

class NetThread {
 public:
  virtual ~NetThread() = default;  // stops the thread; close all links before
  virtual Transport& transport() = 0;
  virtual Clock& clock() = 0;
  // From now on gets the text of each exception that a function on the thread lets out; the thread
  // goes on. Called on the thread. Without it, exceptions are dropped.
  virtual void on_exception(std::function<void(const std::string& text)> tell) = 0;
};
// `listen_fd`: a socket that listens already, at the address that listen() is asked for first; -1:
// none. `local_fd`: the same, of local_listener(). The thread takes both over. Throws: as
// local_sockets().
std::unique_ptr<NetThread> make_net_thread(int listen_fd = -1, int local_fd = -1);

// Random numbers from the operating system.
class SystemRng final : public Rng {
 public:
  uint64_t next() override;
};

}  // namespace troupe
