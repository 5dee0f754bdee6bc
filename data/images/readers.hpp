// Readers of images with labels, the first stages of sources.
#pragma once

#include "data/files.hpp"
#include "data/source/stage.hpp"

namespace troupe {

// images: pictures whose folders are their classes. Fields: `image` u8 [h, w, channels], `label`
// i64, the number of the class. Arguments:
//   path      a folder with files CLASS/NAME, or a tar of such a folder, plain or gzipped. One that
//             is plain is indexed; one that is gzipped is streamed, and read once ahead for its
//             classes unless they are given. Names that begin with a dot are passed over
//   channels  as of decode_image() (troupe/files.hpp), 3 by default; 0: as the first image has
//   size      [h, w] of each image, -1 for any; by default that of the first image
//   classes   their names in the order of their numbers; by default all, sorted. A class without
//             pictures, and a picture of another class, is an error
Stage images_stage(const SourceArgs& args, const Files& files);

// cifar: CIFAR's binary files. Fields: `image` u8 [32, 32, 3], `label` i64, and for 100 classes
// `coarse_label` i64. Arguments:
//   paths     files, folders and patterns (list_files()), plain or gzipped
//   classes   10 (default) or 100
Stage cifar_stage(const SourceArgs& args, const Files& files);

}  // namespace troupe
