// troupe set: another rule or another rate scale for a running training.
#include <iostream>

#include "apps/troupe/verbs.hpp"
#include "apps/troupe/visit.hpp"

using namespace troupe;

int set(const std::vector<std::string>& arguments) {
  VisitFlags given;
  std::optional<std::string> rule;
  std::optional<double> rate;
  int64_t at = 0;
  Flags flags("troupe set",
              "troupe set --join HOST:PORT --rule RULE, or --rate X: another aggregation rule or "
              "another rate scale for a running training. Returns when all shards have it, and "
              "says from which step on it holds. A change stays asked for when this command is "
              "ended while it waits for a later step");
  add_visit_flags(flags, given, /*one=*/true);
  flags.add("rule", &rule, "sync, sync-backup:B, async, ssp:S, local:H and others");
  flags.add("rate", &rate, "the factor of all learning rates, beside their schedules");
  flags.add("at", &at, "step from which it holds; else the first one that no replica has begun");
  if (!flags.parse(arguments)) return 0;
  if (rule.has_value() == rate.has_value())
    throw Error(Errc::invalid_argument, "set wants --rule or --rate, and one of them",
                rule ? "; ask for the other one with a second command" : "");
  const Aggregation wanted = rule ? aggregation_from_string(*rule) : Aggregation();
  const std::unique_ptr<Visitor> visitor = visit(given);
  const RunningProgram program = choose_program(visitor->programs(), given.job);
  const int64_t from = rule ? visitor->set_rule(program.task, wanted, at)
                            : visitor->set_rate_scale(program.task, *rate, at);
  std::cout << "the " << (rule ? "rule" : "rate scale") << " of " << name_of(program) << " is ";
  if (rule)
    std::cout << to_string(wanted);
  else
    std::cout << *rate;
  std::cout << " from step " << from << " on\n";
  return 0;
}
