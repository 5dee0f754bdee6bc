// Source of troupe/source.hpp: descriptions of stages, and records that a program reads itself.
#include <exception>
#include <utility>

#include "data/source/cursor.hpp"
#include "data/source/spec.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

Source stage(const char* name, const Source& before, SourceArgs args, uint64_t seed = 0,
             std::string_view function = {}) {
  return Source(std::make_shared<SourceSpec>(
      SourceSpec{name, std::string(function), std::move(args), seed, {before.spec()}}));
}

Source joined(const char* name, const std::vector<Source>& sources, SourceArgs args) {
  SourceSpec spec{name, {}, std::move(args), 0, {}};
  for (const Source& source : sources) spec.of.push_back(source.spec());
  return Source(std::make_shared<SourceSpec>(std::move(spec)));
}

}  // namespace

Source::Source(Spec spec) : spec_(std::move(spec)) {}

Source Source::of(std::string_view reader, SourceArgs args) {
  return Source(std::make_shared<SourceSpec>(
      SourceSpec{"read", std::string(reader), std::move(args), 0, {}}));
}
Source Source::idx(const std::string& images, const std::string& labels) {
  return of("idx", {{"images", images}, {"labels", labels}});
}

Source Source::map(std::string_view function, SourceArgs args, uint64_t seed) const {
  return stage("map", *this, std::move(args), seed, function);
}
Source Source::filter(std::string_view function, SourceArgs args, uint64_t seed) const {
  return stage("filter", *this, std::move(args), seed, function);
}
Source Source::expand(std::string_view function, SourceArgs args, uint64_t seed) const {
  return stage("expand", *this, std::move(args), seed, function);
}
Source Source::shuffle(int64_t window, uint64_t seed) const {
  return stage("shuffle", *this, {{"window", window}}, seed);
}
Source Source::batch(int64_t size, BatchOptions options) const {
  return stage("batch", *this,
               {{"size", size},
                {"drop_last", options.drop_last},
                {"pad", options.pad},
                {"padding", options.padding}});
}
Source Source::bucket(std::string_view field, std::vector<int64_t> bounds,
                      std::vector<int64_t> sizes, double padding) const {
  return stage("bucket", *this,
               {{"field", std::string(field)},
                {"bounds", std::move(bounds)},
                {"sizes", std::move(sizes)},
                {"padding", padding}});
}
Source Source::cache() const { return stage("cache", *this, {}); }
Source Source::take(int64_t count) const { return stage("take", *this, {{"count", count}}); }
Source Source::skip(int64_t count) const { return stage("skip", *this, {{"count", count}}); }
Source Source::every(int64_t n) const { return stage("every", *this, {{"n", n}}); }
Source Source::but_every(int64_t n) const { return stage("but_every", *this, {{"n", n}}); }
Source Source::repeat(int64_t times) const { return stage("repeat", *this, {{"times", times}}); }
Source Source::prefetch(int64_t threads, int64_t depth) const {
  return stage("prefetch", *this, {{"threads", threads}, {"depth", depth}});
}
Source Source::interleave(const std::vector<Source>& sources, int64_t block) {
  return joined("interleave", sources, {{"block", block}});
}
Source Source::zip(const std::vector<Source>& sources) { return joined("zip", sources, {}); }

std::string Source::to_text() const { return spec_to_text(*spec_); }
Source Source::from_text(const std::string& text) { return Source(spec_from_text(text)); }

struct SourceRecords {
  Stage stage;
  std::unique_ptr<RecordStream> stream;
  std::exception_ptr error = nullptr;
};

Source::Records::Records(std::unique_ptr<SourceRecords> state) : state_(std::move(state)) {}
Source::Records::Records(Records&&) noexcept = default;
Source::Records::~Records() = default;
const Fields& Source::Records::fields() const { return state_->stage->fields(); }
std::optional<Record> Source::Records::next() {
  if (state_->error) std::rethrow_exception(state_->error);
  try {
    const Lazy record = state_->stream->next();
    if (!record) return std::nullopt;
    return record->make();
  } catch (...) {  // a stream that has thrown is not read any more
    state_->error = std::current_exception();
    throw;
  }
}

namespace {

Stage built(const Spec& spec, const Registry& functions) {
  return build_stages(*plan_source(spec).stages,
                      [&](std::string_view name) { return functions.find_function(name); });
}

}  // namespace

int64_t Source::steps_per_epoch(int64_t replicas, const Registry& functions) const {
  if (replicas < 1)
    throw Error(Errc::invalid_argument, "steps_per_epoch wants at least 1 replica, got ", replicas);
  return SourceCursor(built(spec_, functions), -1, 0, replicas).steps_per_epoch();
}

Source::Records Source::records(int64_t epoch, const Registry& functions) const {
  auto state = std::make_unique<SourceRecords>();
  state->stage = built(spec_, functions);
  state->stream = state->stage->open(epoch);
  return Records(std::move(state));
}

}  // namespace troupe
