// Who has the memory of a device: nodes are known by labels, which buffers are marked with, and a
// request that finds no room says who asked for what, and which tensors are the largest. Owns the
// table of labels, for the whole process; any thread may use it.
#pragma once

#include <memory>
#include <string>

#include "devices/kernel_call.hpp"
#include "devices/memory/memory.hpp"

namespace troupe {

// The label of node 0 of a graph; that of node n is this + n * kLabelStep. It means something as
// long as the graph lives.
inline constexpr uint64_t kLabelStep = 256;  // the outputs of a node lie between
uint64_t label_graph(const std::shared_ptr<const Graph>& graph);

// For buffers that outlive steps: constants, parameters.
inline constexpr int64_t kBetweenSteps = -1;

// What asks for memory: an output of a node, or its scratch.
struct MemoryRequest {
  static constexpr int kScratch = 255;
  const NodeView* view = nullptr;
  int output = 0;  // past 254 outputs they share a label
  int64_t run = kBetweenSteps;
  DType dtype = DType::none;
  const Shape* shape = nullptr;
};

// `refused` is what `memory` threw. Throws: it, with the request, and the ten largest tensors of
// this memory with whose they are. Both its own and other steps go on while it looks.
[[noreturn]] void refuse(const Error& refused, const Memory& memory, const MemoryRequest& request);

// Marks a buffer above Memory::kMarkedAbove as what was asked for.
void mark(Memory& memory, Buffer* buffer, int64_t bytes, const MemoryRequest& request) noexcept;

// A buffer for what is asked for. Throws: as Memory::allocate(), with what refuse() says.
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

// A tensor for what is asked for. Requires: dtype and shape are given, and the shape is known.
inline Tensor allocate_tensor(Memory& memory, const MemoryRequest& request) {
  const int64_t bytes = request.shape->size() * size_of(request.dtype);
  return Tensor::adopt(allocate(memory, bytes, request), request.dtype, *request.shape);
}

}  // namespace troupe
