// LstmGradient: backpropagation through all time steps of an Lstm node (ops/nn/lstm.cpp), from the
// gradients of its y, last_h and last_c. Writing p for the gates before their functions:
//   dc' += dh' * o * (1 - tanh(c')^2)
//   dp_i = dc' * g * i * (1 - i)   dp_f = dc' * c * f * (1 - f)   dp_g = dc' * i * (1 - g^2)
//   dp_o = dh' * tanh(c') * o * (1 - o)   dc = dc' * f   dh = dp * transpose(w_h)
//   dy: [t, b, h]   dlast_h, dlast_c, h0, c0: [b, h]   w_h: [h, 4h]   lengths: [b] or [0]
//   gates: [t, b, 4h], cells and y: [t, b, h], outputs of the Lstm node
//   dprojected: dp of all time steps [t, b, 4h]   dh0, dc0: [b, h]
//   h_before: [t, b, h], h before each time step, from which dw_h is computed
#include "ops/nn/lstm.hpp"

namespace troupe {
namespace {

enum Inputs { kGates, kCells, kY, kDy, kDlastH, kDlastC, kH0, kC0, kWeights, kLengths };
enum Outputs { kDprojected, kDh0, kDc0, kHBefore, kOutputs };

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  using enum RecurrentSize;
  const auto [t, b, h, gates] = require_recurrent(
      ctx, 4, kLengths,
      "gates [time, batch, 4h], cells, y and dy [time, batch, h], dlast_h, dlast_c, h0 and c0 "
      "[batch, h], w_h [h, 4h] and lengths [batch], or [0] for all of the time",
      {{kGates, {time, batch, all_gates}},
       {kCells, {time, batch, hidden}},
       {kY, {time, batch, hidden}},
       {kDy, {time, batch, hidden}},
       {kDlastH, {batch, hidden}},
       {kDlastC, {batch, hidden}},
       {kH0, {batch, hidden}},
       {kC0, {batch, hidden}},
       {kWeights, {hidden, all_gates}}});
  return {Shape{t, b, gates}, Shape{b, h}, Shape{b, h}, Shape{t, b, h}};
}

// One time step of some rows; the pointers are to the first row.
template <class T>
struct Step {
  const T *gates, *cells, *cells_before, *dy;
  T *dp, *dh, *dc;
  const int64_t* lengths;
  int64_t place, rows, hidden;
};

// Computes dp and dc of one row. dp may share the memory of gates.
template <class T>
void step_row(const Step<T>& s, int64_t row) {
  const int64_t n = s.hidden;
  for (int64_t at = 0; at < n; at += kRecurrentBlock) {
    const int64_t length = std::min<int64_t>(kRecurrentBlock, n - at), from = row * n + at;
    RecurrentBlock<T> gate[4], dp[4], cell, before, dy, dh, dc;
    for (int64_t k = 0; k < 4; ++k) load(gate[k], s.gates + (row * 4 + k) * n + at, length);
    load(cell, s.cells + from, length);
    load(before, s.cells_before + from, length);
    load(dy, s.dy + from, length);
    load(dh, s.dh + from, length);
    load(dc, s.dc + from, length);
    for (int j = 0; j < kRecurrentBlock; ++j) {
      const T i = gate[0][j], f = gate[1][j], g = gate[2][j], o = gate[3][j];
      const T squashed = math::tanh(cell[j]), d = dh[j] + dy[j];
      const T dcell = dc[j] + d * o * (1 - squashed * squashed);
      dp[0][j] = dcell * g * (i * (1 - i));
      dp[1][j] = dcell * before[j] * (f * (1 - f));
      dp[2][j] = dcell * i * (1 - g * g);
      dp[3][j] = d * squashed * (o * (1 - o));
      dc[j] = dcell * f;
    }
    for (int64_t k = 0; k < 4; ++k) store(dp[k], s.dp + (row * 4 + k) * n + at, length);
    store(dc, s.dc + from, length);
  }
}

struct StepLoop {
  template <class T>
  static void run(const Step<T>* s) {
    for (int64_t row = 0; row < s->rows; ++row)
      if (s->place < s->lengths[row])
        step_row(*s, row);
      else
        std::fill_n(s->dp + row * 4 * s->hidden, 4 * s->hidden, T{0});
  }
};

template <class T>
using State = RecurrentState<StepProduct<T>>;

template <class T>
std::unique_ptr<KernelState> prepare(const Node& node) {
  return recurrent_state<State<T>>(node);
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const auto& state = ctx.state<State<T>>();
  const auto steps = RecurrentSteps::of(ctx.input(kGates), ctx.input(kH0), 4, state.reverse);
  const int64_t time = steps.time, batch = steps.batch, hidden = steps.hidden;
  RecurrentRun run(ctx, steps, kLengths);
  const auto input = [&](int i) { return ctx.input(i).data<T>(); };
  const T *gates = input(kGates), *cells = input(kCells), *y = input(kY), *dy = input(kDy);
  const T *h0 = input(kH0), *c0 = input(kC0), *weights = input(kWeights);
  const T *dlast_h = input(kDlastH), *dlast_c = input(kDlastC);
  T* dp = ctx.output_in_place().template mutable_data<T>();
  T* dh = ctx.output(kDh0).template mutable_data<T>();
  T* dc = ctx.output(kDc0).template mutable_data<T>();
  T* h_before = ctx.output(kHBefore).template mutable_data<T>();
  std::copy_n(dlast_h, batch * hidden, dh);
  std::copy_n(dlast_c, batch * hidden, dc);
  if (steps.elements() == 0) return;
  const auto product = state.products_of(steps, [&] {
    return std::make_unique<StepProduct<T>>(gate_product(steps, 4, 4, /*backward=*/true));
  });
  const int64_t sum_rounded = rounded_bytes<T>(steps.rows * hidden);
  const void* const packed = run.pack(*product, weights, sum_rounded);
  run.run([&](RecurrentRows rows, uint8_t* memory) {
    T* const sum = elements<T>(memory);
    const int64_t first = rows.begin * hidden;
    for (int64_t i = time - 1; i >= 0; --i) {
      const int64_t place = steps.place(i), before = steps.before(place);
      const int64_t at = place * batch * hidden + first;
      const Step<T> step{gates + 4 * at,
                         cells + at,
                         before < 0 ? c0 + first : cells + before * batch * hidden + first,
                         dy + at,
                         dp + 4 * at,
                         dh + first,
                         dc + first,
                         run.lengths() + rows.begin,
                         place,
                         rows.count,
                         hidden};
      in_isa<StepLoop>(&step);
      product->run(ctx, rows.count, dp + 4 * at, sum, packed, memory + sum_rounded);
      for (int64_t r = 0; r < rows.count; ++r)
        if (place < run.lengths()[rows.begin + r])
          std::copy_n(sum + r * hidden, hidden, dh + first + r * hidden);
      copy_before(steps, run.lengths(), rows, place, h0, y, h_before + at);
    }
  });
}

}  // namespace

Op lstm_gradient_op() {
  return {
      .name = "LstmGradient",
      .inputs = {"gates", "cells", "y", "dy", "dlast_h", "dlast_c", "h0", "c0", "w_h", "lengths"},
      .outputs = {"dprojected", "dh0", "dc0", "h_before"},
      .attrs = {{"reverse", AttrKind::boolean, false}},
      .infer_dtypes = recurrent_dtypes<kLengths, kOutputs>,
      .infer_shapes = infer_shapes,
      .no_gradient = "the second derivatives of Lstm have no kernel; build the steps of ops",
      .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>, nullptr, prepare<float>},
                  {DeviceKind::cpu, DType::f64, cpu<double>, nullptr, prepare<double>}},
      .in_place = true};
}

LstmGradients lstm_gradient(const LstmBackward& of) {
  const auto outputs = all_outputs(add_node(
      {.op = "LstmGradient",
       .inputs = {of.gates, of.cells, of.y, of.dy, of.dh, of.dc, of.h0, of.c0, of.w_h, of.lengths},
       .attrs = {{"reverse", of.reverse}}},
      Origin::here()));
  return {outputs[kDprojected], outputs[kDh0], outputs[kDc0], outputs[kHBefore]};
}

}  // namespace troupe
