// CheckpointFolder: the checkpoint_dir of one training, or of one load_parameters(), in the program
// that asked: finds the checkpoint to begin with, and refuses folders that must not be used.
// Owner: the caller. Thread: the caller's; calls block on the disk.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "training/checkpoints/checkpoint.hpp"

namespace troupe {

class CheckpointFolder {
 public:
  // Makes the path absolute, so that it is the same for all processes, in any working
  // directory.
  explicit CheckpointFolder(const std::string& dir);
  const std::string& path() const { return path_; }
  std::string path_of(const Manifest& manifest) const;

  // Makes the folder, and reserves it for one training until this object and all copies of the
  // returned lock are gone. Throws: Error(invalid_argument) while another training holds it, in
  // this process or another.
  std::shared_ptr<const FolderLock> claim();
  // Throws: Error(invalid_argument) if it has checkpoints, whole or not: those of another run would
  // be counted and removed as if they belonged to this one.
  void want_unused() const;

  // The newest whole checkpoint. Throws: Error(bad_configuration) if its parameters differ, or its
  // data seed, if one is given; Error(invalid_argument) if its optimizers differ; Error(io) if it
  // cannot be read, or another training has the claimed path now.
  struct Found {
    std::optional<Manifest> manifest;
    std::vector<std::string> damaged;  // a line for each newer checkpoint that cannot be used
    std::vector<std::string> changed;  // as from check_optimizers()
  };
  Found newest(const std::vector<ParameterSpec>& parameters,
               std::optional<uint64_t> data_seed) const;

 private:
  std::string path_;
  std::shared_ptr<const FolderLock> lock_;
};

// Throws Error(bad_data): there are checkpoints in the folder, but none is whole.
[[noreturn]] void refuse_damaged(const CheckpointFolder& folder, size_t damaged);

}  // namespace troupe
