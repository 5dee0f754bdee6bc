// beam_search() of troupe/nn.hpp: a loop of the graph that keeps the best beginnings of a sentence.
//
// Variables of the loop are those of Search, and the states. A beam that has ended stays, as its
// own only successor.
#include <algorithm>
#include <limits>

#include "graph/base/refuse.hpp"
#include "troupe/nn.hpp"
#include "troupe/ops.hpp"

namespace troupe::nn {
namespace {

constexpr const char* kCaller = "nn::beam_search";
constexpr double kNone = -std::numeric_limits<double>::infinity();

// The beams between two steps; `batch` sentences with k beams each.
struct Search {
  Output step;     // i64 []
  Output ids;      // i64 [batch, k, step]
  Output last;     // i64 [batch * k]
  Output sums;     // f32 [batch, k], of log probabilities
  Output lengths;  // i64 [batch, k]
  Output ended;    // bool [batch, k]

  std::vector<Output> all() const { return {step, ids, last, sums, lengths, ended}; }
  static Search of(const std::vector<Output>& v) { return {v[0], v[1], v[2], v[3], v[4], v[5]}; }
};
constexpr std::ptrdiff_t kVariables = 6;

struct Loop {
  const Decoder& decoder;
  const BeamOptions& o;
  Graph& graph;
  Origin at;

  Output number(int64_t value) const {
    return troupe::constant(graph, Tensor::scalar(value), "", at);
  }
  // [1, k], the first one for beam 0.
  Output row(double first, double others) const {
    Tensor out = Tensor::empty(DType::f32, {1, o.beams});
    for (int64_t i = 0; i < o.beams; ++i)
      out.mutable_data<float>()[i] = static_cast<float>(i == 0 ? first : others);
    return troupe::constant(graph, out, "", at);
  }
  // i64 [batch, 1]: 0, 1, ...
  Output sentences(Output batch) const {
    return reshape(range(number(0), batch, number(1), at), {-1, 1}, at);
  }

  // All beams but the first are without a sentence, so that the first step does not choose one
  // token k times.
  Search begin(Output batch) const {
    const Output zeros = cast(sentences(batch), DType::f32, at) * 0.0;
    const Output sums = add(zeros, row(0, kNone), at);
    const Output lengths = cast(zeros_like(sums, at), DType::i64, at);
    const Output none = slice(expand_dims(lengths, 2, at), {0, 0, 0}, {-1, -1, 0}, at);
    return {number(0), none,    add(reshape(lengths, {-1}, at), number(o.begin), at),
            sums,      lengths, cast(lengths, DType::boolean, at)};
  }

  // The log probabilities of the n likeliest tokens of each beam, and these tokens: [batch, k, n].
  // After its end a beam has the end alone, with probability 1.
  TopK candidates(Output logits, Output ended) const {
    const int64_t classes = logits.shape()[1], n = std::min(o.beams, classes);
    const TopK likely = top_k(logits, n, at);
    const Output all = log_sum_exp(logits, {{1}, true}, at);
    const auto by_beam = [&](Output x) { return reshape(x, {-1, o.beams, n}, at); };
    const Output stay = reshape(slice(row(0, kNone), {0, 0}, {1, n}, at), {1, 1, n}, at);
    const Output over = expand_dims(ended, 2, at);
    return {where(over, stay, cast(by_beam(subtract(likely.values, all, at)), DType::f32, at), at),
            where(over, number(o.end), by_beam(likely.indices), at)};
  }

  Output scores(Output sums, Output lengths) const {
    if (o.length_penalty == 0) return sums;
    const Output length = cast(lengths, DType::f32, at);
    return divide(sums, pow((length + 5.0) / 6.0, o.length_penalty, at), at);
  }

