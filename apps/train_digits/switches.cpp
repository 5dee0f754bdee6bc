// Reads the text of --switch.
#include "apps/train_digits/switches.hpp"

#include <charconv>
#include <sstream>

using namespace troupe;

Switches switches_from(const std::string& text) {
  const auto refuse = [&text](const auto&... why) {
    throw Error(Errc::invalid_argument, "--switch wants a list such as 200=ssp:3,300=async, got \"",
                text, "\": ", why...);
  };
  Switches out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) refuse("\"", part, "\" has no \"=\"");
    int64_t step = 0;
    const char* const end = part.data() + equals;
    const auto [rest, error] = std::from_chars(part.data(), end, step);
    if (error != std::errc() || rest != end || step < 1)
      refuse("\"", part.substr(0, equals), "\" is no step from 1 on");
    if (!out.empty() && step <= out.rbegin()->first)
      refuse("step ", step, " comes after step ", out.rbegin()->first);
    out.emplace(step, aggregation_from_string(part.substr(equals + 1)));
  }
  if (out.empty()) refuse("it names no step");
  return out;
}

void ask(Session& session, const Switches& switches, int64_t step) {
  auto first = switches.upper_bound(step);
  if (first != switches.begin()) --first;  // it holds at `step`
  for (auto it = first; it != switches.end(); ++it) set_rule(session, it->second, it->first);
}
