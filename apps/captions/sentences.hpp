// Sentences: the words and the grammar by which a scene of digits has one sentence.
//
// The first digit from the left has a place on the canvas; each further one stands somewhere right
// of the one before, "it": "a seven at the top left and a two below right of it".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

constexpr int64_t kDigitsMax = 4;
// "a seven at the top left", three times "and a two below right of it", and the stop.
constexpr int64_t kWordsMax = 6 + 7 * (kDigitsMax - 1) + 1;
constexpr int64_t kStop = 0;       // the word "."; behind it there are only more of it
constexpr int64_t kNamePlace = 1;  // of the first digit's name in a sentence

const std::vector<std::string>& words();  // by id
// The words up to the first stop, with spaces between them.
std::string sentence(std::span<const int64_t> ids);

struct Placed {
  int64_t label = 0;
  double x = 0, y = 0;  // of its middle, in pixels from the top left
};
// The words of a scene of 1 to kDigitsMax digits, from left to right, without the stop. Nothing if
// a difference of a 32nd of the canvas, or of 4 degrees, could make it another sentence.
std::optional<std::vector<int64_t>> describe(std::span<const Placed> scene, double canvas);
