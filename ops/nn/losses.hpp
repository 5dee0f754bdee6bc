// Shared by the composed losses: the scope of their nodes, and checks of their arguments.
#pragma once

#include "ops/support/elementwise.hpp"
#include "ops/support/refused.hpp"

namespace troupe {

// Opens a scope: nodes are called name/... and have the caller's line as origin. Throws: Error for
// an undefined Output, and for a dtype that is not floating.
inline Graph::Scope loss_scope(Output x, const char* name, Origin at) {
  if (!x.defined())
    throw refused(name, at, "its first argument is undefined; pass the result of an op");
  if (!is_floating(x.dtype()))
    throw refused(name, at, "is of f32 or f64, got ", x.dtype(), "; cast it");
  return x.graph->scope({.name = name, .origin = at});
}

// Throws: Error if labels would broadcast the predictions: with shapes [n] and [n, 1], every label
// would be compared with every prediction, surely by mistake. One label for several predictions is
// allowed.
inline void require_fitting(Output predictions, Output labels, const char* name, Origin at) {
  require_defined(name, at, {predictions, labels});
  const Shape &p = predictions.shape(), &z = labels.shape();
  bool fits = true;
  for (int i = 1; i <= z.ndim(); ++i) {  // from the last dimension backwards
    const int64_t size = z[z.ndim() - i];
    fits = fits && (size == 1 || (i <= p.ndim() && p[p.ndim() - i] != 1));
  }
  if (!fits)
    throw refused(name, at, "labels of ", z, " would be compared with predictions of ", p,
                  " several times each; give both the same shape, as by squeeze() or "
                  "expand_dims()");
}

// log(sum of e^x) over the last dimension, which is kept with size 1. Finite for all finite x.
inline Output log_sum_exp_rows(Output x) {
  const Output greatest = stop_gradient(reduce_max(x, {.axes = {-1}, .keep_dims = true}));
  const Output sum = reduce_sum(exp(subtract(x, greatest)), {.axes = {-1}, .keep_dims = true});
  return add(log(sum), greatest);
}

}  // namespace troupe
