// The functions of the library that sources may name, one row each.
#include "data/images/functions.hpp"
#include "data/records/records.hpp"
#include "data/source/fields.hpp"
#include "data/text/parts.hpp"

namespace troupe {
namespace {

// select: the fields that the argument `fields` names, in its order.
SourceStep bind_select(const Fields& inputs, const SourceArgs& args) {
  ArgReader read("select", args);
  const auto names = read.want<std::vector<std::string>>("fields");
  read.done();
  SourceStep out;
  std::vector<size_t> numbers;
  for (const std::string& name : names) {
    numbers.push_back(field_number(inputs, name, "select"));
    out.fields.push_back(inputs[numbers.back()]);
  }
  out.map = [numbers](const SourceCall& call) {
    Record record;
    for (const size_t i : numbers) record.push_back(call.record()[i]);
    return record;
  };
  return out;
}

// rename: the field `from` is called `to`.
SourceStep bind_rename(const Fields& inputs, const SourceArgs& args) {
  ArgReader read("rename", args);
  const auto from = read.want<std::string>("from"), to = read.want<std::string>("to");
  read.done();
  SourceStep out{.fields = inputs, .map = [](const SourceCall& call) { return call.record(); }};
  for (const Field& field : inputs)
    if (field.name == to)
      throw Error(Errc::invalid_argument, "rename: there is a field ", to, " already");
  out.fields[field_number(inputs, from, "rename")].name = to;
  return out;
}

// length: adds a field `name`, i64 [], the first size of the field `field`.
SourceStep bind_length(const Fields& inputs, const SourceArgs& args) {
  ArgReader read("length", args);
  const auto field = read.want<std::string>("field");
  const auto name = read.get<std::string>("name", "length");
  read.done();
  const size_t number = field_number(inputs, field, "length");
  if (inputs[number].type.shape.ndim() < 1)
    throw Error(Errc::invalid_argument, "length: the field ", field, " is a scalar");
  SourceStep out{.fields = inputs, .map = [number](const SourceCall& call) {
                   Record record = call.record();
                   record.push_back(Tensor::scalar(record[number].dim(0)));
                   return record;
                 }};
  out.fields.push_back({name, {DType::i64, {}}});
  return out;
}

}  // namespace

const std::vector<SourceFunction>& builtin_functions() {
  static const std::vector<SourceFunction> functions = {
      {"select", bind_select},
      {"rename", bind_rename},
      {"length", bind_length},
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
