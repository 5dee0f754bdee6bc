// The networks of language: each gives every token values for the next one, and can go on from a
// token by itself.
#pragma once

#include <string>
#include <vector>

#include "apps/flags.hpp"
#include "troupe/nn.hpp"

struct NetworkOptions {
  std::string model = "lstm";
  int64_t layers = 2, units = 256, heads = 4;
  int64_t length = 64;  // of a window
  double dropout = 0;
};
void add_network_flags(Flags& flags, NetworkOptions& to);
// Throws: Error(invalid_argument) that names the flag.
void check(const NetworkOptions& given);

// Its parameters are the same for all models of one graph.
class Network {
 public:
  Network(const NetworkOptions& given, int64_t tokens) : given_(given), tokens_(tokens) {}

  // ids [batch, time] -> [batch, time, tokens]; the time of a transformer is the window's length.
  troupe::Output logits(troupe::nn::Model& model, troupe::Output ids) const;

  struct Sampling {
    int64_t first = 0, count = 0;  // the token to go on from; tokens behind it
    double temperature = 1;
    int64_t seed = 0;
  };
  // Draws the tokens in a loop of the graph -> ids [count].
  troupe::Output sample(troupe::nn::Model& model, const Sampling& how) const;

 private:
  troupe::nn::Recurrent recurrent(troupe::nn::Model& model, troupe::Output ids,
                                  std::vector<troupe::Output> h,
                                  std::vector<troupe::Output> c) const;
  troupe::Output transformer(troupe::nn::Model& model, troupe::Output ids) const;
  troupe::Output last(troupe::nn::Model& model, troupe::Output x) const;
  troupe::Output drawn(troupe::nn::Model& model, troupe::Output x, const Sampling& how) const;
  troupe::Output sample_recurrent(troupe::nn::Model& model, const Sampling& how) const;
  troupe::Output sample_transformer(troupe::nn::Model& model, const Sampling& how) const;

  const NetworkOptions given_;
  const int64_t tokens_;
};
