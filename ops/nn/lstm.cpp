// Lstm: the recurrent half of a long short-term memory over all time steps of a sequence. The
// formulas are in troupe/ops/networks.hpp; its lstm() adds x * w_x, one product for all time
// steps.
//   projected: x * w_x [t, b, 4h]   h0, c0: [b, h]   w_h: [h, 4h]   bias: [4h]
//   lengths: [b], i32 or i64; or [0]: all rows have all t time steps
//   gates: i, f, g, o [t, b, 4h] and cells: c' [t, b, h], both saved for the gradient
//   y: [t, b, h]   last_h, last_c: [b, h]
// The products with w_h run in oneDNN for f32.
#include "ops/nn/lstm.hpp"

#include "ops/nn/recurrent_call.hpp"

namespace troupe {
namespace {

enum Inputs { kProjected, kH0, kC0, kWeights, kBias, kLengths };
enum Outputs { kGates, kCells, kY, kLastH, kLastC, kOutputs };

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  using enum RecurrentSize;
  const auto [t, b, h, gates] = require_recurrent(
      ctx, 4, kLengths,
      "x * w_x [time, batch, 4h], h0 and c0 [batch, h], w_h [h, 4h], bias [4h] and lengths "
      "[batch], or [0] for all of the time",
      {{kProjected, {time, batch, all_gates}},
       {kH0, {batch, hidden}},
       {kC0, {batch, hidden}},
       {kWeights, {hidden, all_gates}},
       {kBias, {all_gates}}});
  if (!std::isfinite(ctx.attr<double>("forget_bias")))
    throw ctx.error("wants a finite forget_bias, got ", ctx.attr<double>("forget_bias"));
  return {Shape{t, b, gates}, Shape{t, b, h}, Shape{t, b, h}, Shape{b, h}, Shape{b, h}};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  if (ctx.output_gradient(kGates).defined() || ctx.output_gradient(kCells).defined())
    throw Error(Errc::invalid_argument, describe(ctx.node()),
                ": gates and cells are saved for the gradient of y, h and c, and have none");
  const LstmGradients d =
      lstm_gradient({.dy = or_zeros(ctx.output_gradient(kY), ctx.output(kY)),
                     .dh = or_zeros(ctx.output_gradient(kLastH), ctx.output(kLastH)),
                     .dc = or_zeros(ctx.output_gradient(kLastC), ctx.output(kLastC)),
                     .gates = ctx.output(kGates),
                     .cells = ctx.output(kCells),
                     .y = ctx.output(kY),
                     .h0 = ctx.input(kH0),
                     .c0 = ctx.input(kC0),
                     .w_h = ctx.input(kWeights),
                     .lengths = ctx.input(kLengths),
                     .reverse = ctx.attr<bool>("reverse")});
  return {d.dprojected,
          d.dh0,
          d.dc0,
          summed_products(d.h_before, d.dprojected),
          reduce_sum(d.dprojected, {.axes = {0, 1}}),
          Output{}};
}

// One time step of some rows; the pointers are to the first row.
template <class T>
struct Step {
  const T *projected, *recurrent, *bias;
  T *gates, *cells, *y, *h, *c;
  const int64_t* lengths;
  int64_t place, rows, hidden;
  T forget_bias;
};

template <class T>
void step_row(const Step<T>& s, int64_t row) {
  const int64_t n = s.hidden;
  const T *projected = s.projected + row * 4 * n, *recurrent = s.recurrent + row * 4 * n;
  T *gates = s.gates + row * 4 * n, *c = s.c + row * n, *h = s.h + row * n;
  for (int64_t at = 0; at < n; at += kRecurrentBlock) {
    const int64_t length = std::min<int64_t>(kRecurrentBlock, n - at);
    RecurrentBlock<T> gate[4], cell, state;
    for (int64_t k = 0; k < 4; ++k) {
      RecurrentBlock<T> p, z, b;
      load(p, projected + k * n + at, length);
      load(z, recurrent + k * n + at, length);
      load(b, s.bias + k * n + at, length);
      const T extra = k == 1 ? s.forget_bias : T{0};
      for (int j = 0; j < kRecurrentBlock; ++j) p[j] = p[j] + z[j] + (b[j] + extra);
      if (k == 2)
        for (int j = 0; j < kRecurrentBlock; ++j) gate[k][j] = math::tanh(p[j]);
      else
        for (int j = 0; j < kRecurrentBlock; ++j) gate[k][j] = logistic(p[j]);
      store(gate[k], gates + k * n + at, length);
    }
    load(cell, c + at, length);
    for (int j = 0; j < kRecurrentBlock; ++j)
      cell[j] = gate[1][j] * cell[j] + gate[0][j] * gate[2][j];
    for (int j = 0; j < kRecurrentBlock; ++j) state[j] = gate[3][j] * math::tanh(cell[j]);
    store(cell, c + at, length);
    store(cell, s.cells + row * n + at, length);
    store(state, h + at, length);
    store(state, s.y + row * n + at, length);
  }
}

struct StepLoop {
  template <class T>
  static void run(const Step<T>* s) {
    const int64_t n = s->hidden;
    for (int64_t row = 0; row < s->rows; ++row) {
      if (s->place < s->lengths[row]) {
        step_row(*s, row);
        continue;
      }
      std::fill_n(s->gates + row * 4 * n, 4 * n, T{0});
      std::copy_n(s->c + row * n, n, s->cells + row * n);
      std::fill_n(s->y + row * n, n, T{0});
    }
  }
};

template <class T>
struct State final : RecurrentState<StepProduct<T>> {
  double forget_bias = 0;
};

template <class T>
std::unique_ptr<KernelState> prepare(const Node& node) {
  auto state = recurrent_state<State<T>>(node);
  state->forget_bias = node.attr<double>("forget_bias");
  return state;
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const auto& state = ctx.state<State<T>>();
  const auto steps = RecurrentSteps::of(ctx.input(kProjected), ctx.input(kH0), 4, state.reverse);
  const int64_t time = steps.time, batch = steps.batch, hidden = steps.hidden;
  RecurrentRun run(ctx, steps, kLengths);
  const T *projected = ctx.input(kProjected).data<T>(), *bias = ctx.input(kBias).data<T>();
  const T *h0 = ctx.input(kH0).data<T>(), *c0 = ctx.input(kC0).data<T>(),
          *weights = ctx.input(kWeights).data<T>();
  T* gates = ctx.output_in_place().template mutable_data<T>();
  T* cells = ctx.output(kCells).template mutable_data<T>();
  T* y = ctx.output(kY).template mutable_data<T>();
  T* last_h = ctx.output(kLastH).template mutable_data<T>();
  T* last_c = ctx.output(kLastC).template mutable_data<T>();
  std::copy_n(h0, batch * hidden, last_h);
  std::copy_n(c0, batch * hidden, last_c);
  if (steps.elements() == 0) return;
  const auto product = state.products_of(steps, [&] {
    return std::make_unique<StepProduct<T>>(gate_product(steps, 4, 4, /*backward=*/false));
  });
  const int64_t sum_rounded = rounded_bytes<T>(steps.rows * 4 * hidden);
  const void* const packed = run.pack(*product, weights, sum_rounded);
  run.run([&](RecurrentRows rows, uint8_t* memory) {
    T* const recurrent = elements<T>(memory);
    const int64_t first = rows.begin * hidden;
    for (int64_t i = 0; i < time; ++i) {
      const int64_t place = steps.place(i), at = place * batch * hidden + first;
      product->run(ctx, rows.count, last_h + first, recurrent, packed, memory + sum_rounded);
      const Step<T> step{projected + 4 * at,
                         recurrent,
                         bias,
                         gates + 4 * at,
                         cells + at,
                         y + at,
                         last_h + first,
                         last_c + first,
                         run.lengths() + rows.begin,
                         place,
                         rows.count,
                         hidden,
                         static_cast<T>(state.forget_bias)};
      in_isa<StepLoop>(&step);
    }
  });
}

}  // namespace

