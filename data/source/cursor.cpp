// Steps of a source: groups of records, and the epochs that they are in.
#include "data/source/cursor.hpp"

#include <algorithm>

namespace troupe {
namespace {

size_t rows_of(const Lazy& batch) { return batch->rows() ? batch->rows()->size() : 1; }

size_t rows_of(const std::vector<Lazy>& batches) {
  size_t out = 0;
  for (const Lazy& batch : batches) out += rows_of(batch);
  return out;
}

}  // namespace

// The next records, at most one for each replica.
std::vector<Lazy> StepGroups::group() {
  std::vector<Lazy> out;
  while (out.size() < replicas_) {
    Lazy record = from_->next();
    if (!record) break;
    out.push_back(std::move(record));
  }
  return out;
}

// Cuts the largest batch in two until there are so many.
std::vector<Lazy> StepGroups::cut(std::vector<Lazy> batches, size_t parts) const {
  while (batches.size() < parts) {
    const auto largest =
        std::max_element(batches.begin(), batches.end(),
                         [](const Lazy& a, const Lazy& b) { return rows_of(a) < rows_of(b); });
    const size_t size = rows_of(*largest);
    if (size < 2) throw cannot_share(batches[0], batches.size());
    const Lazy whole = *largest;
    const auto begin = whole->rows()->begin(), middle = begin + static_cast<ptrdiff_t>(size / 2);
    *largest = whole->with_rows({middle, whole->rows()->end()});
    batches.insert(largest, whole->with_rows({begin, middle}));
  }
  return batches;
}

Error StepGroups::cannot_share(const Lazy& first, size_t records) const {
  return Error(Errc::bad_data, first->place(), ": ", records,
               " records are the last ones of an epoch, and ", replicas_,
               " replicas cannot share them; end the source with batch(), with drop_last where "
               "there are fewer records than replicas, and join sources before batch()");
}

// Each row of `more` goes into the smallest of the batches that the same stages made.
std::vector<Lazy> StepGroups::joined(std::vector<Lazy> batches,
                                     const std::vector<Lazy>& more) const {
  const size_t all = rows_of(batches) + rows_of(more);
  for (const Lazy& batch : more)
    for (const Lazy& row : *batch->rows()) {
      Lazy* to = nullptr;
      for (Lazy& one : batches)
        if (one->makers() == batch->makers() && (!to || rows_of(one) < rows_of(*to))) to = &one;
      if (!to) throw cannot_share(batches[0], all);
      std::vector<Lazy> rows = *(*to)->rows();
      rows.push_back(row);
      *to = (*to)->with_rows(std::move(rows));
    }
  return batches;
}

std::vector<Lazy> StepGroups::next() {
  if (!std::exchange(begun_, true)) held_ = {group()};
  std::vector<Lazy> now = std::move(held_.back());
  held_.pop_back();
  if (!held_.empty() || now.empty()) {
    if (held_.empty()) held_.emplace_back();  // the end stays the end
    return now;
  }
  if (now.size() < replicas_) {  // the whole epoch, or the rest of it
    held_.emplace_back();
    if (batching_ == Batching::full_batches && replicas_ > 1) return {};
    return cut(std::move(now), replicas_);
  }
  std::vector<Lazy> after = group();
  if (after.empty() || rows_of(after) >= replicas_ || batching_ == Batching::full_batches) {
    held_.push_back(std::move(after));
    return now;
  }
  held_.emplace_back();
  // The rest has fewer records than there are replicas: two steps share it and the group before, or
  // batches of that group take one more, where they are too small to be cut.
  if (rows_of(now) + rows_of(after) < 2 * replicas_ && batching_ != Batching::none)
    return joined(std::move(now), after);
  now.insert(now.end(), after.begin(), after.end());
  now = cut(std::move(now), 2 * replicas_);
  const auto middle = now.begin() + static_cast<ptrdiff_t>(replicas_);
  held_.emplace_back(middle, now.end());
  now.erase(middle, now.end());
  return now;
}

SourceCursor::SourceCursor(Stage stage, int64_t epochs, int64_t replica, int64_t replicas)
    : stage_(std::move(stage)),
      epochs_(epochs),
      replica_(replica),
      replicas_(replicas),
      count_(known_count()) {}

// Where the sizes of the stages tell it.
std::optional<int64_t> SourceCursor::known_count() const {
  const SourceStage& stage = *stage_;
  const int64_t batches = stage.size();
  if (!stage.same_count() || batches < 0) return std::nullopt;
  const int64_t whole = batches / replicas_, more = batches % replicas_;
  if (more == 0 || stage.batching() == Batching::full_batches) return whole;
  return std::nullopt;  // the rows of the last group decide
}

// Reads the records of an epoch, and makes none.
int64_t SourceCursor::counted(int64_t epoch) const {
  StepGroups groups(*stage_, epoch, replicas_);
  int64_t out = 0;
  while (!groups.next().empty()) ++out;
  if (out == 0)
    throw Error(Errc::bad_data, "the source has no records in epoch ", epoch,
                "; look at its files and filters");
  return out;
}

int64_t SourceCursor::steps_per_epoch() {
  if (!stage_->same_count())
    throw Error(Errc::invalid_argument,
                "the number of steps in an epoch of this source differs between epochs, as a "
                "function says; give the number of steps that count as an epoch");
  if (!count_ || *count_ == 0) count_ = counted(0);
  return *count_;
}

int64_t SourceCursor::start_of(int64_t epoch) {
  if (stage_->same_count()) return epoch == 0 ? 0 : steps_per_epoch() * epoch;
  while (static_cast<int64_t>(starts_.size()) <= epoch)
    starts_.push_back(starts_.back() + counted(static_cast<int64_t>(starts_.size()) - 1));
  return starts_[static_cast<size_t>(epoch)];
}

void SourceCursor::end_epoch() {
  ++epoch_;
  first_ = known_ = next_;
  groups_.reset();
  if (epochs_ < 0 || epoch_ < epochs_)
    groups_ = std::make_unique<StepGroups>(*stage_, epoch_, replicas_);
}

// Sets the epoch of a step.
void SourceCursor::find_epoch(int64_t step) {
  if (first_ <= step && step <= known_) return;
  if (stage_->same_count()) {
    epoch_ = count_ && *count_ > 0 ? step / *count_ : 0;  // go_to() counts the first epoch
  } else {
    epoch_ = 0;
    while ((epochs_ < 0 || epoch_ < epochs_) && start_of(epoch_ + 1) <= step) ++epoch_;
  }
  first_ = known_ = start_of(epoch_);
}

// Opens the epoch of a step, if it is not open, and skips the steps before it.
void SourceCursor::go_to(int64_t step) {
  const bool in_reach = count_ ? step < first_ + *count_ : stage_->same_count();
  const bool ahead = groups_ && step >= next_ && in_reach;
  if (!ahead) {
    groups_.reset();
    find_epoch(step);
    if (epochs_ >= 0 && epoch_ >= epochs_) return;
    next_ = first_;
    groups_ = std::make_unique<StepGroups>(*stage_, epoch_, replicas_);
  }
  for (; next_ < step; known_ = std::max(known_, ++next_)) {
    if (!groups_->next().empty()) continue;
    if (next_ == 0 || count_ || !stage_->same_count()) break;
    count_ = next_;  // the step is in a later epoch than the first one
    return go_to(step);
  }
}

Lazy SourceCursor::at(int64_t step) {
  try {
    return found(step);
  } catch (...) {
    groups_.reset();  // a stream that has thrown is not read any more
    throw;
  }
}

Lazy SourceCursor::found(int64_t step) {
  if (!groups_ || step != next_) go_to(step);
  while (groups_) {
    std::vector<Lazy> group = groups_->next();
    if (!group.empty()) {
      known_ = std::max(known_, ++next_);
      return std::move(group[static_cast<size_t>(replica_)]);
    }
    if (next_ == first_)
      throw Error(Errc::bad_data, "the source has no records in epoch ", epoch_,
                  "; look at its files and filters");
    if (stage_->same_count()) {
      if (count_ && *count_ != next_ - first_)
        throw Error(Errc::bad_data, "epoch ", epoch_, " of the source has ", next_ - first_,
                    " steps, and others have ", *count_,
                    "; have its files changed? A filter or expand() that draws says so by "
                    "SourceStep::same_count");
      count_ = next_ - first_;
    } else if (static_cast<int64_t>(starts_.size()) == epoch_ + 1) {
      starts_.push_back(next_);
    }
    end_epoch();
  }
  return nullptr;
}

}  // namespace troupe
