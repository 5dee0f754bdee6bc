// The functions of include/troupe/training.hpp that give parameters values by name, and that write
// and read files of them.
#include <filesystem>
#include <optional>

#include "actors/async/patience.hpp"
#include "graph/base/words.hpp"
#include "training/checkpoints/checkpoint_folder.hpp"
#include "training/group/matching.hpp"
#include "training/group/session_parameters.hpp"
#include "troupe/files.hpp"
#include "troupe/training.hpp"

namespace troupe {
namespace {

using Values = std::map<std::string, Tensor>;

// Throws: Error(invalid_argument) for values that the parameters cannot take.
void check_values(const std::vector<ParameterSpec>& parameters, const Values& values) {
  std::map<std::string_view, const ParameterSpec*> known;
  std::vector<std::string_view> names;
  for (const ParameterSpec& p : parameters) {
    known[p.name] = &p;
    names.push_back(p.name);
  }
  for (const auto& [name, value] : values) {
    const auto found = known.find(name);
    if (found == known.end())
      throw Error(Errc::invalid_argument, "set_parameters(): the graph has no parameter ", name,
                  did_you_mean(name, names));
    const ParameterSpec& p = *found->second;
    if (!value.defined() || !value.on_host())
      throw Error(Errc::invalid_argument, "set_parameters(): the value of ", name,
                  value.defined() ? " is not in this process's memory" : " is empty");
    if (value.dtype() != p.dtype || !(value.shape() == p.shape))
      throw Error(Errc::invalid_argument, "set_parameters(): parameter ", name, " is ", p.dtype,
                  p.shape, ", the value is ", value.dtype(), value.shape());
  }
}

// Waits for lost processes, which `patience` allows.
template <class F>
void with_patience(ParameterVisit& group, std::chrono::milliseconds patience, const F& what) {
  patiently(patience, what, [&](const Error& e) {
    group->master().process().log()->warn("parameters not set yet, tried again: error={}",
                                          e.what());
    return true;
  });
}

// Requires: they fit. The values that others have now are read once: shards that have begun the
// epoch do not have them any more.
void give(ParameterVisit& group, Values values, std::chrono::milliseconds patience,
          const char* caller) {
  want_no_tables(group->in_graph().made(), caller,
                 "and its rows would be lost, as all shards begin anew; load a checkpoint that "
                 "has them by load_parameters(session, folder), or set values in a session whose "
                 "graph has no table");
  const auto claim = claim_values(group, caller);
  ParameterGroup::Start start;
  start.mode = BeginEpoch::reset;
  start.next_step = steps_done(group, caller);
  start.replicas = group->in_graph().replicas();
  std::vector<ParameterSpec> others;
  for (const ParameterSpec& p : group->in_graph().made())
    if (!values.count(p.name)) others.push_back(p);
  with_patience(group, patience, [&] {
    if (!start.values) {
      values.merge(pull_values(group, others));
      start.values = std::make_shared<const Values>(values);
    }
    establish(group, start);
  });
}

// A file of values: a whole one, or the newest checkpoint of a folder.
struct Stored {
  std::map<std::string, TensorType> types;
  std::function<Values(const std::vector<std::string>& names)> read;
  std::string name;
};

Stored stored_in_folder(ParameterVisit& group, const CheckpointFolder& folder) {
  std::vector<std::string> damaged;
  const std::optional<Manifest> manifest = find_newest(real_disk(), folder.path(), damaged);
  for (const std::string& line : damaged)
    group->master().process().log()->warn("a checkpoint is passed over: error={}", line);
  if (!manifest && !damaged.empty()) refuse_damaged(folder, damaged.size());
  if (!manifest)
    throw Error(Errc::invalid_argument, "there is no checkpoint in ", folder.path(),
                "; give the checkpoint_dir of a training, or a .safetensors or .npz file");
  Stored out;
  for (const ParameterSpec& p : manifest->parameters) out.types[p.name] = {p.dtype, p.shape};
  out.name = folder.path_of(*manifest);
  out.read = [manifest, dir = folder.path()](const std::vector<std::string>& names) {
    Manifest wanted = *manifest;
    std::erase_if(wanted.parameters, [&](const ParameterSpec& p) {
      return std::find(names.begin(), names.end(), p.name) == names.end();
    });
    const auto read = read_parameters(real_disk(), dir, wanted);
    return Values(read.begin(), read.end());
  };
  return out;
}

Stored stored_in_file(const std::string& path) {
  const auto all = std::make_shared<const Values>(read_tensors(path));
  Stored out;
  for (const auto& [name, tensor] : *all) out.types[name] = {tensor.dtype(), tensor.shape()};
  out.name = path;
  out.read = [all](const std::vector<std::string>&) { return *all; };
  return out;
}

LoadReport load(ParameterVisit& group, const Stored& stored, const LoadOptions& options) {
  const std::vector<ParameterSpec> parameters = group->in_graph().made();
  Matching match = match_parameters(parameters, stored.types, options, stored.name);
  std::vector<std::string> names;
  for (const auto& [parameter, tensor] : match.taken) names.push_back(tensor);
  const Values read = stored.read(names);
  Values values;
  for (const ParameterSpec& p : parameters)
    if (const auto taken = match.taken.find(p.name); taken != match.taken.end())
      values[p.name] = cast_floating(read.at(taken->second), p.dtype);
  give(group, std::move(values), options.patience, "load_parameters()");
  return std::move(match.report);
}

}  // namespace

Tensor parameter_value(Session& session, const std::string& name) {
  ParameterVisit group(session);
  std::vector<std::string> names;
  for (const bool made : {false, true}) {  // the graph may have more than was used so far
    if (made) make_all(group);
    names.clear();
    for (const ParameterSpec& p : group->in_graph().made()) {
      if (p.name == name) {
        want_no_tables({p}, "parameter_value()",
                       "and has no values as a whole; read rows of it with gather()");
        return pull_values(group, {p}).at(name);
      }
      names.push_back(p.name);
    }
  }
  throw Error(Errc::invalid_argument, "the graph has no parameter ", name,
              did_you_mean(name, names));
}

void set_parameters(Session& session, const std::map<std::string, Tensor>& values,
                    std::chrono::milliseconds patience) {
  ParameterVisit group(session);
  with_patience(group, patience, [&] { make_all(group); });
  want_owner(group, "set their values");
  check_values(group->in_graph().made(), values);
  if (!values.empty()) give(group, values, patience, "set_parameters()");
}

void save_weights(Session& session, const std::string& path) {
  ParameterVisit group(session);
  make_all(group);
  want_no_tables(group->in_graph().made(), "save_weights()",
                 "and has no values as a whole; a checkpoint by save_parameters() has its rows");
  write_tensors(path, pull_values(group, group->in_graph().made()));
}

LoadReport load_weights(Session& session, const std::string& path, const LoadOptions& options) {
  const Stored stored = stored_in_file(path);
  ParameterVisit group(session);
  with_patience(group, options.patience, [&] { make_all(group); });
  want_owner(group, "set their values");
  return load(group, stored, options);
}

LoadReport load_parameters(Session& session, const std::string& path, const LoadOptions& options) {
  if (std::error_code none; std::filesystem::is_regular_file(path, none))
    return load_weights(session, path, options);
  if (options.strict && options.rename.empty() && options.scopes.empty() && !options.cast) {
    load_parameters(session, path, options.patience);
    LoadReport report;
    const ParameterVisit group(session);
    for (const ParameterSpec& p : group->in_graph().made()) report.loaded.push_back(p.name);
    return report;
  }
  const CheckpointFolder folder(path);
  ParameterVisit group(session);
  with_patience(group, options.patience, [&] { make_all(group); });
  want_owner(group, "set their values");
  return load(group, stored_in_folder(group, folder), options);
}

}  // namespace troupe
