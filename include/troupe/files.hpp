// Files of tensors: numpy's .npy and .npz, and safetensors, which Python's libraries read and
// write; and images. Implemented in data/files/tensor_files.cpp and data/images/.
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
#include <span>
#include <string>
#include <vector>

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

inline constexpr int64_t kImageBytesMax = int64_t{1} << 28;  // decoded; larger ones are refused
// A JPEG or PNG file, told apart by content, as u8 [height, width, channels]. `channels`: 1 (grey),
// 3 (RGB), or 0 for 1 if the image is grey and else 3. Colours become grey by ITU-R BT.601.
// Transparency is dropped, 16 bits become 8, and the orientation that a camera notes is not
// applied. `place`: the file or entry, with which messages begin. Any thread may call. Throws:
// Error(bad_data) for bytes that are no whole image; Error(invalid_argument) for other channels.
Tensor decode_image(std::span<const uint8_t> bytes, int64_t channels = 0,
                    const std::string& place = "image");

// The classes of the reader images (docs/input.md), sorted: the folders of a folder or tar. Give
// them as its argument `classes` to the sources for training and for evaluation, so that a label is
// the same class in both.
std::vector<std::string> image_classes(const std::string& path);

}  // namespace troupe
