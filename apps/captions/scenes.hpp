// Scenes: one to four digits on a canvas, and the sentence that says which digit stands where.
//
// A scene is made by a function of a source, on the process that reads the source. A scene whose
// sentence would be in doubt, by a few pixels or degrees, is drawn again. So each has one sentence.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "troupe/source.hpp"

constexpr int64_t kDigitsMax = 4;
// Words of the longest sentence: "a seven at the top left and a two below right of it ... ."
constexpr int64_t kWordsMax = 6 + 7 * (kDigitsMax - 1) + 1;
constexpr int64_t kStop = 0;       // the word "."; behind it there are only more of it
constexpr int64_t kNamePlace = 1;  // of the first digit's name in a sentence

const std::vector<std::string>& words();  // by id
// The words up to the first stop, with spaces between them.
std::string sentence(std::span<const int64_t> ids);

// The function "scene" of a record of kDigitsMax pictures: `image` u8 [n, side, side], or
// `features` f32 [n, side * side], and `label` [n]. Its arguments:
//   canvas    side of the scene, in pixels
//   digits    the most digits of a scene; their number is uniform from 1 on
//   greatest  the value of a pixel that is full ink
// Its records: `image` f32 [canvas, canvas, 1] in [0, 1], `words` i64 [kWordsMax], `digits` i64 [].
// A digit is cut out where its ink ends, and boxes do not overlap.
troupe::SourceFunction scene_function();
