// Greetings: the checks and answers that Mesh and draw_task() share.
// Owner: none, functions only. Thread: any.
#pragma once

#include <optional>
#include <string>

#include "net/link/hello.hpp"

namespace troupe {

Greeting refusal(const Hello& self, Refusal why, std::string text);
// Returns the refusal if the two processes cannot be in one cluster (another cluster name, other
// ops), else nothing.
std::optional<Greeting> misfit(const Hello& self, const Hello& theirs);
// True if dialling again is pointless.
bool is_final(Refusal why);

inline constexpr std::chrono::seconds kDialTimeout{3};

}  // namespace troupe
