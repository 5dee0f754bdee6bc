// StepCounts: the file that TROUPE_STEPS_OUT names, where tools that watch the program from outside
// read the number of parts of steps that each process has finished for it. `troupe chaos` sets the
// variable. The file is kRowsMax rows of kRowBytes: a name, "/job:worker/task:0", that ends with a
// zero byte, and in the last eight bytes the number, in the order of bytes of the machine. Rows are
// filled from the first one; sessions and later starts of a program go on with the numbers there.
//
// Owner: the master. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace troupe {

class StepCounts {
 public:
  static constexpr size_t kRowBytes = 128, kRowsMax = 1024;

  // Counts nothing if the variable is not set, or if the file cannot be made.
  StepCounts();
  ~StepCounts();
  StepCounts(const StepCounts&) = delete;

  void finished(const std::string& task);

 private:
  uint64_t* row_of(const std::string& task);

  std::byte* rows_ = nullptr;  // the file; null: none
  int file_ = -1;
  std::mutex mutex_;
  std::map<std::string, uint64_t*> known_;
};

}  // namespace troupe
