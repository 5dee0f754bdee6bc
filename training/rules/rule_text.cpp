// The text of an Aggregation: on the command line, in manifests, and in messages.
#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

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
    {"local", Kind::local, false, true},
};

// Douillard et al. 2023, section 3.
constexpr double kOuterRate = 0.7, kOuterMomentum = 0.9;

std::string text_of(double x) {  // reads back with the same bits
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, x).ptr};
}

template <class T>
bool reads(std::string_view digits, T& out) {
  const char* const end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, out);
  return error == std::errc() && rest == end;
}

// "100", "100:0.7" or "100:0.7:0.9".
Aggregation diloco_of(const std::string& text, std::string_view settings) {
  Aggregation out{.kind = Kind::local, .outer_rate = kOuterRate, .outer_momentum = kOuterMomentum};
  const auto next = [&settings] {
    const std::string_view field = settings.substr(0, settings.find(':'));
    settings.remove_prefix(std::min(field.size() + 1, settings.size()));
    return field;
  };
  bool fits = reads(next(), out.bound) && out.bound >= 0;
  if (fits && !settings.empty()) fits = reads(next(), out.outer_rate);
  if (fits && !settings.empty()) fits = reads(next(), out.outer_momentum) && settings.empty();
  if (!fits)
    throw Error(Errc::invalid_argument, "the aggregation rule \"", text,
                "\" wants the steps of a round after the colon, and may name an outer rate and an "
                "outer momentum, as in diloco:100:0.7:0.9");
  return out;
}

int64_t bound_of(const std::string& text, const std::string& digits) {
  int64_t out = 0;
  if (!reads(digits, out) || out < 0)
    throw Error(Errc::invalid_argument, "the aggregation rule \"", text,
                "\" wants a whole number from 0 to ", INT64_MAX, " after the colon, got \"", digits,
                "\"");
  return out;
}

// The rule of all parameters without one of their own.
std::string base_text(const Aggregation& rule) {
  if (rule.local() && rule.outer_rate == kOuterRate && rule.outer_momentum == kOuterMomentum)
    return detail::concat("diloco:", rule.bound);
  if (rule.local() && (rule.outer_rate != 1 || rule.outer_momentum != 0))
    return detail::concat("diloco:", rule.bound, ":", text_of(rule.outer_rate), ":",
                          text_of(rule.outer_momentum));
  for (const Form& form : kForms)
    if (form.kind == rule.kind && form.damped == rule.damped)
      return form.bounded ? detail::concat(form.name, ":", rule.bound) : form.name;
  return "damped, by steps";  // check_rule() refuses it
}

Aggregation from_text(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  if (name == "diloco" && colon != std::string::npos)
    return diloco_of(text, std::string_view(text).substr(colon + 1));
  for (const Form& form : kForms) {
    if (name != form.name || form.bounded != (colon != std::string::npos)) continue;
    return {form.kind, form.bounded ? bound_of(text, text.substr(colon + 1)) : 0, form.damped};
  }
  throw Error(
      Errc::invalid_argument, "unknown aggregation rule \"", text,
      "\"; there are sync, sync-backup:B for B replicas that may be late, async, ssp:S for "
      "at most S steps ahead, async-damped, ssp-damped:S, local:H for rounds of H local steps, "
      "and diloco:H");
}

}  // namespace

std::string to_string(const Aggregation& rule) {
  std::string out = base_text(rule);
  for (const auto& [parameter, own] : rule.own) out += "+" + parameter + "=" + base_text(own);
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
