// Readers and functions of sources by name, and all their records. For tests of data/text/.
#pragma once

#include <string>
#include <vector>

#include "data/source/fields.hpp"
#include "data/source/readers.hpp"
#include "data/text/parts.hpp"
#include "troupe/text.hpp"

namespace troupe {

inline Stage read_stage(std::string_view name, const SourceArgs& args,
                        const Files& files = local_files()) {
  for (const SourceReader& reader : builtin_readers())
    if (reader.name == name) return reader.make(args, files);
  throw Error(Errc::internal, "no reader ", name);
}

inline std::vector<Record> all_records(const Stage& stage, int64_t epoch = 0) {
  std::vector<Record> out;
  const auto stream = stage->open(epoch);
  while (const Lazy lazy = stream->next()) out.push_back(lazy->make());
  return out;
}

inline std::vector<Record> results_of(Expansion all) {
  for (int64_t i = 0; i < all.count; ++i) all.records.push_back(all.at(i));
  return std::move(all.records);
}

inline SourceStep bound(std::string_view name, const Fields& inputs, const SourceArgs& args) {
  for (const SourceFunction& function : builtin_functions())
    if (function.name == name) return function.bind(inputs, args);
  throw Error(Errc::internal, "no function ", name);
}

}  // namespace troupe