  std::vector<Output> step(const std::vector<Output>& variables, Output batch) const {
    const Search now = Search::of(variables);
    Decoded next = decoder(now.last, {variables.begin() + kVariables, variables.end()});
    require(next, variables.size() - kVariables);
    const TopK found = candidates(next.logits, now.ended);
    const int64_t n = found.values.shape()[2];
    const Output sums = add(expand_dims(now.sums, 2, at), found.values, at);  // [batch, k, n]
    const Output lengths = now.lengths + cast(logical_not(now.ended, at), DType::i64, at);
    const auto flat = [&](Output x) { return reshape(x, {-1, o.beams * n}, at); };
    const Output chosen =
        top_k(flat(scores(sums, expand_dims(lengths, 2, at))), o.beams, at).indices;
    const Output beam = floor_divide(chosen, number(n), at);  // [batch, k]
    const Output token = take_along(flat(found.indices), chosen, 1, at);
    const auto of_beam = [&](Output x) { return take_along(x, beam, 1, at); };
    const Output before =
        take_along(now.ids, broadcast_like(expand_dims(beam, 2, at), now.ids, at), 1, at);
    const Search after = {now.step + 1,
                          concat({before, expand_dims(token, 2, at)}, 2, at),
                          reshape(token, {-1}, at),
                          take_along(flat(sums), chosen, 1, at),
                          of_beam(lengths),
                          logical_or(of_beam(now.ended), equal(token, number(o.end), at), at)};
    std::vector<Output> out = after.all();
    const Output rows =
        reshape(add(beam, multiply(sentences(batch), number(o.beams), at), at), {-1}, at);
    for (const Output& state : next.states) out.push_back(gather(state, rows, at));
    return out;
  }

  void require(const Decoded& next, size_t states) const {
    if (!next.logits.defined() || next.logits.shape().ndim() != 2 || next.logits.shape()[1] < 1 ||
        !is_floating(next.logits.dtype()))
      throw refuse(kCaller, at, "wants logits of floats, [rows, classes] with a known number of ",
                   "classes, from the decoder", next.logits.defined() ? ", got " : "",
                   next.logits.defined() ? detail::concat(next.logits.dtype(), next.logits.shape())
                                         : std::string());
    if (std::min(o.begin, o.end) < 0 || std::max(o.begin, o.end) >= next.logits.shape()[1])
      throw refuse(kCaller, at, o.end < 0 || o.end >= next.logits.shape()[1] ? "end " : "begin ",
                   o.end < 0 || o.end >= next.logits.shape()[1] ? o.end : o.begin, " is none of ",
                   next.logits.shape()[1], " classes");
    if (next.states.size() != states)
      throw refuse(kCaller, at, "wants as many states from the decoder as it got, ", states,
                   ", got ", next.states.size());
  }
};

void check(const std::vector<Output>& states, const BeamOptions& o, Origin at) {
  if (states.empty() || !states[0].defined() || states[0].shape().ndim() < 1)
    throw refuse(kCaller, at, "wants at least one state, [batch, ...], which tells the batch");
  if (o.beams < 1 || o.length_max < 1)
    throw refuse(kCaller, at, "wants at least 1 beam and 1 token, got ", o.beams, " beams and a ",
                 "length_max of ", o.length_max);
  if (!(o.length_penalty >= 0))
    throw refuse(kCaller, at, "wants a length_penalty from 0, got ", o.length_penalty);
  if (!o.shapes.empty() && o.shapes.size() != states.size())
    throw refuse(kCaller, at, "got ", o.shapes.size(), " shapes for ", states.size(), " states");
}

// The shape of a variable in the loop, with any number of rows.
Shape any_rows(Shape shape) {
  shape.set(0, -1);
  return shape;
}

}  // namespace

Beams beam_search(const Decoder& decoder, const std::vector<Output>& states, const BeamOptions& o,
                  Origin at) {
  check(states, o, at);
  const Loop loop{decoder, o, *states[0].graph, at};
  const Output batch = reshape(slice(shape_of(states[0], at), {0}, {1}, at), {}, at);
  std::vector<Output> initial = loop.begin(batch).all();
  WhileOptions how{
      .shapes = {{}, {-1, o.beams, -1}, {-1}, {-1, o.beams}, {-1, o.beams}, {-1, o.beams}},
      .name = "beam_search"};
  for (size_t i = 0; i < states.size(); ++i) {
    initial.push_back(repeat(states[i], o.beams, 0, at));
    how.shapes.push_back(any_rows(o.shapes.empty() ? states[i].shape() : o.shapes[i]));
  }
  // A beam without a sentence has no successors either.
  const auto going = [&](const std::vector<Output>& variables) {
    const Search now = Search::of(variables);
    const Output open = logical_and(logical_not(now.ended, at), is_finite(now.sums, at), at);
    return logical_and(less(now.step, o.length_max, at), reduce_any(open, {}, at), at);
  };
  const Search found = Search::of(while_loop(
      going, [&](const std::vector<Output>& v) { return loop.step(v, batch); }, initial, how, at));
  return {found.ids, found.lengths, loop.scores(found.sums, found.lengths)};
}

}  // namespace troupe::nn
