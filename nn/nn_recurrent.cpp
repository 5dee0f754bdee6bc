// Recurrent layers of troupe/nn.hpp: several layers of lstm() or gru(), in one or both directions.
#include "nn/nn_layers.hpp"
#include "graph/base/refuse.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe::nn {
namespace {

// Zeros [batch, units] for x [time, batch, n], whose batch size perhaps only the step knows.
Output no_state(Output x, int64_t units, Origin at) {
  Graph& graph = *x.graph;
  if (const int64_t batch = x.shape()[1]; batch >= 0)
    return fill(graph, {batch, units}, 0, x.dtype(), "", at);
  const auto number = [&](int64_t value) {
    return troupe::constant(graph, Tensor::scalar(value), "", at);
  };
  const Output batch = reshape(slice(shape_of(x, at), {1}, {1}, at), {}, at);
  const Output rows = multiply(range(number(0), batch, number(1), at), number(0), at);
  return gather(fill(graph, {1, units}, 0, x.dtype(), "", at), rows, at);
}

struct Direction {
  Model& model;
  int64_t units;
  const RecurrentOptions& o;
  Origin at;
  bool reverse;

  Output weights(const char* name, int64_t rows, int64_t gates, const Initializer& first,
                 Output x) const {
    return model.parameter(name, {rows, gates * units}, first, x.dtype(), o.regularizer, at);
  }
  Output biases(const char* name, int64_t gates, Output x) const {
    return model.parameter(name, {gates * units}, o.biases, x.dtype(), {}, at);
  }
};

struct LstmCells {
  static constexpr const char* caller = "nn::lstm";
  static constexpr bool has_c = true;
  static Lstm run(const Direction& d, Output x, Output h, Output c) {
    const int64_t in = x.shape()[2];
    const Output w_x = d.weights("w_x", in, 4, d.o.weights, x);
    const Output w_h = d.weights("w_h", d.units, 4, d.o.recurrent, x);
    const LstmOptions options{
        .lengths = d.o.lengths, .forget_bias = d.o.forget_bias, .reverse = d.reverse};
    return troupe::lstm(x, h, c, w_x, w_h, d.biases("b", 4, x), options, d.at);
  }
};

struct GruCells {
  static constexpr const char* caller = "nn::gru";
  static constexpr bool has_c = false;
  static Lstm run(const Direction& d, Output x, Output h, Output) {
    const int64_t in = x.shape()[2];
    const Output w_x = d.weights("w_x", in, 3, d.o.weights, x);
    const Output w_h = d.weights("w_h", d.units, 3, d.o.recurrent, x);
    const GruOptions options{
        .lengths = d.o.lengths, .reset_after = d.o.reset_after, .reverse = d.reverse};
    const Output b = d.biases("b", 3, x), recurrent_b = d.biases("recurrent_b", 3, x);
    const Gru out = troupe::gru(x, h, w_x, w_h, b, recurrent_b, options, d.at);
    return {out.y, out.h, {}};
  }
};

void check_states(const char* caller, const char* what, const std::vector<Output>& states,
                  size_t wanted, Origin at) {
  if (!states.empty() && states.size() != wanted)
    throw refuse(caller, at, "wants one first ", what, " for each layer and direction, ", wanted,
                 ", got ", states.size());
}

template <class Cells>
Recurrent recurrent(Model& model, Output x, int64_t units, const RecurrentOptions& o,
                    std::string_view kind, Origin at) {
  last_size(Cells::caller, model, x, 3, at, true);
  require_positive(Cells::caller, "unit", units, at);
  require_positive(Cells::caller, "layer", o.layers, at);
  const size_t directions = o.bidirectional ? 2 : 1;
  const size_t states = static_cast<size_t>(o.layers) * directions;
  check_states(Cells::caller, "h", o.h, states, at);
  check_states(Cells::caller, "c", o.c, Cells::has_c ? states : 0, at);
  const auto scope = model.layer(o.name, kind, at);
  const Output zeros =
      o.h.empty() || (Cells::has_c && o.c.empty()) ? no_state(x, units, at) : Output{};
  Recurrent out;
  out.y = x;
  for (int64_t layer = 0; layer < o.layers; ++layer) {
    const auto within = model.scope(detail::concat("layer", layer), at);
    if (layer > 0) out.y = dropout(model, out.y, o.dropout, at);
    std::vector<Output> ys;
    for (size_t d = 0; d < directions; ++d) {
      const auto way = model.scope(d == 0 ? "forward" : "backward", at);
      const size_t state = out.h.size();
      const Direction direction{model, units, o, at, d == 1};
      const Lstm one = Cells::run(direction, out.y, o.h.empty() ? zeros : o.h[state],
                                  o.c.empty() ? zeros : o.c[state]);
      ys.push_back(one.y);
      out.h.push_back(one.h);
      if (Cells::has_c) out.c.push_back(one.c);
    }
    out.y = ys.size() == 1 ? ys[0] : concat(ys, 2, at);
  }
  return out;
}

}  // namespace

Recurrent lstm(Model& model, Output x, int64_t units, const RecurrentOptions& options, Origin at) {
  return recurrent<LstmCells>(model, x, units, options, "lstm", at);
}

Recurrent gru(Model& model, Output x, int64_t units, const RecurrentOptions& options, Origin at) {
  return recurrent<GruCells>(model, x, units, options, "gru", at);
}

}  // namespace troupe::nn
