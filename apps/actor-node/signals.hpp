// Signals as bytes in a pipe, so that a loop can wait for them and for time alike.
#pragma once

#include <atomic>
#include <chrono>
#include <initializer_list>

extern std::atomic<bool> stop_requested;  // set by every caught signal but SIGCHLD

// Throws: Error(io) when there is no pipe to be had.
void catch_signals(std::initializer_list<int> numbers);
// Returns when a caught signal has come, at the latest after `patience`.
void wait_for_signal(std::chrono::milliseconds patience);
