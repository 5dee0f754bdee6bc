// File work of a record, one job after the other.
#include "training/shards/shard_recorder.hpp"

#include <utility>

namespace troupe {

template <class Work>
void ShardRecorder::post(const Present& present, int64_t bytes, Work work) {
  const std::shared_ptr<RecordFile> file = present.file;
  if (!file->wait(bytes, kWaitingMax)) return;
  present.disk->post([file, bytes, log = present.process->log(), work = std::move(work)] {
    const bool whole = file->taken(bytes);
    if (!whole) return;
    try {
      work(*file);
    } catch (const Error& e) {
      file->give_up();
      log->warn("a record of updates is not whole, and training goes on: file={} error={}",
                file->path(), e.what());
    }
  });
}

std::shared_ptr<OrderBuffer> ShardRecorder::begin(std::shared_ptr<DiskThread> disk,
                                                  Process& process, const std::string& folder,
                                                  RecordPart part) {
  auto file = std::make_shared<RecordFile>(disk->disk(), folder, std::move(part));
  present_ = std::make_unique<Present>(
      Present{std::move(disk), &process, std::make_shared<OrderBuffer>(), std::move(file)});
  post(*present_, 0, [](RecordFile& f) { f.begin(); });
  return present_->buffer;
}

void ShardRecorder::write(int64_t upto) {
  if (!present_) return;
  OrderChunk chunk = present_->buffer->take();
  chunk.upto = upto;
  int64_t bytes = 0;
  for (const auto& [slice, events] : chunk.events) bytes += static_cast<int64_t>(events.size());
  post(*present_, bytes, [chunk = std::move(chunk)](RecordFile& f) { f.append(chunk); });
}

}  // namespace troupe
