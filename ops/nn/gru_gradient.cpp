// GruGradient: backpropagation through all time steps of a Gru node (ops/nn/gru.cpp), from the
// gradients of its y and last_h. Writing p for the gates before their functions, e for h * w_hn +
// d_n:
//   dp_n = dh' * (1 - z) * (1 - n^2)   dp_z = dh' * (h - n) * z * (1 - z)
//   with reset_after:  de = dp_n * r   dp_r = dp_n * e * r * (1 - r)
//                      dh = dh' * z + [dp_r, dp_z, de] * transpose(w_h)
//   without:           d(r * h) = dp_n * transpose(w_hn)   dp_r = d(r * h) * h * r * (1 - r)
//                      dh = dh' * z + d(r * h) * r + [dp_r, dp_z] * transpose([w_hr, w_hz])
//   dy: [t, b, h]   dlast_h, h0: [b, h]   w_h: [h, 3h]   lengths: [b] or [0]
//   gates: [t, b, 3h], inner and y: [t, b, h], outputs of the Gru node
//   dprojected: dp of all time steps [t, b, 3h]   dh0: [b, h]
//   h_before: [t, b, h], h before each time step   dinner: de, or d(r * h) [t, b, h]
#include "ops/nn/gru.hpp"

namespace troupe {
namespace {

enum Inputs { kGates, kInner, kY, kDy, kDlastH, kH0, kWeights, kLengths };
enum Outputs { kDprojected, kDh0, kHBefore, kDinner, kOutputs };

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  using enum RecurrentSize;
  const auto [t, b, h, gates] = require_recurrent(
      ctx, 3, kLengths,
      "gates [time, batch, 3h], inner, y and dy [time, batch, h], dlast_h and h0 [batch, h], w_h "
      "[h, 3h] and lengths [batch], or [0] for all of the time",
      {{kGates, {time, batch, all_gates}},
       {kInner, {time, batch, hidden}},
       {kY, {time, batch, hidden}},
       {kDy, {time, batch, hidden}},
       {kDlastH, {batch, hidden}},
       {kH0, {batch, hidden}},
       {kWeights, {hidden, all_gates}}});
  return {Shape{t, b, gates}, Shape{b, h}, Shape{t, b, h}, Shape{t, b, h}};
}

// One time step of some rows; the pointers are to the first row.
template <class T>
struct Step {
  const T *gates, *inner, *dy, *h_before;
  T *dp, *dinner;
  T* dh;    // in: gradient of h'; out: its part that goes through no product
  T* sum;   // of products, [rows, hidden]
  T* dall;  // [rows, 3h]: dp_r, dp_z, de, for the product of all gates
  const int64_t* lengths;
  int64_t place, rows, hidden;
  bool reset_after;
};

// Computes dp_z, dp_n, and with reset_after the rest. dp may share the memory of gates; without
// reset_after, r is kept in dp for second_row().
template <class T>
void first_row(const Step<T>& s, int64_t row) {
  const int64_t n = s.hidden;
  for (int64_t at = 0; at < n; at += kRecurrentBlock) {
    const int64_t length = std::min<int64_t>(kRecurrentBlock, n - at), from = row * n + at;
    const int64_t gate = row * 3 * n + at;
    RecurrentBlock<T> r, z, c, e, h, dy, dh, dz, dn, dr, de;
    load(r, s.gates + gate, length);
    load(z, s.gates + gate + n, length);
    load(c, s.gates + gate + 2 * n, length);
    load(e, s.inner + from, length);
    load(h, s.h_before + from, length);
    load(dy, s.dy + from, length);
    load(dh, s.dh + from, length);
    for (int j = 0; j < kRecurrentBlock; ++j) {
      const T d = dh[j] + dy[j];
      dn[j] = d * (1 - z[j]) * (1 - c[j] * c[j]);
      dz[j] = d * (h[j] - c[j]) * (z[j] * (1 - z[j]));
      dh[j] = d * z[j];
      de[j] = dn[j] * r[j];
      dr[j] = dn[j] * e[j] * (r[j] * (1 - r[j]));
    }
    store(dh, s.dh + from, length);
    store(dz, s.dp + gate + n, length);
    store(dn, s.dp + gate + 2 * n, length);
    if (!s.reset_after) {
      store(r, s.dp + gate, length);  // for second_row()
      continue;
    }
    store(dr, s.dp + gate, length);
    store(de, s.dinner + from, length);
    store(dr, s.dall + gate, length);
    store(dz, s.dall + gate + n, length);
    store(de, s.dall + gate + 2 * n, length);
  }
}

// Computes dp_r in place of r, from `sum`, which holds d(r * h).
template <class T>
void second_row(const Step<T>& s, int64_t row) {
  const int64_t n = s.hidden;
  for (int64_t at = 0; at < n; at += kRecurrentBlock) {
    const int64_t length = std::min<int64_t>(kRecurrentBlock, n - at), from = row * n + at;
    RecurrentBlock<T> r, h, d, dh;
    load(r, s.dp + row * 3 * n + at, length);
    load(h, s.h_before + from, length);
    load(d, s.sum + from, length);
    load(dh, s.dh + from, length);
    store(d, s.dinner + from, length);
    for (int j = 0; j < kRecurrentBlock; ++j) dh[j] += d[j] * r[j];
    for (int j = 0; j < kRecurrentBlock; ++j) d[j] *= h[j] * (r[j] * (1 - r[j]));
    store(d, s.dp + row * 3 * n + at, length);
    store(dh, s.dh + from, length);
  }
}

struct FirstLoop {
  template <class T>
  static void run(const Step<T>* s) {
    const int64_t n = s->hidden;
    for (int64_t row = 0; row < s->rows; ++row) {
      if (s->place < s->lengths[row]) {
        first_row(*s, row);
        continue;
      }
      std::fill_n(s->dp + row * 3 * n, 3 * n, T{0});
      std::fill_n(s->dinner + row * n, n, T{0});
      if (s->reset_after) std::fill_n(s->dall + row * 3 * n, 3 * n, T{0});
    }
  }
};

struct SecondLoop {
  template <class T>
  static void run(const Step<T>* s) {
    for (int64_t row = 0; row < s->rows; ++row)
      if (s->place < s->lengths[row]) second_row(*s, row);
  }
};

struct AddLoop {
  template <class T>
  static void run(const Step<T>* s) {
    const int64_t n = s->hidden;
    for (int64_t row = 0; row < s->rows; ++row) {
      if (s->place >= s->lengths[row]) continue;
      TROUPE_INDEPENDENT
      for (int64_t j = row * n; j < row * n + n; ++j) s->dh[j] += s->sum[j];
    }
  }
};

// The gradient of one time step of some rows.
template <class T>
void go_back(const KernelContext& ctx, const GruProducts<T>& products, const Step<T>& step,
             const typename GruProducts<T>::Packed& packed, uint8_t* scratch) {
  in_isa<FirstLoop>(&step);
  if (!products.second) {
    products.first.run(ctx, step.rows, step.dall, step.sum, packed.first, scratch);
  } else {
    products.second->run(ctx, step.rows, step.dp + 2 * step.hidden, step.sum, packed.second,
                         scratch);
    in_isa<SecondLoop>(&step);
    products.first.run(ctx, step.rows, step.dp, step.sum, packed.first, scratch);
  }
  in_isa<AddLoop>(&step);
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const auto& state = ctx.state<GruState<T>>();
  const auto steps = RecurrentSteps::of(ctx.input(kGates), ctx.input(kH0), 3, state.reverse);
  const int64_t time = steps.time, batch = steps.batch, hidden = steps.hidden;
  RecurrentRun run(ctx, steps, kLengths);
  const auto input = [&](int i) { return ctx.input(i).data<T>(); };
  const T *gates = input(kGates), *inner = input(kInner), *y = input(kY), *dy = input(kDy);
  const T *dlast_h = input(kDlastH), *h0 = input(kH0), *weights = input(kWeights);
  T* dp = ctx.output_in_place().template mutable_data<T>();
  T* dh = ctx.output(kDh0).template mutable_data<T>();
  T* h_before = ctx.output(kHBefore).template mutable_data<T>();
  T* dinner = ctx.output(kDinner).template mutable_data<T>();
  std::copy_n(dlast_h, batch * hidden, dh);
  if (steps.elements() == 0) return;
  const auto products = state.products_of(steps, [&] {
    return std::make_unique<GruProducts<T>>(steps, state.reset_after, /*backward=*/true);
  });
  const int64_t all_rounded = rounded_bytes<T>(steps.rows * 4 * hidden);
  const auto packed = run.pack(*products, weights, all_rounded);
  run.run([&](RecurrentRows rows, uint8_t* memory) {
    T* const sum = elements<T>(memory);
    const int64_t first = rows.begin * hidden;
    for (int64_t i = time - 1; i >= 0; --i) {
      const int64_t place = steps.place(i), at = place * batch * hidden + first;
      copy_before(steps, run.lengths(), rows, place, h0, y, h_before + at);
      const Step<T> step{gates + 3 * at,
                         inner + at,
                         dy + at,
                         h_before + at,
                         dp + 3 * at,
                         dinner + at,
                         dh + first,
                         sum,
                         sum + steps.rows * hidden,
                         run.lengths() + rows.begin,
                         place,
                         rows.count,
                         hidden,
                         state.reset_after};
      go_back(ctx, *products, step, packed, memory + all_rounded);
    }
  });
}

}  // namespace

