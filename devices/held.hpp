// Attribution of a device's memory: nodes have labels, which buffers are marked with. The error of
// a request that finds no room names the node, the request, and the largest tensors.
// Owner: the process, of the table of labels. Thread: any.
#pragma once

#include <memory>
#include <string>

#include "devices/kernel_call.hpp"
#include "devices/memory/memory.hpp"
#include "graph/base/buffer.hpp"

namespace troupe {

// The label of node 0 of a graph; node n has this + n * kLabelStep. It is valid as long as the
// graph lives.
inline constexpr uint64_t kLabelStep = 256;  // leaves room for the outputs of a node
uint64_t label_graph(const std::shared_ptr<const Graph>& graph);

// The run of buffers that outlive steps: constants, parameters.
inline constexpr int64_t kBetweenSteps = -1;

// A request for memory: an output of a node, or its scratch.
struct MemoryRequest {
  static constexpr int kScratch = 255;
  const NodeView* view = nullptr;
  int output = 0;  // outputs past 254 share a label
  int64_t run = kBetweenSteps;
  DType dtype = DType::none;
  const Shape* shape = nullptr;
};

// `refused` is the error of `memory`. Throws: it, with the request, and the ten largest tensors of
// this memory with their holders. This step and others go on meanwhile.
[[noreturn]] void refuse(const Error& refused, const Memory& memory, const MemoryRequest& request);

// Marks a buffer above Memory::kMarkedAbove with its request.
void mark(Memory& memory, Buffer* buffer, int64_t bytes, const MemoryRequest& request) noexcept;

// A buffer for the request. Throws: as Memory::allocate(), with the text of refuse().
inline Buffer* allocate(Memory& memory, int64_t bytes, const MemoryRequest& request) {
  Buffer* buffer = nullptr;
  try {
    buffer = memory.allocate(bytes);
  } catch (const Error& e) {
    if (e.code() != Errc::out_of_memory) throw;
    refuse(e, memory, request);
  }
  if (bytes > Memory::kMarkedAbove) [[unlikely]]
    mark(memory, buffer, bytes, request);
  return buffer;
}

// A tensor for the request. Requires: dtype and shape are given, and the shape is known.
inline Tensor allocate_tensor(Memory& memory, const MemoryRequest& request) {
  const int64_t bytes = request.shape->size() * size_of(request.dtype);
  return adopt(allocate(memory, bytes, request), request.dtype, *request.shape);
}

}  // namespace troupe
