// Layers of networks besides those of troupe/ops.hpp: embeddings, sparse products, normalisations.
// The conventions of troupe/ops.hpp hold for these functions. Channels are the last dimension.
#pragma once

#include "troupe/graph.hpp"

namespace troupe {

// ---- embeddings and sparse matrices ----

// How the rows of one group are combined: sum, mean, or sum / sqrt(number of rows).
enum class Combiner : uint8_t { none, sum, mean, sqrtn };
// Rows of `table` [rows, ...] by ids [i...], i32 or i64 in [0, rows) -> [i..., ...]; combined over
// the last dimension of ids if there is a combiner. For no rows, mean and sqrtn give NaN.
Output embedding_lookup(Output table, Output ids, Combiner combiner = Combiner::none,
                        Origin at = Origin::here());
// The product of a sparse matrix of known `shape` [m, k], given by its elements, and a matrix b [k,
// n] -> [m, n]; with `transpose`, of its transpose and b [m, n] -> [k, n]. Element values[e] stands
// at indices[e, 0], indices[e, 1], i32 or i64; equal places add up. For numbers except u8.
Output sparse_dense_matmul(Output indices, Output values, Output b, Shape shape,
                           bool transpose = false, Origin at = Origin::here());

// ---- normalisations ----
// For floats. gamma and beta are [c]. Variances are the mean of squared distances (not n - 1).

// (x - mean) / sqrt(variance + epsilon) * gamma + beta, over the last dimension: x [..., c] (Ba et
// al. 2016).
Output layer_norm(Output x, Output gamma, Output beta, double epsilon = 1e-5,
                  Origin at = Origin::here());
// dL/dx, dL/dgamma and dL/dbeta of layer_norm, from dy = dL/dy.
struct NormGradient {
  Output dx, dgamma, dbeta;
};
NormGradient layer_norm_gradient(Output dy, Output x, Output gamma, double epsilon = 1e-5,
                                 Origin at = Origin::here());
// x / sqrt(mean of x^2 + epsilon) * gamma, over the last dimension (Zhang and Sennrich 2019).
Output rms_norm(Output x, Output gamma, double epsilon = 1e-6, Origin at = Origin::here());
// dL/dx and dL/dgamma of rms_norm; dbeta is undefined.
NormGradient rms_norm_gradient(Output dy, Output x, Output gamma, double epsilon = 1e-6,
                               Origin at = Origin::here());
// The formula of layer_norm for each channel, over all other dimensions: x [..., c], as [n, c] or
// NHWC (Ioffe and Szegedy 2015). For training; the program keeps running averages of mean and
// variance.
struct BatchNorm {
  Output y, mean, variance;  // [..., c], [c], [c]
};
BatchNorm batch_norm(Output x, Output gamma, Output beta, double epsilon = 1e-5,
                     Origin at = Origin::here());
// dL/dx, dL/dgamma and dL/dbeta of batch_norm's y, for its mean and variance.
NormGradient batch_norm_gradient(Output dy, Output x, Output gamma, Output mean, Output variance,
                                 double epsilon = 1e-5, Origin at = Origin::here());
// y for a given mean and variance.
Output batch_norm_inference(Output x, Output gamma, Output beta, Output mean, Output variance,
                            double epsilon = 1e-5, Origin at = Origin::here());
// The formula for `groups` groups of channels, each over all dimensions between the first and the
// last: x [n, ..., c] (Wu and He 2018); with as many groups as channels it is an instance norm.
Output group_norm(Output x, Output gamma, Output beta, int64_t groups, double epsilon = 1e-5,
                  Origin at = Origin::here());
// The sum of x over the existing channels among j - radius to j + radius. Also for i32 and i64.
Output window_sum(Output x, int64_t radius, Origin at = Origin::here());
// x / (bias + alpha * s)^beta with s the sum of x^2 over the channels j - radius to j + radius
// (Krizhevsky et al. 2012; parameters as in TensorFlow).
struct LocalResponseNormOptions {
  int64_t radius = 5;
  double bias = 1, alpha = 1, beta = 0.5;
};
Output local_response_norm(Output x, LocalResponseNormOptions options = {},
                           Origin at = Origin::here());

}  // namespace troupe
