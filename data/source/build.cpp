// The stages of a description.
#include <utility>

#include "data/reading.hpp"
#include "data/source/fields.hpp"
#include "data/source/readers.hpp"
#include "data/source/seen.hpp"
#include "data/source/spec.hpp"
#include "data/source/stages.hpp"
#include "graph/base/fnv.hpp"

namespace troupe {
namespace {

// A reader's stage whose records are reported to the Reading of the thread. All stages behind it
// read through it, so each loop over records can be seen and stopped from outside.
class WatchedStage final : public SourceStage {
 public:
  explicit WatchedStage(Stage reader) : reader_(std::move(reader)) {}
  const Fields& fields() const override { return reader_->fields(); }
  std::unique_ptr<RecordStream> open(int64_t epoch) const override {
    return std::make_unique<Stream>(reader_->open(epoch));
  }
  bool same_count() const override { return reader_->same_count(); }
  int64_t size() const override { return reader_->size(); }
  Batching batching() const override { return reader_->batching(); }

 private:
  class Stream final : public RecordStream {
   public:
    explicit Stream(std::unique_ptr<RecordStream> from) : from_(std::move(from)) {}
    Lazy next() override {
      Reading::moved();
      return from_->next();
    }

   private:
    const std::unique_ptr<RecordStream> from_;
  };

  const Stage reader_;
};

class Builder {
 public:
  Builder(const FindFunction& find, const Files& files) : find_(find), files_(files) {}
  Stage build(const SourceSpec& spec);
  // The files of all readers so far.
  std::vector<SourceFile> files() const {
    std::vector<SourceFile> out;
    for (const Stage& reader : readers_)
      for (SourceFile& file : reader->files()) out.push_back(std::move(file));
    return out;
  }

 private:
  std::vector<Stage> before(const SourceSpec& spec) {
    std::vector<Stage> out;
    for (const Spec& one : spec.of) out.push_back(build(*one));
    return out;
  }
  Stage read(const SourceSpec& spec);
  Stage call(const SourceSpec& spec, const Stage& before);
  SourceStep bind(const SourceSpec& spec, const Fields& inputs) const;
  // A seed of its own for each stage that draws, so that two stages of one seed draw differently.
  uint64_t seed_of(const SourceSpec& spec) {
    return mixed_key(spec.seed, seeded_++,
                     static_cast<int64_t>(fnv1a64(spec.stage + " " + spec.name)));
  }

