// Compiles the loops of a partition (actors/engine/stage.hpp: Loop): where their nodes and values
// stand, how values come in and go from one iteration to the next. Part of what stage_compile.cpp
// does.
#include <algorithm>

#include "actors/engine/stage.hpp"

namespace troupe {
namespace {

constexpr uint32_t kNotFired = ~0u;

bool fits(const Shape& wanted, const Shape& known) {
  for (int d = 0; d < wanted.ndim(); ++d)
    if (wanted[d] >= 0 && wanted[d] != known[d]) return false;
  return true;
}

}  // namespace

void Stage::compile_loops(const std::vector<uint32_t>& fires,
                          const std::vector<uint32_t>& first_slot) {
  for (const PartLoop& part : partition_.loops) {
    const auto driver = static_cast<size_t>(part.driver);
    Loop loop;
    loop.driver = fires[driver];
    loop.turn = fires[static_cast<size_t>(part.turn)];
    loop.again = fires[static_cast<size_t>(part.again)];
    loop.begin = loop.turn;
    for (auto p = static_cast<size_t>(part.begin); p < driver; ++p)
      if (fires[p] != kNotFired) loop.begin = std::min(loop.begin, fires[p]);
    loop.end = loop.driver;
    loop.slot_begin = first_slot[static_cast<size_t>(part.begin)];
    loop.slot_end = first_slot[driver];
    loop.home = part.home;
    loop.in_flight = part.in_flight;
    loop.opener = part.opener;
    const auto number = static_cast<uint32_t>(loops_.size());
    role_of_[loop.driver] = role_of_[loop.turn] = number;
    if (part.home) role_of_[loop.again] = number;
    compile_variables(loop, part, first_slot);
    for (const auto& [from, to] : loop.captured) uses_[to] = kUncounted;  // until the loop ends
    for (int32_t ack : part.acks) loop.acks.push_back(fires[static_cast<size_t>(ack)]);
    loops_.push_back(std::move(loop));
  }
  find_receives_in_loops();
}

void Stage::compile_variables(Loop& loop, const PartLoop& part,
                              const std::vector<uint32_t>& first_slot) const {
  const std::vector<PartNode>& parts = partition_.nodes;
  const auto driver = static_cast<size_t>(part.driver);
  const auto slot_of = [&](const PartInput& in) {
    return first_slot[static_cast<size_t>(in.node)] + static_cast<uint32_t>(in.output);
  };
  const auto entering = [&](const PartLoop::Entering& value) {
    const uint32_t to = first_slot[static_cast<size_t>(value.node)];
    return std::pair{slot_of(parts[driver].inputs[static_cast<size_t>(value.input)]), to};
  };
  for (const PartLoop::Entering& value : part.captured) loop.captured.push_back(entering(value));
  for (const PartLoop::Entering& value : part.variables) {
    loop.initial.push_back(entering(value));
    const Node& node = graph_->node(parts[static_cast<size_t>(value.node)].node);
    loop.types.push_back(node.outputs[0]);
    loop.variable_names.push_back(node.name);
  }
  for (uint32_t v = 0; v < part.next.size(); ++v) {
    const Node& repeat = graph_->node(parts[driver].node);
    loop.next.push_back(slot_of(part.next[v]));
    if (!fits(loop.types[v].shape, repeat.inputs[part.next.size() + v].shape()))
      loop.unsure.push_back(v);
  }
  loop.direct = std::none_of(loop.next.begin(), loop.next.end(), [&](uint32_t slot) {
    return std::any_of(loop.initial.begin(), loop.initial.end(),
                       [&](const auto& variable) { return variable.second == slot; });
  });
}

void Stage::find_receives_in_loops() {
  receive_loops_.assign(receive_nodes_.size(), kNoLoop);
  for (size_t e = 0; e < receive_nodes_.size(); ++e) {
    const int32_t opener = receive_edges_[e]->loop;
    if (opener < 0) continue;
    const auto in = std::find_if(loops_.begin(), loops_.end(),
                                 [&](const Loop& loop) { return loop.opener == opener; });
    receive_loops_[e] = static_cast<uint32_t>(in - loops_.begin());
    const bool ack =
        std::find(in->acks.begin(), in->acks.end(), receive_nodes_[e].second) != in->acks.end();
    if (!ack) in->receives.push_back(e);
  }
}

}  // namespace troupe
