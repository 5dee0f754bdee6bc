// The text of an Aggregation: on the command line, in manifests, and in messages.
#include <charconv>
#include <sstream>

#include "troupe/training.hpp"

namespace troupe {
namespace {

using Kind = Aggregation::Kind;

struct Form {
  const char* name;
  Kind kind;
  bool damped, bounded;
};
constexpr Form kForms[] = {
    {"sync", Kind::sync, false, false},   {"sync-backup", Kind::sync_backup, false, true},
    {"async", Kind::async, false, false}, {"async-damped", Kind::async, true, false},
    {"ssp", Kind::ssp, false, true},      {"ssp-damped", Kind::ssp, true, true},
};

int64_t bound_of(const std::string& text, const std::string& digits) {
  int64_t out = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, out);
  if (error != std::errc() || rest != end || out < 0)
    throw Error(Errc::invalid_argument, "the aggregation rule \"", text,
                "\" wants a whole number of at least 0 after the colon, got \"", digits, "\"");
  return out;
}

// The rule of all parameters without one of their own.
std::string text_of(const Aggregation& rule) {
  for (const Form& form : kForms)
    if (form.kind == rule.kind && form.damped == rule.damped)
      return form.bounded ? detail::concat(form.name, ":", rule.bound) : form.name;
  return "damped, by steps";  // check_rule() refuses it
}

Aggregation from_text(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  for (const Form& form : kForms) {
    if (name != form.name || form.bounded != (colon != std::string::npos)) continue;
    return {form.kind, form.bounded ? bound_of(text, text.substr(colon + 1)) : 0, form.damped};
  }
  throw Error(Errc::invalid_argument, "unknown aggregation rule \"", text,
              "\"; there are sync, sync-backup:B for B replicas that may be late, async, ssp:S for "
              "at most S steps ahead, async-damped and ssp-damped:S");
}

}  // namespace

std::string to_string(const Aggregation& rule) {
  std::string out = text_of(rule);
  for (const auto& [parameter, own] : rule.own) out += "+" + parameter + "=" + text_of(own);
  return out;
}

Aggregation aggregation_from_string(const std::string& text) {
  std::istringstream parts(text);
  std::string part;
  std::getline(parts, part, '+');
  Aggregation out = from_text(part);
  while (!parts.eof()) {
    std::getline(parts, part, '+');
    const size_t equals = part.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw Error(Errc::invalid_argument, "the aggregation rule \"", text,
                  "\" wants PARAMETER=RULE ", "after a plus, as in sync+embedding*=async, got \"",
                  part, "\"");
    out.own.emplace_back(part.substr(0, equals), from_text(part.substr(equals + 1)));
  }
  return out;
}

}  // namespace troupe