  const FindFunction& find_;
  const Files& files_;
  int64_t seeded_ = 0;  // stages so far, in the order in which they are built
  std::vector<Stage> readers_;
};

constexpr int64_t kThreadsMax = 256, kDepthMax = 4096;  // of prefetch()

int64_t want_least(const SourceSpec& spec, std::string_view name, int64_t value, int64_t least) {
  if (value < least)
    throw Error(Errc::invalid_argument, spec.stage, " of a source wants ", name, " of at least ",
                least, ", got ", value);
  return value;
}

Stage Builder::read(const SourceSpec& spec) {
  std::string known;
  for (const SourceReader& reader : builtin_readers()) {
    if (reader.name == spec.name) {
      readers_.push_back(reader.make(spec.args, files_));
      want_distinct(readers_.back()->fields(), spec.name);
      return std::make_shared<WatchedStage>(readers_.back());
    }
    known += (known.empty() ? "" : ", ") + std::string(reader.name);
  }
  throw Error(Errc::invalid_argument, "there is no reader ", spec.name, "; there are ", known);
}

SourceStep Builder::bind(const SourceSpec& spec, const Fields& inputs) const {
  const SourceFunction* function = find_ ? find_(spec.name) : nullptr;
  std::string known;
  for (const SourceFunction& own : builtin_functions()) {
    if (own.name == spec.name) {
      if (function)
        throw Error(Errc::invalid_argument, "the program or a plugin registers a function ",
                    spec.name, " for sources, and the library has one of that name; rename it");
      function = &own;
      for (const char* const file : {"vocabulary", "merges"})  // files that ours read
        if (const auto arg = spec.args.find(file); arg != spec.args.end())
          if (const auto* path = std::get_if<std::string>(&arg->second)) files_.kind(*path);
    }
    known += (known.empty() ? "" : ", ") + own.name;
  }
  if (!function)
    throw Error(Errc::invalid_argument, "this process knows no function ", spec.name,
                " for a source; the library has ", known,
                "; give it your own with ops_with(), in a plugin for actor-node");
  SourceStep step = function->bind(inputs, spec.args);
  const std::pair<const char*, bool> kinds[] = {{"map", static_cast<bool>(step.map)},
                                                {"filter", static_cast<bool>(step.keep)},
                                                {"expand", static_cast<bool>(step.expand)}};
  std::string is;
  for (const auto& [name, has] : kinds)
    if (has) is += (is.empty() ? "" : " and ") + std::string(name);
  if (is != spec.stage)
    throw Error(Errc::invalid_argument, "the function ", spec.name, " is for ",
                is.empty() ? "nothing" : is, ", and the source calls it by ", spec.stage, "()");
  want_distinct(step.fields, spec.name);
  return step;
}

Stage Builder::call(const SourceSpec& spec, const Stage& before) {
  const uint64_t key = seed_of(spec);
  SourceStep step = bind(spec, before->fields());
  if (spec.stage == "map") return map_stage(before, spec.name, std::move(step), key);
  if (spec.stage == "filter") return filter_stage(before, spec.name, std::move(step), key);
  return expand_stage(before, spec.name, std::move(step), key);
}

Stage Builder::build(const SourceSpec& spec) {
  if (spec.stage == "read") return read(spec);
  std::vector<Stage> from = before(spec);
  if (from.empty())
    throw Error(Errc::invalid_argument, spec.stage, " of a source wants a source before it");
  ArgReader args(spec.stage, spec.args);
  const auto done = [&](Stage stage) {
    args.done();
    return stage;
  };
  const auto least = [&](const char* name, int64_t lowest) {
    return want_least(spec, name, args.want<int64_t>(name), lowest);
  };
  if (spec.stage == "map" || spec.stage == "filter" || spec.stage == "expand")
    return call(spec, from[0]);
  if (spec.stage == "shuffle") {
    const int64_t window = least("window", 1);
    return done(shuffle_stage(from[0], window, seed_of(spec)));
  }
  if (spec.stage == "batch")
    return done(batch_stage(from[0], least("size", 1),
                            {args.get<bool>("drop_last", false), args.get<bool>("pad", false),
                             args.get<double>("padding", 0.0)}));
  if (spec.stage == "bucket")
    return done(bucket_stage(
        from[0], args.want<std::string>("field"), args.want<std::vector<int64_t>>("bounds"),
        args.want<std::vector<int64_t>>("sizes"), args.get<double>("padding", 0.0)));
  if (spec.stage == "cache") return done(cache_stage(from[0]));
  if (spec.stage == "take") return done(take_stage(from[0], 0, least("count", 0)));
  if (spec.stage == "skip") return done(take_stage(from[0], least("count", 0), -1));
  if (spec.stage == "every") return done(every_stage(from[0], least("n", 1), false));
  if (spec.stage == "but_every") return done(every_stage(from[0], least("n", 2), true));
  if (spec.stage == "repeat") return done(repeat_stage(from[0], least("times", 1)));
  if (spec.stage == "interleave") return done(interleave_stage(std::move(from), least("block", 1)));
  if (spec.stage == "zip") return done(zip_stage(std::move(from)));
  if (spec.stage == "seen") {
    check_seen(spec.args, from[0]->fields(), files());
    return from[0];
  }
  if (spec.stage == "prefetch")
    throw Error(
        Errc::invalid_argument,
        "prefetch() stands in the middle of a source; it makes whole steps, so put it last");
  throw Error(Errc::invalid_argument, "there is no stage ", spec.stage, " of a source");
}

}  // namespace

SourcePlan plan_source(Spec spec) {
  SourcePlan out;
  if (spec->stage == "seen" && spec->of.size() == 1) {
    auto seen = std::make_shared<SourceSpec>(*spec);
    out = plan_source(spec->of[0]);
    seen->of = {out.stages};
    out.stages = std::move(seen);
    return out;
  }
  bool planned = false;
  while ((spec->stage == "prefetch" || (spec->stage == "repeat" && out.epochs < 0)) &&
         spec->of.size() == 1) {
    ArgReader args(spec->stage, spec->args);
    if (spec->stage == "repeat") {
      out.epochs = want_least(*spec, "times", args.want<int64_t>("times"), 1);
    } else {
      if (std::exchange(planned, true))
        throw Error(Errc::invalid_argument, "a source has prefetch() twice; leave one out");
      out.threads = want_least(*spec, "threads", args.want<int64_t>("threads"), 1);
      out.depth = want_least(*spec, "depth", args.want<int64_t>("depth"), 1);
      if (out.threads > kThreadsMax || out.depth > kDepthMax)
        throw Error(Errc::invalid_argument, "prefetch() wants at most ", kThreadsMax,
                    " threads and ", kDepthMax, " steps, got ", out.threads, " and ", out.depth);
    }
    spec = spec->of[0];
  }
  out.stages = std::move(spec);
  return out;
}

Stage build_stages(const SourceSpec& spec, const FindFunction& find, const Files& files) {
  return Builder(find, files).build(spec);
}

SeenStages see_stages(const SourceSpec& spec, const FindFunction& find) {
  Builder builder(find, local_files());
  const Stage stage = builder.build(spec);
  return {stage, spec_to_text({"seen", {}, seen_args(stage->fields(), builder.files())})};
}

}  // namespace troupe
