// The refusals that Mesh and draw_task() share, with their texts.
#include "net/link/greetings.hpp"

#include "net/wire/own_ops.hpp"

namespace troupe {

Greeting refusal(const Hello& self, Refusal why, std::string text) {
  return {GreetingKind::refusal, why, std::move(text), self};
}

namespace {

std::string other_ops_text(const Hello& self, const Hello& theirs) {
  const std::string own = ops_difference(self.ops, self.name(), theirs.ops, theirs.name());
  if (!own.empty())
    return detail::concat(self.name(), " and ", theirs.name(), " have different ops: ", own,
                          "; start both with the same --plugin files");
  return detail::concat(self.name(), " and ", theirs.name(),
                        " were built with different ops; install the same version of the program "
                        "on both");
}

}  // namespace

std::optional<Greeting> misfit(const Hello& self, const Hello& theirs) {
  if (theirs.cluster != self.cluster)
    return refusal(
        self, Refusal::other_cluster,
        detail::concat(self.name(), " is of cluster \"", self.cluster, "\", ", theirs.name(),
                       " of cluster \"", theirs.cluster, "\"; give both the same --cluster"));
  if (theirs.fingerprint != self.fingerprint)
    return refusal(self, Refusal::other_ops, other_ops_text(self, theirs));
  return std::nullopt;
}

bool is_final(Refusal why) {
  switch (why) {
    case Refusal::not_ours:
    case Refusal::other_version:
    case Refusal::other_cluster:
    case Refusal::other_ops:
    case Refusal::stale_incarnation:
    case Refusal::same_node:
    case Refusal::malformed:
    case Refusal::other_secret:
    case Refusal::untrusted:
      return true;
    default:
      return false;
  }
}

}  // namespace troupe
