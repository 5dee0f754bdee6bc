// Reads and writes the text of a list of types.
#include "ops/elementwise/type_list.hpp"

#include <charconv>

namespace troupe {
namespace {

// The shape of "2, -1", the text between brackets.
std::optional<Shape> shape_of(std::string_view text) {
  std::vector<int64_t> sizes;
  while (!text.empty()) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < -1) return std::nullopt;
    sizes.push_back(size);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) break;
    if (!text.starts_with(", ") || text.size() == 2) return std::nullopt;
    text.remove_prefix(2);
  }
  return Shape(sizes);
}

}  // namespace

std::string text_of(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& type : types) text += detail::concat(text.empty() ? "" : " ", type);
  return text;
}

std::optional<std::vector<TensorType>> types_of(std::string_view text) {
  std::vector<TensorType> types;
  while (!text.empty()) {
    const size_t open = text.find('['), close = text.find(']');
    if (open == text.npos || close == text.npos || close < open) return std::nullopt;
    TensorType type;
    try {
      type.dtype = dtype_from_string(std::string(text.substr(0, open)));
      const auto shape = shape_of(text.substr(open + 1, close - open - 1));
      if (!shape) return std::nullopt;
      type.shape = *shape;
    } catch (const Error&) {  // no dtype, or no shape: whoever asked knows what the text is of
      return std::nullopt;
    }
    types.push_back(std::move(type));
    text.remove_prefix(close + 1);
    if (text.empty()) break;
    if (!text.starts_with(' ') || text.size() == 1) return std::nullopt;
    text.remove_prefix(1);
  }
  return types;
}

}  // namespace troupe
