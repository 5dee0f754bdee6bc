// Files of tensors: numpy's .npy and .npz, and safetensors, which Python's libraries read and
// write. Implemented in data/files/tensor_files.cpp.
//
// Readers throw Error(io) if a file cannot be read, and Error(bad_data) if its content is
// malformed; the message names the file, the offset or entry, what was expected and what was found.
// Every size is checked before memory is taken for it. Arrays in Fortran order and big-endian ones
// are converted.
//
// Writers write another file aside, sync it, and rename it: whatever happens, there is the old file
// or the whole new one. They throw Error(io), on a full disk for example, and
// Error(invalid_argument) for tensors that the format cannot hold.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "troupe/tensor.hpp"

namespace troupe {

using NamedTensors = std::map<std::string, Tensor>;

// One array, of any dtype but bf16, which numpy does not have.
Tensor read_npy(const std::string& path);
void write_npy(const std::string& path, const Tensor& tensor);

// An archive with an array for each name, as numpy.savez() and savez_compressed() write it. A file
// that unpacks to more than `bytes_max` is refused.
NamedTensors read_npz(const std::string& path, int64_t bytes_max = int64_t{16} << 30);
enum class Packing : uint8_t { stored, deflated };
void write_npz(const std::string& path, const NamedTensors& tensors,
               Packing packing = Packing::stored);

// https://github.com/huggingface/safetensors. `metadata` is for readers of their own: some want
// {{"format", "pt"}}.
NamedTensors read_safetensors(const std::string& path);
std::map<std::string, std::string> safetensors_metadata(const std::string& path);
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

// By the end of the path, .npz or .safetensors. An .npz is refused if it unpacks to more than
// `bytes_max` and more than its own size. Throws: Error(invalid_argument) for another end.
NamedTensors read_tensors(const std::string& path, int64_t bytes_max = int64_t{16} << 30);
void write_tensors(const std::string& path, const NamedTensors& tensors);

}  // namespace troupe
