// Gru: the recurrent half of a gated recurrent unit over all time steps of a sequence. The formulas
// are in troupe/ops/networks.hpp; its gru() adds x * w_x, one product for all time steps.
//   projected: x * w_x [t, b, 3h]   h0: [b, h]   w_h: [h, 3h]   bias, recurrent_bias: [3h]
//   lengths: [b], i32 or i64; or [0]: all rows have all t time steps
//   gates: r, z, n [t, b, 3h], saved for the gradient
//   inner: [t, b, h], saved for the gradient: h * w_hn + d_n with reset_after, r * h without
//   y: [t, b, h]   last_h: [b, h]
// The products with w_h run in oneDNN for f32.
#include "ops/nn/gru.hpp"

#include "ops/nn/recurrent_call.hpp"

namespace troupe {
namespace {

enum Inputs { kProjected, kH0, kWeights, kBias, kRecurrentBias, kLengths };
enum Outputs { kGates, kInner, kY, kLastH, kOutputs };

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  using enum RecurrentSize;
  const auto [t, b, h, gates] = require_recurrent(
      ctx, 3, kLengths,
      "x * w_x [time, batch, 3h], h0 [batch, h], w_h [h, 3h], bias and recurrent_bias [3h] and "
      "lengths [batch], or [0] for all of the time",
      {{kProjected, {time, batch, all_gates}},
       {kH0, {batch, hidden}},
       {kWeights, {hidden, all_gates}},
       {kBias, {all_gates}},
       {kRecurrentBias, {all_gates}}});
  return {Shape{t, b, gates}, Shape{t, b, h}, Shape{t, b, h}, Shape{b, h}};
}

// With reset_after, h * w_hn is multiplied by r, so its gradient differs from that of x * w_xn.
// Without it, w_hn multiplies r * h.
std::vector<Output> gradient(const GradientContext& ctx) {
  if (ctx.output_gradient(kGates).defined() || ctx.output_gradient(kInner).defined())
    throw Error(Errc::invalid_argument, describe(ctx.node()),
                ": gates and inner are saved for the gradient of y and h, and have none");
  const bool reset_after = ctx.attr<bool>("reset_after");
  const GruGradients d =
      gru_gradient({.dy = or_zeros(ctx.output_gradient(kY), ctx.output(kY)),
                    .dh = or_zeros(ctx.output_gradient(kLastH), ctx.output(kLastH)),
                    .gates = ctx.output(kGates),
                    .inner = ctx.output(kInner),
                    .y = ctx.output(kY),
                    .h0 = ctx.input(kH0),
                    .w_h = ctx.input(kWeights),
                    .lengths = ctx.input(kLengths),
                    .reset_after = reset_after,
                    .reverse = ctx.attr<bool>("reverse")});
  const std::vector<Output> parts = split(d.dprojected, 3, 2);
  const Output dn = reset_after ? d.dinner : parts[2];
  const Output dw =
      concat({summed_products(d.h_before, parts[0]), summed_products(d.h_before, parts[1]),
              summed_products(reset_after ? d.h_before : ctx.output(kInner), dn)},
             1);
  const auto summed = [](Output x) { return reduce_sum(x, {.axes = {0, 1}}); };
  const Output dbias = summed(d.dprojected);
  const Output drecurrent =
      reset_after ? concat({summed(parts[0]), summed(parts[1]), summed(dn)}, 0) : dbias;
  return {d.dprojected, d.dh0, dw, dbias, drecurrent, Output{}};
}

// A product in memory, row by row.
template <class T>
struct ProductRows {
  const T* begin;
  int64_t step;  // elements from one row to the next
  const T* row(int64_t i) const { return begin + i * step; }
};

// One time step of some rows; the pointers are to the first row.
template <class T>
struct Step {
  const T *projected, *bias, *recurrent_bias;
  ProductRows<T> recurrent, candidate;  // of all gates, or of r and z; of n
  T *gates, *inner, *y, *h;
  const int64_t* lengths;
  int64_t place, rows, hidden;
  bool reset_after;
};

// Elements [at, at + length) of the sum of gate k of a row, without its product with w_h.
template <class T>
void load_sum(const Step<T>& s, int64_t row, int64_t k, int64_t at, int64_t length, bool both,
              RecurrentBlock<T>& to) {
  const int64_t n = s.hidden;
  RecurrentBlock<T> b, d;
  load(to, s.projected + (row * 3 + k) * n + at, length);
  load(b, s.bias + k * n + at, length);
  load(d, s.recurrent_bias + k * n + at, length);
  for (int j = 0; j < kRecurrentBlock; ++j) to[j] += both ? b[j] + d[j] : b[j];
}

// Computes r and z of a row, and inner = r * h without reset_after.
template <class T>
void gate_row(const Step<T>& s, int64_t row) {
  const int64_t n = s.hidden;
  for (int64_t at = 0; at < n; at += kRecurrentBlock) {
    const int64_t length = std::min<int64_t>(kRecurrentBlock, n - at);
    RecurrentBlock<T> gate[2], product, h;
    for (int64_t k = 0; k < 2; ++k) {
      load_sum(s, row, k, at, length, true, gate[k]);
      load(product, s.recurrent.row(row) + k * n + at, length);
      for (int j = 0; j < kRecurrentBlock; ++j) gate[k][j] = logistic(gate[k][j] + product[j]);
      store(gate[k], s.gates + (row * 3 + k) * n + at, length);
    }
    if (s.reset_after) continue;
    load(h, s.h + row * n + at, length);
    for (int j = 0; j < kRecurrentBlock; ++j) h[j] *= gate[0][j];
    store(h, s.inner + row * n + at, length);
  }
}

// Computes n and h' of a row.
template <class T>
void state_row(const Step<T>& s, int64_t row) {
  const int64_t n = s.hidden;
  for (int64_t at = 0; at < n; at += kRecurrentBlock) {
    const int64_t length = std::min<int64_t>(kRecurrentBlock, n - at);
    RecurrentBlock<T> r, z, sum, product, d, h;
    load_sum(s, row, 2, at, length, !s.reset_after, sum);
    load(r, s.gates + row * 3 * n + at, length);
    load(z, s.gates + (row * 3 + 1) * n + at, length);
    load(product, s.candidate.row(row) + at, length);
    load(d, s.recurrent_bias + 2 * n + at, length);
    load(h, s.h + row * n + at, length);
    if (s.reset_after) {
      for (int j = 0; j < kRecurrentBlock; ++j) product[j] += d[j];
      store(product, s.inner + row * n + at, length);
      for (int j = 0; j < kRecurrentBlock; ++j) product[j] *= r[j];
    }
    for (int j = 0; j < kRecurrentBlock; ++j) sum[j] = math::tanh(sum[j] + product[j]);
    for (int j = 0; j < kRecurrentBlock; ++j) h[j] = (1 - z[j]) * sum[j] + z[j] * h[j];
    store(sum, s.gates + (row * 3 + 2) * n + at, length);
    store(h, s.h + row * n + at, length);
    store(h, s.y + row * n + at, length);
  }
}

struct GateLoop {
  template <class T>
  static void run(const Step<T>* s) {
    for (int64_t row = 0; row < s->rows; ++row)
      if (s->place < s->lengths[row])
        gate_row(*s, row);
      else
        std::fill_n(s->inner + row * s->hidden, s->hidden, T{0});
  }
};

struct StateLoop {
  template <class T>
  static void run(const Step<T>* s) {
    const int64_t n = s->hidden;
    for (int64_t row = 0; row < s->rows; ++row) {
      if (s->place < s->lengths[row]) {
        state_row(*s, row);
        continue;
      }
      std::fill_n(s->gates + row * 3 * n, 3 * n, T{0});
      std::fill_n(s->y + row * n, n, T{0});
    }
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const auto& state = ctx.state<GruState<T>>();
  const bool after = state.reset_after;
  const auto steps = RecurrentSteps::of(ctx.input(kProjected), ctx.input(kH0), 3, state.reverse);
  const int64_t time = steps.time, batch = steps.batch, hidden = steps.hidden;
  RecurrentRun run(ctx, steps, kLengths);
  const auto input = [&](int i) { return ctx.input(i).data<T>(); };
  const T *projected = input(kProjected), *h0 = input(kH0), *weights = input(kWeights);
  const T *bias = input(kBias), *recurrent_bias = input(kRecurrentBias);
  T* gates = ctx.output_in_place().template mutable_data<T>();
  T* inner = ctx.output(kInner).template mutable_data<T>();
  T* y = ctx.output(kY).template mutable_data<T>();
  T* last_h = ctx.output(kLastH).template mutable_data<T>();
  std::copy_n(h0, batch * hidden, last_h);
  if (steps.elements() == 0) return;
  const auto products = state.products_of(
      steps, [&] { return std::make_unique<GruProducts<T>>(steps, after, /*backward=*/false); });
  const int64_t sum_rounded = rounded_bytes<T>(steps.rows * 3 * hidden);
  const auto packed = run.pack(*products, weights, sum_rounded);
  run.run([&](RecurrentRows rows, uint8_t* memory) {
    T* const recurrent = elements<T>(memory);
    uint8_t* const scratch = memory + sum_rounded;
    const int64_t first = rows.begin * hidden;
    for (int64_t i = 0; i < time; ++i) {
      const int64_t place = steps.place(i), at = place * batch * hidden + first;
      T* const candidate = recurrent + 2 * hidden * (after ? 1 : rows.count);
      const Step<T> step{projected + 3 * at,
                         bias,
                         recurrent_bias,
                         {recurrent, (after ? 3 : 2) * hidden},
                         {candidate, (after ? 3 : 1) * hidden},
                         gates + 3 * at,
                         inner + at,
                         y + at,
                         last_h + first,
                         run.lengths() + rows.begin,
                         place,
                         rows.count,
                         hidden,
                         after};
      products->first.run(ctx, rows.count, last_h + first, recurrent, packed.first, scratch);
      in_isa<GateLoop>(&step);
      if (!after)
        products->second->run(ctx, rows.count, inner + at, candidate, packed.second, scratch);
      in_isa<StateLoop>(&step);
    }
  });
}

}  // namespace

Op gru_op() {
  return {
      .name = "Gru",
      .inputs = {"projected", "h0", "w_h", "bias", "recurrent_bias", "lengths"},
      .outputs = {"gates", "inner", "y", "last_h"},
      .attrs = {{"reset_after", AttrKind::boolean, true}, {"reverse", AttrKind::boolean, false}},
      .infer_dtypes = recurrent_dtypes<kLengths, kOutputs>,
      .infer_shapes = infer_shapes,
      .gradient = gradient,
      .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>, nullptr, prepare_gru<float>},
                  {DeviceKind::cpu, DType::f64, cpu<double>, nullptr, prepare_gru<double>}},
      .in_place = true};
}

