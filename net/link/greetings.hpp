// What a mesh and a task draw both say and make of greetings.
#pragma once

#include <optional>
#include <string>

#include "net/link/hello.hpp"

namespace troupe {

Greeting refusal(const Hello& self, Refusal why, std::string text);
// What keeps two processes from being in one cluster: another cluster's name, other ops. Nothing if
// they fit.
std::optional<Greeting> misfit(const Hello& self, const Hello& theirs);
// Whether it is pointless to dial again.
bool is_final(Refusal why);

inline constexpr std::chrono::seconds kDialTimeout{3};

}  // namespace troupe
