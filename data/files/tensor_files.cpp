// Whole files of tensors, read and written in the formats of npy.hpp, zip.hpp and safetensors.hpp.
#include "data/files/tensor_files.hpp"

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include "data/files/json.hpp"
#include "data/files/npy.hpp"
#include "data/files/safetensors.hpp"
#include "data/files/zip.hpp"

namespace troupe {
namespace {

constexpr std::string_view kNpy = ".npy";

using Bytes = std::span<const std::byte>;

Bytes bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw()), static_cast<size_t>(tensor.byte_size())};
}
Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// A file of the program's user, who may have linked it from elsewhere.
std::unique_ptr<ReadFile> open(const std::string& path) {
  std::error_code none;
  const std::filesystem::path real = std::filesystem::canonical(path, none);
  return real_disk().open(none ? path : real.string());
}

// All bytes of a file.
class WholeFile final : public ByteReader {
 public:
  explicit WholeFile(const std::string& path) : path_(path), file_(open(path)) {}
  void read(std::span<std::byte> into) override {
    file_->read(done_, into);
    done_ += static_cast<int64_t>(into.size());
  }
  int64_t left() const override { return file_->size() - done_; }
  int64_t offset() const override { return done_; }
  void finish() override {}
  std::string place() const override { return path_; }

 private:
  const std::string path_;
  const std::unique_ptr<ReadFile> file_;
  int64_t done_ = 0;
};

// A file that is written aside. The last of several writers stays.
class NewFile {
 public:
  NewFile(Disk& disk, const std::string& path)
      : file(disk, folder_of(path), std::filesystem::path(path).filename().string(),
             AtomicFile::IfThere::last_stays) {}
  void write(Bytes bytes) {
    if (!bytes.empty()) file.write(bytes);
  }
  AtomicFile file;

 private:
  static std::string folder_of(const std::string& path) {
    const std::filesystem::path at(path);
    if (!at.has_filename())
      throw Error(Errc::invalid_argument, "cannot write to ", path, ": it names no file");
    return at.has_parent_path() ? at.parent_path().string() : ".";
  }
};

void want_written(const Tensor& tensor, const std::string& path, const std::string& name) {
  if (!tensor.defined() || !tensor.on_host())
    throw Error(Errc::invalid_argument, "cannot write ", path, ": the tensor",
                name.empty() ? "" : " ", name,
                tensor.defined() ? " is not in this process's memory" : " holds nothing",
                "; give one that a run has fetched");
}

}  // namespace

void check_booleans(const Tensor& tensor, const std::string& place) {
  if (tensor.dtype() != DType::boolean) return;
  const auto* bytes = static_cast<const uint8_t*>(tensor.raw());
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (bytes[i] > 1)
      throw Error(Errc::bad_data, place, ": element ", i, ": expected a bool, 0 or 1, found ",
                  static_cast<int>(bytes[i]));
}

Tensor read_npy(const std::string& path) {
  WholeFile file(path);
  return tensor_of_npy(file);
}

void write_npy(Disk& disk, const std::string& path, const Tensor& tensor) {
  want_written(tensor, path, {});
  const std::string header = npy_header(tensor.dtype(), tensor.shape());
  NewFile out(disk, path);
  out.write(bytes_of(header));
  out.write(bytes_of(tensor));
  out.file.commit();
}

NamedTensors read_npz(const std::string& path, int64_t bytes_max) {
  const ZipReader zip(open(path), path);
  int64_t bytes = 0;
  for (const ZipEntry& entry : zip.entries()) {
    if (!entry.name.ends_with(kNpy))
      throw Error(Errc::bad_data, path, ": expected entries that end in .npy, found ",
                  json_quote(entry.name), "; numpy.savez() writes such an archive");
    if (entry.size > bytes_max - bytes)
      throw Error(Errc::bad_data, path, ": entry ", entry.name, " makes the arrays more than ",
                  bytes_max, " bytes; if you trust the file, allow read_npz() more with ",
                  "`bytes_max`, or write it without compression");
    bytes += entry.size;
  }
  NamedTensors out;
  for (const ZipEntry& entry : zip.entries())
    out[entry.name.substr(0, entry.name.size() - kNpy.size())] = tensor_of_npy(*zip.open(entry));
  return out;
}

