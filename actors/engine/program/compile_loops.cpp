// Compiles the loops of a partition: how values come into their bodies, and how they go from one
// iteration to the next.
#include <algorithm>

#include "actors/engine/program/compile_parts.hpp"

namespace troupe {
namespace {

bool fits(const Shape& wanted, const Shape& known) {
  for (int d = 0; d < wanted.ndim(); ++d)
    if (wanted[d] >= 0 && wanted[d] != known[d]) return false;
  return true;
}

void compile_variables(const Program& program, const PartNumbers& numbers, const PartLoop& part,
                       Program::Loop& loop) {
  const std::vector<PartNode>& parts = program.partition.nodes;
  const auto driver = static_cast<size_t>(part.driver);
  Program::LoopVariables& variables = loop.variables;
  const auto entering = [&](const PartLoop::Entering& value) {
    const uint32_t to = numbers.first_slot[static_cast<size_t>(value.node)];
    return std::pair{numbers.slot_of(parts[driver].inputs[static_cast<size_t>(value.input)]), to};
  };
  for (const PartLoop::Entering& value : part.captured) loop.captured.push_back(entering(value));
  for (const PartLoop::Entering& value : part.variables) {
    variables.initial.push_back(entering(value));
    const Node& node = program.graph->node(parts[static_cast<size_t>(value.node)].node);
    variables.types.push_back(node.outputs[0]);
    variables.names.push_back(node.name);
  }
  for (uint32_t v = 0; v < part.next.size(); ++v) {
    const Node& repeat = program.graph->node(parts[driver].node);
    variables.next.push_back(numbers.slot_of(part.next[v]));
    if (!fits(variables.types[v].shape, repeat.inputs[part.next.size() + v].shape()))
      variables.unsure.push_back(v);
  }
  variables.direct = std::none_of(variables.next.begin(), variables.next.end(), [&](uint32_t slot) {
    return std::any_of(variables.initial.begin(), variables.initial.end(),
                       [&](const auto& variable) { return variable.second == slot; });
  });
}

void find_receives(Program& program) {
  std::vector<Program::Receive>& receives = program.edges.receives;
  for (size_t e = 0; e < receives.size(); ++e) {
    const int32_t opener = receives[e].edge->loop;
    if (opener < 0) continue;
    const auto in = std::find_if(program.loops.begin(), program.loops.end(),
                                 [&](const Program::Loop& loop) { return loop.opener == opener; });
    receives[e].loop = static_cast<uint32_t>(in - program.loops.begin());
    const bool ack =
        std::find(in->acks.begin(), in->acks.end(), receives[e].node) != in->acks.end();
    if (!ack) in->receives.push_back(e);
  }
}

}  // namespace

void compile_loops(Program& program, const PartNumbers& numbers) {
  const std::vector<uint32_t>& fires = numbers.fires;
  for (const PartLoop& part : program.partition.loops) {
    const auto driver = static_cast<size_t>(part.driver);
    const auto number = static_cast<uint32_t>(program.loops.size());
    Program& around = part.parent < 0 ? program : program.bodies[static_cast<size_t>(part.parent)];
    Program& body = program.bodies[number];
    Program::Loop loop;
    loop.body = number;
    loop.driver = fires[driver];
    loop.end = fires[static_cast<size_t>(part.turn)];
    loop.again = fires[static_cast<size_t>(part.again)];
    loop.home = part.home;
    loop.in_flight = part.in_flight;
    loop.opener = part.opener;
    around.nodes.roles[loop.driver] = body.nodes.roles[loop.end] = number;
    if (part.home) body.nodes.roles[loop.again] = number;
    compile_variables(program, numbers, part, loop);
    for (const auto& [from, to] : loop.captured)
      body.initial.uses[to] = kUncounted;  // until the loop ends
    for (int32_t ack : part.acks) loop.acks.push_back(fires[static_cast<size_t>(ack)]);
    program.loops.push_back(std::move(loop));
  }
  find_receives(program);
}

}  // namespace troupe
