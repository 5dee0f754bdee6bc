// Shared by the CTC loss and its gradient (Graves, Fernandez, Gomez, Schmidhuber, ICML 2006): the
// states of a row and their probabilities.
//   logits: [time, batch, classes], f32 or f64   labels: [batch, most]   time_sizes, label_sizes:
//   [batch]   all of i32 or i64
//
// A row of n labels has 2 * n + 1 states: blank, label, blank, ..., label, blank. A path starts in
// one of the first two states and ends in one of the last two. At each time it stays, advances by
// one state, or advances by two, past a blank between different labels.
#pragma once

#include <vector>

#include "ops/support/indices.hpp"
#include "ops/support/row.hpp"

namespace troupe {

// `first`: the index of the logits among the inputs; labels and sizes follow.
void require_ctc_dtypes(const InferContext& ctx, int first);
// Throws: Error for shapes that do not fit. Returns the batch size, -1 if unknown.
int64_t checked_ctc_batch(const InferContext& ctx, int first);
// Throws: Error with the row and the value if a size, a label or the blank is out of range, or a
// label equals the blank.
void check_ctc_values(const KernelContext& ctx, int first);

struct CtcRow {
  int64_t times = 0;
  std::vector<int64_t> classes;  // of each state
  std::vector<double> log_y;     // [times, states]: log of the probability of the state's class
  int64_t states() const { return static_cast<int64_t>(classes.size()); }
};
// Makes all fields but the values of log_y, which only gets its size. Requires: the values are
// checked.
CtcRow make_ctc_row(const KernelContext& ctx, int first, int64_t row);

// Returns the log of the probability of the labels. alpha[t, s]: the log of the probability of all
// paths that are in state s at time t (equations 6 and 7).
double ctc_forward(const CtcRow& row, std::vector<double>& alpha);
// Turns alpha into the probability that a path of these labels is in state s at time t.
// Requires: log_p, the result of ctc_forward(), is above -infinity.
void ctc_occupancy(const CtcRow& row, double log_p, std::vector<double>& alpha);

// Sets log_y at one time from its logits. y: scratch for softmax(logits).
template <class T>
void set_log_y(CtcRow& row, int64_t time, const T* logits, int64_t classes, T* y) {
  const double log_sum = static_cast<double>(in_isa<SoftmaxRowLoop>(logits, y, classes));
  double* log_y = row.log_y.data() + time * row.states();
  for (const int64_t k : row.classes) *log_y++ = static_cast<double>(logits[k]) - log_sum;
}

}  // namespace troupe
