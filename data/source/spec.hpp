// SourceSpec: the description of a source as a tree of stages, its text, and the stages that are
// built of it.
// Owner: the sources that share it. Thread: any.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/files.hpp"
#include "data/source/stage.hpp"

namespace troupe {

struct SourceSpec {
  std::string stage;      // "read", "map", "shuffle", ...: a row of the table in build.cpp
  std::string name = {};  // of the reader or function
  SourceArgs args = {};
  uint64_t seed = 0;                                       // of functions and shuffle
  std::vector<std::shared_ptr<const SourceSpec>> of = {};  // the stages before it
};
using Spec = std::shared_ptr<const SourceSpec>;

// The records of a batch, if batch() is the last stage but for map() and cache(); else 0.
int64_t batch_size(const SourceSpec& stages);

std::string spec_to_text(const SourceSpec& spec);
// Throws: Error(bad_data).
Spec spec_from_text(const std::string& text);
// The source behind which a stage `seen` stands (data/source/seen.hpp), whose text is `seen`; the
// source itself if that is empty. Throws: Error(bad_data).
Spec with_seen(Spec source, const std::string& seen);

// repeat() and prefetch() at the end of a source are numbers; the rest of it are stages, with
// `seen` as the last one if the source has it.
struct SourcePlan {
  Spec stages;
  int64_t epochs = -1;  // -1: no end
  int64_t threads = 1, depth = 2;
};
// Throws: Error(invalid_argument).
SourcePlan plan_source(Spec spec);

// The functions that the process knows besides those of the library; null: an unknown name.
using FindFunction = std::function<const SourceFunction*(std::string_view name)>;
// Reads what the readers need to know of their files, among `files`, which outlive the stages.
// Throws: Error(invalid_argument), Error(io), Error(bad_data), naming the stage.
Stage build_stages(const SourceSpec& spec, const FindFunction& find,
                   const Files& files = local_files());
// The same with the text of a stage `seen` for it.
struct SeenStages {
  Stage stage;
  std::string seen;
};
SeenStages see_stages(const SourceSpec& spec, const FindFunction& find);

}  // namespace troupe
