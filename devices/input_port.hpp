// InputPort: how a kernel reaches the sources of its process (troupe/source.hpp).
// Owner: the process (actors/cluster/services.hpp). Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/tensor.hpp"

namespace troupe {

// The part of a source that a kernel asks for.
struct InputRequest {
  // Its text, which may be long; a second line is what the program saw of its files.
  std::shared_ptr<const std::string> source;
  int64_t replica = 0, replicas = 1;
  int64_t step = 0;
};

class InputPort {
 public:
  using Reply = std::function<void(Errc code, std::string text, std::vector<Tensor> record)>;
  virtual ~InputPort() = default;
  // Replies once, on any thread, with the tensors of all fields; end_of_data past the end.
  virtual void read(const InputRequest& request, Reply reply) = 0;
};

}  // namespace troupe
