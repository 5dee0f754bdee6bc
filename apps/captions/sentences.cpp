// The words, and the places and directions that they tell.
#include "apps/captions/sentences.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace {

// Tangents of 22.5 and 67.5 degrees, between "right of it" and "below right of it", and so on; and
// of the angles 4 degrees around them, in which a direction is in doubt.
constexpr double kFlat = 0.41421, kFlatLow = 0.33460, kFlatHigh = 0.49858;
constexpr double kSteep = 2.41421, kSteepLow = 2.00569, kSteepHigh = 2.98868;

int64_t id_of(std::string_view word) {
  return std::find(words().begin(), words().end(), word) - words().begin();
}

void add_words(std::vector<int64_t>& out, std::initializer_list<std::string_view> text) {
  for (const std::string_view word : text) out.push_back(id_of(word));
}

void add_name(const Placed& digit, std::vector<int64_t>& out) {
  out.push_back(id_of(digit.label == 8 ? "an" : "a"));
  out.push_back(id_of("zero") + digit.label);
}

// 0, 1 or 2: the third of the canvas; -1: in doubt.
int third(double middle, double canvas, double doubt) {
  for (const double border : {canvas / 3, 2 * canvas / 3})
    if (std::abs(middle - border) < doubt) return -1;
  return middle < canvas / 3 ? 0 : middle < 2 * canvas / 3 ? 1 : 2;
}

bool add_place(const Placed& digit, double canvas, double doubt, std::vector<int64_t>& out) {
  const int column = third(digit.x, canvas, doubt), row = third(digit.y, canvas, doubt);
  if (column < 0 || row < 0) return false;
  add_words(out, {"at", "the"});
  if (column == 1 && row == 1) add_words(out, {"middle"});
  if (row != 1) add_words(out, {row == 0 ? "top" : "bottom"});
  if (column != 1) add_words(out, {column == 0 ? "left" : "right"});
  return true;
}

bool add_direction(const Placed& from, const Placed& to, double doubt, std::vector<int64_t>& out) {
  const double dx = to.x - from.x, dy = to.y - from.y;
  if (dx < doubt) return false;  // the order is in doubt
  const double slope = std::abs(dy) / dx;
  if ((slope > kFlatLow && slope < kFlatHigh) || (slope > kSteepLow && slope < kSteepHigh))
    return false;
  if (slope > kFlat) add_words(out, {dy < 0 ? "above" : "below"});
  if (slope < kSteep) add_words(out, {"right", "of"});
  add_words(out, {"it"});
  return true;
}

}  // namespace

const std::vector<std::string>& words() {
  static const std::vector<std::string> all = {
      ".",   "a",     "an",    "zero", "one",   "two",   "three", "four", "five",
      "six", "seven", "eight", "nine", "and",   "at",    "the",   "top",  "middle",
      "it",  "left",  "right", "of",   "above", "below", "bottom"};
  return all;
}

std::string sentence(std::span<const int64_t> ids) {
  std::string out;
  for (const int64_t id : ids) {
    if (id == kStop) break;
    out += (out.empty() ? "" : " ") + words().at(static_cast<size_t>(id));
  }
  return out;
}

std::optional<std::vector<int64_t>> describe(std::span<const Placed> scene, double canvas) {
  const double doubt = canvas / 32;
  std::vector<int64_t> out;
  for (size_t i = 0; i < scene.size(); ++i) {
    if (i > 0) add_words(out, {"and"});
    add_name(scene[i], out);
    if (!(i == 0 ? add_place(scene[0], canvas, doubt, out)
                 : add_direction(scene[i - 1], scene[i], doubt, out)))
      return std::nullopt;
  }
  return out;
}
