// ArgReader: the arguments of a reader or function of a source, checked one by one.
#include <algorithm>

#include "data/source/stage.hpp"
#include "graph/base/words.hpp"

namespace troupe {
namespace {

constexpr const char* kTypes[] = {"true or false", "a whole number",    "a number",       "a text",
                                  "whole numbers", "a list of numbers", "a list of texts"};
static_assert(std::size(kTypes) == std::variant_size_v<SourceArg>);

}  // namespace

const SourceArg* ArgReader::find(std::string_view name) {
  if (std::find(asked_.begin(), asked_.end(), name) == asked_.end()) asked_.emplace_back(name);
  const auto it = args_.find(name);
  return it == args_.end() ? nullptr : &it->second;
}

void ArgReader::done() const {
  for (const auto& [name, value] : args_)
    if (std::find(asked_.begin(), asked_.end(), name) == asked_.end())
      throw Error(Errc::invalid_argument, of_, " has no argument ", name,
                  asked_.empty() ? std::string("; it takes none") : "; it takes " + listed(asked_));
}

void ArgReader::refuse_missing(std::string_view name) const {
  throw Error(Errc::invalid_argument, of_, " wants the argument ", name);
}

void ArgReader::refuse_type(std::string_view name, const SourceArg& arg, size_t wanted) const {
  throw Error(Errc::invalid_argument, of_, " wants ", kTypes[wanted], " as ", name, ", got ",
              kTypes[arg.index()]);
}

}  // namespace troupe
