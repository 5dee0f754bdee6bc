// Scenes: one to four digits on a canvas, and the sentence that says which digit stands where.
//
// A function of a source makes them, on the process that reads the source. An arrangement whose
// sentence would be in doubt is drawn again.
#pragma once

#include "troupe/source.hpp"

// The function "scene" of a record of n pictures, at least `digits`: `image` u8 [n, side, side], or
// `features` f32 [n, side * side], and `label` [n]. Its arguments:
//   canvas    side of the scene, in pixels
//   digits    the most digits of a scene; their number is uniform from 1 on
//   greatest  the value of a pixel that is full ink
// Its records: `image` f32 [canvas, canvas, 1] in [0, 1], `words` i64 [kWordsMax], `digits` i64 [].
// A digit is cut out where its ink ends, and boxes do not overlap.
troupe::SourceFunction scene_function();
