// The ops that are built in, in a registry to which a test adds its own.
#pragma once

#include <memory>

#include "troupe/op.hpp"

namespace troupe {

inline std::shared_ptr<Registry> copy_of_builtin_ops() {
  auto out = std::make_shared<Registry>();
  for (const Op* op : builtin_ops()->all()) out->add(*op);
  return out;
}

}  // namespace troupe
