// Maps the file into memory, so that a step costs an addition.
#include "actors/observe/step_counts.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace troupe {

StepCounts::StepCounts() {
  constexpr size_t kBytes = kRowBytes * kRowsMax;
  const char* const path = std::getenv("TROUPE_STEPS_OUT");
  if (!path || !*path) return;
  file_ = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  struct stat now {};
  // A mapped page without room on the disk would end the process.
  if (file_ < 0 || fstat(file_, &now) != 0 || !S_ISREG(now.st_mode) ||
      posix_fallocate(file_, 0, kBytes) != 0)
    return;
  void* const at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (at != MAP_FAILED) rows_ = static_cast<std::byte*>(at);
}

StepCounts::~StepCounts() {
  if (rows_) munmap(rows_, kRowBytes * kRowsMax);
  if (file_ >= 0) close(file_);
}

void StepCounts::finished(const std::string& task) {
  if (!rows_) return;
  std::lock_guard lock(mutex_);
  auto it = known_.find(task);
  if (it == known_.end()) it = known_.emplace(task, row_of(task)).first;
  if (it->second) std::atomic_ref(*it->second).fetch_add(1, std::memory_order_relaxed);
}

// Null if there is no row left.
uint64_t* StepCounts::row_of(const std::string& task) {
  constexpr size_t kNameBytes = kRowBytes - sizeof(uint64_t);
  uint64_t* out = nullptr;
  if (task.size() >= kNameBytes) return out;
  flock(file_, LOCK_EX);  // other programs of the cluster may write, too
  for (size_t i = 0; i < kRowsMax && !out; ++i) {
    char* const name = reinterpret_cast<char*>(rows_ + i * kRowBytes);
    if (!*name) std::memcpy(name, task.c_str(), task.size() + 1);
    if (std::strncmp(name, task.c_str(), kNameBytes) == 0)
      out = reinterpret_cast<uint64_t*>(rows_ + i * kRowBytes + kNameBytes);
  }
  flock(file_, LOCK_UN);
  return out;
}

}  // namespace troupe
