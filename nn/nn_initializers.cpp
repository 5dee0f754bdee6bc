// Initial values of parameters by the initializers of troupe/nn.hpp, as nodes.
#include <algorithm>
#include <cmath>

#include "nn/nn_layers.hpp"
#include "graph/base/refuse.hpp"
#include "troupe/ops.hpp"

namespace troupe::nn {
namespace {

struct Fans {
  double in, out;
};

Fans fans_of(const Shape& shape) {
  const int ndim = shape.ndim();
  if (ndim == 0) return {1, 1};
  if (ndim == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  double window = 1;
  for (int d = 0; d + 2 < ndim; ++d) window *= static_cast<double>(shape[d]);
  return {window * static_cast<double>(shape[ndim - 2]),
          window * static_cast<double>(shape[ndim - 1])};
}

struct Draw {
  Graph& graph;
  int64_t seed;
  const std::string& key;
  DType dtype;
  Origin at;
  Output operator()(const char* op, const Shape& shape, const char* first, double first_value,
                    const char* second, double second_value) const {
    return graph.add({.op = op,
                      .attrs = {{"shape", shape},
                                {first, first_value},
                                {second, second_value},
                                {"seed", seed},
                                {"key", key},
                                {"replica", int64_t{0}},
                                {"dtype", dtype}},
                      .name = "first"},
                     at);
  }
};

// q of a matrix of normal numbers, with the signs that make its distribution uniform (Mezzadri
// 2007).
Output orthogonal_matrix(const Draw& draw, const Shape& shape, double gain) {
  const int ndim = shape.ndim();
  const int64_t columns = shape[ndim - 1], rows = columns > 0 ? shape.size() / columns : 0;
  const bool wide = columns > rows;
  const Output z = draw("RandomNormal", wide ? Shape{columns, rows} : Shape{rows, columns}, "mean",
                        0, "stddev", 1);
  const Qr parts = qr(z, draw.at);
  const Output q = multiply(parts.q, sign(diag_part(parts.r, draw.at), draw.at), draw.at);
  const Output turned = wide ? transpose(q, {}, draw.at) : q;
  const Output scale = fill(draw.graph, {}, gain, draw.dtype, "", draw.at);
  return multiply(reshape(turned, shape, draw.at), scale, draw.at);
}

Initializer scaled(Initializer::Kind kind, Initializer::Fan fan, double variance) {
  // The variance of uniform numbers in [-a, a) is a^2 / 3.
  const double spread = std::sqrt(kind == Initializer::uniform ? 3 * variance : variance);
  return {.kind = kind, .fan = fan, .middle = 0, .spread = spread};
}

}  // namespace

Initializer with_fans(Initializer first, double in, double out) {
  const double fan = first.fan == Initializer::none ? 1
                     : first.fan == Initializer::in ? in
                                                    : (in + out) / 2;
  first.spread /= std::sqrt(std::max(fan, 1.0));  // an empty parameter has no values at all
  first.fan = Initializer::none;
  return first;
}

Output first_values(Graph& graph, const Shape& shape, const Initializer& first, int64_t seed,
                    const std::string& key, DType dtype, Origin at) {
  if (!is_wide_float(dtype))
    throw refuse("nn::Model::parameter", at, "wants f32 or f64, got ", dtype);
  if (!shape.is_known())
    throw refuse("nn::Model::parameter", at, "parameter ", key, " has the shape ", shape,
                 "; sizes that decide the shape of a parameter must be known while building");
  if (!std::isfinite(first.middle) || !(first.spread >= 0) || !std::isfinite(first.spread))
    throw refuse("nn::Model::parameter", at, "the first values of ", key, " lie around ",
                 first.middle, " with a spread of ", first.spread, "; wants finite numbers");
  const Draw draw{graph, seed, key, dtype, at};
  const Fans fans = fans_of(shape);
  const double spread = with_fans(first, fans.in, fans.out).spread;
  switch (first.kind) {
    case Initializer::constant:
      break;
    case Initializer::uniform:
      if (spread == 0) break;
      return draw("RandomUniform", shape, "low", first.middle - spread, "high",
                  first.middle + spread);
    case Initializer::normal:
      return draw("RandomNormal", shape, "mean", first.middle, "stddev", spread);
    case Initializer::truncated_normal:
      return draw("TruncatedNormal", shape, "mean", first.middle, "stddev", spread);
    case Initializer::orthogonal:
      if (shape.ndim() < 2)
        throw refuse("nn::Model::parameter", at, "an orthogonal ", key,
                     " wants two dimensions or more, got ", shape);
      return orthogonal_matrix(draw, shape, spread);
  }
  return fill(graph, shape, first.middle, dtype, "first", at);
}

Initializer constant(double value) { return {.middle = value}; }
Initializer zeros() { return constant(0); }
Initializer ones() { return constant(1); }
Initializer uniform(double low, double high) {
  return {.kind = Initializer::uniform, .middle = (low + high) / 2, .spread = (high - low) / 2};
}
Initializer normal(double mean, double stddev) {
  return {.kind = Initializer::normal, .middle = mean, .spread = stddev};
}
Initializer truncated_normal(double mean, double stddev) {
  return {.kind = Initializer::truncated_normal, .middle = mean, .spread = stddev};
}
Initializer glorot_uniform(double gain) {
  return scaled(Initializer::uniform, Initializer::average, gain * gain);
}
Initializer glorot_normal(double gain) {
  return scaled(Initializer::normal, Initializer::average, gain * gain);
}
Initializer he_uniform() { return scaled(Initializer::uniform, Initializer::in, 2); }
Initializer he_normal() { return scaled(Initializer::normal, Initializer::in, 2); }
Initializer lecun_uniform() { return scaled(Initializer::uniform, Initializer::in, 1); }
Initializer lecun_normal() { return scaled(Initializer::normal, Initializer::in, 1); }
Initializer orthogonal(double gain) {
  return {.kind = Initializer::orthogonal, .middle = 0, .spread = gain};
}

}  // namespace troupe::nn
