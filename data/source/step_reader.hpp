// StepReader: the steps of one source for one replica, made ahead of their use on threads of its
// own. It does nothing before the first read.
// Owner: the input service (training/input/), or a SourceSteps. Thread: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "data/source/cursor.hpp"
#include "data/source/shared_stages.hpp"

namespace troupe {

class StepReader {
 public:
  // Called once for each read(), on any thread; without a lock. Code end_of_data: the data end
  // before that step.
  using Reply = std::function<void(Errc code, const std::string& text, Record record)>;

  // `in_line`: no threads; read() makes the record and replies before it returns. Throws:
  // Error(out_of_memory) where the system denies a thread.
  StepReader(std::shared_ptr<SharedStages> stages, int64_t replica, int64_t replicas, bool in_line);
  // Stops, and waits for the threads, at most 2 s. One that is in a function of the program that
  // does not return is left behind: it ends when the function has returned.
  ~StepReader();
  StepReader(const StepReader&) = delete;

  // Replies with the record of a step, which is usually ready. The step after the newest one that
  // was read is the cheapest, the newest one again costs nothing, any other one a read of the
  // records before it in its epoch. Several reads may wait.
  void read(int64_t step, Reply reply);
  // Ends the reads that wait with Errc::cancelled, and the threads as soon as they read the next
  // record or block of bytes. Does not wait for them. A later read is cancelled, too.
  void stop();
  bool ended() const;  // stopped, and no thread is left

  bool waits() const;  // a read has no reply yet
  // The moment at which a thread has read a record or a block of bytes, or a read has found none
  // waiting.
  std::chrono::steady_clock::time_point moved() const;
  // The work of the threads, for messages: "makes step 12, of train.csv: record 7, since 3 s".
  std::string doing() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace troupe
