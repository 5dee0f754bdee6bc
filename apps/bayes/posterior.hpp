// The posterior of a linear or logistic regression, as graph ops: its density, its mode, and the
// coordinates in which it is nearly a standard normal distribution.
#pragma once

#include <string>
#include <vector>

#include "apps/program/tables.hpp"
#include "troupe/ops.hpp"

// Weights w have the prior N(0, 1 / precision). Labels are y = x w + N(0, noise), standardized, or
// classes 0 and 1 with the probability sigmoid(x w) of 1. The last column of x is 1: the intercept.
struct Regression {
  bool logistic = false;
  double precision = 1, noise = 1;
  troupe::Tensor x, y;            // f64 [n, d], [n]
  troupe::Tensor test_x, test_y;  // of records that are not in x
  int64_t n() const { return x.dim(0); }
  int64_t d() const { return x.dim(1); }
};

// From a table, or records that are drawn from the model itself: 8 columns, of which two correlate.
Regression load_regression(const std::optional<std::string>& data, bool logistic, double precision);
Regression draw_regression(bool logistic, double precision, int64_t seed);

// The posterior as a line for people, with a hash of the records, for work.txt.
std::string work_of(const Regression& r);

// logits [n, chains], y [n] -> the negative log-likelihood of all records, [chains]
troupe::Output misfit(const Regression& r, troupe::Output logits, troupe::Output y);
// Its derivative by the logits, negated: [n, chains].
troupe::Output residuals(const Regression& r, troupe::Output logits, troupe::Output y);

// The mode by Newton's method, and t with t t' = the inverse of the Hessian there (Laplace's
// approximation; for linear regression the exact posterior). With w = t z the posterior of z has
// about unit covariance.
struct Laplace {
  troupe::Tensor z;                     // f64 [d, 1]: the mode is t z
  troupe::Tensor t;                     // f64 [d, d]
  std::vector<double> mean, deviation;  // of each weight
};
Laplace laplace(const Regression& r);
