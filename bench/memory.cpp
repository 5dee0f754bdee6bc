// memory [--model M] [--recompute] [--steps N]: the peak memory of a training step beyond the
// memory held between steps, compared with the sum of all tensors of its nodes (no memory reused),
// and with the plan (troupe/graph.hpp). --recompute: the same model with its blocks
// recomputed, step by step in turn with the plain one, and the extra time.
#include <cstdio>
#include <memory>
#include <set>

#include "actors/master/session_state.hpp"
#include "bench/bench.hpp"
#include "bench/models.hpp"
#include "placement/call_graph.hpp"
#include "troupe/graph.hpp"
#include "troupe/session.hpp"

namespace troupe::bench {
namespace {

constexpr double kMiB = 1 << 20;

// For the graph that runs, after the passes. Nodes that only show their input in another shape need
// no memory, nor do constants and feeds.
double naive_bytes(const CallGraph& call) {
  static const std::set<std::string> views = {"Constant",    "ExpandDims",  "Identity",
                                              "Parameter",   "Placeholder", "Reshape",
                                              "ReshapeLike", "Squeeze",     "StopGradient"};
  double bytes = 0;
  const std::vector<NodeRoles> roles = roles_of(call);
  for (const auto& node : call.graph->nodes()) {
    if (!roles[static_cast<size_t>(node->id)].runs || views.count(node->op->name)) continue;
    for (const TensorType& type : node->outputs)
      bytes += static_cast<double>(type.shape.size() * size_of(type.dtype));
  }
  return bytes;
}

// A model with its own session, and the times of its steps.
class Measured {
 public:
  Measured(const std::string& name, bool again)
      : model_(make_model(graph_, name, {.recompute = again})),
        fetches_({model_.loss, model_.update}),
        session_(Session::local(graph_, {.threads = 1})) {
    for (const auto& [unused, output] : model_.fed) fed_.push_back(output);
    step_ = session_.prepare(fetches_, fed_);
    before_ = static_cast<double>(stats().used_bytes);
  }

  // Returns the loss.
  float step() {
    const auto begin = std::chrono::steady_clock::now();
    const Tensor loss = step_(model_.feeds)[0];
    seconds_.push_back(seconds_since(begin));
    return loss.item<float>();
  }

  MemoryStats stats() { return session_.state().process->cpu().memory().stats(); }
  double peak() { return static_cast<double>(stats().peak_bytes) - before_; }
  double step_ms() const { return quantile(seconds_, 0.5) * 1e3; }
  double naive() const {
    return naive_bytes(make_call_graph(graph_, fetches_, fed_, nullptr, true, {}));
  }
  MemoryPlan plan() const { return explain_memory(graph_, fetches_, fed_).at(0); }
  std::vector<RecomputedScope> scopes() const { return recomputed(graph_, fetches_, fed_); }

 private:
  Graph graph_;
  const Model model_;
  const std::vector<Output> fetches_;
  std::vector<Output> fed_;
  Session session_;
  Callable step_;
  double before_ = 0;
  std::vector<double> seconds_;
};

}  // namespace

int memory(const Options& options) {
  const std::string name = options.text("model", "resnet20");
  const bool both = options.flag("recompute");
  const int64_t steps = options.integer("steps", both ? 30 : 3);
  Measured kept(name, false);
  std::unique_ptr<Measured> again;
  if (both) again = std::make_unique<Measured>(name, true);
  for (int64_t i = 0; i < steps; ++i) {
    const float loss = kept.step();
    if (again && again->step() != loss) {
      std::fprintf(stderr, "the losses of step %lld differ\n", static_cast<long long>(i));
      return 1;
    }
  }
  const auto say = [&](const std::string& metric, double value, const std::string& unit) {
    report(options, "memory", metric, value, unit,
           {{"model", "\"" + name + "\""},
            {"statistic", unit == "ms" ? "\"median\"" : "\"maximum\""}});
  };
  const double naive = kept.naive();
  const auto figures = [&](Measured& of, const std::string& head) {
    const MemoryPlan plan = of.plan();
    say(head + "peak_mib", of.peak() / kMiB, "MiB");
    say(head + "reserved_mib", static_cast<double>(of.stats().reserved_bytes) / kMiB, "MiB");
    say(head + "peak_of_naive", of.peak() / naive, "x");
    say(head + "plan_peak_mib", static_cast<double>(plan.peak_bytes) / kMiB, "MiB");
    say(head + "plan_pool_mib", static_cast<double>(plan.pool_bytes) / kMiB, "MiB");
    say(head + "plan_arena_mib", static_cast<double>(plan.arena_bytes) / kMiB, "MiB");
    say(head + "step_ms", of.step_ms(), "ms");
  };
  say("naive_mib", naive / kMiB, "MiB");
  figures(kept, "");
  if (!again) return 0;
  figures(*again, "recompute_");
  double kept_bytes = 0, freed = 0, flops = 0;
  for (const RecomputedScope& scope : again->scopes()) {
    kept_bytes += static_cast<double>(scope.kept_bytes);
    freed += static_cast<double>(scope.freed_bytes);
    flops += scope.flops;
  }
  say("recompute_kept_mib", kept_bytes / kMiB, "MiB");
  say("recompute_freed_mib", freed / kMiB, "MiB");
  say("recompute_gflop", flops / 1e9, "GFLOP");
  return 0;
}

}  // namespace troupe::bench
