// Optimizers as settings: one table lists the settings of each kind with their ranges and names;
// texts, checks and messages are derived from it. make_optimizers.cpp makes them; the loops are in
// training/rules/optimizer.cpp.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "graph/attr_text.hpp"
#include "graph/optimizer.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

struct Range {
  bool (*holds)(double);
  const char* words;
};
constexpr Range kRate = {[](double x) { return x >= 0 && std::isfinite(x); },
                         "a finite number from 0"};
constexpr Range kFraction = {[](double x) { return x >= 0 && x < 1; }, "a number in [0, 1)"};
constexpr Range kPart = {[](double x) { return x >= 0 && x <= 1; }, "a number in [0, 1]"};
constexpr Range kFactor = {[](double x) { return x > 0 && x <= 1; }, "a number in (0, 1]"};
constexpr Range kPositive = {[](double x) { return x > 0 && std::isfinite(x); },
                             "a positive number"};
constexpr Range kFlag = {[](double x) { return x == 0 || x == 1; }, "0 or 1"};
constexpr Range kUpdates = {[](double x) { return x >= 0 && x <= 0x1p53 && x == std::floor(x); },
                            "a whole number from 0"};
constexpr Range kPeriod = {[](double x) { return x >= 1 && x <= 0x1p53 && x == std::floor(x); },
                           "a whole number from 1"};

struct Setting {
  const char* name;
  Range range;
  double (*get)(const Optimizer&);
  void (*set)(Optimizer&, double);  // Requires: range.holds(value)
};

template <auto member>
Setting setting(const char* name, Range range) {
  return {name, range, [](const Optimizer& o) { return static_cast<double>(o.*member); },
          [](Optimizer& o, double value) {
            o.*member = static_cast<std::remove_reference_t<decltype(o.*member)>>(value);
          }};
}

template <auto member>
Setting schedule_setting(const char* name, Range range) {
  return {name, range, [](const Optimizer& o) { return static_cast<double>(o.schedule.*member); },
          [](Optimizer& o, double value) {
            auto& field = o.schedule.*member;
            field = static_cast<std::remove_reference_t<decltype(field)>>(value);
          }};
}

struct Kind {
  std::string name;
  std::vector<Setting> settings;
};
using O = Optimizer;
using S = Schedule;

// The settings besides the learning rate.
std::vector<Kind> make_optimizer_kinds() {
  const auto momentum = setting<&O::momentum>("momentum", kFraction);
  const auto beta1 = setting<&O::beta1>("beta1", kFraction);
  const auto beta2 = setting<&O::beta2>("beta2", kFraction);
  const auto epsilon = setting<&O::epsilon>("epsilon", kPositive);
  const auto rho = setting<&O::rho>("rho", kFraction);
  const auto centered = setting<&O::centered>("centered", kFlag);
  const auto weight_decay = setting<&O::weight_decay>("weight decay", kRate);
  const auto beta = setting<&O::beta>("beta", kRate);
  const auto l1 = setting<&O::l1>("l1", kRate);
  const auto l2 = setting<&O::l2>("l2", kRate);
  return {{"sgd", {}},
          {"momentum", {momentum}},
          {"nesterov", {momentum}},
          {"adagrad", {epsilon}},
          {"adadelta", {rho, epsilon}},
          {"rmsprop", {rho, momentum, epsilon, centered}},
          {"adam", {beta1, beta2, epsilon}},
          {"adamw", {beta1, beta2, epsilon, weight_decay}},
          {"lamb", {beta1, beta2, epsilon, weight_decay}},
          {"ftrl", {l1, l2, beta}}};
}

// The settings besides the warm-up.
std::vector<Kind> make_schedule_kinds() {
  const auto period = schedule_setting<&S::period>("period", kPeriod);
  const auto factor = schedule_setting<&S::factor>("factor", kFactor);
  const auto end = schedule_setting<&S::end>("end", kPart);
  const auto power = schedule_setting<&S::power>("power", kPositive);
  return {{"constant", {}},
          {"step", {period, factor}},
          {"piecewise", {factor}},  // and its boundaries
          {"exponential", {period, factor}},
          {"polynomial", {period, end, power}},
          {"cosine", {period, end}}};
}

