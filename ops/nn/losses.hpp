// What losses that are made of other ops share: the scope that their nodes stand in.
#pragma once

#include "ops/support/elementwise.hpp"
#include "ops/support/refused.hpp"

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

// Throws: Error where labels would spread the predictions: those of [n] and [n, 1] would be
// compared all with all, which nobody means. A label for several predictions may be.
inline void require_fitting(Output predictions, Output labels, const char* name, Origin at) {
  require_defined(name, at, {predictions, labels});
  const Shape &p = predictions.shape(), &z = labels.shape();
  bool fits = true;
  for (int i = 1; i <= z.ndim(); ++i) {  // from the last dimension on
    const int64_t size = z[z.ndim() - i];
    fits = fits && (size == 1 || (i <= p.ndim() && p[p.ndim() - i] != 1));
  }
  if (!fits)
    throw refused(name, at, "labels of ", z, " would be compared with predictions of ", p,
                  " several times each; give both the same shape, as by squeeze() or "
                  "expand_dims()");
}

// log(sum of e^x) over the last dimension, which stays with size 1. Finite for all finite x.
inline Output log_sum_exp_rows(Output x) {
  const Output greatest = stop_gradient(reduce_max(x, {.axes = {-1}, .keep_dims = true}));
  const Output sum = reduce_sum(exp(subtract(x, greatest)), {.axes = {-1}, .keep_dims = true});
  return add(log(sum), greatest);
}

}  // namespace troupe
