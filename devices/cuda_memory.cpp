// The block allocator of a GPU (free lists by size class, marks of held buffers), and the cache of
// pinned blocks.
#include "devices/cuda_memory.hpp"

#include <algorithm>
#include <utility>

#include "devices/cuda.hpp"
#include "graph/base/buffer.hpp"

namespace troupe {
namespace {

// A header on the host for elements on the GPU.
struct DeviceBuffer {
  Buffer header;
  void* address;  // at the address that Buffer::data() reads
  std::shared_ptr<void> blocks;
  // A list holds all buffers in use; the lock of the blocks guards the list and the marks.
  HeldBuffer use = {};
  DeviceBuffer* before = nullptr;
  DeviceBuffer* after = nullptr;
};

}  // namespace

class CudaMemory::Blocks final : public BufferOwner, public std::enable_shared_from_this<Blocks> {
 public:
  Blocks(std::string device, int index, int64_t budget_bytes)
      : device_(std::move(device)), index_(index) {
    stats_.budget_bytes = budget_bytes;
  }
  ~Blocks() { trim(); }

  Buffer* allocate(int64_t bytes) {
    std::lock_guard guard(mutex_);
    if (bytes < 0 || bytes > size_class::kBytesMax) throw out_of_memory(device_, bytes, stats_);
    const int c = size_class::of(bytes);
    const int64_t block_bytes = size_class::block_bytes(c);
    std::vector<void*>& free = free_[static_cast<size_t>(c)];
    void* address = nullptr;
    if (!free.empty()) {
      address = free.back();
      free.pop_back();
    } else {
      if (stats_.reserved_bytes > stats_.budget_bytes - block_bytes) trim();
      if (stats_.reserved_bytes > stats_.budget_bytes - block_bytes)
        throw out_of_memory(device_, bytes, stats_);
      check_cuda(cudaSetDevice(index_), "cudaSetDevice");
      if (cudaMalloc(&address, static_cast<size_t>(block_bytes)) != cudaSuccess) {
        trim();
        cudaGetLastError();  // clears the error
        check_cuda(cudaMalloc(&address, static_cast<size_t>(block_bytes)), "cudaMalloc");
      }
      ++stats_.system_allocations;
      stats_.reserved_bytes += block_bytes;
    }
    stats_.used_bytes += block_bytes;
    peak_ = std::max(peak_, stats_.used_bytes);
    stats_.peak_bytes = std::max(stats_.peak_bytes, peak_);
    const uint32_t tag = Buffer::kForeign | Buffer::kOffHost | static_cast<uint32_t>(c);
    auto* made = new DeviceBuffer{{{1}, tag, this}, address, shared_from_this(), {.bytes = bytes}};
    made->after = held_;
    if (held_) held_->before = made;
    held_ = made;
    return &made->header;
  }

  void mark(Buffer* buffer, const HeldBuffer& use) noexcept {
    if (buffer->owner != this) return;
    std::lock_guard guard(mutex_);
    reinterpret_cast<DeviceBuffer*>(buffer)->use = use;
  }

  Memory::Held held(size_t most) const {
    Memory::Held out;
    {
      std::lock_guard guard(mutex_);
      for (const DeviceBuffer* one = held_; one; one = one->after) {
        if (one->use.bytes <= Memory::kMarkedAbove) continue;
        ++out.count;
        out.bytes += one->use.bytes;
        out.largest.push_back(one->use);
      }
    }
    std::stable_sort(out.largest.begin(), out.largest.end(),
                     [](const HeldBuffer& a, const HeldBuffer& b) { return a.bytes > b.bytes; });
    if (out.largest.size() > most) out.largest.resize(most);
    return out;
  }

  void reset_peak() noexcept {
    std::lock_guard guard(mutex_);
    stats_.peak_bytes = peak_ = stats_.used_bytes;
  }
  int64_t take_peak() noexcept {
    std::lock_guard guard(mutex_);
    return std::exchange(peak_, stats_.used_bytes);
  }

  void release(Buffer* buffer) noexcept override {
    auto* device_buffer = reinterpret_cast<DeviceBuffer*>(buffer);
    const std::shared_ptr<void> keep = std::move(device_buffer->blocks);  // outlives the lock
    const int c = static_cast<int>(buffer->tag & ~(Buffer::kForeign | Buffer::kOffHost));
    std::lock_guard guard(mutex_);
    free_[static_cast<size_t>(c)].push_back(device_buffer->address);
    stats_.used_bytes -= size_class::block_bytes(c);
    (device_buffer->before ? device_buffer->before->after : held_) = device_buffer->after;
    if (device_buffer->after) device_buffer->after->before = device_buffer->before;
    delete device_buffer;
  }

  MemoryStats stats() const {
    std::lock_guard guard(mutex_);
    return stats_;
  }

 private:
  // Gives all free blocks back. cudaFree waits for the GPU, so no running work loses its memory.
  void trim() noexcept {
    for (size_t c = 0; c < free_.size(); ++c) {
      for (void* address : free_[c]) {
        cudaFree(address);
        stats_.reserved_bytes -= size_class::block_bytes(static_cast<int>(c));
      }
      free_[c].clear();
    }
  }

  const std::string device_;
  const int index_;
  mutable std::mutex mutex_;  // guards the rest
  std::array<std::vector<void*>, size_class::kCount> free_;
  MemoryStats stats_;
  int64_t peak_ = 0;  // since take_peak()
  DeviceBuffer* held_ = nullptr;
};

CudaMemory::CudaMemory(std::string device, int index, int64_t budget_bytes)
    : blocks_(std::make_shared<Blocks>(std::move(device), index, budget_bytes)) {}

CudaMemory::~CudaMemory() = default;

Buffer* CudaMemory::allocate(int64_t bytes) { return blocks_->allocate(bytes); }

MemoryStats CudaMemory::stats() const { return blocks_->stats(); }

void CudaMemory::mark(Buffer* buffer, const HeldBuffer& use) noexcept {
  blocks_->mark(buffer, use);
}

Memory::Held CudaMemory::held(size_t most) const { return blocks_->held(most); }

void CudaMemory::reset_peak() noexcept { blocks_->reset_peak(); }

int64_t CudaMemory::take_peak() noexcept { return blocks_->take_peak(); }

CudaStaging::~CudaStaging() {
  for (auto& [c, blocks] : free_)
    for (void* block : blocks) cudaFreeHost(block);
}

std::shared_ptr<void> CudaStaging::take(int64_t bytes) {
  const int c = size_class::of(bytes);
  void* block = take_block(c);
  if (!block) return nullptr;
  return {block, [this, c](void* taken) {
            std::lock_guard guard(mutex_);
            free_[c].push_back(taken);
          }};
}

void* CudaStaging::take_block(int c) {
  std::lock_guard guard(mutex_);
  std::vector<void*>& free = free_[c];
  if (!free.empty()) {
    void* block = free.back();
    free.pop_back();
    return block;
  }
  const int64_t block_bytes = size_class::block_bytes(c);
  void* block = nullptr;
  if (reserved_bytes_ + block_bytes > kBytesMax) return nullptr;
  if (cudaMallocHost(&block, static_cast<size_t>(block_bytes)) != cudaSuccess) {
    cudaGetLastError();  // clears the error: the caller has another way
    return nullptr;
  }
  reserved_bytes_ += block_bytes;
  return block;
}

}  // namespace troupe
