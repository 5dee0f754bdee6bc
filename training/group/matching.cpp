// Applies LoadOptions to the names and types of a graph's parameters and a file's tensors.
#include "training/group/matching.hpp"

#include <algorithm>
#include <set>

#include "graph/base/words.hpp"

namespace troupe {
namespace {

constexpr size_t kNamed = 8;  // names of a list in a message

std::string list_of(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < kNamed; ++i) out += (i ? ", " : "") + names[i];
  if (names.size() > kNamed) out += detail::concat(" and ", names.size() - kNamed, " more");
  return out;
}

// True for a key of LoadOptions::rename that stands for all names that begin so.
bool is_prefix(const std::string& key) {
  return key.empty() || key.back() == '/' || key.back() == '.';
}

// True if the parameter `name` was made in `scope`, or in one inside of it.
bool is_within(const std::string& name, std::string scope) {
  if (!scope.empty() && scope.back() != '/') scope += '/';
  return name.starts_with(scope);
}

std::string name_in_file(const std::string& name, const LoadOptions& options) {
  if (const auto own = options.rename.find(name); own != options.rename.end()) return own->second;
  const std::pair<const std::string, std::string>* best = nullptr;
  for (const auto& rule : options.rename)
    if (is_prefix(rule.first) && name.starts_with(rule.first) &&
        (!best || rule.first.size() > best->first.size()))
      best = &rule;
  return best ? best->second + name.substr(best->first.size()) : name;
}

// A rule that fits nothing is a slip of the pen, and would leave parameters untouched in silence.
void check_options(const std::vector<std::string>& names, const LoadOptions& options) {
  const auto any = [&](const auto& fits) { return std::any_of(names.begin(), names.end(), fits); };
  for (const std::string& scope : options.scopes)
    if (!any([&](const std::string& name) { return is_within(name, scope); }))
      throw Error(Errc::invalid_argument, "LoadOptions::scopes has ", scope,
                  ", and no parameter of the graph is in it: ", list_of(names));
  for (const auto& [key, to] : options.rename)
    if (!any([&, &key = key](const std::string& name) {
          return is_prefix(key) ? name.starts_with(key) : name == key;
        }))
      throw Error(Errc::invalid_argument, "LoadOptions::rename has ", key,
                  is_prefix(key)
                      ? ", and no parameter of the graph begins so: " + list_of(names)
                      : ", and the graph has no such parameter" + did_you_mean(key, names));
}

}  // namespace

Matching match_parameters(const std::vector<ParameterSpec>& graph,
                          const std::map<std::string, TensorType>& tensors,
                          const LoadOptions& options, const std::string& file) {
  std::vector<std::string> names, absent, sought;  // absent: for messages, with the name sought
  for (const ParameterSpec& p : graph) names.push_back(p.name);
  check_options(names, options);
  Matching out;
  std::set<std::string> used;
  bool may_cast = false;  // something fits but for its floating dtype
  for (const ParameterSpec& p : graph) {
    const auto in_scope = [&](const std::string& scope) { return is_within(p.name, scope); };
    if (!options.scopes.empty() &&
        std::none_of(options.scopes.begin(), options.scopes.end(), in_scope))
      continue;
    const std::string wanted = name_in_file(p.name, options);
    const auto found = tensors.find(wanted);
    if (found == tensors.end()) {
      out.report.missing.push_back(p.name);
      absent.push_back(wanted == p.name ? p.name : p.name + " (as " + wanted + ")");
      sought.push_back(wanted);
      continue;
    }
    used.insert(wanted);
    const TensorType& type = found->second;
    const bool floats = is_floating(type.dtype) && is_floating(p.dtype);
    const bool same = type.dtype == p.dtype || (options.cast && floats);
    if (same && type.shape == p.shape) {
      out.taken[p.name] = wanted;
      out.report.loaded.push_back(p.name);
    } else {
      may_cast |= !same && floats && type.shape == p.shape;
      out.report.mismatched.push_back(detail::concat(p.name, " is ", p.dtype, p.shape,
                                                     " in the graph, ", type.dtype, type.shape,
                                                     " in the file"));
    }
  }
  std::vector<std::string> unused;
  for (const auto& [name, type] : tensors)
    if (!used.count(name)) unused.push_back(name);
  out.report.unused = unused;
  if (!options.scopes.empty()) unused.clear();  // others of the graph may have these names
  std::string text;
  const auto add = [&](const auto&... parts) {
    text += (text.empty() ? "" : "; ") + detail::concat(parts...);
  };
  if (!absent.empty())
    add("the file has no ", list_of(absent),
        absent.size() == 1 ? did_you_mean(sought[0], out.report.unused) : "");
  if (!unused.empty()) add("the graph has no ", list_of(unused));
  if (!out.report.mismatched.empty()) add(list_of(out.report.mismatched));
  const char* cast = may_cast ? ", LoadOptions::cast converts floating numbers" : "";
  if (out.taken.empty())
    throw Error(Errc::bad_configuration, "no parameter of the graph takes a tensor of ", file, ": ",
                text, "; LoadOptions::rename gives parameters other names in the file", cast);
  if (options.strict && !text.empty())
    throw Error(Errc::bad_configuration, file, " and the graph differ: ", text,
                "; with LoadOptions::strict = false the graph takes what both have, "
                "LoadOptions::rename gives parameters other names in the file",
                cast);
  return out;
}

Tensor cast_floating(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  Tensor out = Tensor::empty(dtype, tensor.shape());
  with_type(tensor.dtype(), [&]<class From>(From) {
    with_type(dtype, [&]<class To>(To) {
      if constexpr (is_real_v<From> && is_real_v<To>) {
        const From* from = tensor.data<From>();
        std::transform(from, from + tensor.size(), out.mutable_data<To>(),
                       [](From number) { return static_cast<To>(static_cast<double>(number)); });
      } else {
        throw InternalError("a cast of ", tensor.dtype(), " to ", dtype);
      }
    });
  });
  return out;
}

}  // namespace troupe
