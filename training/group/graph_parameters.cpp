// Lays out the parameters that calls need, and has their shards made, at the session's rate scale.
#include "training/group/graph_parameters.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "graph/parameter_nodes.hpp"
#include "graph/table_options.hpp"
#include "graph/task_of.hpp"
#include "training/group/once_a_step.hpp"
#include "training/group/pushed_parameters.hpp"
#include "training/group/training_warnings.hpp"

namespace troupe {

// Parameters that are made together, and tried again together when that fails.
struct GraphParameters::Batch {
  std::vector<ParameterSpec> parameters;  // by name
  std::vector<Output> initial;            // the first values of those that are no tables
  std::vector<std::string> begun;         // their names
  // Touched by the actor only:
  double rate_scale = 1;  // of its shards; 0: not known
  bool making = false;
  std::vector<int32_t> shards;  // once they are laid out
  std::vector<Done> behind;     // of all callers that wait for it, while it is being made
};

std::vector<ParameterSpec> GraphParameters::made() const {
  std::lock_guard lock(mutex_);
  std::vector<ParameterSpec> out;
  for (const auto& [name, known] : known_)
    if (known.made) out.push_back(known.spec);
  return out;
}

std::vector<int32_t> GraphParameters::replicas() const {
  std::lock_guard lock(mutex_);
  return replicas_;
}

// The batches of the parameters among `nodes`; those in none yet are a new one.
GraphParameters::Batches GraphParameters::batches_of(const std::vector<int32_t>& nodes) {
  const Graph& graph = master_.graph();
  Pushed pushed = pushed_in(graph);
  if (pushed.replicas.empty()) pushed.replicas.insert(0);
  for (int32_t replica = 0; replica < options_.replicas; ++replica) pushed.replicas.insert(replica);
  std::map<std::string, std::pair<ParameterSpec, Output>> wanted;
  for (int32_t id : parameter_nodes(graph, nodes)) {
    const Node& node = graph.node(id);
    const auto& name = parameter_name(node);
    ParameterSpec spec{name, node.outputs[0].dtype, node.outputs[0].shape, {}};
    if (auto it = pushed.optimizers.find(name); it != pushed.optimizers.end())
      spec.optimizer = it->second;
    const ParameterUse& use = properties_of(node).parameter;
    Output initial;  // undefined: a table, whose rows have their first values
    if (const std::string& table = use.table(node); !table.empty())
      spec.table = table_options_from_text(table);
    else
      initial = graph.output(use.initial(node));
    wanted.try_emplace(name, std::move(spec), initial);
  }
  auto fresh = std::make_shared<Batch>();
  std::lock_guard lock(mutex_);
  replicas_.assign(pushed.replicas.begin(), pushed.replicas.end());
  Batches out;
  for (auto& [name, what] : wanted) {
    const auto [it, added] = known_.try_emplace(name, Known{what.first, fresh});
    const auto& batch = it->second.batch;
    if (std::find(out.begin(), out.end(), batch) == out.end()) out.push_back(batch);
    if (!added) continue;
    if (pushed.filled.count(name))
      master_.process().log()->warn(
          "the rows that a gather leaves out of a gradient are pushed as zeros: parameter={}",
          name);
    fresh->parameters.push_back(std::move(what.first));
    if (!what.second.defined()) continue;
    fresh->initial.push_back(what.second);
    fresh->begun.push_back(name);
  }
  return out;
}

void GraphParameters::ensure(const std::vector<int32_t>& nodes, Done done) {
  std::vector<std::pair<std::shared_ptr<Batch>, int64_t>> wanted;  // with the call for its values
  try {
    check_once_a_step(master_.graph(), nodes);
    const TrainingWarnings warnings = training_warnings(master_.graph(), nodes);
    for (const std::string& average : warnings.still)
      master_.process().log()->warn(
          "a training step leaves a running average as it is, pass the update through "
          "Model::with_updates(): parameter={}",
          average);
    for (const auto& [parameter, nearest] : warnings.unread)
      master_.process().log()->warn(
          "no node reads a parameter, so its values have no effect: parameter={} nearest={}",
          parameter, nearest);
    for (const auto& batch : batches_of(nodes))
      if (!made(*batch))
        wanted.emplace_back(
            batch, batch->initial.empty() ? -1 : master_.calls().prepare(batch->initial, {}));
  } catch (const Error& e) {
    done(e.code(), e.what());
    return;
  }
  shards_.poster()([this, wanted = std::move(wanted), done = calls_.add(std::move(done))] {
    const Done ended = when_all(wanted.size(), done);
    for (const auto& [batch, call] : wanted) {
      if (made(*batch)) {
        ended(Errc::ok, {});
        continue;
      }
      batch->behind.push_back(ended);
      if (!std::exchange(batch->making, true)) make(batch, call);
    }
  });
}

bool GraphParameters::made(const Batch& batch) const {
  std::lock_guard lock(mutex_);
  return known_.at(batch.parameters.at(0).name).made;
}

// Shards live on all ps tasks, also on one that is away just now; without any, on the workers that
// are there; without these, here.
void GraphParameters::choose_tasks() {
  if (!table_.tasks.empty()) return;
  std::set<std::string> tasks;
  for (const std::string& device : master_.devices())
    if (device.rfind("/job:ps/", 0) == 0) tasks.insert(task_of(device));
  if (tasks.empty())
    for (const auto& [task, agent] : master_.members().agents())
      if (task.rfind("/job:worker/", 0) == 0) tasks.insert(task);
  if (tasks.empty()) tasks.insert(master_.process().task());
  table_.tasks.assign(tasks.begin(), tasks.end());
}

void GraphParameters::make(const std::shared_ptr<Batch>& batch, int64_t call) {
  if (batch->shards.empty()) {
    choose_tasks();
    try {
      batch->shards = table_.add(batch->parameters, options_.shards);
    } catch (const Error& e) {
      return made(batch, e.code(), e.what());
    }
    if (call >= 0) maker_.add_source(call, batch->begun);
  }
  const auto send_routes = [this, batch] {
    routes_.send_all(
        [this, batch](Errc code, const std::string& text) { made(batch, code, text); });
  };
  if (table_.usable(batch->shards)) return send_routes();  // only the routes were missing
  maker_.make(
      batch->shards, replicas(),
      [this, batch, call, send_routes, epoch = table_.epoch](Errc code, const std::string& text) {
        if (began_without(batch, call, epoch)) return;
        if (code != Errc::ok) return made(batch, code, text);
        scale_rates(batch, call, send_routes);
      });
}

// True if a training has begun since `epoch`, without the shards of the batch: they catch up with
// it.
bool GraphParameters::began_without(const std::shared_ptr<Batch>& batch, int64_t call,
                                    uint64_t epoch) {
  if (!maker_.owner() || table_.epoch == epoch) return false;
  batch->rate_scale = 0;
  make(batch, call);
  return true;
}

// Shards are made at a rate scale of 1. Calls `ready` when those of the batch are in use at the
// session's, which may change meanwhile.
void GraphParameters::scale_rates(const std::shared_ptr<Batch>& batch, int64_t call,
                                  const std::function<void()>& ready) {
  const double scale = table_.rate_scale;
  if (!maker_.owner() || scale == batch->rate_scale) {
    table_.use(batch->shards);
    return ready();
  }
  batch->rate_scale = 0;
  shards_.scale_rates(
      batch->shards, scale, /*step=*/INT64_MAX,
      [this, batch, call, ready, scale, epoch = table_.epoch](Errc code, const std::string& text) {
        if (began_without(batch, call, epoch)) return;
        if (code != Errc::ok) return made(batch, code, text);
        batch->rate_scale = scale;
        scale_rates(batch, call, ready);
      });
}

// The batch has been made, or making it failed: the next caller that needs it tries again.
void GraphParameters::made(const std::shared_ptr<Batch>& batch, Errc code,
                           const std::string& text) {
  batch->making = false;
  if (code == Errc::ok) {
    std::lock_guard lock(mutex_);
    for (const ParameterSpec& spec : batch->parameters) known_.at(spec.name).made = true;
  }
  for (const Done& behind : std::exchange(batch->behind, {})) behind(code, text);
}

}  // namespace troupe
