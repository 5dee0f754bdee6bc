// troupe ops: the registry as a table.
#include <algorithm>
#include <iostream>
#include <set>

#include "apps/flags.hpp"
#include "apps/plugins.hpp"
#include "apps/troupe/table.hpp"
#include "apps/troupe/verbs.hpp"
#include "apps/words.hpp"
#include "troupe/custom_op.hpp"

using namespace troupe;

namespace {

std::string cell(const std::vector<std::string>& words) {
  return words.empty() ? "-" : joined(words);
}

std::string attributes(const Op& op) {
  std::vector<std::string> words;
  for (const AttrSpec& attr : op.attrs)
    words.push_back(attr.default_value ? attr.name + "?" : attr.name);
  return cell(words);
}

// The dtypes of the CPU's kernels, in the order that the op gives.
std::string dtypes(const Op& op) {
  std::vector<std::string> words;
  for (const Kernel& kernel : op.kernels)
    if (kernel.device == DeviceKind::cpu)
      words.push_back(kernel.dtype == DType::none ? "any" : to_string(kernel.dtype));
  return cell(words);
}

std::string devices(const Op& op) {
  std::set<DeviceKind> kinds;
  for (const Kernel& kernel : op.kernels) kinds.insert(kernel.device);
  std::vector<std::string> words;
  for (const DeviceKind kind : kinds) words.push_back(to_string(kind));
  return cell(words);
}

bool has_text(std::string name, std::string text) {
  const auto lower = [](std::string& word) {
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  };
  lower(name);
  lower(text);
  return name.find(text) != name.npos;
}

}  // namespace

int ops(const std::vector<std::string>& arguments) {
  std::vector<std::string> plugins;
  Flags flags("troupe ops", "troupe ops [TEXT] [options]: the table of all ops");
  flags.add("plugin", &plugins, "shared library whose ops are listed, too; may be given again");
  flags.take_words();
  if (!flags.parse(arguments)) return 0;
  if (flags.words.size() > 1)
    throw Error(Errc::invalid_argument, "ops takes at most one text, got ", flags.words.size());
  const std::string text = flags.words.empty() ? "" : flags.words[0];
  const auto registry = ops_with_plugins(plugins_for(plugins));
  std::vector<std::vector<std::string>> rows = {
      {"op", "inputs", "outputs", "attributes", "dtypes", "devices", "gradient"}};
  for (const Op* op : registry->all())
    if (has_text(op->name, text))
      rows.push_back({op->name, cell(op->inputs), cell(op->outputs), attributes(*op), dtypes(*op),
                      devices(*op), op->gradient ? "yes" : "no: " + op->no_gradient});
  if (rows.size() == 1)
    throw Error(Errc::invalid_argument, "no op has \"", text,
                "\" in its name; see all of them with troupe ops");
  print_table(rows);
  std::cout << rows.size() - 1 << " ops; an attribute with ? may be left out\n";
  return 0;
}