Gru gru(Output x, Output h0, Output w_x, Output w_h, Output bias, Output recurrent_bias,
        GruOptions options, Origin at) {
  require_defined("gru", at, {x, h0, w_x, w_h, bias, recurrent_bias});
  require_recurrent_call("gru", at, 3,
                         {{"x", x, "tbn"},
                          {"h0", h0, "bh"},
                          {"w_x", w_x, "ng"},
                          {"w_h", w_h, "hg"},
                          {"bias", bias, "g"},
                          {"recurrent_bias", recurrent_bias, "g"}});
  const auto scope = x.graph->scope({.origin = at});
  const Output lengths = lengths_or_none(options.lengths, *x.graph);
  const auto outputs = all_outputs(
      add_node({.op = "Gru",
                .inputs = {matmul(x, w_x), h0, w_h, bias, recurrent_bias, lengths},
                .attrs = {{"reset_after", options.reset_after}, {"reverse", options.reverse}}},
               at));
  return {outputs[kY], outputs[kLastH]};
}

Output gru_cell(Output x, Output h, Output w_x, Output w_h, Output bias, Output recurrent_bias,
                bool reset_after, Origin at) {
  require_defined("gru_cell", at, {x, h, w_x, w_h, bias, recurrent_bias});
  require_recurrent_call("gru_cell", at, 3,
                         {{"x", x, "bn"},
                          {"h", h, "bh"},
                          {"w_x", w_x, "ng"},
                          {"w_h", w_h, "hg"},
                          {"bias", bias, "g"},
                          {"recurrent_bias", recurrent_bias, "g"}});
  return gru(expand_dims(x, 0, at), h, w_x, w_h, bias, recurrent_bias, {.reset_after = reset_after},
             at)
      .h;
}

}  // namespace troupe
