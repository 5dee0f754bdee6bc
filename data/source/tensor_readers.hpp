// The readers npy, npz and safetensors of sources: arrays of a file, whose first dimension counts
// the records. Files are local, and read through data/files/disk.hpp as those of checkpoints are.
#pragma once

#include "data/files.hpp"
#include "data/source/stage.hpp"

namespace troupe {

// npy: the array in the file `path`, as the field `field`, by default "value".
Stage make_npy(const SourceArgs& args, const Files& files);
// The arrays of the file `path` with the names `fields`, in that order; by default all of them, by
// name.
Stage make_npz(const SourceArgs& args, const Files& files);
Stage make_safetensors(const SourceArgs& args, const Files& files);

}  // namespace troupe
