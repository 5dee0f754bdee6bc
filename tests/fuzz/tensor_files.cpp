// Files of tensors: npy, npz and safetensors.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/fuzz/targets.hpp"
#include "tests/support/paths.hpp"
#include "troupe/files.hpp"

namespace troupe::fuzz {
namespace {

constexpr int64_t kMost = 64 << 20;  // bytes of the arrays of an npz

void run_npy(std::string_view bytes) { read_npy(MemoryFile(bytes).path()); }
void run_npz(std::string_view bytes) { read_npz(MemoryFile(bytes).path(), kMost); }
void run_safetensors(std::string_view bytes) { read_safetensors(MemoryFile(bytes).path()); }

NamedTensors some() {
  return {{"a", Tensor::of<float>({1, 2, 3, 4}, {2, 2})},
          {"b/c", Tensor::of<int64_t>({7}, {1})},
          {"empty", Tensor::of<uint8_t>({}, {0})}};
}

// Writers put a file aside and rename it, so they need a folder.
template <class Write>
std::string written(const char* name, Write&& write) {
  const std::string path = binary_dir() + "/seed-" + std::to_string(::getpid()) + name;
  write(path);
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  std::remove(path.c_str());
  return out.str();
}

Seeds npy_seeds() {
  Seeds out;
  for (const auto& array : some())
    out.push_back(written(".npy", [&](const std::string& path) { write_npy(path, array.second); }));
  return out;
}
Seeds npz_seeds() {
  return {written(".npz", [](const std::string& path) { write_npz(path, some()); })};
}
Seeds safetensors_seeds() {
  return {
      written(".safetensors", [](const std::string& path) { write_safetensors(path, some()); })};
}

}  // namespace

Target npy_target() { return {"npy", run_npy, npy_seeds}; }
Target npz_target() { return {"npz", run_npz, npz_seeds}; }
Target safetensors_target() { return {"safetensors", run_safetensors, safetensors_seeds}; }

}  // namespace troupe::fuzz
