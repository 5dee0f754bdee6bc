// Embeddings, attention and the last layer.
#include "apps/translate/layers.hpp"

#include <cmath>

#include "troupe/ops.hpp"

using namespace troupe;

namespace {

// [b, t, in] -> [b, heads, t, width]
Output by_head(nn::Model& model, Output x, int64_t heads, int64_t width, const char* name) {
  const auto scope = model.scope(name);
  const int64_t in = x.shape()[2], all = heads * width;
  const Output w = model.parameter("w", {in, all}, nn::glorot_uniform());
  const Output b = model.parameter("b", {all}, nn::zeros());
  return einsum("bti,ihd->bhtd", {x, reshape(w, {in, heads, width})}) +
         reshape(b, {heads, 1, width});
}

}  // namespace

Output Layers::table() const {
  const double spread = 1 / std::sqrt(static_cast<double>(o.units));
  return model.parameter("embedding", {tokens, o.units}, nn::normal(0, spread));
}

Output Layers::embedded(Output ids, Output places) const {
  const Output x = gather(table(), ids) * std::sqrt(static_cast<double>(o.units));
  return dropped(places.defined() ? x + places : x);
}

Output Layers::dropped(Output x) const { return nn::dropout(model, x, o.dropout); }

Output Layers::logits(Output values) const {
  const Output bias = model.parameter("bias", {tokens}, nn::zeros());
  return bias_add(matmul(values, table(), {.transpose_b = true}), bias);
}

Memory::Attended Layers::attended(Output memory, const std::string& name) const {
  const auto scope = model.scope(name);
  const int64_t width = o.units / o.heads;
  return {by_head(model, memory, o.heads, width, "key"),
          by_head(model, memory, o.heads, width, "value")};
}

Output Layers::attend(Output queries, const Memory& memory, size_t layer,
                      const std::string& name) const {
  const auto scope = model.scope(name);
  const int64_t width = o.units / o.heads;
  const Output y = scaled_dot_product_attention(by_head(model, queries, o.heads, width, "query"),
                                                memory.layers[layer].keys,
                                                memory.layers[layer].values, {.mask = memory.mask});
  const auto output = model.scope("output");
  const Output w = model.parameter("w", {o.units, o.units}, nn::glorot_uniform());
  const Output b = model.parameter("b", {o.units}, nn::zeros());
  return bias_add(einsum("bhtd,hdo->bto", {y, reshape(w, {o.heads, width, o.units})}), b);
}