void write_npz(Disk& disk, const std::string& path, const NamedTensors& tensors, Packing packing) {
  for (const auto& [name, tensor] : tensors) want_written(tensor, path, name);
  NewFile out(disk, path);
  ZipWriter zip(out.file);
  for (const auto& [name, tensor] : tensors) {
    try {
      const std::string header = npy_header(tensor.dtype(), tensor.shape());
      zip.add(name + std::string(kNpy), {bytes_of(header), bytes_of(tensor)},
              packing == Packing::deflated);
    } catch (const Error& e) {
      throw Error(e.code(), "cannot write ", path, ": tensor ", name, ": ", e.what());
    }
  }
  zip.finish();
  out.file.commit();
}

NamedTensors read_safetensors(const std::string& path) {
  const SafetensorsReader file(open(path), path);
  NamedTensors out;
  for (const SafetensorsEntry& entry : file.entries()) {
    Tensor tensor = Tensor::empty(entry.dtype, entry.shape);
    file.read(entry, 0, entry.shape.size(), tensor, 0);
    check_booleans(tensor, path + ": tensor " + json_quote(entry.name));
    out[entry.name] = std::move(tensor);
  }
  return out;
}

std::map<std::string, std::string> safetensors_metadata(const std::string& path) {
  return SafetensorsReader(open(path), path).metadata();
}

void write_safetensors(Disk& disk, const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const auto is_utf8 = [&](const std::string& text) {
    return parse_json(json_quote(text), path).text == text;
  };
  for (const auto& [key, value] : metadata)
    if (!is_utf8(key) || !is_utf8(value))
      throw Error(Errc::invalid_argument, "cannot write ", path, ": the metadata ", json_quote(key),
                  " is not UTF-8, as the format wants it");
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& [name, tensor] : tensors) {
    want_written(tensor, path, name);
    if (name == kSafetensorsMetadata || !is_utf8(name))
      throw Error(Errc::invalid_argument, "cannot write ", path, ": a tensor cannot be named ",
                  json_quote(name), "; the format wants UTF-8, and keeps ", kSafetensorsMetadata,
                  " for itself");
    all.emplace_back(name, tensor);
  }
  // Wide elements first: then each tensor is aligned in a mapped file.
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return size_of(a.second.dtype()) > size_of(b.second.dtype());
  });
  const std::string header = safetensors_header(all, metadata);
  if (static_cast<int64_t>(header.size()) > kSafetensorsHeaderMax)
    throw Error(Errc::invalid_argument, "cannot write ", path, ": names and metadata take ",
                header.size(), " bytes, the format has at most ", kSafetensorsHeaderMax);
  NewFile out(disk, path);
  out.write(bytes_of(header));
  for (const auto& [name, tensor] : all) out.write(bytes_of(tensor));
  out.file.commit();
}

void write_npy(const std::string& path, const Tensor& tensor) {
  write_npy(real_disk(), path, tensor);
}
void write_npz(const std::string& path, const NamedTensors& tensors, Packing packing) {
  write_npz(real_disk(), path, tensors, packing);
}
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  write_safetensors(real_disk(), path, tensors, metadata);
}

namespace {

bool is_npz(const std::string& path) {
  if (path.ends_with(".npz")) return true;
  if (path.ends_with(".safetensors")) return false;
  throw Error(Errc::invalid_argument, path, " ends in neither .npz nor .safetensors");
}

}  // namespace

NamedTensors read_tensors(const std::string& path, int64_t bytes_max) {
  if (!is_npz(path)) return read_safetensors(path);
  return read_npz(path, std::max(bytes_max, open(path)->size()));  // stored arrays are never more
}

void write_tensors(const std::string& path, const NamedTensors& tensors) {
  if (is_npz(path))
    write_npz(path, tensors);
  else
    write_safetensors(path, tensors);
}

}  // namespace troupe
