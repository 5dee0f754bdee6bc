// set_rule(), and set_rate_scale() for a step, of include/troupe/training.hpp.
#include "training/group/session_parameters.hpp"
#include "troupe/training.hpp"

namespace troupe {

void change_terms(ParameterGroup& group, const TermChange& change, TrainingRequests::Taken taken) {
  const char* const caller = change.rule ? "set_rule()" : "set_rate_scale()";
  if (change.step < 0)
    throw Error(Errc::invalid_argument, caller, ": the step is ", change.step,
                "; steps count from 0");
  if (group.shared())
    throw Error(
        Errc::invalid_argument, caller,
        ": the parameters are in a container that programs share, and their replicas do not stop "
        "together; ",
        change.rule ? "train anew with TrainOptions::rule" : "set it in a pause of their owner");
  if (!group.requests().change(change, std::move(taken)))
    throw Error(Errc::invalid_argument, caller, ": nothing is being trained; ",
                change.rule ? "begin with the rule: TrainOptions::rule"
                            : "leave the step out to set it between two trainings");
}

namespace {

void nobody_waits(Errc, const std::string&, int64_t) {}

}  // namespace

void set_rule(Session& session, const Aggregation& rule, int64_t step) {
  const ParameterVisit group(session);
  change_terms(*group, {.rule = rule, .step = step}, nobody_waits);
}

void set_rate_scale(Session& session, double scale, int64_t step) {
  const ParameterVisit group(session);
  change_terms(*group, {.rule = {}, .rate_scale = scale, .step = step}, nobody_waits);
}

}  // namespace troupe
