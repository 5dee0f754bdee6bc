// Control messages between a visitor of a cluster (troupe jobs) and a program that trains. They
// travel as ordinary CAF messages; docs/protocol.md lists them.
// Owner: values. Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/all.hpp>

#include "net/wire/bounded_list.hpp"
#include "net/wire/double_bits.hpp"

namespace troupe {

// any -> program: the state of its training. Answered by TrainingTold.
struct AskTraining {};
struct TrainingTold {
  std::string program;   // the name of its executable
  int64_t training = 0;  // the number of trainings that the session has begun
  std::string phase;     // "trains"; empty: none runs, and the rest says nothing
  int64_t step = 0, steps = 0;
  double loss = 0, examples_per_second = 0, remaining_s = 0;
  std::string rule;  // of the shards
  double rate_scale = 1;
  int64_t recoveries = 0;
  std::vector<int32_t> replicas;
  std::vector<std::string> tasks;  // one per replica
  // Changes that the shards do not have yet, by step.
  std::vector<int64_t> rule_steps, scale_steps;
  std::vector<std::string> rules;
  std::vector<double> scales;
};
// any -> program: the ledger of the parameters that match. Answered by LedgerTold.
struct AskLedger {
  std::string parameters;  // a pattern (graph/base/name_pattern.hpp)
};
struct LedgerTold {
  std::vector<std::string> parameters, tasks;  // one per row
  std::vector<int64_t> counts;       // for each row kLedgerCounts, then one for each reason
  std::vector<std::string> reasons;  // of refusals
  std::string left_out;              // the missing rows, and why; empty: none
};
// The counts of each row: offset, replica, received, applied, merged, late, duplicate, held.
inline constexpr size_t kLedgerCounts = 8;

// any -> program: another rule or rate scale for its training. Answered by TermsTaken when the
// training has taken it, or by the error of set_rule() and set_rate_scale().
struct ChangeTerms {
  std::string rule;       // empty: another rate scale
  double rate_scale = 0;  // without a rule
  int64_t step = 0;
};
struct TermsTaken {
  int64_t training = 0;  // as TrainingTold::training
  int64_t from = 0;      // the step from which it is going to hold
};

template <class I>
auto inspect(I&, AskTraining&) -> caf::error {
  return caf::none;
}
template <class I>
auto inspect(I& f, TrainingTold& x) {
  BoundedList tasks{x.tasks}, rules{x.rules};
  DoubleBits loss{x.loss}, speed{x.examples_per_second}, remaining{x.remaining_s};
  return f(x.program, x.training, x.phase, x.step, x.steps, loss, speed, remaining, x.rule,
           x.rate_scale, x.recoveries, x.replicas, tasks, x.rule_steps, x.scale_steps, rules,
           x.scales);
}
template <class I>
auto inspect(I& f, AskLedger& x) {
  return f(x.parameters);
}
template <class I>
auto inspect(I& f, LedgerTold& x) {
  BoundedList parameters{x.parameters}, tasks{x.tasks}, reasons{x.reasons};
  return f(parameters, tasks, x.counts, reasons, x.left_out);
}
template <class I>
auto inspect(I& f, ChangeTerms& x) {
  DoubleBits rate_scale{x.rate_scale};
  return f(x.rule, rate_scale, x.step);
}
template <class I>
auto inspect(I& f, TermsTaken& x) {
  return f(x.training, x.from);
}

void add_training_messages(caf::actor_system_config& config);

}  // namespace troupe
