// Rows of ONNX's recurrent layers. The weights are [directions, gates * h, n], gate after gate; the
// biases are those for x, then those for h.
#include "tests/conformance/mapping.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

// The parts that LSTM and GRU share: x [time, batch, n], and their attributes.
class Recurrent {
 public:
  // `gates`: for each gate of Troupe, its number in ONNX's order.
  Recurrent(const NodeCall& c, std::vector<int64_t> gates) : c_(c), gates_(std::move(gates)) {
    for (const char* name : {"activations", "clip", "input_forget"})
      if (c.has_attr(name)) throw NotCovered{std::string("no recurrent layers with ") + name};
    batch_first_ = c.integer("layout", 0) != 0;
    x = batch_first_ ? transpose(c.input(0), {1, 0, 2}) : identity(c.input(0));
    size = c.integer("hidden_size", 0);
  }

  Output x;
  int64_t size;

  std::vector<bool> reversed() const {
    const std::string direction = c_.text("direction", "forward");
    if (direction == "bidirectional") return {false, true};
    return {direction == "reverse"};
  }
  Output lengths() const { return c_.has_input(4) ? c_.input(4) : Output{}; }
  // The initial state of a direction; zeros if input i is left out.
  Output state(int i, int direction) const {
    if (!c_.has_input(i)) return fill(c_.graph, {c_.shape(x)[1], size}, 0, x.dtype());
    const Output all = batch_first_ ? transpose(c_.input(i), {1, 0, 2}) : c_.input(i);
    return squeeze(slice(all, {direction, 0, 0}, {1, -1, -1}), {0});
  }
  Output weights(int i, int direction) const {  // -> [n, gates * h]
    const Output one = squeeze(slice(c_.input(i), {direction, 0, 0}, {1, -1, -1}), {0});
    return transpose(reordered(one));
  }
  Output bias(bool of_h, int direction) const {
    const auto all = static_cast<int64_t>(gates_.size()) * size;
    if (!c_.has_input(3)) return fill(c_.graph, {all}, 0, x.dtype());
    return reordered(squeeze(slice(c_.input(3), {direction, of_h ? all : 0}, {1, all}), {0}));
  }
  // [time, batch, h] of each direction -> [time, directions, batch, h].
  Output joined(const std::vector<Output>& ys) const {
    const Output y = stack(ys, 1);
    return batch_first_ ? transpose(y, {2, 0, 1, 3}) : y;
  }
  Output joined_states(const std::vector<Output>& states) const {
    const Output y = stack(states, 0);
    return batch_first_ ? transpose(y, {1, 0, 2}) : y;
  }

 private:
  Output reordered(Output rows) const {
    const std::vector<Output> parts = split(rows, static_cast<int64_t>(gates_.size()), 0);
    std::vector<Output> ours;
    for (const int64_t gate : gates_) ours.push_back(parts[static_cast<size_t>(gate)]);
    return concat(ours, 0);
  }

  const NodeCall& c_;
  std::vector<int64_t> gates_;
  bool batch_first_;
};

// Gates: i, o, f, c in ONNX; i, f, g, o in Troupe.
std::vector<Output> lstm_row(const NodeCall& c) {
  if (c.has_input(7)) throw NotCovered{"no peepholes"};
  const Recurrent layer(c, {0, 2, 3, 1});
  std::vector<Output> ys, hs, cs;
  const std::vector<bool> reversed = layer.reversed();
  for (int d = 0; d < static_cast<int>(reversed.size()); ++d) {
    const Lstm one =
        lstm(layer.x, layer.state(5, d), layer.state(6, d), layer.weights(1, d),
             layer.weights(2, d), layer.bias(false, d) + layer.bias(true, d),
             {.lengths = layer.lengths(), .reverse = reversed[static_cast<size_t>(d)]});
    ys.push_back(one.y);
    hs.push_back(one.h);
    cs.push_back(one.c);
  }
  return {layer.joined(ys), layer.joined_states(hs), layer.joined_states(cs)};
}

// Gates: z, r, h in ONNX; r, z, n in Troupe.
std::vector<Output> gru_row(const NodeCall& c) {
  const Recurrent layer(c, {1, 0, 2});
  std::vector<Output> ys, hs;
  const std::vector<bool> reversed = layer.reversed();
  for (int d = 0; d < static_cast<int>(reversed.size()); ++d) {
    const Gru one = gru(layer.x, layer.state(5, d), layer.weights(1, d), layer.weights(2, d),
                        layer.bias(false, d), layer.bias(true, d),
                        {.lengths = layer.lengths(),
                         .reset_after = c.integer("linear_before_reset", 0) != 0,
                         .reverse = reversed[static_cast<size_t>(d)]});
    ys.push_back(one.y);
    hs.push_back(one.h);
  }
  return {layer.joined(ys), layer.joined_states(hs)};
}

// h' = tanh(x w_x + h w_h + b), step by step, since Troupe has no such layer.
std::vector<Output> rnn_row(const NodeCall& c) {
  const Recurrent layer(c, {0});
  const int64_t time = c.shape(layer.x)[0];
  for (const int64_t length :
       layer.lengths().defined() ? c.integers(layer.lengths()) : std::vector<int64_t>{})
    if (length != time) throw NotCovered{"no plain recurrent layer over rows of several lengths"};
  std::vector<Output> ys, hs;
  const std::vector<bool> reversed = layer.reversed();
  for (int d = 0; d < static_cast<int>(reversed.size()); ++d) {
    const Output bias = layer.bias(false, d) + layer.bias(true, d);
    std::vector<Output> states(static_cast<size_t>(time));
    Output h = layer.state(5, d);
    for (int64_t i = 0; i < time; ++i) {
      const int64_t t = reversed[static_cast<size_t>(d)] ? time - 1 - i : i;
      const Output x = squeeze(slice(layer.x, {t, 0, 0}, {1, -1, -1}), {0});
      h = tanh(matmul(x, layer.weights(1, d)) + matmul(h, layer.weights(2, d)) + bias);
      states[static_cast<size_t>(t)] = h;
    }
    ys.push_back(stack(states));
    hs.push_back(h);
  }
  return {layer.joined(ys), layer.joined_states(hs)};
}

}  // namespace

std::vector<MappedOp> recurrent_rows() {
  return {
      {"GRU", "gru", gru_row},
      {"LSTM", "lstm", lstm_row},
      {"RNN", "matmul, tanh", rnn_row},
  };
}

}  // namespace troupe
