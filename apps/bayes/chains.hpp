// Langevin chains: samples of the posterior by stochastic gradients (Welling and Teh 2011), or, as
// a reference, by exact gradients with Metropolis's test (Roberts and Tweedie 1996).
#pragma once

#include <string>
#include <vector>

#include "apps/bayes/posterior.hpp"
#include "apps/program/program.hpp"

struct ChainOptions {
  bool exact = false;     // all records in each step, and Metropolis's test
  double step = 0.02;     // epsilon, where the posterior has about unit variance
  int64_t records = 128;  // in a step, unless exact
  int64_t chains = 64;    // side by side, for each of two workers
  int64_t burn_in = 4, blocks = 40, iterations = 500;  // an iteration moves each chain once
};

struct WeightMoments {
  std::vector<double> mean, deviation;  // of each weight
  double accepted = 1;                  // share of the moves
};

// Runs the chains in blocks of iterations; each block is a run of the session. The chains are
// parameters, so a checkpoint in --out has them, and --resume goes on with them.
WeightMoments run_chains(const Regression& r, const Laplace& basis, const ChainOptions& options,
                         const ProgramOptions& given, const Cluster& cluster, const OutFolder& out,
                         const std::string& label);
