// nn::Model: names, parameters, penalties and running averages of the layers of one model.
#include <set>

#include "graph/frames.hpp"
#include "graph/graph_state.hpp"
#include "nn/nn_layers.hpp"
#include "graph/base/refuse.hpp"
#include "graph/base/words.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

namespace troupe::nn {
namespace {

bool is_parameter(const Node& node) { return node.op->name == "Parameter"; }

// The names of the graph's parameters.
std::set<std::string> names_in(const Graph& graph) {
  std::set<std::string> names;
  for (const auto& node : graph.nodes())
    if (is_parameter(*node)) names.insert(node->attr<std::string>("parameter"));
  return names;
}

// troupe::parameter(), except for the name of the node: `node` within the open scopes, which are
// the rest of `whole`.
Output read_parameter(const std::string& whole, std::string_view node, Output first, Origin at) {
  Graph& graph = *first.graph;
  const std::string device = graph.device();
  std::string initial = detail::concat(first.name(), ":", first.index);
  for (const auto& other : graph.nodes()) {
    if (!is_parameter(*other) || other->attr<std::string>("parameter") != whole) continue;
    const bool same_type = other->outputs[0] == TensorType{first.dtype(), first.shape()};
    const bool same_place =
        other->device == device && other->attr<int64_t>("replica") == graph.replica();
    const bool table = !other->attr<std::string>("touched_rows").empty();
    if (table || !same_type || same_place)
      return troupe::parameter(whole, first, at);  // or it throws
    initial = other->attr<std::string>("initial");
  }
  return graph.add({.op = "Parameter",
                    .attrs = {{"parameter", whole},
                              {"dtype", first.dtype()},
                              {"shape", first.shape()},
                              {"initial", initial}},
                    .name = node},
                   at);
}

}  // namespace

Model::Scope::Scope(Model& model, std::string_view name, bool reuses, Origin at)
    : model_(&model),
      nodes_(model.graph_.scope({.name = std::string(name)}, at)),  // refuses bad names
      outer_(model.prefix_.size()),
      name_(model.prefix_ + std::string(name)),
      reuses_(reuses) {
  if (!name.empty()) {
    model.prefix_ = name_ + '/';
    ++model.openings_[model.prefix_];
  }
  if (!reuses) return;
  counts_ = model.take_counts(model.prefix_);
  ++model.reusing_;
  ++model.pass_;
}

Model::Scope::Scope(Scope&& other) noexcept
    : model_(std::exchange(other.model_, nullptr)),
      nodes_(std::move(other.nodes_)),
      outer_(other.outer_),
      name_(std::move(other.name_)),
      reuses_(other.reuses_),
      counts_(std::move(other.counts_)) {}

Model::Scope::~Scope() {
  if (!model_) return;
  model_->prefix_.resize(outer_);
  if (!reuses_) return;
  --model_->reusing_;
  for (const auto& [kind, count] : counts_) model_->count_[kind] = count;
}

Model::Scope Model::scope(std::string_view name, Origin at) {
  return Scope(*this, name, false, at);
}

Model::Scope Model::reuse(std::string_view name, Origin at) { return Scope(*this, name, true, at); }

// Forgets the layers below a scope, so that the next ones get their names, and returns them.
std::map<std::string, Model::Count> Model::take_counts(const std::string& prefix) {
  std::map<std::string, Count> taken;
  auto at = count_.lower_bound(prefix);
  while (at != count_.end() && at->first.starts_with(prefix)) taken.insert(count_.extract(at++));
  return taken;
}

Model::Scope Model::layer(std::string_view name, std::string_view kind, Origin at) {
  if (!name.empty()) {
    take_counts(prefix_ + std::string(name) + '/');  // layers in it are shared, too
    return scope(name, at);
  }
  Count& count = count_[prefix_ + std::string(kind)];
  const int64_t opening = openings_[prefix_];
  if (count.layers > 0 && count.opening != opening) {
    const std::string outer = prefix_.substr(0, prefix_.size() - 1);
    throw refuse("nn::Model::layer", at, "the scope ", outer, " is open again and has a layer ",
                 kind, " already, so this one would have new parameters, ", prefix_, kind, "_",
                 count.layers, "; open it with reuse(\"", outer.substr(outer.rfind('/') + 1),
                 "\") to read those of the first, or give the layer a name");
  }
  count.opening = opening;
  const int64_t number = count.layers++;
  return scope(number == 0 ? std::string(kind) : detail::concat(kind, "_", number), at);
}

void Model::rewind(Origin at) {
  if (!prefix_.empty() || reusing_ > 0)
    throw refuse("nn::Model::rewind", at, "the scope ", prefix_, " is open; close it first");
  count_.clear();
  openings_.clear();
  ++pass_;
}

std::string Model::random_key() const {
  return pass_ == 0 ? prefix_ : detail::concat(prefix_, pass_);
}

Output Model::read(std::string_view name, const Shape& shape, const Initializer& first, DType dtype,
                   Origin at) {
  const std::string whole = prefix_ + std::string(name);
  if (options_.reuse || reusing_ > 0)
    if (const auto known = names_in(graph_); !known.count(whole))
      throw refuse("nn::Model::reuse", at, "the parameter ", whole, " does not exist",
                   did_you_mean(whole, known),
                   "; a layer that is reused reads what was built before: build it first, without");
  if (is_half(dtype)) dtype = DType::f32;  // parameters are never rounded
  return read_parameter(whole, name,
                        first_values(graph_, shape, first, options_.seed, whole, dtype, at), at);
}

Output Model::parameter(std::string_view name, const Shape& shape, const Initializer& first,
                        DType dtype, Regularizer regularizer, Origin at) {
  const std::string whole = prefix_ + std::string(name);
  const auto outside = open_frame(graph_, -1);  // read once a step by all branches and calls
  const Output out = read(name, shape, first, dtype, at);
  for (const Output& known : parameters_)
    if (known.is(out)) return out;
  parameters_.push_back(out);
  for (const double scale : {regularizer.l1, regularizer.l2})
    if (!(scale >= 0))
      throw refuse("nn::Model::parameter", at, "the regularizer of ", whole,
                   " wants numbers from 0, got ", scale);
  if (regularizer.l1 > 0 || regularizer.l2 > 0) regularized_.push_back({out, regularizer});
  return out;
}

Output Model::running_average(std::string_view name, const Shape& shape, double first, Output value,
                              double decay, DType dtype, Origin at) {
  if (!(decay >= 0 && decay < 1))
    throw refuse("nn::Model::running_average", at, "wants a decay in [0, 1), got ", decay);
  const std::string whole = prefix_ + std::string(name);
  const Output average = read(name, shape, constant(first), dtype, at);
  if (options_.training && value.defined()) {
    Running& running = running_[whole];
    if (!running.values.empty() && running.decay != decay)
      throw refuse("nn::Model::running_average", at, whole, " has the decay ", running.decay,
                   " already, got ", decay);
    running.average = average;
    running.decay = decay;
    running.values.push_back(stop_gradient(value, at));
    graph_.state().averages.emplace(whole, value.node);
  }
  return stop_gradient(average, at);
}

Output Model::with_penalties(Output loss, Origin at) const {
  if (!loss.defined())
    throw refuse("nn::Model::with_penalties", at, "the loss is an undefined Output");
  for (const Regularized& one : regularized_) {
    const auto add_up = [&](double scale, auto* penalty) {
      if (scale == 0) return;
      const Output more = penalty({one.parameter}, scale, at);
      loss = add(loss, more.dtype() == loss.dtype() ? more : cast(more, loss.dtype(), at), at);
    };
    add_up(one.regularizer.l1, &l1_penalty);
    add_up(one.regularizer.l2, &l2_penalty);
  }
  return loss;
}

// The gradient of an average is its distance from the value: SGD with rate 1 - decay then makes
// a - (1 - decay) * (a - value).
Output Model::with_updates(Output update, Origin at) {
  if (!update.defined())
    throw refuse("nn::Model::with_updates", at, "the update is an undefined Output");
  std::vector<Output> all = {update};
  const auto scope = graph_.scope({.name = "running_averages"});
  for (const auto& [name, running] : running_) {
    Output sum = running.values[0];
    for (size_t i = 1; i < running.values.size(); ++i) sum = add(sum, running.values[i], at);
    if (running.values.size() > 1) {
      const double share = 1 / static_cast<double>(running.values.size());
      sum = multiply(sum, fill(graph_, {}, share, sum.dtype(), "", at), at);
    }
    all.push_back(push_gradient(running.average, subtract(running.average, sum, at),
                                sgd(1 - running.decay), {running.average.node}, at));
  }
  return all.size() == 1 ? update : group(graph_, all, "update", at);
}

}  // namespace troupe::nn
