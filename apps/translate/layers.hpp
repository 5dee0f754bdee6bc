// Layers that both networks of translate have, and the two halves of each: one reads a sentence,
// the other decodes. All layers have names, so that training, search and evaluation read the same
// parameters.
//
// One table of embeddings serves both languages and, transposed, the last layer (Press and Wolf
// 2017).
#pragma once

#include <string>
#include <vector>

#include "troupe/nn.hpp"

struct NetworkOptions {
  std::string model = "gru";
  int64_t layers = 2, units = 256, heads = 4;
  double dropout = 0.3;
};

// A sentence that was read, and what each layer of the decoder that looks at it looks for. It is
// made once, not in each step of a search.
struct Memory {
  struct Attended {
    troupe::Output keys, values;  // [batch, heads, time, units / heads]
  };
  troupe::Output values;  // [batch, time, units, or 2 * units]
  troupe::Output mask;    // bool [batch, 1, 1, time]: true for tokens
  troupe::Output state;   // [batch, units], of a recurrent network
  std::vector<Attended> layers = {};
};

struct Layers {
  troupe::nn::Model& model;
  const NetworkOptions& o;
  const int64_t tokens, longest;

  troupe::Output table() const;  // [tokens, units]
  // ids [i...] -> [i..., units], of variance 1, plus `places` where they are defined.
  troupe::Output embedded(troupe::Output ids, troupe::Output places = {}) const;
  troupe::Output logits(troupe::Output values) const;  // [n, units] -> [n, tokens]
  troupe::Output dropped(troupe::Output x) const;
  // The two halves of multi-head attention to the source (Vaswani et al. 2017, 3.2.2). queries
  // [batch, t, units] -> [batch, t, units].
  Memory::Attended attended(troupe::Output memory, const std::string& name) const;
  troupe::Output attend(troupe::Output queries, const Memory& memory, size_t layer,
                        const std::string& name) const;
};

// Each decodes the tokens `previous` [batch, time] into values for the tokens behind them, [batch,
// time, units].
Memory read_recurrent(const Layers& layers, troupe::Output source);
troupe::Output decode_recurrent(const Layers& layers, const Memory& memory,
                                troupe::Output previous);
troupe::nn::Beams search_recurrent(const Layers& layers, const Memory& memory,
                                   const troupe::nn::BeamOptions& how);
Memory read_transformer(const Layers& layers, troupe::Output source);
troupe::Output decode_transformer(const Layers& layers, const Memory& memory,
                                  troupe::Output previous);
troupe::nn::Beams search_transformer(const Layers& layers, const Memory& memory,
                                     troupe::nn::BeamOptions how);
