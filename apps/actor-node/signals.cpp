// Handlers of signals, which note a signal and wake the program through a pipe.
#include "apps/actor-node/signals.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "troupe/error.hpp"

std::atomic<bool> stop_requested{false};
std::atomic<bool> stop_at_once{false};
std::atomic<int> stop_signal{0};
std::atomic<bool> group_has_heard{false};

namespace {

int signal_pipe[2] = {-1, -1};

void on_signal(int number, siginfo_t* info, void*) {
  const int saved = errno;
  if (number != SIGCHLD) {
    int none = 0;
    if (stop_signal.compare_exchange_strong(none, number))
      group_has_heard = info->si_code == SI_KERNEL;  // kill() says SI_USER
    if (stop_requested.exchange(true)) stop_at_once = true;
  }
  const char byte = static_cast<char>(number);
  [[maybe_unused]] const ssize_t n = write(signal_pipe[1], &byte, 1);
  errno = saved;
}

}  // namespace

void catch_signals(std::initializer_list<int> numbers) {
  if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
    throw troupe::Error(troupe::Errc::io, "no pipe: ", std::strerror(errno));
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (int number : numbers) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    if (number != SIGHUP || before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

int signal_file() { return signal_pipe[0]; }

void wait_for_signal(std::chrono::milliseconds patience) {
  pollfd wake{signal_pipe[0], POLLIN, 0};
  poll(&wake, 1, static_cast<int>(std::max<int64_t>(1, patience.count())));
  char bytes[64];
  while (read(signal_pipe[0], bytes, sizeof bytes) > 0) {
  }
}

SignalsHeld::SignalsHeld() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before_);
}

void SignalsHeld::release() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

void SignalsHeld::release_as_child() {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action = {};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_sigaction == on_signal)
      signal(number, SIG_DFL);
  }
  release();
}
