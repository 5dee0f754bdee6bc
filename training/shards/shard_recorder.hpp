// ShardRecorder: writes the order of a shard's updates into the file of the present part of a
// record. A file that cannot be written stays as it is, and so is not whole: training goes on, and
// the log names it.
// Owner: the shard's actor. Thread: the one that holds the ShardLock; files: the disk thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "actors/cluster/process.hpp"
#include "training/checkpoints/disk_thread.hpp"
#include "training/checkpoints/record_file.hpp"
#include "training/rules/order_buffer.hpp"

namespace troupe {

class ShardRecorder {
 public:
  // Events that the disk has not taken yet; with more the record is given up.
  static constexpr int64_t kWaitingMax = int64_t{16} << 20;

  // Begins a part in the folder, and returns the buffer for its events.
  std::shared_ptr<OrderBuffer> begin(std::shared_ptr<DiskThread> disk, Process& process,
                                     const std::string& folder, RecordPart part);
  void end() { present_.reset(); }  // events from here on are in no file
  bool on() const { return present_ != nullptr; }
  bool due() const { return present_ && present_->buffer->due(); }
  // Writes all events so far. `upto`: they are all that there are of steps before it; -1: the file
  // does not say so. Jobs that are posted to the disk thread later find them on the disk.
  void write(int64_t upto = -1);
  void change_rule(int64_t step, const std::string& rule) {
    if (present_) present_->buffer->add_rule(step, rule);
  }

 private:
  struct Present {
    std::shared_ptr<DiskThread> disk;
    Process* process;
    std::shared_ptr<OrderBuffer> buffer;
    std::shared_ptr<RecordFile> file;
  };
  template <class Work>
  static void post(const Present& present, int64_t bytes, Work work);

  std::unique_ptr<Present> present_;
};

}  // namespace troupe
