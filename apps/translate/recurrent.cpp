// The recurrent network: an encoder that reads both ways, and two recurrent layers with attention
// in between (Cho et al. 2014; Bahdanau et al. 2015).
#include "apps/translate/layers.hpp"

#include "troupe/ops.hpp"

using namespace troupe;

namespace {

// x [time, rows, units] -> the same, and the next states. beams 0: a row is a sentence.
// The first layer looks for the tokens of the source that the second one needs (as the bottom layer
// of Wu et al. 2016), so that both compute all steps of a training at once.
Output steps(const Layers& l, const Memory& memory, Output x, std::vector<Output>& states,
             int64_t beams) {
  const auto scope = l.model.scope("decoder");
  const nn::Recurrent below = nn::gru(l.model, x, l.o.units, {.h = {states[0]}, .name = "below"});
  const Output queries =
      beams == 0 ? transpose(below.y, {1, 0, 2}) : reshape(below.y, {-1, beams, l.o.units});
  const Output seen = l.attend(queries, memory, 0, "attention");
  const Output context =
      beams == 0 ? transpose(seen, {1, 0, 2}) : reshape(seen, {1, -1, l.o.units});
  const nn::Recurrent above = nn::gru(l.model, l.dropped(concat({below.y, context}, 2)), l.o.units,
                                      {.h = {states[1]}, .name = "above"});
  states = {below.h[0], above.h[0]};
  const Output all = l.dropped(concat({above.y, context}, 2));
  return l.dropped(tanh(nn::dense(l.model, all, l.o.units, {.name = "out"})));
}

}  // namespace

Memory read_recurrent(const Layers& l, Output source) {
  const Output mask = source != 0.0;
  const Output x = l.embedded(transpose(source));
  Memory out;
  {
    const auto scope = l.model.scope("encoder");
    const Output lengths = reduce_sum(cast(mask, DType::i64), {1});
    const nn::Recurrent read =
        nn::gru(l.model, x, l.o.units, {.bidirectional = true, .lengths = lengths, .name = "gru"});
    out.values = l.dropped(transpose(read.y, {1, 0, 2}));
    out.mask = expand_dims(expand_dims(mask, 1), 1);
    out.state = tanh(nn::dense(l.model, concat(read.h, 1), l.o.units, {.name = "state"}));
  }
  const auto scope = l.model.scope("decoder");
  out.layers = {l.attended(out.values, "attention")};
  return out;
}

Output decode_recurrent(const Layers& l, const Memory& memory, Output previous) {
  std::vector<Output> states = {memory.state, memory.state};
  const Output x = l.embedded(transpose(previous));
  return transpose(steps(l, memory, x, states, 0), {1, 0, 2});
}

nn::Beams search_recurrent(const Layers& l, const Memory& memory, const nn::BeamOptions& how) {
  const nn::Decoder step = [&](Output ids, std::vector<Output> states) {
    const Output x = l.embedded(expand_dims(ids, 0));
    const Output y = steps(l, memory, x, states, how.beams);
    return nn::Decoded{l.logits(squeeze(y, {0})), states};
  };
  return nn::beam_search(step, {memory.state, memory.state}, how);
}
