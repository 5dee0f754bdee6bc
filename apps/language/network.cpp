// Layers of the two networks, and their loops that write.
#include "apps/language/network.hpp"

#include <algorithm>

#include "troupe/ops.hpp"
#include "troupe/ops/arrays.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/ops/elementwise.hpp"

using namespace troupe;

namespace {

Output numbers(Graph& graph, int64_t count) {  // 0, 1, ...
  return range(graph, 0, static_cast<double>(count), 1, DType::i64);
}

}  // namespace

void add_network_flags(Flags& flags, NetworkOptions& to) {
  flags.add("model", &to.model, "lstm or transformer");
  flags.add("layers", &to.layers, "of the network");
  flags.add("units", &to.units, "values of each token in each layer");
  flags.add("heads", &to.heads, "of attention, in a transformer");
  flags.add("length", &to.length, "tokens of a window");
  flags.add("dropout", &to.dropout, "share of values that are left out in training");
}

void check(const NetworkOptions& given) {
  if (given.model != "lstm" && given.model != "transformer")
    throw Error(Errc::invalid_argument, "--model is lstm or transformer, got ", given.model);
  if (std::min({given.layers, given.units, given.heads, given.length}) < 1)
    throw Error(Errc::invalid_argument, "--layers, --units, --heads and --length want at least 1");
  if (given.model == "transformer" && given.units % given.heads != 0)
    throw Error(Errc::invalid_argument, "--units wants a multiple of the ", given.heads,
                " heads, got ", given.units);
  if (!(given.dropout >= 0 && given.dropout < 1))
    throw Error(Errc::invalid_argument, "--dropout wants 0 to below 1, got ", given.dropout);
}

Output Network::logits(nn::Model& model, Output ids) const {
  if (given_.model == "transformer") return last(model, transformer(model, ids));
  return last(model, transpose(recurrent(model, transpose(ids), {}, {}).y, {1, 0, 2}));
}

Output Network::sample(nn::Model& model, const Sampling& how) const {
  return reshape(
      given_.model == "lstm" ? sample_recurrent(model, how) : sample_transformer(model, how), {-1});
}

// ids [time, batch] -> y [time, batch, units]. Zaremba et al. 2014.
nn::Recurrent Network::recurrent(nn::Model& model, Output ids, std::vector<Output> h,
                                 std::vector<Output> c) const {
  const Output x = nn::embedding(model, ids, tokens_, given_.units, {.weights = nn::normal(0, 1)});
  return nn::lstm(
      model, nn::dropout(model, x, given_.dropout), given_.units,
      {.layers = given_.layers, .dropout = given_.dropout, .h = std::move(h), .c = std::move(c)});
}

// ids [batch, length] -> [batch, length, units]. Radford et al. 2019, 2.3: norms come first.
Output Network::transformer(nn::Model& model, Output ids) const {
  const nn::Initializer small = nn::normal(0, 0.02);
  const Output place = model.parameter("position", {given_.length, given_.units}, small);
  const auto drop = [&](Output x) { return nn::dropout(model, x, given_.dropout); };
  Output x = drop(nn::embedding(model, ids, tokens_, given_.units, {.weights = small}) + place);
  for (int64_t i = 0; i < given_.layers; ++i) {
    const Output seen = nn::layer_norm(model, x);
    x = x + drop(nn::attention(model, seen, seen, given_.heads, {.causal = true}));
    const Output wide = gelu(nn::dense(model, nn::layer_norm(model, x), 4 * given_.units));
    x = x + drop(nn::dense(model, wide, given_.units));
  }
  return nn::layer_norm(model, x);
}

Output Network::last(nn::Model& model, Output x) const {
  return nn::dense(model, nn::dropout(model, x, given_.dropout), tokens_, {.name = "logits"});
}

// values [1, units] of the last token -> the next token, [1]
Output Network::drawn(nn::Model& model, Output x, const Sampling& how) const {
  return reshape(categorical(last(model, x) / how.temperature, 1, how.seed), {1});
}

// The states go from token to token.
Output Network::sample_recurrent(nn::Model& model, const Sampling& how) const {
  Graph& graph = model.graph();
  const auto n = static_cast<std::ptrdiff_t>(given_.layers);
  std::vector<Output> begin(static_cast<size_t>(1 + 2 * n), fill(graph, {1, given_.units}, 0));
  begin[0] = constant(graph, Tensor::of<int64_t>({how.first}, {1}));
  const auto step = [&](const std::vector<Output>& carry, const std::vector<Output>&) {
    const auto h = carry.begin() + 1, c = h + n;
    const nn::Recurrent out = recurrent(model, expand_dims(carry[0], 0), {h, c}, {c, carry.end()});
    const Output token = drawn(model, squeeze(out.y, {0}), how);
    Scanned next{{token}, {token}};
    next.carry.insert(next.carry.end(), out.h.begin(), out.h.end());
    next.carry.insert(next.carry.end(), out.c.begin(), out.c.end());
    return next;
  };
  return scan(step, begin, {numbers(graph, how.count)}).rows[0];
}

// The last window goes along. Until it is full, the token is put behind the others; no token sees
// those behind it.
Output Network::sample_transformer(nn::Model& model, const Sampling& how) const {
  Graph& graph = model.graph();
  Tensor begin = Tensor::zeros(DType::i64, {1, given_.length});
  begin.mutable_data<int64_t>()[0] = how.first;
  const Output end = constant(graph, Tensor::scalar<int64_t>(given_.length - 1));
  const Output places = numbers(graph, given_.length);
  const auto step = [&](const std::vector<Output>& carry, const std::vector<Output>& rows) {
    const Output at = rows[0];
    const Output token =
        drawn(model, gather(transformer(model, carry[0]), minimum(at, end), 1), how);
    const Output moved = where(less(at, end), carry[0], roll(carry[0], {-1}, {1}));
    return Scanned{{where(equal(places, minimum(at + 1, end)), token, moved)}, {token}};
  };
  return scan(step, {constant(graph, begin)}, {numbers(graph, how.count)}).rows[0];
}
