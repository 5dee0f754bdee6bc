// The readers and functions of sources over text and tables; troupe/text.hpp tells their arguments.
// Rows of data/source/readers.cpp and functions.cpp name them.
#pragma once

#include <string>
#include <string_view>

#include "data/files.hpp"
#include "data/source/stage.hpp"

namespace troupe {

// The field of a text, unless an argument says another name.
inline constexpr const char* kTextField = "text";

Stage lines_stage(const SourceArgs& args, const Files& files);
Stage documents_stage(const SourceArgs& args, const Files& files);
Stage table_stage(const SourceArgs& args, const Files& files);

SourceStep bind_tokenize(const Fields& inputs, const SourceArgs& args);
SourceStep bind_shorter_than(const Fields& inputs, const SourceArgs& args);
SourceStep bind_longer_than(const Fields& inputs, const SourceArgs& args);
SourceStep bind_windows(const Fields& inputs, const SourceArgs& args);
SourceStep bind_skip_grams(const Fields& inputs, const SourceArgs& args);

Tensor text_tensor(std::string_view text);  // u8 [bytes]

}  // namespace troupe
