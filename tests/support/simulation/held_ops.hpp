// Ops for a call that waits in a kernel until the test answers.
#pragma once

#include <memory>
#include <vector>

#include "troupe/op.hpp"

namespace troupe {

// Two ops. In: fed, f32, one axis. Hold: y is the value with which `hold` answers the firing.
inline std::shared_ptr<const Registry> held_ops(void (*hold)(std::shared_ptr<AsyncContext>)) {
  auto out = std::make_shared<Registry>();
  out->add({.name = "In",
            .outputs = {"y"},
            .infer_dtypes = [](const InferContext&) { return std::vector<DType>{DType::f32}; },
            .infer_shapes = [](const InferContext&) { return std::vector<Shape>{Shape{-1}}; }});
  out->add({.name = "Hold",
            .inputs = {"x"},
            .outputs = {"y"},
            .infer_shapes = [](const InferContext& c) { return std::vector<Shape>{c.input(0)}; },
            .kernels = {{.device = DeviceKind::cpu, .start = hold}}});
  return out;
}

}  // namespace troupe