// Never destroyed: sessions in static objects may end after any object that is made later.
const std::vector<Kind>& optimizer_kinds() {
  static const auto& all = *new std::vector<Kind>(make_optimizer_kinds());
  return all;
}
const std::vector<Kind>& schedule_kinds() {
  static const auto& all = *new std::vector<Kind>(make_schedule_kinds());
  return all;
}

const Kind* find(const std::vector<Kind>& kinds, const std::string& name) {
  for (const Kind& kind : kinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

template <class Named>
std::string names_of(const std::vector<Named>& all) {
  std::string text;
  for (size_t i = 0; i < all.size(); ++i)
    text += (i == 0 ? "" : i + 1 == all.size() ? " and " : ", ") + std::string(all[i].name);
  return text;
}

void require_kind(const std::vector<Kind>& kinds, const char* what, const std::string& name) {
  if (!find(kinds, name))
    throw Error(Errc::invalid_argument, "there is no ", what, " '", name, "'; known are ",
                names_of(kinds));
}

// The settings that matter for this optimizer, in the order of its text.
std::vector<Setting> settings_of(const Optimizer& o) {
  static const auto& rate = *new Setting(setting<&O::learning_rate>("learning rate", kRate));
  static const auto& warm_up = *new Setting(schedule_setting<&S::warm_up>("warm-up", kUpdates));
  std::vector<Setting> all = {rate};
  if (const Kind* kind = find(schedule_kinds(), o.schedule.kind))
    all.insert(all.end(), kind->settings.begin(), kind->settings.end());
  all.push_back(warm_up);
  if (const Kind* kind = find(optimizer_kinds(), o.kind))
    all.insert(all.end(), kind->settings.begin(), kind->settings.end());
  return all;
}

// The boundaries of a piecewise schedule, "32000;48000", the one setting that is no number.
constexpr const char* kBoundaries = "boundaries";

std::string boundaries_text(const std::vector<int64_t>& boundaries) {
  std::string text;
  for (const int64_t b : boundaries) text += detail::concat(text.empty() ? "" : ";", b);
  return text;
}

Error boundaries_error(const Optimizer& o, std::string_view found) {
  return Error(Errc::invalid_argument, "optimizer ", o.kind, " has ", kBoundaries, " '", found,
               "'; wants whole numbers from 1, each above the one before, joined by ;");
}

void require_boundaries(const Optimizer& o) {
  const std::vector<int64_t>& all = o.schedule.boundaries;
  const bool ascend = std::adjacent_find(all.begin(), all.end(), std::greater_equal()) == all.end();
  if (all.empty() || !ascend || all.front() < 1 || all.back() > int64_t{1} << 53)
    throw boundaries_error(o, boundaries_text(all));
}

std::vector<int64_t> read_boundaries(std::string_view text, const Optimizer& o) {
  std::vector<int64_t> out;
  for (std::string_view rest = text;;) {
    const std::string_view word = rest.substr(0, rest.find(';'));
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) throw boundaries_error(o, text);
    out.push_back(value);
    if (word.size() == rest.size()) return out;
    rest.remove_prefix(word.size() + 1);
  }
}

std::string number_text(double value) {
  const bool whole = value == std::floor(value) && !std::signbit(value) && value <= 0x1p53;
  return whole ? std::to_string(static_cast<int64_t>(value))
               : exact_text(value);  // 100000, not 1e+05
}

void require_range(const Optimizer& o, const Setting& setting, double value) {
  if (!setting.range.holds(value))
    throw Error(Errc::invalid_argument, "optimizer ", o.kind, " has ", setting.name, " ",
                number_text(value), "; wants ", setting.range.words);
}

// "beta1 0.9" or "schedule cosine"; returns the name.
std::string read_setting(std::string_view text, Optimizer& o) {
  const size_t space = text.rfind(' ');
  std::string name(text.substr(0, space));
  const std::string_view word = space == text.npos ? "" : text.substr(space + 1);
  if (name == "schedule") {
    o.schedule.kind = word;
    require_kind(schedule_kinds(), "schedule", o.schedule.kind);
    return name;
  }
  if (name == kBoundaries && o.schedule.kind == "piecewise") {
    o.schedule.boundaries = read_boundaries(word, o);
    return name;
  }
  const std::vector<Setting> known = settings_of(o);
  const auto it = std::find_if(known.begin(), known.end(),
                               [&](const Setting& setting) { return setting.name == name; });
  if (it == known.end())
    throw Error(Errc::invalid_argument, "optimizer ", o.kind, " has no setting '", name,
                "'; it has ", names_of(known));
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size())
    throw Error(Errc::invalid_argument, "optimizer ", o.kind, " has ", name, " '", word,
                "'; wants ", it->range.words);
  require_range(o, *it, value);
  it->set(o, value);
  return name;
}

}  // namespace

