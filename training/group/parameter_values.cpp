// The functions of include/troupe/training.hpp on parameter values: their reading and places, and
// their loading from and saving to checkpoints.
#include <memory>
#include <optional>

#include "graph/parameter_nodes.hpp"
#include "training/checkpoints/checkpoint_folder.hpp"
#include "training/group/session_parameters.hpp"
#include "actors/async/patience.hpp"
#include "troupe/training.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kPullTimeout{60}, kSaveTimeout{60};

}  // namespace

void make_all(ParameterVisit& group) {
  std::vector<int32_t> nodes;
  for (const auto& node : group->master().graph().nodes())
    if (reads_parameter(*node)) nodes.push_back(node->id);
  if (nodes.empty())
    throw Error(Errc::invalid_argument, "the graph has no parameters; make some with parameter()");
  group->wait([&](ParameterGroup::Done done) { group->ensure(nodes, std::move(done)); });
}

void want_owner(ParameterVisit& group, const char* what) {
  if (!group->owner())
    throw Error(Errc::invalid_argument, "the parameters are another session's, which alone can ",
                what);
}

std::shared_ptr<const void> claim_values(ParameterVisit& group, const char* caller) {
  auto claim = group->claim_training();
  if (!claim)
    throw Error(Errc::invalid_argument, caller,
                ": the parameters are being trained, or given values; wait until that has ended");
  return claim;
}

int64_t steps_done(ParameterVisit& group, const char* caller) {
  std::optional<int64_t> done;
  for (const int32_t replica : group->in_graph().replicas()) {
    const std::optional<int64_t> next = group->master().runs().steps().next(replica);
    if (!next)
      throw Error(Errc::invalid_argument, caller, ": a training step of replica ", replica,
                  " is under way; wait until it has ended");
    if (done && *done != *next)
      throw Error(Errc::invalid_argument, caller, ": replicas have done ", *done, " and ", *next,
                  " steps; wait until all have done the same number");
    done = next;
  }
  return done.value_or(0);
}

void establish(ParameterVisit& group, const ParameterGroup::Start& start) {
  group->wait([&](ParameterGroup::Done done) { group->establish(start, std::move(done)); });
  // A loop of the program's own continues at that step.
  for (const int32_t replica : start.replicas)
    group->master().runs().steps().set_next(replica, start.next_step);
}

namespace {

Tensor pull_value(const ParameterVisit& group, const std::string& name) {
  ParameterPort* port = group->master().process().services().port(group->master().session());
  const auto value = std::make_shared<Tensor>();
  group->wait(
      [&](ParameterGroup::Done done) {
        port->pull(name, {}, [value, done](Errc code, std::string text, Tensor pulled) {
          *value = std::move(pulled);
          done(code, text);
        });
      },
      kPullTimeout);
  return std::move(*value);
}

// Values of two epochs do not belong together: after a new one, all are pulled again.
std::map<std::string, Tensor> pull_all(const ParameterVisit& group,
                                       const std::vector<ParameterSpec>& parameters) {
  std::map<std::string, Tensor> out;
  for (const ParameterSpec& spec : parameters) {
    try {
      out[spec.name] = pull_value(group, spec.name);
    } catch (const Error& e) {
      const std::string waits =
          e.code() == Errc::timeout ? group->master().process().services().waiting_for() : "";
      throw Error(e.code(), "parameter ", spec.name, ": ", e.what(), waits.empty() ? "" : "; ",
                  waits);
    }
  }
  return out;
}

}  // namespace

std::map<std::string, Tensor> pull_values(const ParameterVisit& group,
                                          const std::vector<ParameterSpec>& parameters) {
  try {
    return pull_all(group, parameters);
  } catch (const Error& e) {
    if (e.code() != Errc::stale || group->owner()) throw;
  }
  group->wait([&](ParameterGroup::Done done) { group->follow(std::move(done)); });
  return pull_all(group, parameters);
}