Op lstm_op() {
  return {.name = "Lstm",
          .inputs = {"projected", "h0", "c0", "w_h", "bias", "lengths"},
          .outputs = {"gates", "cells", "y", "last_h", "last_c"},
          .attrs = {{"forget_bias", AttrKind::real, 0.0}, {"reverse", AttrKind::boolean, false}},
          .infer_dtypes = recurrent_dtypes<kLengths, kOutputs>,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>, nullptr, prepare<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>, nullptr, prepare<double>}},
          .in_place = true};
}

Lstm lstm(Output x, Output h0, Output c0, Output w_x, Output w_h, Output bias, LstmOptions options,
          Origin at) {
  require_defined("lstm", at, {x, h0, c0, w_x, w_h, bias});
  require_recurrent_call("lstm", at, 4,
                         {{"x", x, "tbn"},
                          {"h0", h0, "bh"},
                          {"c0", c0, "bh"},
                          {"w_x", w_x, "ng"},
                          {"w_h", w_h, "hg"},
                          {"bias", bias, "g"}});
  const auto scope = x.graph->scope({.origin = at});
  const Output lengths = lengths_or_none(options.lengths, *x.graph);
  const auto outputs = all_outputs(
      add_node({.op = "Lstm",
                .inputs = {matmul(x, w_x), h0, c0, w_h, bias, lengths},
                .attrs = {{"forget_bias", options.forget_bias}, {"reverse", options.reverse}}},
               at));
  return {outputs[kY], outputs[kLastH], outputs[kLastC]};
}

LstmCell lstm_cell(Output x, Output h, Output c, Output w_x, Output w_h, Output bias,
                   double forget_bias, Origin at) {
  require_defined("lstm_cell", at, {x, h, c, w_x, w_h, bias});
  require_recurrent_call("lstm_cell", at, 4,
                         {{"x", x, "bn"},
                          {"h", h, "bh"},
                          {"c", c, "bh"},
                          {"w_x", w_x, "ng"},
                          {"w_h", w_h, "hg"},
                          {"bias", bias, "g"}});
  const Lstm one =
      lstm(expand_dims(x, 0, at), h, c, w_x, w_h, bias, {.forget_bias = forget_bias}, at);
  return {one.h, one.c};
}

}  // namespace troupe