std::string describe(const Optimizer& o) {
  std::string text = o.kind + "(";
  for (const Setting& setting : settings_of(o)) {
    if (setting.name == std::string("warm-up") && o.schedule.warm_up == 0) continue;
    text += std::string(text.back() == '(' ? "" : ", ") + setting.name + " " +
            number_text(setting.get(o));
    if (setting.name == std::string("learning rate") && o.schedule.kind != "constant")
      text += ", schedule " + o.schedule.kind;
    if (setting.name == std::string("learning rate") && o.schedule.kind == "piecewise")
      text += detail::concat(", ", kBoundaries, " ", boundaries_text(o.schedule.boundaries));
  }
  return text + ")";
}

Optimizer optimizer_from_text(std::string_view text) {
  Optimizer o;
  const size_t open = text.find('(');
  o.kind = text.substr(0, open);
  require_kind(optimizer_kinds(), "optimizer", o.kind);
  std::vector<std::string> seen;
  if (open != text.npos) {
    if (!text.ends_with(')'))
      throw Error(Errc::invalid_argument, "the optimizer \"", text, "\" does not end with ')'");
    std::string_view rest = text.substr(open + 1, text.size() - open - 2);
    for (bool more = !rest.empty(); more;) {
      const size_t comma = rest.find(", ");
      seen.push_back(read_setting(rest.substr(0, comma), o));
      if (std::count(seen.begin(), seen.end(), seen.back()) > 1)
        throw Error(Errc::invalid_argument, "the optimizer \"", text, "\" has '", seen.back(),
                    "' twice");
      more = comma != rest.npos;
      if (more) rest.remove_prefix(comma + 2);
    }
  }
  check_optimizer(o);
  return o;
}

void check_optimizer(const Optimizer& o) {
  require_kind(optimizer_kinds(), "optimizer", o.kind);
  require_kind(schedule_kinds(), "schedule", o.schedule.kind);
  for (const Setting& setting : settings_of(o)) require_range(o, setting, setting.get(o));
  if (o.schedule.kind == "piecewise") require_boundaries(o);
  if (o.kind != "ftrl") return;
  require_range(o, setting<&O::learning_rate>("learning rate", kPositive), o.learning_rate);
  if (o.schedule != Schedule{})
    throw Error(Errc::invalid_argument,
                "optimizer ftrl has a schedule; wants none: its rate falls ",
                "by itself, and what it has summed holds for one learning rate");
}

Optimizer at_rate_scale(const Optimizer& optimizer, double scale) {
  if (!kPositive.holds(scale))
    throw Error(Errc::invalid_argument, "the rate scale is ", number_text(scale), "; wants ",
                kPositive.words);
  if (scale == 1) return optimizer;
  if (optimizer.kind == "ftrl")
    throw Error(Errc::invalid_argument, "optimizer ftrl takes no rate scale but 1, got ",
                number_text(scale), "; what it has summed holds for one learning rate");
  Optimizer out = optimizer;
  out.learning_rate *= scale;
  if (!kRate.holds(out.learning_rate))
    throw Error(Errc::invalid_argument, "the rate scale ", number_text(scale),
                " makes the learning rate of ", describe(optimizer), " infinite");
  return out;
}

}  // namespace troupe
