// Implements net/greetings.hpp.
#include "net/greetings.hpp"

namespace troupe {

Greeting refusal(const Hello& self, Refusal why, std::string text) {
  return {GreetingKind::refusal, why, std::move(text), self};
}

// What makes two processes fit together; null if they do.
std::optional<Greeting> misfit(const Hello& self, const Hello& theirs) {
  if (theirs.cluster != self.cluster)
    return refusal(
        self, Refusal::other_cluster,
        detail::concat(self.name(), " is of cluster \"", self.cluster, "\", ", theirs.name(),
                       " of cluster \"", theirs.cluster, "\"; give both the same --cluster"));
  if (theirs.fingerprint != self.fingerprint)
    return refusal(self, Refusal::other_ops,
                   detail::concat(self.name(), " and ", theirs.name(),
                                  " were built with different ops; install the same "
                                  "version of the program on both"));
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
      return true;
    default:
      return false;
  }
}

}  // namespace troupe