Op gru_gradient_op() {
  return {
      .name = "GruGradient",
      .inputs = {"gates", "inner", "y", "dy", "dlast_h", "h0", "w_h", "lengths"},
      .outputs = {"dprojected", "dh0", "h_before", "dinner"},
      .attrs = {{"reset_after", AttrKind::boolean, true}, {"reverse", AttrKind::boolean, false}},
      .infer_dtypes = recurrent_dtypes<kLengths, kOutputs>,
      .infer_shapes = infer_shapes,
      .no_gradient = "the second derivatives of Gru have no kernel; build the steps of ops",
      .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>, nullptr, prepare_gru<float>},
                  {DeviceKind::cpu, DType::f64, cpu<double>, nullptr, prepare_gru<double>}},
      .in_place = true};
}

GruGradients gru_gradient(const GruBackward& of) {
  const auto outputs = all_outputs(
      add_node({.op = "GruGradient",
                .inputs = {of.gates, of.inner, of.y, of.dy, of.dh, of.h0, of.w_h, of.lengths},
                .attrs = {{"reset_after", of.reset_after}, {"reverse", of.reverse}}},
               Origin::here()));
  return {outputs[kDprojected], outputs[kDh0], outputs[kHBefore], outputs[kDinner]};
}

}  // namespace troupe
