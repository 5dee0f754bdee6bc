// Names of ops and of their attributes, which only ops/ and what builds graphs may know. Passes,
// placement, the engine and the shards ask an Op for its properties.
#include <regex>

#include "tests/house/rules.hpp"

namespace troupe {
namespace {

// Folders that build graphs, or that programs are; and data, which sees no op: its readers and
// functions have arguments with names of their own.
const std::set<std::string> folders_that_know = {"ops",   "include", "gradients", "nn",  "tests",
                                                 "bench", "apps",    "python",    "data"};

}  // namespace

OpNames read_op_names(const std::vector<Source>& tree) {
  static const std::regex attribute("\"(\\w+)\",\\s*AttrKind::"), op("[A-Z][A-Za-z0-9]+");
  OpNames names;
  for (const Source& file : tree) {
    if (top_of(file.path) != "ops" || !is_code(file.path)) continue;
    for (std::sregex_iterator it(file.text.begin(), file.text.end(), attribute), end; it != end;
         ++it)
      names.attributes.insert((*it)[1]);
    for (const Piece& string : strings_of(file.text))
      if (std::regex_match(string.text, op)) names.ops.insert(string.text);
  }
  return names;
}

std::vector<Violation> check_names(const OpNames& names, const Source& file) {
  if (!is_code(file.path) || folders_that_know.count(top_of(file.path))) return {};
  std::vector<Violation> found;
  for (const Piece& string : strings_of(file.text)) {
    const bool op = names.ops.count(string.text) > 0;
    if (op || names.attributes.count(string.text))
      found.push_back({file.path, string.line,
                       "\"" + string.text + "\" is the name of an " + (op ? "op" : "attribute") +
                           "; ask the Op for what you want to know",
                       file.path + " " + string.text});
  }
  return found;
}

}  // namespace troupe
