// Checkpoints: one safetensors file per shard and one manifest, whose appearance commits them.
// Plain functions over a Disk; they block. A directory holds several checkpoints, told apart by a
// generation that only grows:
//
//   000007-step12.shard-0-of-2.safetensors   000007-step12.shard-1-of-2.safetensors
//   000007-step12.manifest.json
//
// At every instant after the first commit some checkpoint is whole, whatever write is cut short
// (I13): files are written aside, synced and renamed; the manifest comes last and names every file
// with size and SHA-256; old checkpoints go manifest first, after the commit. A process that froze
// as it wrote a file, and goes on in the middle of a later run, changes none of that run: no file
// is written twice, and what is written aside has a name of its own.
//
// Reading trusts nothing: every length is checked before memory is taken. A damaged file is an
// Error(bad_data) with file, offset, what was expected and what was found; a checkpoint of another
// format or model an Error(bad_configuration).
// Owner: none, plain functions. Thread: any; one writer for a directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/files/disk.hpp"
#include "training/parameters/shard_image.hpp"

namespace troupe {

// The format of a manifest that is written, and the oldest that is read. Format 1 held only the
// kind of each optimizer, format 2 not the dtype of products, format 3 neither sources nor the rate
// scale.
inline constexpr int kCheckpointFormat = 4, kCheckpointFormatOldest = 1;

struct CheckpointFile {
  std::string name;  // in the checkpoint's directory
  int64_t bytes = 0;
  std::string sha256;  // lower-case hexadecimal
};

struct Manifest {
  int64_t generation = 0;
  int64_t step = 0;
  uint64_t epoch = 0;
  Aggregation rule = Aggregation::sync;
  double rate_scale = 1;  // of the steps that follow
  std::vector<std::pair<int64_t, int64_t>>
      next_steps;          // replica and the step it does next, by replica
  uint64_t data_seed = 0;  // of the loader; its position is a function of seed, replica and step
  std::string graph_fingerprint;  // of the trained graph; empty: not known
  std::string compute;            // in which dtype its products were, "bf16"; empty: not known
  // That its replicas read, as training/loop/sources.hpp writes them; {}: none, or not known.
  std::vector<std::string> sources;
  std::vector<ParameterSpec>
      parameters;                     // by name; whether and how each is trained is not compared
  std::vector<CheckpointFile> files;  // by shard
};

std::string manifest_name(int64_t generation, int64_t step);
std::string shard_file_name(int64_t generation, int64_t step, int32_t shard, int32_t shard_count);

// One more than any generation of which there is a trace in `dir`, 1 at first. Makes the directory.
int64_t next_generation(Disk& disk, const std::string& dir);

// Writes one shard's file and returns its row of the manifest. Refuses with Error(io) when the disk
// has less room than it needs, or the file is there.
CheckpointFile write_shard_file(Disk& disk, const std::string& dir, const std::string& name,
                                const ShardImage& state);

// Reads the files of a checkpoint that is to be committed. Throws: Error(io) for one that cannot be
// read here, Error(bad_data) for one that is not as the manifest says.
void check_files(Disk& disk, const std::string& dir, const Manifest& manifest);

// Writes the manifest: from here on the checkpoint exists. Refuses with Error(io) if it is there.
void commit_checkpoint(Disk& disk, const std::string& dir, const Manifest& manifest);

// Removes all older than the newest `keep` (>= 1) checkpoints, and what cut-short attempts left.
// One whose manifest or file sizes are wrong is not counted. One of a later step than the newest
// stays: a run that went back replaces it when it is there again. A file that cannot be removed,
// such as a directory of that name, is passed over: a line for each says why, and the files of such
// a manifest stay with it. Call after a commit.
std::vector<std::string> prune_checkpoints(Disk& disk, const std::string& dir, int keep);

// Removes what attempts that failed or were cut short have left: files without a manifest, and
// those that were being written. A line for each that cannot be removed says why. Requires: nobody
// writes a checkpoint there.
std::vector<std::string> remove_leftovers(Disk& disk, const std::string& dir);

// Removes the checkpoint of that generation, whole or in part, its manifest first. The same lines.
std::vector<std::string> discard_checkpoint(Disk& disk, const std::string& dir, int64_t generation);

// The file name of the newest manifest in `dir`, whole or not.
std::optional<std::string> newest_manifest_name(Disk& disk, const std::string& dir);

// The newest checkpoint in `dir` whose manifest and files are whole; nothing if there is none. Each
// damaged one on the way adds a line to `warnings`. With `read_files`, hashes are compared too, not
// only sizes. Throws: Error(io) when the directory, or a file that is in it, cannot be read: it may
// be whole, so no earlier checkpoint takes its place.
std::optional<Manifest> find_newest(Disk& disk, const std::string& dir,
                                    std::vector<std::string>& warnings, bool read_files = true);

// Throws: Error(io) if it cannot be read, Error(bad_data) if it is damaged.
Manifest read_manifest(Disk& disk, const std::string& dir, const std::string& name);

// Throws: Error(bad_configuration) naming what differs: parameters that are missing, too many or of
// another type, another graph fingerprint (unless one is empty), another data seed.
void check_manifest(const Manifest& manifest, const std::vector<ParameterSpec>& parameters,
                    const std::string& graph_fingerprint, uint64_t data_seed);

// Reads the heads of the checkpoint's files. Throws: Error(invalid_argument) naming a parameter
// that was trained with another kind of optimizer, whose state would be lost. A parameter that was
// not trained, or is not any more, is no difference. Returns a line for each parameter that was
// trained with other settings of the same kind: those of `parameters` count from here on.
std::vector<std::string> check_optimizers(Disk& disk, const std::string& dir,
                                          const Manifest& manifest,
                                          const std::vector<ParameterSpec>& parameters);

// The state of `wanted` slices, cut as they ask whatever the cut in the files is. Replicas that an
// optimizer has and the file has not begin at zero. Reads, and checks the hashes of, the files that
// hold a part of them.
std::vector<SliceState> read_slices(Disk& disk, const std::string& dir, const Manifest& manifest,
                                    const std::vector<Slice>& wanted);

// Whole parameters by name, in their shapes, without tables whose rows are made on first touch.
std::vector<std::pair<std::string, Tensor>> read_parameters(Disk& disk, const std::string& dir,
                                                            const Manifest& manifest);

// Text forms, for tests and tools.
std::string to_text(const Manifest& manifest);
Manifest manifest_from_text(const std::string& text,
                            const std::string& file);  // `file` for messages

}  // namespace troupe
