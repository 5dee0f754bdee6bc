// Digests: SHA-256 of files and of a model's weights.
// Owner: the caller. Thread: one per Sha256.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "troupe/tensor.hpp"

namespace troupe {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void add(std::span<const std::byte> bytes);
  void add(const std::string& text) { add(std::as_bytes(std::span(text))); }
  std::string hex();  // 64 lower-case digits; may be called once

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// SHA-256 over all parameters in name order: name, dtype, shape and elements of each. Requires:
// tensors on the host.
std::string weights_sha256(std::vector<std::pair<std::string, Tensor>> parameters);

}  // namespace troupe
