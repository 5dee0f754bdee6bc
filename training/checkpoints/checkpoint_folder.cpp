// Claims the folder of a training and finds its newest whole checkpoint.
#include "training/checkpoints/checkpoint_folder.hpp"

#include <filesystem>

namespace troupe {

CheckpointFolder::CheckpointFolder(const std::string& dir)
    : path_(std::filesystem::absolute(dir).string()) {
  if (std::error_code none; std::filesystem::is_regular_file(path_, none))
    throw Error(Errc::invalid_argument, path_, " is a file; give the folder of checkpoints, as ",
                std::filesystem::path(path_).parent_path().string());
}

std::string CheckpointFolder::path_of(const Manifest& manifest) const {
  return path_ + "/" + manifest_name(manifest.generation, manifest.step);
}

std::shared_ptr<const FolderLock> CheckpointFolder::claim() {
  real_disk().make_dirs(path_);
  lock_ = std::make_shared<const FolderLock>(path_);
  if (!lock_->held())
    throw Error(Errc::invalid_argument, "another training writes its checkpoints to ", path_,
                "; wait until it has ended, or choose another checkpoint_dir");
  return lock_;
}

void CheckpointFolder::want_unused() const {
  if (const auto newest = newest_manifest_name(real_disk(), path_))
    throw Error(Errc::invalid_argument, path_, " has checkpoints of an earlier run, the newest is ",
                *newest,
                "; go on from it with resume = true, choose another checkpoint_dir, or empty this "
                "one");
}

CheckpointFolder::Found CheckpointFolder::newest(const std::vector<ParameterSpec>& parameters,
                                                 std::optional<uint64_t> data_seed) const {
  Found out;
  if (lock_) lock_->keep();
  out.manifest = find_newest(real_disk(), path_, out.damaged);
  if (!out.manifest) return out;
  check_manifest(*out.manifest, parameters, "", data_seed.value_or(out.manifest->data_seed));
  out.changed = check_optimizers(real_disk(), path_, *out.manifest, parameters);
  return out;
}

void refuse_damaged(const CheckpointFolder& folder, size_t damaged) {
  throw Error(Errc::bad_data, "no checkpoint in ", folder.path(), " is whole; ", damaged,
              damaged == 1 ? " is" : " are",
              " damaged. Put a copy there, or train without resume in another folder");
}

}  // namespace troupe
