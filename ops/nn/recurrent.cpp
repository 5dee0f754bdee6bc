// Checks and shared parts of recurrent layers; ops/nn/recurrent.hpp and ops/nn/recurrent_call.hpp
// document them.
#include "ops/nn/recurrent.hpp"

#include <map>

#include "ops/nn/recurrent_call.hpp"

namespace troupe {

RecurrentShape require_recurrent(const InferContext& ctx, int count, int lengths,
                                 const char* wanted, std::initializer_list<RecurrentInput> inputs) {
  require_kernel(ctx, ctx.dtype(0));
  RecurrentShape of;
  bool fits = true;
  for (const RecurrentInput& one : inputs) {
    const Shape& shape = ctx.input(one.input);
    fits = fits && shape.ndim() == static_cast<int>(one.sizes.size());
    for (int d = 0; fits && d < shape.ndim(); ++d) {
      int64_t& size = of.at(one.sizes.begin()[d]);
      fits = may_equal(size, shape[d]);
      size = std::max(size, shape[d]);
    }
  }
  if (of.hidden < 0 && of.gates >= 0 && of.gates % count == 0) of.hidden = of.gates / count;
  if (of.gates < 0 && of.hidden >= 0) of.gates = of.hidden * count;
  fits = fits && (of.gates < 0 || (of.gates % count == 0 && of.gates / count == of.hidden));
  const Shape& given = ctx.input(lengths);
  fits = fits && given.ndim() == 1 && (given[0] == 0 || may_equal(given[0], of.batch));
  if (fits) return of;
  std::string got;
  for (int i = 0; i < ctx.input_count(); ++i) got += (i ? ", " : "") + detail::concat(ctx.input(i));
  throw ctx.error("wants ", wanted, "; got ", got);
}

std::vector<DType> recurrent_dtypes(const InferContext& ctx, int lengths, size_t outputs) {
  require_index_dtype(ctx, lengths);
  for (int i = 0; i < lengths; ++i)
    if (ctx.dtype(i) != ctx.dtype(0))
      throw ctx.error("wants inputs of one dtype, got ", ctx.dtype(0), " and ", ctx.dtype(i),
                      "; cast one of them");
  return std::vector<DType>(outputs, ctx.dtype(0));
}

Output lengths_or_none(Output lengths, Graph& graph) {
  return lengths.defined() ? lengths : fill(graph, Shape{0}, 0, DType::i64, "all");
}

Output summed_products(Output a, Output b) {
  const int64_t m = a.shape()[2], n = b.shape()[2];
  if (m <= 0 || n <= 0) return reduce_sum(matmul(a, b, {.transpose_a = true}), {.axes = {0}});
  return matmul(reshape(a, Shape{-1, m}), reshape(b, Shape{-1, n}), {.transpose_a = true});
}

Output or_zeros(Output gradient, Output y) {
  if (gradient.defined()) return gradient;
  if (y.shape().is_known()) return fill(*y.graph, y.shape(), 0, y.dtype(), "zeros");
  return broadcast_like(fill(*y.graph, Shape{}, 0, y.dtype(), "zero"), y);
}

RecurrentRun::RecurrentRun(KernelContext& ctx, const RecurrentSteps& steps, int lengths_input)
    : ctx_(ctx), steps_(steps) {
  lengths_ = ctx.scratch(DType::i64, Shape{steps.batch});
  int64_t* to = lengths_.mutable_data<int64_t>();
  const Tensor& given = ctx.input(lengths_input);
  if (given.size() == 0) std::fill_n(to, steps.batch, steps.time);
  with_indices(given, [&](const auto* lengths) {
    for (int64_t i = 0; i < given.size(); ++i) {
      if (lengths[i] < 0 || lengths[i] > steps.time)
        throw ctx.error("length ", lengths[i], " (number ", i, " of ", given.size(),
                        ") is not in [0, ", steps.time, "], the steps that there are");
      to[i] = lengths[i];
    }
  });
}

void require_recurrent_call(const char* function, Origin at, int gates,
                            std::initializer_list<RecurrentArgument> arguments) {
  const RecurrentArgument& first = *arguments.begin();
  std::map<char, int64_t> sizes;
  const auto size_of_letter = [&](char letter) -> int64_t {
    const auto known = sizes.find(letter);
    if (known != sizes.end()) return known->second;
    if (letter == 'g' && sizes.count('h')) return gates * sizes['h'];
    return letter == 'h' && sizes.count('g') ? sizes['g'] / gates : -1;
  };
  const std::map<char, std::string> words = {
      {'t', "time"}, {'b', "batch"}, {'n', "n"}, {'h', "h"}, {'g', detail::concat(gates, "h")}};
  for (const RecurrentArgument& a : arguments) {
    const std::string form = a.form;
    const Shape& got = a.value.shape();
    bool fits = got.ndim() == static_cast<int>(form.size());
    std::string wanted, here;
    for (size_t d = 0; d < form.size(); ++d) {
      const int64_t size = size_of_letter(form[d]);
      const int64_t given = fits ? got[static_cast<int>(d)] : -1;
      fits = fits && may_equal(size, given) && (form[d] != 'g' || given < 0 || given % gates == 0);
      wanted += detail::concat(d ? ", " : "", words.at(form[d]));
      here += detail::concat(d ? ", " : "", size);
    }
    if (!fits)
      throw refused(function, at, "wants ", a.name, " [", wanted, "], here [", here, "], got ",
                    TensorType{a.value.dtype(), got});
    if (a.value.dtype() != first.value.dtype())
      throw refused(function, at, "wants inputs of one dtype, got ", first.name, " of ",
                    first.value.dtype(), " and ", a.name, " of ", a.value.dtype(),
                    "; cast one of them");
    for (size_t d = 0; d < form.size(); ++d)
      if (got[static_cast<int>(d)] >= 0) sizes[form[d]] = got[static_cast<int>(d)];
  }
}

}  // namespace troupe
