// The names of the files in a folder of checkpoints; for the sources of this room.
// Owner: none, plain functions. Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "training/checkpoints/checkpoint.hpp"

namespace troupe {

struct CheckpointName {
  int64_t generation = 0, step = 0;
  bool manifest = false, temp = false;  // temp: it is being written aside
};

// "000007-step12.manifest.json", "000007-step12.shard-0-of-2.safetensors", and the same with
// ".temp" or ".UNIQUE.temp" (Disk::unique()); others are not ours.
std::optional<CheckpointName> parse_checkpoint_name(std::string_view name);

// The names of manifests among `names`, newest first.
std::vector<std::pair<CheckpointName, std::string>> manifests_among(
    const std::vector<std::string>& names);

// The manifest, if what it names is among `names`, those of the folder, and as it says; with
// `read_files`, hashes are compared too. Throws: Error(bad_data) saying what is missing or damaged,
// Error(io) for what is there and cannot be read.
Manifest read_whole_checkpoint(Disk& disk, const std::string& dir, const CheckpointName& parsed,
                               const std::string& name, const std::vector<std::string>& names,
                               bool read_files);

}  // namespace troupe
