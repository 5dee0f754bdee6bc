// The parameters of a session as include/troupe/trainer.hpp gives them to programs: their values,
// where they live, and those of a checkpoint.
#include <future>

#include "training/checkpoint_folder.hpp"
#include "training/parameter_group.hpp"
#include "troupe/trainer.hpp"

namespace troupe {

std::map<std::string, Tensor> parameter_values(Session& session) {
  ParameterGroup& group = parameter_group(session);
  ParameterPort* port = group.master().process().services().port(group.master().session());
  const std::vector<ParameterSpec> specs = group.parameters();
  std::map<std::string, Tensor> out;
  for (const ParameterSpec& spec : specs) {
    struct Answer {
      Errc code;
      std::string text;
      Tensor value;
    };
    auto promise = std::make_shared<std::promise<Answer>>();
    auto future = promise->get_future();
    port->pull(spec.name, 0, -1, [promise](Errc code, std::string text, Tensor value) {
      promise->set_value({code, std::move(text), std::move(value)});
    });
    if (future.wait_for(std::chrono::seconds(60)) != std::future_status::ready)
      throw Error(Errc::timeout, "parameter ", spec.name,
                  " did not come within 60 s: ", group.master().process().services().waiting_for());
    Answer answer = future.get();
    if (answer.code != Errc::ok)
      throw Error(answer.code, "parameter ", spec.name, ": ", answer.text);
    out[spec.name] = std::move(answer.value);
  }
  return out;
}

void load_parameters(Session& session, const std::string& checkpoint_dir) {
  ParameterGroup& group = parameter_group(session);
  std::vector<int32_t> nodes;
  for (const auto& node : group.master().graph().nodes())
    if (node->op->name == "Parameter") nodes.push_back(node->id);
  if (nodes.empty())
    throw Error(Errc::invalid_argument, "the graph has no parameters; make some with parameter()");
  wait_for([&](ParameterGroup::Done done) { group.ensure(nodes, std::move(done)); });
  if (!group.owner())
    throw Error(Errc::invalid_argument,
                "the parameters are another session's, which alone can set their values");
  const CheckpointFolder folder(checkpoint_dir);
  const CheckpointFolder::Found found = folder.newest(group.parameters(), std::nullopt);
  if (!found.manifest && !found.damaged.empty()) refuse_damaged(folder, found.damaged.size());
  if (!found.manifest)
    throw Error(Errc::invalid_argument, "there is no checkpoint in ", folder.path(),
                "; give the checkpoint_dir of a training");
  ParameterGroup::Start start;
  start.mode = BeginEpoch::restore;
  start.directory = folder.path();
  start.manifest = manifest_name(found.manifest->generation, found.manifest->step);
  start.rule = found.manifest->rule;
  start.slots = group.slots_in_graph();
  start.next_step = found.manifest->step;
  wait_for([&](ParameterGroup::Done done) { group.establish(start, std::move(done)); });
}

std::vector<ParameterSlice> parameter_slices(Session& session) {
  auto promise = std::make_shared<std::promise<std::vector<ParameterSlice>>>();
  auto future = promise->get_future();
  parameter_group(session).describe(
      [promise](std::vector<ParameterSlice> slices) { promise->set_value(std::move(slices)); });
  return future.get();
}

}  // namespace troupe
