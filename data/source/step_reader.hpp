// StepReader: the steps of one source for one replica, made ahead of their use on threads of its
// own.
// Owner: a source actor (training/input/), or a Records of a program. Thread: any.
#pragma once

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
  // Ends the threads. One that is in a function of the program that does not return is left behind:
  // it ends when the function has returned.
  ~StepReader();
  StepReader(const StepReader&) = delete;

  // Replies with the record of a step, which is usually ready. A step after the newest one that was
  // read is the cheapest, the newest one again costs nothing, any other one a pass over its epoch.
  // Several reads may wait.
  void read(int64_t step, Reply reply);
  bool waits() const;  // a read has no reply yet
  // The work of the threads, for messages: "makes step 12, of train.csv: record 7, since 3 s".
  std::string doing() const;

 private:
  void end();

  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace troupe
