// Joins Call nodes to the bodies that they run. Each body is a program of its own, of the same
// device.
#include <map>
#include <utility>

#include "actors/engine/program/compile_parts.hpp"
#include "graph/op_properties.hpp"

namespace troupe {
namespace {

// Arguments that the body does not read are not in its partition.
Program::Call call_of(const Node& call, const Program& body, uint32_t number) {
  const Node& opener = body.graph->node(body.partition.function);
  Program::Call out{.body = number,
                    .opener = body.partition.function,
                    .depth_max = properties_of(opener).frame.at_most(opener)};
  size_t results = 0;
  for (const PartNode& part : body.partition.nodes) {
    results += part.kind == PartKind::fetch ? 1 : 0;
    if (part.kind != PartKind::feed) continue;
    const Node& argument = body.graph->node(part.node);
    const TensorType& wanted = argument.outputs[0];
    const auto index = static_cast<size_t>(properties_of(argument).frame.index(argument));
    if (index >= call.inputs.size() || call.inputs[index].dtype() != wanted.dtype ||
        !may_equal(call.inputs[index].shape(), wanted.shape))
      throw Error(Errc::invalid_argument, describe(call), ": gives the ", describe(opener),
                  " something else than the ", wanted, " that its argument ", index, " is");
    out.arguments.emplace_back(static_cast<uint32_t>(index),
                               body.source_slot(part.node, part.output));
  }
  if (results != call.outputs.size())
    throw Error(Errc::invalid_argument, describe(call), ": has ", call.outputs.size(),
                " outputs, but the ", describe(opener), " returns ", results, " values");
  return out;
}

void link(Program& program, const std::vector<Program>& bodies,
          const std::map<int32_t, uint32_t>& by_opener) {
  for (size_t i = 0; i < program.nodes.firing.size(); ++i) {
    if (program.nodes.firing[i].kind != NodeKind::call) continue;
    const Node& call = *program.nodes.codes[i]->view.node;
    const Node* opener = program.graph->find(properties_of(call).frame.function(call));
    const auto body = opener ? by_opener.find(opener->id) : by_opener.end();
    TROUPE_CHECK(body != by_opener.end(), "the ", describe(call), " has no body on ",
                 program.partition.device);
    program.nodes.roles[i] = static_cast<uint32_t>(program.calls.size());
    program.calls.push_back(call_of(call, bodies[body->second], body->second));
  }
  for (const PartNode& part : program.partition.nodes)
    if (program.is_function() && part.kind == PartKind::fetch)
      program.interface.results.push_back(program.slot_of(part.node, part.output));
}

}  // namespace

void link_calls(Program& program) {
  std::vector<Program>& bodies = program.bodies;
  std::map<int32_t, uint32_t> by_opener;
  for (uint32_t n = 0; n < bodies.size(); ++n)
    if (bodies[n].is_function()) by_opener[bodies[n].partition.function] = n;
  link(program, bodies, by_opener);
  for (Program& body : bodies) link(body, bodies, by_opener);
}

}  // namespace troupe
