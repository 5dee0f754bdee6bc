// The stages between reader and training. Each takes the stage before it; `name` is what messages
// call it.
// Owner: the stage after it. Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/random.hpp"
#include "data/source/stage.hpp"

namespace troupe {

// A record that has been made.
class MadeRecord final : public LazyRecord {
 public:
  MadeRecord(Record record, std::string place)
      : record_(std::move(record)), place_(std::move(place)) {}
  Record make() const override { return record_; }
  std::string place() const override { return place_; }

 private:
  const Record record_;
  const std::string place_;
};

Stage map_stage(Stage before, std::string name, SourceStep step, uint64_t seed);
Stage filter_stage(Stage before, std::string name, SourceStep step, uint64_t seed);
Stage expand_stage(Stage before, std::string name, SourceStep step, uint64_t seed);
Stage shuffle_stage(Stage before, int64_t window, uint64_t seed);
Stage batch_stage(Stage before, int64_t size, const BatchOptions& options);
Stage bucket_stage(Stage before, const std::string& field, std::vector<int64_t> bounds,
                   std::vector<int64_t> sizes, double padding);
Stage cache_stage(Stage before);
Stage take_stage(Stage before, int64_t skip, int64_t count);  // count -1: all
// Each n-th record, or the others.
Stage every_stage(Stage before, int64_t n, bool others);
Stage repeat_stage(Stage before, int64_t times);
Stage interleave_stage(std::vector<Stage> before, int64_t block);
Stage zip_stage(std::vector<Stage> before);

}  // namespace troupe
