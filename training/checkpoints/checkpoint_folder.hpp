// CheckpointFolder: the checkpoint_dir of one training, or of one load_parameters(), on the side of
// the program that asked: what it begins with, and what it must not begin with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "training/checkpoints/checkpoint.hpp"

namespace troupe {

class CheckpointFolder {
 public:
  // The same for all processes, whatever their working directories are.
  explicit CheckpointFolder(const std::string& dir);
  const std::string& path() const { return path_; }
  std::string path_of(const Manifest& manifest) const;

  // Makes the folder, and keeps it for one training until this object and all copies of what is
  // returned have gone. Throws: Error(invalid_argument) while another training has it, in this
  // process or another.
  std::shared_ptr<const FolderLock> claim();
  // Throws: Error(invalid_argument) if it has checkpoints, whole or not: those of another run would
  // be counted, and removed, as if they were of this one.
  void want_unused() const;

  // The newest whole checkpoint. Throws: Error(bad_configuration) for one of other parameters, or
  // another data seed if one is given; Error(invalid_argument) for one of other optimizers.
  struct Found {
    std::optional<Manifest> manifest;
    std::vector<std::string> damaged;  // a line for each newer one that cannot be used
    std::vector<std::string> changed;  // as check_optimizers()
  };
  Found newest(const std::vector<ParameterSpec>& parameters,
               std::optional<uint64_t> data_seed) const;

 private:
  std::string path_;
  std::shared_ptr<const FolderLock> lock_;
};

// Error(bad_data): there are checkpoints in the folder, but none is whole.
[[noreturn]] void refuse_damaged(const CheckpointFolder& folder, size_t damaged);

}  // namespace troupe