void want_no_tables(const std::vector<ParameterSpec>& parameters, const char* caller,
                    const char* why) {
  for (const ParameterSpec& p : parameters)
    if (p.table)
      throw Error(Errc::invalid_argument, caller, ": parameter ", p.name, " is a table ", p.dtype,
                  p.shape, " whose rows are made on first touch, ", why);
}

std::vector<ParameterSpec> without_tables(const ParameterVisit& group) {
  std::vector<ParameterSpec> all = group->in_graph().made();
  std::erase_if(all, [](const ParameterSpec& p) { return p.table.has_value(); });
  return all;
}

std::map<std::string, Tensor> parameter_values(Session& session) {
  const ParameterVisit group(session);
  want_no_tables(group->in_graph().made(), "parameter_values()",
                 "and has no values as a whole; read the others one by one with "
                 "parameter_value(), and rows of the table with gather()");
  return pull_values(group, group->in_graph().made());
}

namespace {

void load_now(ParameterVisit& group, const CheckpointFolder& folder) {
  make_all(group);
  want_owner(group, "set their values");
  const CheckpointFolder::Found found = folder.newest(group->in_graph().made(), std::nullopt);
  for (const std::string& line : found.damaged)
    group->master().process().log()->warn("a checkpoint is passed over: error={}", line);
  if (!found.manifest && !found.damaged.empty()) refuse_damaged(folder, found.damaged.size());
  if (!found.manifest)
    throw Error(Errc::invalid_argument, "there is no checkpoint in ", folder.path(),
                "; give the checkpoint_dir of a training");
  ParameterGroup::Start start;
  start.mode = BeginEpoch::restore;
  start.directory = folder.path();
  start.manifest = manifest_name(found.manifest->generation, found.manifest->step);
  // No training goes on, so no replica is late or waits.
  start.rule = found.manifest->rule.by_steps() ? Aggregation::sync : Aggregation::async;
  start.rate_scale = found.manifest->rate_scale;
  start.replicas = group->in_graph().replicas();
  start.next_step = found.manifest->step;
  establish(group, start);
}

}  // namespace

void load_parameters(Session& session, const std::string& checkpoint_dir,
                     std::chrono::milliseconds patience) {
  ParameterVisit group(session);
  const CheckpointFolder folder(checkpoint_dir);
  const auto claim = claim_values(group, "load_parameters()");
  patiently(
      patience, [&] { load_now(group, folder); },
      [&](const Error& e) {
        group->master().process().log()->warn("parameters not loaded yet, tried again: error={}",
                                              e.what());
        return true;
      });
}

std::string save_parameters(Session& session, const std::string& checkpoint_dir, int keep) {
  ParameterVisit group(session);
  if (keep < 1)
    throw Error(Errc::invalid_argument, "save_parameters() keeps at least 1 checkpoint, got ",
                keep);
  if (group->in_graph().made().empty())
    throw Error(Errc::invalid_argument,
                "save_parameters(): the session has used no parameters yet; run a step first");
  want_owner(group, "take checkpoints");
  CheckpointFolder folder(checkpoint_dir);
  CheckpointRequest request;
  request.directory = folder.path();
  request.own = true;
  request.lock = folder.claim();
  request.step = steps_done(group, "save_parameters()");
  request.keep = keep;
  request.replicas = group->in_graph().replicas();
  return group->save(std::move(request), kSaveTimeout);
}

std::vector<ParameterSlice> parameter_slices(Session& session) {
  const ParameterVisit group(session);
  const auto out = std::make_shared<std::vector<ParameterSlice>>();
  group->wait([&](ParameterGroup::Done done) { group->describe(out, std::move(done)); });
  return std::move(*out);
}

std::vector<PushCount> push_ledger(Session& session) {
  const ParameterVisit group(session);
  const auto out = std::make_shared<std::vector<PushCount>>();
  group->wait([&](ParameterGroup::Done done) { group->count_pushes(out, std::move(done)); });
  return std::move(*out);
}

}  // namespace troupe
