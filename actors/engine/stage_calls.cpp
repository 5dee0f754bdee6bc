// Implements the functions of actors/engine/stage.hpp: each body is a stage of its own, which
// belongs to the stage of its device; Call nodes are joined to the bodies that they run.
#include <utility>

#include "actors/engine/stage.hpp"

namespace troupe {

void Stage::make_bodies() {
  if (partition_.functions.empty()) return;
  std::map<int32_t, Stage*> by_opener;
  for (const Partition& body : partition_.functions) {
    bodies_.push_back(make(session_, executable_, graph_, body, host_));
    by_opener[body.function] = bodies_.back().get();
  }
  link_calls(by_opener);
  for (const auto& body : bodies_) body->link_calls(by_opener);
  for (bool more = true; std::exchange(more, false);)
    for (const auto& body : bodies_)
      for (const CallTarget& target : body->calls_)
        if (target.body->has_async_ && !std::exchange(body->has_async_, true)) more = true;
}

void Stage::link_calls(const std::map<int32_t, Stage*>& bodies) {
  in_calls_ = true;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].kind != NodeKind::call) continue;
    const Node& call = *nodes_[i].view->node;
    const Node* opener = graph_->find(call.attr<std::string>("function"));
    const auto body = opener ? bodies.find(opener->id) : bodies.end();
    TROUPE_CHECK(body != bodies.end(), "the ", describe(call), " has no body on ", device());
    role_of_[i] = static_cast<uint32_t>(calls_.size());
    calls_.push_back(target_of(call, *body->second));
  }
  for (const PartNode& part : partition_.nodes)
    if (is_body() && part.kind == PartKind::fetch)
      result_slots_.push_back(slot_of(part.node, part.output));
}

// Arguments that the body does not read are not in its partition.
Stage::CallTarget Stage::target_of(const Node& call, Stage& body) const {
  const Node& opener = graph_->node(body.partition_.function);
  CallTarget target{.body = &body, .depth_max = opener.attr<int64_t>("depth_max")};
  size_t results = 0;
  for (const PartNode& part : body.partition_.nodes) {
    results += part.kind == PartKind::fetch ? 1 : 0;
    if (part.kind != PartKind::feed) continue;
    const Node& argument = graph_->node(part.node);
    const TensorType& wanted = argument.outputs[0];
    const auto index = static_cast<size_t>(argument.attr<int64_t>("index"));
    if (index >= call.inputs.size() || call.inputs[index].dtype() != wanted.dtype ||
        !may_equal(call.inputs[index].shape(), wanted.shape))
      throw Error(Errc::invalid_argument, describe(call), ": gives the ", describe(opener),
                  " something else than the ", wanted, " that its argument ", index, " is");
    target.arguments.emplace_back(static_cast<uint32_t>(index),
                                  body.source_slot(part.node, part.output));
  }
  if (results != call.outputs.size())
    throw Error(Errc::invalid_argument, describe(call), ": has ", call.outputs.size(),
                " outputs, but the ", describe(opener), " returns ", results, " values");
  return target;
}

}  // namespace troupe
