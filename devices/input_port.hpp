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
  std::shared_ptr<const std::string> source;  // its text, perhaps a long one
  std::shared_ptr<const std::string> seen;    // its files, as the program saw them; or empty
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
