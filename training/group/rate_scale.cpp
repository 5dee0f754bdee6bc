// The functions of include/troupe/training.hpp on the rate scale.
#include <memory>

#include "training/group/pushed_parameters.hpp"
#include "training/group/session_parameters.hpp"
#include "troupe/training.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kAnswerTimeout{60};

}  // namespace

double rate_scale(Session& session) {
  const ParameterVisit group(session);
  if (group->owner()) return group->rate_scale().now();
  const auto out = std::make_shared<double>(1);
  group->wait([&](ParameterGroup::Done done) { group->ask_rate_scale(out, std::move(done)); },
              kAnswerTimeout);
  return *out;
}

void set_rate_scale(Session& session, double scale) {
  ParameterVisit group(session);
  want_owner(group, "set their rate scale");
  check_rate_scale(group->master().graph(), scale, "set_rate_scale()");
  if (group->rate_scale().ask(scale)) return;  // the training tells the shards
  const auto claim = group->claim_training();
  if (!claim)
    throw Error(
        Errc::invalid_argument,
        "set_rate_scale(): the parameters are being trained, or given values; in train() and "
        "fit() call it from on_pause or on_epoch, between two steps");
  make_all(group);
  want_owner(group, "set their rate scale");  // known now
  const int64_t step = steps_done(group, "set_rate_scale()");
  group->wait(
      [&](ParameterGroup::Done done) { group->set_rate_scale(scale, step, std::move(done)); },
      kAnswerTimeout);
}

}  // namespace troupe
