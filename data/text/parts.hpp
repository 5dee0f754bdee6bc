// The readers and functions of sources over text and tables; troupe/text.hpp tells their arguments.
// Rows of data/source/readers.cpp and functions.cpp name them.
#pragma once

#include <string>
#include <string_view>

#include "data/source/stage.hpp"

namespace troupe {

// The field of a text, unless an argument says another name.
inline constexpr const char* kTextField = "text";

Stage lines_stage(const SourceArgs& args);
Stage documents_stage(const SourceArgs& args);
Stage table_stage(const SourceArgs& args);

SourceStep bind_tokenize(const Fields& inputs, const SourceArgs& args);
SourceStep bind_shorter_than(const Fields& inputs, const SourceArgs& args);
SourceStep bind_longer_than(const Fields& inputs, const SourceArgs& args);
SourceStep bind_windows(const Fields& inputs, const SourceArgs& args);
SourceStep bind_skip_grams(const Fields& inputs, const SourceArgs& args);

// Text as a tensor, u8 [bytes], and a tensor as text.
Tensor text_tensor(std::string_view text);
inline std::string_view text_of(const Tensor& text) {
  return {reinterpret_cast<const char*>(text.data<uint8_t>()), static_cast<size_t>(text.size())};
}

}  // namespace troupe
