// What losses that are made of other ops share: the scope that their nodes stand in.
#pragma once

#include "ops/elementwise.hpp"
#include "ops/refused.hpp"

namespace troupe {

// Nodes are called name/... and said to be made at the caller's line.
// Throws: Error for an undefined Output, and for one that is not floating.
inline Graph::Scope loss_scope(Output x, const char* name, Origin at) {
  if (!x.defined())
    throw refused(name, at, "its first argument is undefined; pass the result of an op");
  if (!is_floating(x.dtype()))
    throw refused(name, at, "is of f32 or f64, got ", x.dtype(), "; cast it");
  return x.graph->scope({.name = name, .origin = at});
}

// log(sum of e^x) over the last dimension, which stays with size 1. Finite for all finite x.
inline Output log_sum_exp_rows(Output x) {
  const Output greatest = stop_gradient(reduce_max(x, {.axes = {-1}, .keep_dims = true}));
  const Output sum = reduce_sum(exp(subtract(x, greatest)), {.axes = {-1}, .keep_dims = true});
  return add(log(sum), greatest);
}

}  // namespace troupe
