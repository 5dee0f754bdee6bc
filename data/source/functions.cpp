// The functions of the library that sources may name, one row each.
#include "data/images/functions.hpp"
#include "data/records/records.hpp"
#include "data/source/stage.hpp"
#include "data/text/parts.hpp"

namespace troupe {
namespace {

// The fields without those that are not in the argument `fields`, in the order of the argument.
SourceStep bind_select(const Fields& inputs, const SourceArgs& args) {
  ArgReader read("select", args);
  const auto names = read.want<std::vector<std::string>>("fields");
  read.done();
  SourceStep out;
  for (const std::string& name : names)
    for (const Field& field : inputs)
      if (field.name == name) out.fields.push_back(field);
  if (out.fields.size() != names.size())
    throw Error(Errc::invalid_argument, "select names ", names.size(), " fields, of which ",
                out.fields.size(), " exist");
  out.map = [names](const SourceCall& call) {
    Record record;
    for (const std::string& name : names) record.push_back(call[name]);
    return record;
  };
  return out;
}

}  // namespace

const std::vector<SourceFunction>& builtin_functions() {
  static const std::vector<SourceFunction> functions = {
      {"select", bind_select},
      {"longer_than", bind_longer_than},
      {"shorter_than", bind_shorter_than},
      {"skip_grams", bind_skip_grams},
      {"tokenize", bind_tokenize},
      {"windows", bind_windows},
      {"example", bind_example},
      {"decode_image", bind_decode_image},
      {"resize", bind_resize},
      {"random_crop", bind_random_crop},
      {"random_flip", bind_random_flip},
      {"to_float", bind_to_float},
  };
  return functions;
}

}  // namespace troupe
