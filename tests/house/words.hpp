// The sentences of comments and documents, for the rules of words.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/house/source.hpp"

namespace troupe {

// The texts of a file: comments of code and scripts, paragraphs and list items of Markdown. Blocks
// of code and headings of Markdown are none, and of a table cell only the second sentence and those
// after it are.
std::vector<Piece> texts_of(const Source& file);

// The first words of the statements in `text`: questions may begin as they like.
std::vector<std::string> sentence_heads(std::string_view text);

}  // namespace troupe
