// The writers of include/troupe/files.hpp on any Disk, and the check of elements that were read.
// Owner: none, plain functions. Thread: any; one writer of a Disk at a time.
#pragma once

#include <map>
#include <string>

#include "data/files/disk.hpp"
#include "troupe/files.hpp"

namespace troupe {

void write_npy(Disk& disk, const std::string& path, const Tensor& tensor);
void write_npz(Disk& disk, const std::string& path, const NamedTensors& tensors, Packing packing);
void write_safetensors(Disk& disk, const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata);

// Throws: Error(bad_data) naming `place` for a bool that is neither 0 nor 1.
void check_booleans(const Tensor& tensor, const std::string& place);

}  // namespace troupe
