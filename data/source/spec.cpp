// The text of a source: JSON with an object for each stage.
#include "data/source/spec.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace troupe {
namespace {

using nlohmann::json;
constexpr int kDepthMax = 200;  // stages; each takes some stack

// Lists name their kind, as an empty one shows none.
json to_json(const SourceArg& arg) {
  return std::visit(
      [](const auto& value) -> json {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::vector<int64_t>>)
          return {{"integers", value}};
        else if constexpr (std::is_same_v<T, std::vector<double>>)
          return {{"numbers", value}};
        else if constexpr (std::is_same_v<T, double>)
          return std::isfinite(value) ? json(value)
                                      : json{{"number", value > 0   ? "inf"
                                                        : value < 0 ? "-inf"
                                                                    : "nan"}};
        else
          return value;
      },
      arg);
}

SourceArg arg_from(const json& j) {
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_number_integer()) return j.get<int64_t>();
  if (j.is_number_float()) return j.get<double>();
  if (j.is_string()) return j.get<std::string>();
  if (j.is_array()) return j.get<std::vector<std::string>>();
  if (j.contains("number")) {
    const double infinity = std::numeric_limits<double>::infinity();
    const auto text = j.at("number").get<std::string>();
    return text == "inf" ? infinity : text == "-inf" ? -infinity : std::nan("");
  }
  if (j.contains("integers")) return j.at("integers").get<std::vector<int64_t>>();
  return j.at("numbers").get<std::vector<double>>();
}

json to_json(const SourceSpec& spec) {
  json out = {{"stage", spec.stage}};
  if (!spec.name.empty()) out["name"] = spec.name;
  if (spec.seed != 0) out["seed"] = spec.seed;
  for (const auto& [name, arg] : spec.args) out["args"][name] = to_json(arg);
  for (const Spec& before : spec.of) out["of"].push_back(to_json(*before));
  return out;
}

Spec spec_from(const json& j, int depth) {
  if (depth > kDepthMax)
    throw Error(Errc::bad_data, "a source has more than ", kDepthMax, " stages");
  auto out = std::make_shared<SourceSpec>();
  out->stage = j.at("stage").get<std::string>();
  out->name = j.value("name", std::string());
  out->seed = j.value("seed", uint64_t{0});
  if (j.contains("args"))
    for (const auto& [name, arg] : j.at("args").items()) out->args[name] = arg_from(arg);
  if (j.contains("of"))
    for (const json& before : j.at("of")) out->of.push_back(spec_from(before, depth + 1));
  return out;
}

}  // namespace

int64_t batch_size(const SourceSpec& stages) {
  if ((stages.stage == "map" || stages.stage == "cache") && stages.of.size() == 1)
    return batch_size(*stages.of[0]);
  const auto size = stages.args.find("size");
  if (stages.stage != "batch" || size == stages.args.end()) return 0;
  const auto* number = std::get_if<int64_t>(&size->second);
  return number ? *number : 0;
}

std::string spec_to_text(const SourceSpec& spec) {
  try {
    return to_json(spec).dump();
  } catch (const json::exception&) {  // only texts that are no UTF-8
    throw Error(Errc::invalid_argument,
                "an argument of a source is a text that is not valid UTF-8; look at its paths and "
                "the names of its fields");
  }
}

Spec spec_from_text(const std::string& text) {
  try {
    return spec_from(json::parse(text), 0);
  } catch (const json::exception& e) {
    throw Error(Errc::bad_data, "the text of a source is damaged: ", e.what());
  }
}

Spec with_seen(Spec source, const std::string& seen) {
  if (seen.empty()) return source;
  auto out = std::make_shared<SourceSpec>(*spec_from_text(seen));
  out->of = {std::move(source)};
  return out;
}

}  // namespace troupe
