// make_rule(): the list of aggregation rules; and the progress of replicas.
#include "training/rules/rule.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "graph/base/name_pattern.hpp"
#include "graph/base/words.hpp"
#include "training/rules/rule_async.hpp"
#include "training/rules/rule_backup.hpp"
#include "training/rules/rule_local.hpp"
#include "training/rules/rule_ssp.hpp"
#include "training/rules/rule_sync.hpp"

namespace troupe {

std::vector<ReplicaProgress> replicas_at(int32_t count, int64_t next_step) {
  std::vector<ReplicaProgress> out;
  for (int32_t replica = 0; replica < count; ++replica)
    out.push_back({.replica = replica, .next_step = next_step});
  return out;
}

void ReplicaProgress::count(int64_t step) {
  const int64_t ahead = -behind(step);
  if (ahead > 0) {
    counted = (ahead >= kWindow ? 0 : counted << ahead) | 1;
    next_step = step + 1;
  } else {
    counted |= uint64_t{1} << -ahead;
  }
}

std::string ReplicaProgress::too_old(int64_t step) const {
  return detail::concat("step ", step, " is ", behind(step),
                        " steps older than the newest one of replica ", replica, "; at most ",
                        kWindow - 1, " are remembered");
}

Aggregation Aggregation::of(const std::string& parameter) const {
  const auto* const mine =
      entry_for(own, parameter, [](const auto& one) { return std::string_view(one.first); });
  if (mine) return mine->second;
  Aggregation out = *this;
  out.own.clear();
  return out;
}

bool Aggregation::by_steps() const {
  return (kind == Kind::sync || kind == Kind::sync_backup || local()) &&
         std::all_of(own.begin(), own.end(), [](const auto& one) { return one.second.by_steps(); });
}

bool Aggregation::repeats() const {
  return (kind == Kind::sync || local()) &&
         std::all_of(own.begin(), own.end(), [](const auto& one) { return one.second.repeats(); });
}

bool AggregationRule::go_on(int32_t, int64_t) { return false; }
std::optional<int32_t> AggregationRule::skip(std::vector<Contribution>&) { return std::nullopt; }

void check_rule(const Aggregation& rule, size_t replicas) {
  using Kind = Aggregation::Kind;
  if (rule.damped && rule.by_steps())
    throw Error(Errc::invalid_argument,
                "the rules by steps have no staleness to damp; damp async or ssp:S");
  if (rule.bound < 0)
    throw Error(Errc::invalid_argument, "the rule ", to_string(rule),
                " wants a number of at least 0, got ", rule.bound);
  if (rule.local() && rule.bound == 0)
    throw Error(Errc::invalid_argument, "the rule ", to_string(rule),
                " wants rounds of at least 1 step, as in ",
                rule.outer_momentum == 0 ? "local:8" : "diloco:100");
  if (!(rule.outer_rate > 0) || !(rule.outer_momentum >= 0) || !(rule.outer_momentum < 1) ||
      !std::isfinite(rule.outer_rate))
    throw Error(Errc::invalid_argument, "the rule ", to_string(rule),
                " wants an outer rate above 0 and an outer momentum from 0 to below 1");
  if (rule.kind != Kind::sync_backup) return;
  if (rule.bound == 0)
    throw Error(Errc::invalid_argument,
                "the rule sync-backup:0 has no backup replica; name at least 1, or take sync");
  if (static_cast<uint64_t>(rule.bound) >= replicas)
    throw Error(Errc::invalid_argument, "the rule ", to_string(rule), " leaves out ", rule.bound,
                " of ", replicas,
                " replicas, and an update needs one; add replicas, or leave out fewer");
}

void check_rule(const Aggregation& rule, size_t replicas,
                const std::vector<std::string>& parameters) {
  check_rule(rule, replicas);
  for (const auto& [pattern, own] : rule.own) {
    using Kind = Aggregation::Kind;
    const auto alone = [](const Aggregation& r) {
      return r.kind == Kind::sync_backup || r.local();
    };
    if (alone(own) || alone(rule))
      throw Error(
          Errc::invalid_argument, "the rule ", to_string(rule),
          " has parameters with rules of their own beside sync-backup or local steps, which ",
          "hold for all parameters at once; take sync, async or ssp:S for each");
    if (pattern.find_first_of("\"\\+=") != std::string::npos)
      throw Error(Errc::invalid_argument, "the rule ", to_string(rule), " names \"", pattern,
                  "\"; a name with one of \" \\ + = can have no rule of its own by itself: name ",
                  "its begin and a star");
    check_rule(own, replicas);
    const auto named = [&p = pattern](const std::string& name) { return matches_name(p, name); };
    if (std::any_of(parameters.begin(), parameters.end(), named)) continue;
    throw Error(Errc::invalid_argument, "the rule ", to_string(rule), " names \"", pattern,
                "\", and no trained parameter is called so", did_you_mean(pattern, parameters),
                "; there are ", listed(parameters));
  }
}

void check_rule(const Aggregation& rule, const Optimizer& optimizer, const std::string& what) {
  if (rule.damped && optimizer.kind == "ftrl")
    throw Error(Errc::invalid_argument, what, " is trained by ftrl, whose sums hold for one ",
                "learning rate, and ", to_string(rule),
                " changes it; leave out the damping, or take another optimizer");
  if (rule.local() && optimizer.kind == "ftrl")
    throw Error(Errc::invalid_argument, what, " is trained by ftrl, whose sums make the values, ",
                "and under ", to_string(rule),
                " an optimizer begins anew in each round; take "
                "another optimizer, or sync");
}

std::unique_ptr<AggregationRule> make_rule(const Aggregation& rule,
                                           std::vector<ReplicaProgress> progress) {
  if (!progress.empty()) check_rule(rule, progress.size());
  for (size_t i = 0; i < progress.size(); ++i) {
    const ReplicaProgress& p = progress[i];
    if (i > 0 && progress[i - 1].replica >= p.replica)
      throw Error(Errc::invalid_argument, "replicas must ascend, got ", progress[i - 1].replica,
                  " before ", p.replica);
    if (p.next_step < 0)
      throw Error(Errc::invalid_argument, "replica ", p.replica, " cannot begin at step ",
                  p.next_step);
    if (rule.by_steps() && p.next_step != progress[0].next_step)
      throw Error(Errc::invalid_argument, "synchronous replicas begin together, but replica ",
                  progress[0].replica, " is at step ", progress[0].next_step, " and replica ",
                  p.replica, " at step ", p.next_step);
  }
  switch (rule.kind) {
    case Aggregation::Kind::sync:
      return make_sync_rule(progress);
    case Aggregation::Kind::sync_backup:
      return make_backup_rule(rule, progress);
    case Aggregation::Kind::async:
      return make_async_rule(rule, progress);
    case Aggregation::Kind::ssp:
      return make_ssp_rule(rule, progress);
    case Aggregation::Kind::local:
      return make_local_rule(rule, progress);
  }
  throw InternalError("unknown aggregation rule ", static_cast<int>(rule.kind));
}

}  // namespace troupe
