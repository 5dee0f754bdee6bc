// Signals as bytes in a pipe, so that a loop can wait for them and for time alike.
#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <initializer_list>

extern std::atomic<bool> stop_requested;  // set by every caught signal but SIGCHLD
extern std::atomic<bool> stop_at_once;    // set by the second of them
extern std::atomic<int> stop_signal;      // the first of them; 0: none has come
// It came of the terminal (Ctrl-C, or its end), which has sent it to our whole group of processes.
extern std::atomic<bool> group_has_heard;

// A SIGHUP that we were told to ignore (nohup) stays ignored. Throws: Error(io) when there is no
// pipe to be had.
void catch_signals(std::initializer_list<int> numbers);
// For a loop that waits for more than signals: readable when one has come, until wait_for_signal().
int signal_file();
// Returns when a caught signal has come, at the latest after `patience`.
void wait_for_signal(std::chrono::milliseconds patience);

// While it lives no signal is delivered to this thread. For the moment between fork and exec, where
// our handlers would take what is meant for the program that is about to be.
class SignalsHeld {
 public:
  SignalsHeld();
  ~SignalsHeld() { release(); }
  SignalsHeld(const SignalsHeld&) = delete;
  // In the child: what was caught has its default effect again, also what has come meanwhile.
  void release_as_child();

 private:
  void release();
  sigset_t before_;
};
