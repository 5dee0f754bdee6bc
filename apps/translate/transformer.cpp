// The transformer (Vaswani et al. 2017), whose norms come first (Radford et al. 2019, 2.3).
#include "apps/translate/layers.hpp"

#include <cmath>

#include "troupe/ops.hpp"

using namespace troupe;

namespace {

// [longest, units]: sines of wave lengths from 2 pi to 10,000 * 2 pi (Vaswani et al. 2017, 3.5).
Tensor positions(int64_t longest, int64_t units) {
  Tensor out = Tensor::empty(DType::f32, {longest, units});
  for (int64_t t = 0; t < longest; ++t)
    for (int64_t i = 0; i < units; ++i) {
      const double rate = std::pow(10'000.0, -static_cast<double>(i / 2 * 2) / units);
      const double angle = static_cast<double>(t) * rate;
      out.mutable_data<float>()[t * units + i] =
          static_cast<float>(i % 2 ? std::cos(angle) : std::sin(angle));
    }
  return out;
}

// ids [batch, time] -> [time, units]
Output places_of(const Layers& l, Output ids) {
  Graph& graph = *ids.graph;
  const auto number = [&](int64_t n) { return constant(graph, Tensor::scalar(n)); };
  const Output size = reshape(slice(shape_of(ids), {1}, {1}), {});
  return gather(constant(graph, positions(l.longest, l.o.units)),
                range(number(0), size, number(1)));
}

// x [rows, time, units] -> the same, by the two layers that see each token alone.
Output widened(const Layers& l, Output x) {
  const Output wide = relu(nn::dense(l.model, nn::layer_norm(l.model, x, {.name = "wide_norm"}),
                                     4 * l.o.units, {.name = "wide"}));
  return l.dropped(nn::dense(l.model, l.dropped(wide), l.o.units, {.name = "narrow"}));
}

// x [rows, time, units] -> the same. `seen`: for each layer the tokens before, [rows, time,
// units], to which it adds those of x; none: all are in x.
Output decoded(const Layers& l, const Memory& memory, Output x, std::vector<Output>* seen,
               int64_t beams) {
  const auto scope = l.model.scope("decoder");
  for (int64_t i = 0; i < l.o.layers; ++i) {
    const auto layer = l.model.scope(detail::concat("layer", i));
    const Output now = nn::layer_norm(l.model, x, {.name = "norm"});
    Output all = now;
    if (seen) {
      Output& before = (*seen)[static_cast<size_t>(i)];
      all = before = concat({before, now}, 1);
    }
    x = x + l.dropped(nn::attention(l.model, now, all, l.o.heads,
                                    {.causal = seen == nullptr, .name = "attention"}));
    Output queries = nn::layer_norm(l.model, x, {.name = "source_norm"});
    if (beams > 0) queries = reshape(queries, {-1, beams, l.o.units});
    Output seen_there = l.attend(queries, memory, static_cast<size_t>(i), "source");
    if (beams > 0) seen_there = reshape(seen_there, {-1, 1, l.o.units});
    x = x + l.dropped(seen_there);
    x = x + widened(l, x);
  }
  return nn::layer_norm(l.model, x, {.name = "norm"});
}

}  // namespace

Memory read_transformer(const Layers& l, Output source) {
  const Output mask = expand_dims(expand_dims(source != 0.0, 1), 1);
  Output x = l.embedded(source, places_of(l, source));
  {
    const auto scope = l.model.scope("encoder");
    for (int64_t i = 0; i < l.o.layers; ++i) {
      const auto layer = l.model.scope(detail::concat("layer", i));
      const Output seen = nn::layer_norm(l.model, x, {.name = "norm"});
      x = x + l.dropped(nn::attention(l.model, seen, seen, l.o.heads,
                                      {.mask = mask, .name = "attention"}));
      x = x + widened(l, x);
    }
    x = nn::layer_norm(l.model, x, {.name = "norm"});
  }
  Memory out{x, mask, {}};
  const auto scope = l.model.scope("decoder");
  for (int64_t i = 0; i < l.o.layers; ++i) {
    const auto layer = l.model.scope(detail::concat("layer", i));
    out.layers.push_back(l.attended(x, "source"));
  }
  return out;
}

Output decode_transformer(const Layers& l, const Memory& memory, Output previous) {
  return decoded(l, memory, l.embedded(previous, places_of(l, previous)), nullptr, 0);
}

// The states: the number of the step, and the tokens that each layer has seen.
nn::Beams search_transformer(const Layers& l, const Memory& memory, nn::BeamOptions how) {
  const Output none = slice(memory.values, {0, 0, 0}, {-1, 0, -1});
  std::vector<Output> first = {cast(reduce_sum(none, {1, 2}), DType::i64)};
  how.shapes = {{-1}};
  for (int64_t i = 0; i < l.o.layers; ++i) {
    first.push_back(none);
    how.shapes.push_back({-1, -1, l.o.units});
  }
  const Output all = constant(l.model.graph(), positions(l.longest, l.o.units));
  const nn::Decoder step = [&](Output ids, const std::vector<Output>& states) {
    std::vector<Output> seen(states.begin() + 1, states.end());
    const Output x = l.embedded(ids, gather(all, states[0]));
    const Output y = decoded(l, memory, expand_dims(x, 1), &seen, how.beams);
    seen.insert(seen.begin(), states[0] + 1);
    return nn::Decoded{l.logits(squeeze(y, {1})), seen};
  };
  return nn::beam_search(step, first, how);
}
