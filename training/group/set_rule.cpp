// set_rule() of include/troupe/training.hpp.
#include "training/group/session_parameters.hpp"
#include "troupe/training.hpp"

namespace troupe {

void set_rule(Session& session, const Aggregation& rule, int64_t step) {
  const ParameterVisit group(session);
  if (step < 0)
    throw Error(Errc::invalid_argument, "set_rule(): the step is ", step, "; steps count from 0");
  if (group->shared())
    throw Error(Errc::invalid_argument,
                "set_rule(): the parameters are in a container that programs share, and their "
                "replicas do not stop together; train anew with TrainOptions::rule");
  if (!group->rules().ask(rule, step))
    throw Error(Errc::invalid_argument,
                "set_rule(): nothing is being trained; begin with the rule: TrainOptions::rule");
}

}  // namespace troupe
