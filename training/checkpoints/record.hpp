// A record on disk: the order in which the shards of a training have made updates. A folder holds
// record.json, which says of which training it is, a file for each part and shard, and the digest
// of the final weights:
//
//   record.json   part-000001.shard-0-of-2.record   part-000001.shard-1-of-2.record part-000002...
//   end.json
//
// A part is made by shards from their begin or their restore at a step on. Its events of that step
// and later ones replace those of earlier parts. A chunk that is written with a checkpoint says so,
// and is on the disk before the checkpoint is. All replicas stand still at the step of a
// checkpoint, so the events of the steps before it are the whole record up to there.
// Owner: none, plain functions and values. Thread: any; they block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/files/disk.hpp"
#include "training/parameters/layout.hpp"
#include "troupe/training.hpp"

namespace troupe {

// The terms of a training; a replay must have the same. Barriers, at which all replicas stand
// still, must be among those of the record: elsewhere a replica may have gone past others.
struct RecordTerms {
  std::vector<int32_t> replicas;  // ascending
  uint64_t data_seed = 0;
  int64_t checkpoint_every = 0, pause_every = 0;
  std::string compute, gradients, values;  // the dtype of products, and codecs
  bool skips_bad = false;                  // gradients that are not finite
  std::vector<std::string> sources;
};

// The number of the newest part in the folder; 0: it has none.
int64_t newest_part(Disk& disk, const std::string& dir);

// Makes the folder a record of such a training that begins at step `at`, or finds that it is one.
// Throws: Error(invalid_argument) if it has one and `resume` is not set, or has none and `at` is
// past 0; Error(bad_configuration) naming the difference; Error(io).
void begin_record(Disk& disk, const std::string& dir, const RecordTerms& terms, bool resume,
                  int64_t at);

struct OrderRecord {
  RecordTerms terms;
  int64_t end = 0;                       // it has all steps before this one
  std::string weights;                   // after them, as a digest; empty: not known
  std::map<int64_t, Aggregation> rules;  // by the step from which they hold
  struct Events {
    std::string parameter;
    int64_t offset = 0, size = 0;
    std::shared_ptr<const std::string> bytes;
  };
  std::vector<Events> slices;

  // The events of this slice. Throws: Error(bad_configuration) if the record has it in other
  // pieces.
  std::shared_ptr<const std::string> events_of(const Slice& slice) const;
};

// With the events of parameters that `wanted` is true of. Throws: Error(io); Error(bad_data) with
// file, offset, expected and found for one that is damaged, and naming the file for one that is not
// whole; Error(bad_configuration) if a resumed training had its parameters in other pieces.
using RecordWanted = std::function<bool(const std::string& parameter)>;
OrderRecord read_record(Disk& disk, const std::string& dir, const RecordWanted& wanted);

// The weights that the training has ended with after all steps of its record, as weights_sha256()
// gives them. Throws: Error(io).
void write_record_end(Disk& disk, const std::string& dir, int64_t steps,
                      const std::string& weights);

// Throws: Error(bad_configuration) naming a difference between the record in `dir` and the training
// of so many steps that is to repeat it.
void check_replay(const OrderRecord& record, const std::string& dir, const RecordTerms& terms,
                  int64_t steps);

}  // namespace troupe
