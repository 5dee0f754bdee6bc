// The readers of the library, by name.
#pragma once

#include <span>
#include <string_view>

#include "data/files.hpp"
#include "data/source/stage.hpp"

namespace troupe {

// A reader: the first stage of a source, made from its arguments. Throws: Error(invalid_argument)
// for arguments that do not fit; Error(io) and Error(bad_data) for files.
struct SourceReader {
  std::string_view name;
  Stage (*make)(const SourceArgs& args, const Files& files);
};

std::span<const SourceReader> builtin_readers();

}  // namespace troupe
